#!/usr/bin/env python3
"""help_pairs.py FOLDER LANGUAGE OUTPUT: LibreOffice's help pages in English and LANGUAGE, unpacked below FOLDER, as the
aligned files OUTPUT.en and OUTPUT.LANGUAGE, a paragraph per line.

Paragraphs of one page with the same id translate each other. Code is left out: it is the same in every language, and no
sentence. `fovea corpus --keep-markup --sentences split` reads such files: tags are gone, and what looks like one is text."""
import collections
import html
import html.entities
import pathlib
import re
import sys

PLACES = ("usr/share/libreoffice/help", "libreoffice/help", "help")


def decoded(text):
    """Without tags, a blank where a line breaks, and with the characters that entities stand for."""
    plain = re.sub(r"<[^>]*>?", "", re.sub(r"<br[^>]*>?", " ", text))
    return re.sub(r"&(#\d+|#[xX][\da-fA-F]+|\w+);", lambda found: html.unescape(found[0]) if is_known(found[1]) else found[0], plain)


def is_known(entity):
    """Whether it is a number, or a name of HTML 4."""
    return entity[0] == "#" or entity == "apos" or entity in html.entities.name2codepoint


def paragraphs(page):
    """[(id, text)] of the headings and paragraphs that are not code."""
    found, at = [], page.find("<")
    while at >= 0:
        end = page.find(">", at)
        if end < 0:
            break
        tag = page[at + 1:end]
        element = tag.split(" ", 1)[0]
        attributes = dict(re.findall(r' ([\w-]+)="([^"]*)', tag))
        if re.fullmatch(r"p|h[1-6]?", element) and attributes.get("id", "").startswith(("par_", "hd_")):
            close = page.find(f"</{element}>", end)
            if close < 0:
                break
            if attributes.get("class") != "code":
                found.append((attributes["id"], decoded(page[end + 1:close])))
            at = close
        at = page.find("<", at + 1)
    return found


def pairs(source, target):
    """The paragraphs of both pages. One may be embedded twice in a page: the occurrences pair up in order."""
    by_id = collections.defaultdict(collections.deque)
    for name, text in target:
        by_id[name].append(text)
    return [(text, by_id[name].popleft()) for name, text in source if by_id[name]]


def folder_of(folder, language):
    places = [folder / place for place in PLACES if (folder / place).is_dir()] or [folder]
    known = [path for path in sorted(places[-1].iterdir()) if (path / "text").is_dir()]
    for path in known:
        if path.name.lower() == language.lower() or (language == "en" and path.name == "en-US"):
            return path
    sys.exit(f"Error: '{folder}' has no help in '{language}'; it has {', '.join(path.name.lower() for path in known) or 'none'}; "
             f"unpack libreoffice-help-{'en-us' if language == 'en' else language} into it")


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: help_pairs.py FOLDER LANGUAGE OUTPUT")
    language, output = sys.argv[2:]
    source, target = (folder_of(pathlib.Path(sys.argv[1]), name) for name in ("en", language))
    pages = sorted((page.relative_to(source) for page in source.rglob("*.html")), key=lambda page: page.parts)
    read = lambda path: paragraphs(path.read_bytes().decode("utf-8", "surrogateescape"))
    with open(f"{output}.en", "wb") as english, open(f"{output}.{language}", "wb") as other:
        for page in pages:
            if not (target / page).exists():
                continue
            for pair in pairs(read(source / page), read(target / page)):
                for text, file in zip(pair, (english, other)):
                    file.write((re.sub(r"[\r\n]", " ", text) + "\n").encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    main()

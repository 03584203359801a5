#!/usr/bin/env python3
"""help_text.py FOLDER OUTPUT: the English text of LibreOffice's help pages, unpacked below FOLDER, as one file.

The file has one line per paragraph and an empty line between pages. Paragraphs that several pages share are written once.
The pages are mixed, always in the same way, so that the end of the file, which is held out, has the subjects of the rest."""
import hashlib
import html.parser
import pathlib
import sys

OTHER_SYSTEMS = ("MAC", "WIN")  # classes of what a page shows on these only, beside the text for all others


class Page(html.parser.HTMLParser):
    """A page's `paragraphs`, headings among them, but no code."""

    def __init__(self, text):
        super().__init__()
        self.paragraphs, self.words, self.element, self.hidden = [], [], None, 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        if tag == "span" and (self.hidden or names.get("class") in OTHER_SYSTEMS):
            self.hidden += 1
        elif tag == "br":
            self.words.append(" ")
        elif (names.get("id") or "").startswith(("par_", "hd_")) and names.get("class") != "code":
            self.element, self.words, self.hidden = tag, [], 0

    def handle_endtag(self, tag):
        if tag == "span" and self.hidden:
            self.hidden -= 1
        elif tag == self.element:
            self.paragraphs.append(" ".join("".join(self.words).split()))
            self.element = None

    def handle_data(self, data):
        if not self.hidden:
            self.words.append(data)


def mixed(folder):
    pages = {str(page.relative_to(folder)): page for page in folder.rglob("help/en-US/text/**/*.html")}
    return [pages[name] for name in sorted(pages, key=lambda name: hashlib.md5(name.encode()).digest())]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: help_text.py FOLDER OUTPUT")
    pages = mixed(pathlib.Path(sys.argv[1]))
    if not pages:
        sys.exit(f"Error: '{sys.argv[1]}' holds no help page; expected the package libreoffice-help-en-us, unpacked")
    seen = {""}
    with open(sys.argv[2], "w", encoding="utf-8") as text:
        for page in pages:
            lines = dict.fromkeys(Page(page.read_text(encoding="utf-8")).paragraphs)  # each once, in order
            new = [line for line in lines if line not in seen]
            seen.update(new)
            if new:
                text.write("\n".join(new) + "\n\n")


if __name__ == "__main__":
    main()

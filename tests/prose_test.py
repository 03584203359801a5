#!/usr/bin/env python3
"""Looks for phrases that make prose hard to read: prose_test.py ROOT, the root of the repository. Reads the guides, the
comments of recipes and sources, and the texts of options and messages. Prints each offence with what to write instead."""
import pathlib
import re
import sys

# A pattern, and what to write instead.
BANNED = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in (
    (r"\bwhoever\b", "name who does it"),
    (r"\banew\b", "write 'again'"),
    (r"\bso many\b", "write N, or the number"),
    (r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|less\b)", "negate the verb: 'is not a ...'"),
    (r"\bas \w+ (?:has|have) (?:it|them)\b", "write 'like X'"),
    (r"\bthose (?:that|who|which)\b", "repeat the noun"),
    (r"\bwhat (?:reads|is|holds) (?:from|of|in)\b", "begin with a noun that the reader knows"),
    (r"\b(?:goes|going|go) on (?:after|with|from)\b", "write 'resume' or 'continue'"),
    (r"\bmay be packed\b|\bpacked (?:input|files?)\b", "write 'compressed'"),
    (r"\ba (?:sentence|value|number|file|folder|line|table|row|column) a (?:sentence|value|file|folder|line|table|row|column)\b|"
     r"\bone (?:sentence|word|line|value|row|prompt) a (?:line|sentence|row|file)\b", "write 'per' or 'each'"),
    (r"\bof whatever\b|\bwhat else\b", "name it"),
    (r"\bno (?!longer|more)\w+ has\b", "negate the verb: 'a ... does not have'"),
    (r"\bbut for\b", "write 'except for'"),
    (r"\bwhole numbers? of \d+ bits\b", "name the type, as in int8"),
)]

# Sources, by the mark of their comments. A comment, or a docstring, with such first words cannot be read alone.
SOURCE_FOLDERS = ("src", "tests", "bench", "fuzz", "python")
COMMENT_MARKS = {".h": "//", ".cc": "//", ".js": "//", ".py": "#"}
CLIPPED = re.compile(r"(?:Of|Those|The same|Others|What|Where|As above|Either|Each of them|And|Also)\b")


def sentences(text):
    """The text in one line, so that a phrase is found across line ends, with the number of the line of each place."""
    line_of = [number for number, line in enumerate(text.splitlines(keepends=True), 1) for _ in line]
    return re.sub(r"\s", " ", text), line_of


def offences(path, text, first_line=1):
    joined, line_of = sentences(text)
    for pattern, advice in BANNED:
        for match in pattern.finditer(joined):
            yield f"{path}:{first_line - 1 + line_of[match.start()]}: '{match[0].strip()}'; {advice}"


def guide_text(text):
    """Without code, whose place stays blank."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    text = re.sub(r"^( *)```.*?^ *```", blank, text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"``?[^`\n]+``?", lambda match: "X" * len(match[0]), text)


def comments(text, mark="#"):
    """The comments behind the mark; other lines stay blank."""
    found = (re.match(rf"\s*{mark}(?!!)(.*)", line) for line in text.splitlines())
    return "\n".join(match[1] if match else "." for match in found)


def literals(text):
    """(line, text) of each string literal; neighbouring ones are one."""
    text = re.sub(r"^[ \t]*#.*$|//.*$", "", text, flags=re.MULTILINE)
    for match in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', text):
        yield text.count("\n", 0, match.start()) + 1, re.sub(r'"\s*"', "", match[0]).strip('"')


def comment_offences(path, text):
    """Banned phrases in comments, and comments whose first words need a sentence before them."""
    lines = comments(text, COMMENT_MARKS[path.suffix])
    yield from offences(path, lines)
    before = "."
    for number, (line, code) in enumerate(zip(lines.splitlines(), text.splitlines()), 1):
        begins = code.strip().removeprefix('"""') if code.strip().startswith('"""') else line.strip() if before == "." else ""
        if found := CLIPPED.match(begins):
            yield f"{path}:{number}: a comment begins with '{found[0]}'; write a sentence that can be read alone"
        before = line


def all_offences(root):
    top = (root / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md"))
    for path in sorted([*top, *root.glob("docs/*.md")]):
        yield from offences(path.relative_to(root), guide_text(path.read_text()))
    for path in sorted([*root.glob("recipes/*.yml"), *root.glob("recipes/*.sh")]):
        yield from offences(path.relative_to(root), comments(path.read_text()))
    for path in sorted([*root.glob("src/fovea/**/*.h"), *root.glob("src/fovea/**/*.cc")]):
        if "testing" in path.parts or path.stem.endswith("_test"):
            continue
        name, text = path.relative_to(root), path.read_text()
        for line, literal in literals(text):
            yield from offences(name, literal, line)
            if literal.startswith("of ") and "fields()" in text:
                yield f"{name}:{line}: '{literal}'; a help text begins with what the option sets"
    for path in sorted(path for folder in SOURCE_FOLDERS for path in (root / folder).rglob("*")):
        if path.suffix in COMMENT_MARKS and path.is_file():
            yield from comment_offences(path.relative_to(root), path.read_text())


def finds(text, count, find=offences):
    """This test's own check: the number of offences in a text."""
    found = list(find(pathlib.Path("example.h"), text))
    return [] if len(found) == count else [f"prose_test.py: found {found} in '{text}'; expected {count}"]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else "")
    if len(sys.argv) != 2 or not (root / "docs").is_dir():
        got = " ".join(sys.argv[1:]) or "nothing"
        print(f"prose_test.py: got {got}; expected the root of the repository, as in: prose_test.py .", file=sys.stderr)
        return 2
    own = finds("It is no\npath, as X has it, for so\nmany lines.", 3) + finds("There is no path. It is no longer there.", 0)
    own += finds("int i;\n  // Of a\n  // file anew.\n", 2, comment_offences) + finds("// [B].\n// Of B.\n", 0, comment_offences)
    found = own + list(all_offences(root))
    print("\n".join(found) or "no banned phrase")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

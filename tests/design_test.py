#!/usr/bin/env python3
"""Checks docs/design.md: design_test.py ROOT, the root of the repository. docs/layers.svg must be the picture of the
#include lines below src/fovea, and every file and function that a line of the page names must exist. With --write, draws
the picture again."""
import itertools
import pathlib
import re
import sys

from layers_test import levels, library

WIDTH, ROW, BOX = 720, 64, (92, 30)  # of the picture, of a row of folders, of a folder: pixels


def includes(source, level):
    """The folders that each folder includes, without tests."""
    found = {folder: set() for folder in level}
    for path in [*source.rglob("*.h"), *source.rglob("*.cc")]:
        parts = path.relative_to(source).parts
        if not re.search(r"_test$|^test_", path.stem) and "testing" not in parts and parts[0] in found:
            found[parts[0]] |= set(re.findall(r'^#include "fovea/(\w+)/', path.read_text(), re.MULTILINE)) & level.keys()
    return {folder: others - {folder} for folder, others in found.items()}


def reachable(folder, arrows):
    return arrows[folder].union(*(reachable(other, arrows) for other in arrows[folder]))


def without_shortcuts(arrows):
    """Only the arrows that do not follow from others."""
    return {folder: {other for other in others if not any(other in reachable(via, arrows) for via in others - {other})}
            for folder, others in arrows.items()}


def chains(arrows, rank):
    """Each arrow as the places that it passes, one in each row: the folders, and the arrow itself in rows between them."""
    for folder, others in sorted(arrows.items()):
        for other in sorted(others):
            yield [folder, *((folder, other, row) for row in range(rank[folder] + 1, rank[other])), other]


def spread(row):
    return {place: (i + 0.5) / len(row) for i, place in enumerate(row)}


def places(paths, rank):
    """The x of each place, in the order of each row that lets the fewest lines cross, and then makes them short."""
    row_of = dict(rank) | {place: place[2] for path in paths for place in path[1:-1]}
    rows = [sorted((place for place in row_of if row_of[place] == row), key=str) for row in range(max(row_of.values()) + 1)]
    lines = [line for path in paths for line in zip(path, path[1:])]
    pairs = [(a, b) for a, b in itertools.combinations(lines, 2) if row_of[a[0]] == row_of[b[0]]]

    def cost(x):
        crossing = sum((x[a[0]] - x[b[0]]) * (x[a[1]] - x[b[1]]) < 0 for a, b in pairs)
        return crossing, sum(abs(x[above] - x[below]) for above, below in lines)

    x = {place: at for row in rows for place, at in spread(row).items()}
    for row in 3 * (rows + rows[::-1]):
        x |= min((spread(order) for order in itertools.permutations(row)), key=lambda row_x: cost(x | row_x))
    return x, row_of


def picture(source, level, own_half):
    rows = sorted(set(level.values()), reverse=True)
    rank = {folder: rows.index(level[folder]) for folder in level}
    paths = list(chains(without_shortcuts(includes(source, level)), rank))
    x, row_of = places(paths, rank)
    at = {place: (round(WIDTH * x[place]), round(ROW * (row_of[place] + 0.5))) for place in x}
    height, (wide, high) = ROW * len(rows), BOX
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
             'font-family="sans-serif" font-size="15" text-anchor="middle">', '<rect width="100%" height="100%" fill="white"/>']
    for path in paths:
        points = " ".join(f"{at[place][0]},{at[place][1]}" for place in path)
        lines.append(f'<polyline points="{points}" fill="none" stroke="gray"/>')
    for folder in sorted(level):
        left, middle = at[folder]
        lines.append(f'<rect x="{left - wide // 2}" y="{middle - high // 2}" width="{wide}" height="{high}" rx="5" '
                     f'fill="{"#dcefd8" if folder in own_half else "#e8f0fa"}" stroke="#456"/><text x="{left}" y="{middle + 5}">{folder}</text>')
    return "\n".join([*lines, "</svg>", ""])


def wrong_names(root, page):
    """`f()` of `file` must stand in that file, and any other `f()` in a file of its line; or in its header or source."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        files = re.findall(r"`(\w[\w/-]*/[\w-]+\.(?:h|cc))`", line)
        yield from (f"{page}:{number}: there is no {name}" for name in files if not (root / "src/fovea" / name).exists())
        for name, file in re.findall(r"`(?:\w+::)*(\w+)\(\)`(?: of `([^`]+)`)?", line):
            paths = [root / "src/fovea" / path for path in ([file] if file else files)]
            texts = [other.read_text() for path in paths for other in path.parent.glob(path.stem + ".*")]
            if not any(re.search(rf"\b{name}\b", text) for text in texts):
                yield f"{page}:{number}: {name}() is not in {file or 'a file of this line'}"


def main():
    write = sys.argv[-1] == "--write"
    arguments = sys.argv[1:-1] if write else sys.argv[1:]
    root = pathlib.Path(arguments[0] if len(arguments) == 1 else "")
    if len(arguments) != 1 or not (root / "docs").is_dir():
        print("design_test.py: expected the root of the repository, as in: design_test.py .", file=sys.stderr)
        return 2
    guide = root / "CONTRIBUTING.md"
    drawn, file = picture(root / "src/fovea", levels(guide), library(guide)), root / "docs/layers.svg"
    if write:
        file.write_text(drawn)
    found = list(wrong_names(root, root / "docs/design.md"))
    if not file.exists() or file.read_text() != drawn:
        found.append(f"{file}: the includes have changed; draw it again: python3 tests/design_test.py . --write")
    print("\n".join(found) or "the page fits the sources")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

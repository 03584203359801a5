#!/usr/bin/env python3
"""Reads every #include "fovea/..." against the table of layers: layers_test.py ROOT GUIDE, the folder of the layers and
the text that holds the table (rows "| level | `folder` `folder` | library or toolkit | ..."). Prints each offence."""
import pathlib
import re
import sys

TORCH_FREE_BELOW = 3  # level of the first folder that may include libtorch
TORCH_FREE_TOO = {"search", "data", "analysis"}  # folders at that level or above it that may not


def rows(guide):
    """(level, folder, half) of each folder."""
    found = re.findall(r"^\| (\d+) \| ((?:`\w+` ?)+)\| (library|toolkit) \|", guide.read_text(), re.MULTILINE)
    return [(int(level), folder, half) for level, folders, half in found for folder in re.findall(r"\w+", folders)]


def levels(guide):
    return {folder: level for level, folder, _ in rows(guide)}


def library(guide):
    """The folders of the library, which stands without the toolkit."""
    return {folder for _, folder, half in rows(guide) if half == "library"}


def words_of_a_task(folder):
    """Training knows tasks only through train/task.h: no word of one task stands there but the log's frozen keys."""
    for path in sorted([*folder.glob("*.h"), *folder.glob("*.cc")]):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.search(r"source|target|transl|sentence|transformer", line, re.IGNORECASE)
            if found and not (path.name.startswith("report") and "sentences" in line):
                yield f"{path}:{number}: '{found[0]}' is a word of one task"


def offences(root, level, own_half):
    for folder in sorted(level):
        if not (root / folder).is_dir():
            yield f"{root}: the table names a layer '{folder}', which is not here"
    yield from words_of_a_task(root / "train")
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        layer = path.relative_to(root).parts[0]
        if layer not in level:
            yield f"{path}: '{layer}' is not a layer"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{path}:{number}"
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]*)', line)
            if not include:
                continue
            bracket, path_named = include.groups()
            if re.match(r"(torch|ATen|c10|caffe2)/", path_named) and (
                    level[layer] < TORCH_FREE_BELOW or layer in TORCH_FREE_TOO):
                yield f"{where}: layer '{layer}' is free of torch, but includes it"
            match = re.match(r"fovea/(\w+)/", path_named)
            task = re.match(r"fovea/tasks/(\w+)/", path_named)
            own = path.relative_to(root).parts
            if task and layer == "tasks" and len(own) > 2 and task[1] != own[1]:
                yield f"{where}: the task '{own[1]}' must not include the task '{task[1]}'"
            if not match and bracket == '"':
                yield f"{where}: \"{path_named}\" is not named from the root, as in \"fovea/base/error.h\""
            if not match or match[1] == layer:
                continue
            if match[1] not in level:
                yield f"{where}: '{match[1]}' is not a layer"
            elif level[match[1]] >= level[layer]:  # folders of one level do not see each other
                yield f"{where}: layer '{layer}' must not include '{match[1]}'"
            elif layer in own_half and match[1] not in own_half:
                yield f"{where}: '{layer}' is of the library, and '{match[1]}' of the toolkit"


def main():
    if len(sys.argv) != 3 or not (pathlib.Path(sys.argv[1]) / "base").is_dir():
        got = " ".join(sys.argv[1:]) or "nothing"
        print(f"layers_test.py: got {got}; expected the folder of the layers and the guide that lists them, as in: "
              "layers_test.py src/fovea CONTRIBUTING.md", file=sys.stderr)
        return 2
    level = levels(pathlib.Path(sys.argv[2]))
    if "base" not in level:
        print(f"layers_test.py: {sys.argv[2]} holds no table of layers", file=sys.stderr)
        return 2
    found = list(offences(pathlib.Path(sys.argv[1]), level, library(pathlib.Path(sys.argv[2]))))
    print("\n".join(found) or "every include follows the layers")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Reads every #include "fovea/..." against the direction between the layers: layers_test.py ROOT, the folder of the
layers. Prints each offence."""
import pathlib
import re
import sys

LEVEL = {"base": 0, "spec": 1, "kernels": 2, "search": 2, "metrics": 2, "text": 2, "ops": 3, "nn": 4, "data": 4,
         "train": 5, "decode": 5, "analysis": 5, "app": 6, "serve": 6}
# Folders of one level do not see each other.
TORCH_FREE_BELOW = 3


def offences(root):
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        layer = path.relative_to(root).parts[0]
        if layer not in LEVEL:
            yield f"{path}: '{layer}' is not a layer"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{path}:{number}"
            torch = re.match(r'#include [<"](torch|ATen|c10)/', line)
            if torch and LEVEL[layer] < TORCH_FREE_BELOW:
                yield f"{where}: layer '{layer}' is free of torch, but includes it"
            match = re.match(r'#include "fovea/(\w+)/', line)
            if not match or match[1] == layer:
                continue
            if match[1] not in LEVEL:
                yield f"{where}: '{match[1]}' is not a layer"
            elif LEVEL[match[1]] >= LEVEL[layer]:
                yield f"{where}: layer '{layer}' must not include '{match[1]}'"


def main():
    if len(sys.argv) != 2 or not (pathlib.Path(sys.argv[1]) / "base").is_dir():
        got = " ".join(sys.argv[1:]) or "nothing"
        print(f"layers_test.py: got {got}; expected the folder of the layers, as in: layers_test.py src/fovea",
              file=sys.stderr)
        return 2
    found = list(offences(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every include follows the layers")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

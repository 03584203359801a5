#!/usr/bin/env python3
"""Every header stands alone: headers_test.py COMPILER SOURCE_ROOT [TORCH_INCLUDES]

TORCH_INCLUDES are libtorch's folders, separated by semicolons. Headers are compiled alone, but for those that reach
libtorch's C++ front end, which would take 20 seconds each: some source file beside such a one must include it first of
all, so that the builds that compile file by file (preset dev) have compiled it so, behind the precompiled header.
Headers named *-inl.h are parts of files."""
import concurrent.futures
import functools
import os
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.MULTILINE)


@functools.cache
def includes(path):
    return INCLUDE.findall(path.read_text())


@functools.cache
def reaches(root, path, folders):
    return any(name.startswith(folders) or
               (name.startswith("fovea/") and reaches(root, root / name, folders)) for name in includes(path))


def compile_alone(compiler, root, torch_includes, header):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{root}",
               *(part for folder in torch_includes for part in ("-isystem", folder)),
               '-DFOVEA_VERSION=""', "-DAT_PER_OPERATOR_HEADERS", "-x", "c++", "-"]
    source = f'#include "{header.relative_to(root)}"\n'
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    return f"{header} does not compile alone:\n{result.stderr}" if result.returncode else None


def find_first_place(root, header):
    name = str(header.relative_to(root))
    if any(includes(source)[:1] == [name] for source in sorted(header.parent.glob("*.cc"))):
        return None
    return f"{header} reaches torch, and no source file beside it includes it first"


def main():
    if len(sys.argv) not in (3, 4):
        print("usage: headers_test.py COMPILER SOURCE_ROOT [TORCH_INCLUDES]", file=sys.stderr)
        return 2
    compiler, root = sys.argv[1], pathlib.Path(sys.argv[2])
    torch_includes = [folder for folder in "".join(sys.argv[3:]).split(";") if folder]
    headers = [h for h in sorted((root / "fovea").rglob("*.h")) if not h.name.endswith("-inl.h")]
    with_torch = [h for h in headers if reaches(root, h, ("torch/",))]
    heavy = ("torch/",) if torch_includes else ("torch/", "ATen/", "c10/")
    alone = [h for h in headers if not reaches(root, h, heavy)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [e for e in pool.map(lambda h: compile_alone(compiler, root, torch_includes, h), alone) if e]
    found += [e for e in (find_first_place(root, h) for h in with_torch) if e]
    print("\n".join(found) or f"{len(alone)} headers compile alone, {len(with_torch)} come first in a source file")
    return bool(found) or not headers


if __name__ == "__main__":
    sys.exit(main())

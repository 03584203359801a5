#!/usr/bin/env python3
"""Every header stands alone: headers_test.py COMPILER SOURCE_ROOT

One that does not reach torch is compiled alone. One that does would cost many seconds each: some source file beside it
must include it first of all, so that the build itself has compiled it so (where a layer shares the precompiled header,
behind torch/torch.h). Headers named *-inl.h are parts of files."""
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
def reaches_torch(root, path):
    return any(re.match(r"(torch|ATen|c10)/", name) or
               (name.startswith("fovea/") and reaches_torch(root, root / name)) for name in includes(path))


def compile_alone(compiler, root, header):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{root}",
               '-DFOVEA_VERSION=""', "-x", "c++", "-"]
    source = f'#include "{header.relative_to(root)}"\n'
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    return f"{header} does not compile alone:\n{result.stderr}" if result.returncode else None


def find_first_place(root, header):
    name = str(header.relative_to(root))
    if any(includes(source)[:1] == [name] for source in sorted(header.parent.glob("*.cc"))):
        return None
    return f"{header} reaches torch, and no source file beside it includes it first"


def main():
    if len(sys.argv) != 3:
        print("usage: headers_test.py COMPILER SOURCE_ROOT", file=sys.stderr)
        return 2
    compiler, root = sys.argv[1], pathlib.Path(sys.argv[2])
    headers = [h for h in sorted((root / "fovea").rglob("*.h")) if not h.name.endswith("-inl.h")]
    with_torch = [h for h in headers if reaches_torch(root, h)]
    without = [h for h in headers if h not in with_torch]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [e for e in pool.map(lambda h: compile_alone(compiler, root, h), without) if e]
    found += [e for e in (find_first_place(root, h) for h in with_torch) if e]
    print("\n".join(found) or f"{len(without)} headers compile alone, {len(with_torch)} come first in a source file")
    return bool(found) or not headers


if __name__ == "__main__":
    sys.exit(main())

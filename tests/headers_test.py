#!/usr/bin/env python3
"""Every header stands alone: headers_test.py COMPILER SOURCE_ROOT BUILD

A header that its own source includes first is proved by every build that compiles file by file (the presets dev and
asan, lint). The others are compiled alone here; those that reach libtorch's C++ front end, which takes 20 seconds, behind
the precompiled header of the build folder, as everywhere. Without libtorch in the build those that reach it are left out.
Headers named *-inl.h are parts of files."""
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.MULTILINE)


@functools.cache
def reaches(root, path, folders):
    return any(name.startswith(folders) or
               (name.startswith("fovea/") and reaches(root, root / name, folders))
               for name in INCLUDE.findall(path.read_text()))


def torch_flags(compiler, build):
    """The flags of the build's empty file behind the precompiled header; none where the build has no libtorch."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if pathlib.Path(entry["file"]).name == "torch_pch.cc":
            words = shlex.split(entry["command"])
            return words[words.index(compiler) + 1:words.index("-o")]
    return None


def is_first_of_its_source(root, header):
    source = header.with_suffix(".cc")
    return source.exists() and INCLUDE.findall(source.read_text())[:1] == [str(header.relative_to(root))]


def compile_alone(compiler, root, flags, header):
    command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{root}", '-DFOVEA_VERSION=""', *flags,
               "-fsyntax-only", "-x", "c++", "-"]
    source = f'#include "{header.relative_to(root)}"\n'
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    return f"{header} does not compile alone:\n{result.stderr}" if result.returncode else None


def main():
    if len(sys.argv) != 4:
        print("usage: headers_test.py COMPILER SOURCE_ROOT BUILD", file=sys.stderr)
        return 2
    compiler, root = sys.argv[1], pathlib.Path(sys.argv[2])
    precompiled = torch_flags(compiler, pathlib.Path(sys.argv[3]))
    light = [word for word in precompiled or [] if word != "-Winvalid-pch"]
    if precompiled:
        at = light.index("-include")
        light[at:at + 2] = ["-DAT_PER_OPERATOR_HEADERS"]
    headers = [h for h in sorted((root / "fovea").rglob("*.h")) if not h.name.endswith("-inl.h")]
    others = [h for h in headers if not is_first_of_its_source(root, h)]
    jobs = []
    for header in others:
        if reaches(root, header, ("torch/",)):
            jobs += [(header, precompiled)] if precompiled else []
        elif precompiled or not reaches(root, header, ("ATen/", "c10/")):
            jobs.append((header, light))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [e for e in pool.map(lambda job: compile_alone(compiler, root, job[1], job[0]), jobs) if e]
    print("\n".join(found) or f"{len(jobs)} headers compile alone; {len(headers) - len(others)} are the first include of "
          f"their source; {len(others) - len(jobs)} need libtorch")
    return bool(found) or not jobs


if __name__ == "__main__":
    sys.exit(main())

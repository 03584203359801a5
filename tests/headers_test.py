#!/usr/bin/env python3
"""Compiles each header alone: headers_test.py COMPILER SOURCE_ROOT LAYER... Headers named *-inl.h are parts of files."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys


def compile_alone(compiler, root, header):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{root}", "-x", "c++", "-"]
    source = f'#include "{header.relative_to(root)}"\n'
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    return header, result.returncode, result.stderr


def main():
    compiler, root = sys.argv[1], pathlib.Path(sys.argv[2])
    headers = [h for layer in sys.argv[3:] for h in sorted((root / "fovea" / layer).rglob("*.h"))
               if not h.name.endswith("-inl.h")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [(h, e) for h, code, e in pool.map(lambda h: compile_alone(compiler, root, h), headers) if code]
    for header, errors in failed:
        print(f"{header} does not compile alone:\n{errors}")
    print(f"{len(headers) - len(failed)} of {len(headers)} headers compile alone")
    return bool(failed) or not headers


if __name__ == "__main__":
    sys.exit(main())

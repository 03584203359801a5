#!/usr/bin/env python3
"""Packages of the program that need no build: make_package.py BUILD OUTPUT [--fast]

Installs the release in BUILD into a tree of its own, adds libtorch and every library beyond glibc that it loads, and
writes OUTPUT/fovea-VERSION-linux-x86_64.tar.xz and OUTPUT/fovea_VERSION_amd64.deb. Prints their paths. With --fast
they are larger.
"""
import email.utils
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from shell_files import write_shell_files

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# The user's: glibc, which a process cannot have twice, and the compiler's libraries, which may need a newer glibc than
# the rest and which every system with its packages' manager has.
OF_THE_SYSTEM = re.compile(
    r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl|mvec|stdc\+\+|gcc_s))\.so.*|linux-vdso\.so.*")
TORCH_LIBRARIES = ["libtorch.so", "libtorch_cpu.so", "libc10.so"]


def checked(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if result.returncode:
        raise SystemExit(f"Error: {command[0]}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def cache_of(build):
    cache = build / "CMakeCache.txt"
    if not cache.exists():
        raise SystemExit(f"Error: no CMakeCache.txt in '{build}'; build first: ./fovea.sh build")
    return dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(), re.MULTILINE))


def torch_of(cache):
    """The folder that holds libtorch's lib, include and share."""
    torch = pathlib.Path(cache["Torch_DIR"]).resolve().parents[2]
    if (torch / "lib" / "libtorch_cuda.so").exists():
        raise SystemExit(f"Error: the libtorch in '{torch}' is a CUDA build of gigabytes; package one for CPUs: "
                         "build with Torch_DIR naming it")
    return torch


def add_torch(torch, tree):
    for name in TORCH_LIBRARIES:
        shutil.copy2((torch / "lib" / name).resolve(), tree / "lib" / name)
    # The CMake package of the tree compiles against these.
    shutil.copytree(torch / "include", tree / "include", dirs_exist_ok=True)
    package = tree / "share" / "cmake" / "Torch"
    package.mkdir(parents=True)
    shutil.copy2(torch / "share" / "cmake" / "Torch" / "TorchConfig.cmake", package)


def needed_by(file, search):
    """Name and path of each library that a file loads, those of its libraries too."""
    text = checked("ldd", file, env={**os.environ, "LD_LIBRARY_PATH": str(search)})
    for line in text.splitlines():
        found = re.match(r"\s*(\S+)(?: => (\S+))? \(", line)
        if "not found" in line:
            raise SystemExit(f"Error: {file}: {line.strip()}")
        if found and not OF_THE_SYSTEM.fullmatch(pathlib.Path(found[1]).name):
            yield found[1], pathlib.Path(found[2] or found[1])


def add_libraries(tree, torch):
    """Copies what is missing; returns where each came from by its name in the tree."""
    origins = {name: torch / "lib" / name for name in TORCH_LIBRARIES}
    for file in [tree / "bin" / "fovea", *sorted((tree / "lib").glob("*.so*"))]:
        for name, path in needed_by(file, torch / "lib"):
            if not (tree / "lib" / name).exists():
                shutil.copy2(path.resolve(), tree / "lib" / name)
                origins[name] = path.resolve()
    return origins


def set_search_paths(tree):
    """Everything finds its libraries by its own place, wherever the tree is unpacked."""
    for library in (tree / "lib").glob("*.so*"):
        library.chmod(0o755)
        if checked("patchelf", "--print-rpath", library).strip() != "$ORIGIN":
            checked("patchelf", "--set-rpath", "$ORIGIN", library)
        if library.name.startswith("libfovea_"):
            checked("strip", "--strip-unneeded", library)
    checked("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", tree / "bin" / "fovea")
    checked("strip", tree / "bin" / "fovea")


def debian_package_of(path):
    """Package names keep the path before /usr was merged."""
    for candidate in (path, pathlib.Path(str(path).removeprefix("/usr")), pathlib.Path(f"/usr{path}")):
        found = subprocess.run(["dpkg", "-S", str(candidate)], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise SystemExit(f"Error: no package owns '{path}', whose licence must go with the program")


def add_notices(tree, origins, torch):
    """share/doc/fovea/THIRD-PARTY.md names every library, and the folder third-party beside it has the licences."""
    folder = tree / "share" / "doc" / "fovea" / "third-party"
    folder.mkdir(parents=True)
    licences = next(torch.parent.glob("torch-*.dist-info"), None) or torch
    sources = {}
    for name, path in sorted(origins.items()):
        package = "torch" if torch in path.parents else debian_package_of(path)
        sources.setdefault(package, []).append(name)
        target = folder / package
        if target.exists():
            continue
        if package == "torch":
            shutil.copytree(licences / "licenses" if (licences / "licenses").exists() else licences, target)
        else:
            shutil.copy2(pathlib.Path("/usr/share/doc", package, "copyright").resolve(), target)
    rows = [f"| {', '.join(names)} | {package} | [third-party/{package}](third-party/{package}) |"
            for package, names in sorted(sources.items())]
    (folder.parent / "THIRD-PARTY.md").write_text(
        "# Libraries in this package\n\nThe program loads these libraries of others, unchanged but for where they look for "
        "one another.\n\n| library | from | licence |\n|---|---|---|\n" + "\n".join(rows) + "\n")


def add_documents(tree):
    target = tree / "share" / "doc" / "fovea"
    target.mkdir(parents=True, exist_ok=True)
    for name in ("README.md", "CHANGELOG.md"):
        shutil.copy2(SOURCE / name, target)
    shutil.copytree(SOURCE / "docs", target / "docs")


def make_tarball(tree, output, level):
    path = output / f"{tree.name}-linux-x86_64.tar.xz"
    aside = path.with_name(path.name + ".tmp")
    checked("tar", "-C", tree.parent, "--owner=0", "--group=0", "--sort=name", "-I", f"xz -T0 -{level}", "-cf", aside, tree.name)
    aside.rename(path)
    return path


# No one maintains the package yet: the address leads nowhere.
MAINTAINER = "Fovea <fovea@localhost>"
# libtorch and its libraries come along, as they are, so that one package serves every release.
OVERRIDES = """fovea: bogus-mail-host
fovea: embedded-library
fovea: library-not-linked-against-libc
fovea: shared-library-lacks-prerequisites
fovea: unstripped-binary-or-object
"""
CHANGES = """fovea ({version}) unstable; urgency=medium

  * CHANGELOG.md says what is new.

 -- {maintainer}  {date}
"""
CONTROL = """Package: fovea
Version: {version}
Architecture: amd64
Maintainer: {maintainer}
Installed-Size: {size}
Depends: libc6 (>= {libc}), libstdc++6 (>= 12), libgcc-s1
Section: science
Priority: optional
Description: sparse-attention Transformers: trains, runs and explains them
 Trains translation, language, image, tagging and captioning models with sparse
 attention on CPUs, translates and generates with them, and shows what their
 attention does. libtorch is part of the package.
"""


def least_glibc(tree):
    """The newest version of glibc's symbols that any file of the tree asks for."""
    versions = set()
    for file in [tree / "bin" / "fovea", *(tree / "lib").glob("*.so*")]:
        versions.update(re.findall(r"GLIBC_(\d+)\.(\d+)", checked("objdump", "-T", file)))
    return ".".join(map(str, max((int(a), int(b)) for a, b in versions)))


def make_debian(tree, output, version, level):
    """The tree in /usr/lib/fovea, the program in the path."""
    with tempfile.TemporaryDirectory(dir=tree.parent) as folder:
        root = pathlib.Path(folder) / "root"
        home = root / "usr" / "lib" / "fovea"
        shutil.copytree(tree, home, symlinks=True)
        share = root / "usr" / "share"
        share.mkdir(parents=True)
        for folder_name in ("doc", "man", "bash-completion", "zsh", "fish"):
            shutil.move(home / "share" / folder_name, share / folder_name)
        (share / "zsh" / "site-functions").rename(share / "zsh" / "vendor-completions")
        checked("gzip", "-9n", share / "man" / "man1" / "fovea.1")
        documents = share / "doc" / "fovea"
        notices = (documents / "THIRD-PARTY.md").read_text()
        (documents / "copyright").write_text("The licence of Fovea is not named yet.\n\n" + notices)
        date = email.utils.formatdate((SOURCE / "CHANGELOG.md").stat().st_mtime)
        changes = CHANGES.format(version=version, maintainer=MAINTAINER, date=date)
        (documents / "changelog.gz").write_bytes(gzip.compress(changes.encode(), mtime=0))
        overrides = share / "lintian" / "overrides" / "fovea"
        overrides.parent.mkdir(parents=True)
        overrides.write_text(OVERRIDES)
        for file in [*(home / "lib").glob("*.so*"), *documents.rglob("*")]:
            if file.is_file() and not file.is_symlink():
                file.chmod(0o644)
        (root / "usr" / "bin").mkdir()
        (root / "usr" / "bin" / "fovea").symlink_to("../lib/fovea/bin/fovea")
        size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) // 1024
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN" / "control").write_text(CONTROL.format(
            version=version, maintainer=MAINTAINER, size=size, libc=least_glibc(tree)))
        path = output / f"fovea_{version}_amd64.deb"
        aside = path.with_name(path.name + ".tmp")
        checked("dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--build", root, aside)
        aside.rename(path)
        return path


def main():
    is_fast = "--fast" in sys.argv
    build, output = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    cache = cache_of(build)
    torch, version = torch_of(cache), cache["CMAKE_PROJECT_VERSION"]
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as folder:
        tree = pathlib.Path(folder) / f"fovea-{version}"
        checked("cmake", "--install", build, "--prefix", tree)
        # It is of one MPI, and each cluster has its own: a build there makes it.
        (tree / "lib" / "libfovea_mpi.so").unlink(missing_ok=True)
        add_torch(torch, tree)
        origins = add_libraries(tree, torch)
        add_notices(tree, origins, torch)
        add_documents(tree)
        set_search_paths(tree)
        write_shell_files(tree / "bin" / "fovea", tree / "share", version)
        print(make_tarball(tree, output, 0 if is_fast else 4), flush=True)
        print(make_debian(tree, output, version, 0 if is_fast else 4))


if __name__ == "__main__":
    main()

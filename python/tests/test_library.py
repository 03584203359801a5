"""How the package finds its library and says what does not fit. Each case is a process of its own."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

import fovea

PLACE = pathlib.Path(fovea.__path__[0]).parent


def python(code, *paths):
    path = os.pathsep.join([*map(str, paths), str(PLACE)])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": path, "FOVEA_LIBRARY": str(fovea._library.find())})


@pytest.mark.parametrize("before,message", [
    ("import sys; sys.modules['torch'] = None", "fovea: no torch in this environment"),
    ("import torch; torch.__version__ = '2.9.1+cpu'", "fovea: got torch 2.9.1+cpu; expected 2.10 or later"),
    ("import platform; platform.machine = lambda: 'aarch64'", "fovea: got a processor of type aarch64; expected x86-64"),
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


def test_schemas_are_those_of_the_library_of_programs():
    """Stored graphs name the operators, whichever library has them."""
    programs = pathlib.Path(fovea._library.find()).with_name("libfovea_ops.so")
    if not programs.is_file():
        pytest.skip("no libfovea_ops.so beside the package's library")
    names = ["attention", "attention_weights", "attention_forward", "attention_backward", "head_norm", "head_norm_backward",
             "index_topk", "index_target", "index_loss_kernel", "parse", "parameters", "properties", "alpha_range",
             "spec_names"]
    ours = [str(getattr(torch.ops.fovea, name).default._schema) for name in names]
    run = python(f"import torch; torch.ops.load_library({str(programs)!r})\n"
                 f"for name in {names}: print(getattr(torch.ops.fovea, name).default._schema)")
    if "undefined symbol" in run.stderr:
        pytest.skip("libfovea_ops.so was built for another torch")
    assert run.stdout.splitlines() == ours, run.stderr

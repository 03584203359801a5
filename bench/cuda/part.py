"""One part of run.py, in a process of its own: part.py NAME OPTIONS-AS-JSON FILE appends its rows to FILE as lines of JSON."""
import importlib
import json
import math
import os
import pathlib
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

ROOT = pathlib.Path(__file__).resolve().parents[2]


def described(given):
    """One row: the device and the versions, an empty text for what is missing."""
    import torch

    def installed(name):
        try:
            return version(name)
        except PackageNotFoundError:
            return ""

    has_device = given.device == "cpu" or bool(given.stand_in) or torch.cuda.is_available()
    name = ("a stand-in for a GPU" if given.stand_in else
            torch.cuda.get_device_name() if given.device == "cuda" and has_device else platform.processor() or "CPU")
    # FlexAttention is compiled by triton, which only a torch with CUDA asks for.
    yield {"device": name, "found": has_device, "torch": torch.__version__, "CUDA": torch.version.cuda or "",
           "triton": installed("triton"), "adasplash": installed("adasplash"), "pytest": installed("pytest")}


def rows_of(name, given):
    if name == "machine":
        return described(given)
    import torch

    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python" / "tests"), str(ROOT / "bench")]
    if name == "mechanisms":
        from mechanisms import rows
        return rows(given.torch_device, given.quick)
    if name == "oracle":
        from oracle import rows
        return rows(given.torch_device, given.quick)
    if name in ("others", "updates", "suite"):
        return importlib.import_module(name).rows(given)
    import tables

    return {"kernels": lambda: tables.kernels(given), "memory": lambda: tables.reference_memory(given),
            "times": lambda: tables.times(given, torch.bfloat16), "flex": lambda: tables.flex(given, torch.bfloat16),
            "peaks": lambda: tables.memory(given, torch.bfloat16)}[name]()


def stand_in_starts():
    """The stand-in's torch has no CUDA to start."""
    import torch

    torch.cuda._lazy_init = lambda: None
    torch.version.cuda = "0"


def strict(value):
    """JSON has no number for what is not finite."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def main():
    name, options, file = sys.argv[1:]
    given = SimpleNamespace(**json.loads(options))
    if given.stand_in and name != "machine":
        stand_in_starts()
    with open(file, "a", buffering=1) as out:
        for row in rows_of(name, given):
            out.write(json.dumps({key: strict(value) for key, value in row.items()}) + "\n")


if __name__ == "__main__":
    main()
    # While Python ends, torch's thread for the device may still wait for Python's lock, which would end the process with an error.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)

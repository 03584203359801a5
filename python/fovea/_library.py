"""Finds and loads the operator library, libfovea_ops.so, which is of one version of torch and of no Python version."""
import os
from pathlib import Path

import torch

NAME = "libfovea_ops.so"
PACKAGE = Path(__file__).resolve().parent


def find():
    """The library's path: FOVEA_LIBRARY, else the one inside an installed package, else the build of the clone."""
    if os.environ.get("FOVEA_LIBRARY"):
        path = Path(os.environ["FOVEA_LIBRARY"])
        if not path.is_file():
            raise ImportError(f"FOVEA_LIBRARY: no file '{path}'; name {NAME} of a build, or unset it")
        return path
    built = PACKAGE.parent.parent / "build" / "release" / "lib" / NAME
    for path in (PACKAGE / NAME, built):
        if path.is_file():
            return path
    raise ImportError(f"fovea: {NAME} not found (looked for {built}); run ./fovea.sh build in the clone, "
                      "pip install ./python, or set FOVEA_LIBRARY to the library")


def _built_for():
    try:
        from ._built import TORCH  # written by setup.py
        return TORCH
    except ImportError:
        return ""


def load():
    if hasattr(torch.ops.fovea, "attention_forward"):  # a C++ extension may have brought it
        return
    path, version = find(), _built_for()
    again = "pip install --force-reinstall --no-deps ./python" if path.parent == PACKAGE else "./fovea.sh build"
    if path.parent == PACKAGE and version.split(".")[:2] != torch.__version__.split(".")[:2]:
        raise ImportError(f"fovea: {path} was built for torch {version}, and this is torch {torch.__version__}; "
                          f"build it again: {again}")
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(f"fovea: {path} does not load into torch {torch.__version__} ({error}); "
                          f"build it against this torch: {again}") from None

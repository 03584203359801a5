"""Finds and loads the operator library, libfovea_ops.so, which no Python version and no package owns."""
import os
from pathlib import Path

import torch

NAME = "libfovea_ops.so"


def _clone():
    try:
        from ._clone import CLONE  # written by setup.py
        return Path(CLONE)
    except ImportError:
        return Path(__file__).resolve().parent.parent.parent  # the package in its clone


def find():
    """The library's path: FOVEA_LIBRARY, else the clone's build, else one inside this package."""
    if os.environ.get("FOVEA_LIBRARY"):
        path = Path(os.environ["FOVEA_LIBRARY"])
        if not path.is_file():
            raise ImportError(f"FOVEA_LIBRARY: no file '{path}'; name {NAME} of a build, or unset it")
        return path
    built = _clone() / "build" / "release" / "lib" / NAME
    for path in (built, Path(__file__).resolve().parent / NAME):
        if path.is_file():
            return path
    raise ImportError(f"fovea: {NAME} not found (looked for {built}); run ./fovea.sh build in the clone, "
                      "or set FOVEA_LIBRARY to the library")


def load():
    if hasattr(torch.ops.fovea, "attention_forward"):  # a C++ extension may have brought it
        return
    path = find()
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(f"fovea: {path} does not load into torch {torch.__version__} ({error}); "
                          "build it against this torch: ./fovea.sh build") from None

"""Finds and loads the library of kernels, libfovea_python.so, which serves every torch from 2.10 on and every Python."""
import os
import platform
from pathlib import Path

try:
    import torch
except ImportError as error:
    if error.name != "torch":
        raise
    raise ImportError("fovea: no torch in this environment, and fovea is an extension of it; pip install torch") from None

NAME = "libfovea_python.so"
LEAST_TORCH = (2, 10)
PACKAGE = Path(__file__).resolve().parent


def find():
    """The library's path: FOVEA_LIBRARY, else the one inside an installed package, else the build of the clone."""
    if os.environ.get("FOVEA_LIBRARY"):
        path = Path(os.environ["FOVEA_LIBRARY"])
        if not path.is_file():
            raise ImportError(f"FOVEA_LIBRARY: no file '{path}'; name {NAME} of a build, or unset it")
        _check_kind(path)
        return path
    built = PACKAGE.parent.parent / "build" / "release" / "lib" / NAME
    for path in (PACKAGE / NAME, built):
        if path.is_file():
            return path
    raise ImportError(f"fovea: {NAME} not found (looked for {built}); run ./fovea.sh build in the clone, "
                      "pip install ./python, or set FOVEA_LIBRARY to the library")


def _check_kind(path):
    """Checks that the file is this library, by the name of a function that it alone has."""
    content = path.read_bytes()
    if b"\0fovea_ask\0" in content:
        return
    kind = ("no library" if not content.startswith(b"\x7fELF") else
            "the library of C++ programs" if b"fovea3ops" in content else "another library")
    raise ImportError(f"FOVEA_LIBRARY: '{path}' is {kind}; name {NAME} of a build, or unset it")


def _check_torch():
    version = torch.__version__
    if tuple(map(int, version.split(".")[:2])) < LEAST_TORCH:
        raise ImportError(f"fovea: got torch {version}; expected {LEAST_TORCH[0]}.{LEAST_TORCH[1]} or later; "
                          f"pip install 'torch>={LEAST_TORCH[0]}.{LEAST_TORCH[1]}'")


def _check_processor():
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64", "aarch64", "arm64"):
        raise ImportError(f"fovea: got a processor of type {machine}; expected x86-64 or 64-bit ARM, for which its kernels "
                          "are written")


plain_attention = None  # the short way of usual calls, once the library is loaded; without it, all go the general way
_opened = None  # the path of the library that this module has loaded


def _open():
    path = find()
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        again = "pip install --force-reinstall --no-deps ./python" if path.parent == PACKAGE else "./fovea.sh build"
        raise ImportError(f"fovea: {path} does not load into torch {torch.__version__} ({error}); build it again: {again}"
                          ) from None
    return path


def load():
    global _opened, plain_attention
    if _opened is None:  # else an import after one that failed half-way
        _check_torch()
        if hasattr(torch.ops.fovea, "kernel_forward"):
            raise ImportError("fovea: another copy of libfovea_python.so is loaded already; one process takes one copy: look "
                              "for a second folder 'fovea' on sys.path, or for torch.ops.load_library() in your code")
        _check_processor()
        _opened = _open()
    if plain_attention is None:
        from . import _stable
        _stable.register(_opened)
        plain_attention = _stable.plain_attention

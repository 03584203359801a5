"""pip's build backend: setuptools, behind a look at the environment's torch and processor, so that what does not fit is
told before anything is fetched. Build tools come from pip afterwards.

The library is built with the headers of torch's stable interface, out of the torch of the environment that pip installs
into, and then runs with every torch from 2.10 on. FOVEA_PREBUILT names a libfovea_python.so to take instead."""
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

LEAST = (2, 10)  # the first torch whose stable interface passes texts


def torch_headers():
    """The folder of the headers of the environment's torch. pip hides the environment from this process by PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Found, not imported: loading torch takes seconds.
    code = ("import importlib.util, json; found = importlib.util.find_spec('torch'); from importlib.metadata import version; "
            "print(json.dumps([version('torch'), found.submodule_search_locations[0]] if found else None))")
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd="/")
    answer = json.loads(found.stdout.splitlines()[-1]) if found.returncode == 0 else None
    if answer is None:
        raise SystemExit(f"fovea: no torch in the environment of {sys.executable}; the build reads its headers. Install it "
                         f"first: pip install 'torch>={LEAST[0]}.{LEAST[1]}'; or install a wheel of fovea, which needs no build")
    version, folder = answer
    if tuple(map(int, version.split(".")[:2])) < LEAST:
        raise SystemExit(f"fovea: got torch {version}; expected {LEAST[0]}.{LEAST[1]} or later; install one first: "
                         f"pip install 'torch>={LEAST[0]}.{LEAST[1]}'")
    return Path(folder) / "include"


def check_processor():
    if platform.machine() not in ("x86_64", "AMD64", "aarch64", "arm64"):
        raise SystemExit(f"fovea: got a processor of type {platform.machine()}; expected x86-64 or 64-bit ARM, for which "
                         "the kernels are written")


def prebuilt():
    path = os.environ.get("FOVEA_PREBUILT")
    if path and not Path(path).is_file():
        raise SystemExit(f"FOVEA_PREBUILT: no file '{path}'; name a libfovea_python.so, or unset it")
    return Path(path) if path else None


def _setuptools():
    from setuptools import build_meta
    return build_meta


def get_requires_for_build_wheel(config_settings=None):
    check_processor()
    if prebuilt():
        return ["setuptools>=70.1"]
    torch_headers()
    return ["setuptools>=70.1", "cmake>=3.25", "ninja"]


def get_requires_for_build_editable(config_settings=None):
    return ["setuptools>=70.1"]


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return _setuptools().prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    return _setuptools().prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _setuptools().build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _setuptools().build_editable(wheel_directory, config_settings, metadata_directory)

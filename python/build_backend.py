"""pip's build backend: setuptools, behind a look at the environment's torch, so that a torch that does not fit is told
before anything is fetched. Build tools come from pip afterwards."""
import json
import os
import subprocess
import sys
from pathlib import Path

LEAST, MOST = (2, 11), (2, 14)  # versions of torch that the operators build and pass their tests with


def installed_torch():
    """Version and CMake folder of the environment's torch. pip hides the environment from this process by PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import json, torch; print(json.dumps([torch.__version__, torch.utils.cmake_prefix_path]))"
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd="/")
    if found.returncode:
        raise SystemExit(f"fovea: no torch in the environment of {sys.executable}; the operators are built against it. "
                         "Install it first: pip install torch")
    version, folder = json.loads(found.stdout.splitlines()[-1])
    if not LEAST <= tuple(map(int, version.split(".")[:2])) <= MOST:
        raise SystemExit(f"fovea: got torch {version}; expected {LEAST[0]}.{LEAST[1]} to {MOST[0]}.{MOST[1]}; "
                         f"install one of these first: pip install 'torch=={MOST[0]}.{MOST[1]}.*'")
    return version, Path(folder) / "Torch"


def _setuptools():
    from setuptools import build_meta
    return build_meta


def get_requires_for_build_wheel(config_settings=None):
    installed_torch()
    return ["setuptools>=64", "cmake>=3.25", "ninja"]


def get_requires_for_build_editable(config_settings=None):
    return ["setuptools>=64"]


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return _setuptools().prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    return _setuptools().prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _setuptools().build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _setuptools().build_editable(wheel_directory, config_settings, metadata_directory)

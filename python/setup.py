"""Builds the operator library into the package, against the torch of the environment that it is installed into.

An editable package has none: it finds what ./fovea.sh build makes in its clone.
"""
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

from build_backend import installed_torch

CLONE = Path(__file__).resolve().parent.parent
NAME = "libfovea_ops.so"


def run(*command):
    """Shows the output as it comes, which pip does with -v."""
    if subprocess.run(command, stdout=sys.stderr).returncode:
        raise SystemExit(f"fovea: {command[0]} failed; its output is above (pip install -v shows it). The build needs a C++20 "
                         "compiler, such as Debian's package g++")


def build_library(torch):
    """Builds libfovea_ops.so and returns its path. The variable CMAKE_ARGS adds options of cmake."""
    # The folder is as deep in the clone as ./fovea.sh's builds, so that the compiler cache knows the kernels from
    # there.
    folder = CLONE / "build" / "python"
    print(f"fovea: building the operators against torch in {torch}; about ten minutes on two cores", file=sys.stderr, flush=True)
    # An earlier build in the folder may have had pip's ninja, which is gone.
    run("cmake", "-S", CLONE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DFOVEA_OPERATORS=ON",
        "-DCMAKE_SKIP_RPATH=ON", f"-DTorch_DIR={torch}", f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}",
        *shlex.split(os.environ.get("CMAKE_ARGS", "")))
    run("cmake", "--build", folder, "--target", "fovea_ops", "--parallel", str(os.cpu_count() or 1))
    return folder / "lib" / NAME


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            return
        version, torch = installed_torch()
        library = build_library(torch)
        package = Path(self.build_lib) / "fovea"
        shutil.copy(library, package / NAME)
        (package / "_built.py").write_text(f"TORCH = {version!r}\n")


class BinaryDistribution(Distribution):
    def has_ext_modules(self):  # the wheel is of one platform
        return True


setup(cmdclass={"build_py": BuildWithLibrary}, distclass=BinaryDistribution)

"""Builds the library of kernels into the package. An editable package has none: it finds what ./fovea.sh build makes in
its clone."""
import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

from build_backend import prebuilt, torch_headers

CLONE = Path(__file__).resolve().parent.parent
NAME = "libfovea_python.so"
SCRATCH = tempfile.TemporaryDirectory(prefix="fovea-build-")  # the clone keeps no folders of a build


def say(text):
    """To the terminal, if there is one: pip shows what a build prints only with -v or after a failure.
    FOVEA_QUIET keeps the terminal free."""
    print(f"fovea: {text}", file=sys.stderr, flush=True)
    if os.environ.get("FOVEA_QUIET"):
        return
    try:
        with open("/dev/tty", "w", encoding="utf-8") as terminal:
            print(f"fovea: {text}", file=terminal, flush=True)
    except OSError:
        pass


def run(command, follow=False):
    """Runs a command; its output appears when it fails, and the steps of a build as they are done."""
    output, told = [], 0
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        for line in process.stdout:
            output.append(line)
            step = re.match(r"\[(\d+)/(\d+)\]", line)
            if follow and step and (10 * int(step[1]) // int(step[2]) > told or step[1] == "1"):
                told = 10 * int(step[1]) // int(step[2])
                say(f"compiled {step[1]} of {step[2]} files")
    if process.returncode:
        sys.stderr.write("".join(output))
        raise SystemExit(f"fovea: {command[0]} failed; its output is above. The build needs a C++20 compiler, such as "
                         "Debian's package g++")


def build_folder():
    """An empty folder as deep in the clone as ./fovea.sh's builds, so that the compiler cache knows the kernels from there;
    removed at the end, as all folders of this build."""
    parent = CLONE / "build"
    existed = parent.is_dir()
    try:
        parent.mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="python-", dir=parent))
    except OSError:  # a clone that cannot be written
        return Path(SCRATCH.name) / "build"

    def remove():
        shutil.rmtree(folder, ignore_errors=True)
        if not existed:
            try:
                parent.rmdir()
            except OSError:
                pass

    atexit.register(remove)
    return folder


def build_library(headers):
    """Builds the library and returns its path. The variable CMAKE_ARGS adds options of cmake."""
    folder = build_folder()
    workers = str(os.cpu_count() or 1)
    say(f"building the kernels with {workers} processes; minutes")
    run(["cmake", "-S", CLONE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DFOVEA_PACKAGE=ON",
         f"-DFOVEA_TORCH_INCLUDE={headers}", f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}",
         *shlex.split(os.environ.get("CMAKE_ARGS", ""))])
    run(["cmake", "--build", folder, "--target", "fovea_python", "--parallel", workers], follow=True)
    return folder / "lib" / NAME


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            return
        library = prebuilt() or build_library(torch_headers())
        shutil.copy(library, Path(self.build_lib) / "fovea" / NAME)


class OutsideOfClone(build):
    def initialize_options(self):
        super().initialize_options()
        self.build_base = str(Path(SCRATCH.name) / "python")


class InfoOutsideOfClone(egg_info):
    def initialize_options(self):
        super().initialize_options()
        self.egg_base = SCRATCH.name


class AnyPython(bdist_wheel):
    """One wheel for every Python: the library has nothing of Python's interface."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):  # the wheel is of one platform
        return True


setup(distclass=BinaryDistribution,
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython, "build": OutsideOfClone,
                "egg_info": InfoOutsideOfClone})

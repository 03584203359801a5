#!/usr/bin/env python3
"""The build refuses some processors: one line says what was got and what was expected."""
import os
import pathlib
import platform
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Refused(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_a_package_of_another_processor(self):
        uname = pathlib.Path(self.folder.name) / "uname"
        uname.write_text("#!/bin/sh\necho riscv64\n")
        uname.chmod(0o755)
        shown = subprocess.run([ROOT / "fovea.sh", "package"], capture_output=True, text=True,
                               env=os.environ | {"PATH": f"{self.folder.name}:{os.environ['PATH']}"})
        self.assertEqual(shown.returncode, 1)
        self.assertEqual(shown.stderr, "Error: package: got a processor of type riscv64; expected x86-64; install a tree "
                                       "instead: ./fovea.sh install PREFIX\n")

    def test_a_wheel_for_an_unknown_processor(self):
        for words in ([], ["riscv64"], ["aarch64", "2.10.0"]):
            shown = subprocess.run([ROOT / "fovea.sh", "wheel", "--arch", *words], capture_output=True, text=True)
            self.assertEqual(shown.returncode, 1)
            self.assertEqual(shown.stderr,
                             f"Error: wheel --arch: got '{' '.join(words)}'; expected aarch64 and nothing more\n")

    def levels(self, processor, value, crossing="OFF"):
        """The output of CMake for these FOVEA_LEVELS, with the levels that it builds."""
        script = pathlib.Path(self.folder.name) / "CMakeLists.txt"
        script.write_text("cmake_minimum_required(VERSION 3.25)\nproject(levels LANGUAGES NONE)\n"
                          f"set(CMAKE_SYSTEM_PROCESSOR {processor})\nset(CMAKE_CROSSCOMPILING {crossing})\n"
                          f"include({ROOT}/cmake/FoveaLevels.cmake)\nmessage(STATUS \"built: ${{FOVEA_BUILT_LEVELS}}\")\n")
        shown = subprocess.run(["cmake", f"-DFOVEA_LEVELS={value}", "-S", self.folder.name, "-B", f"{self.folder.name}/build"],
                               capture_output=True, text=True)
        return " ".join((shown.stdout + shown.stderr).split())

    def test_levels_are_those_of_the_processor(self):
        for processor, value, built in (("x86_64", "all", "0;1;2;3"), ("aarch64", "all", "0;6;7;8"), ("aarch64", "neon", "0;6"),
                                        ("x86_64", "avx2", "0;1"), ("riscv64", "all", "0"), ("riscv64", "portable", "0")):
            self.assertIn(f"built: {built} ", self.levels(processor, value) + " ")
        every, runnable, native = (re.search(r"built: ([\d;]+)", self.levels(platform.machine(), value))[1].split(";")
                                   for value in ("all", "runnable", "native"))
        self.assertEqual(runnable, every[:every.index(native[-1]) + 1])
        self.assertIn("FOVEA_LEVELS is 'neon'; expected one of all, runnable, native, portable, avx2, avx512, avx512-bf16",
                      self.levels("x86_64", "neon"))
        for value in ("native", "runnable"):
            self.assertIn(f"FOVEA_LEVELS is {value}, but this build is for another machine; expected all or a level's name",
                          self.levels("aarch64", value, crossing="ON"))


if __name__ == "__main__":
    unittest.main()

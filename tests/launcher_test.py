#!/usr/bin/env python3
"""bin/fovea sets up the environment of libtorch before it loads libtorch: what that must not change."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from fovea_program import PROGRAM

VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
CLEAN = {name: value for name, value in os.environ.items() if name not in VARIABLES}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100, **options)


class SpinCount(unittest.TestCase):
    def count(self, **variables):
        """The value that libgomp read while it was loaded."""
        shown = run(PROGRAM, "--version", env=CLEAN | {"OMP_DISPLAY_ENV": "verbose"} | variables).stderr
        lines = [line for line in shown.splitlines() if "GOMP_SPINCOUNT" in line]
        if not lines:
            self.skipTest("the OpenMP of libtorch is not libgomp: it does not show GOMP_SPINCOUNT")
        return lines[-1].split("'")[1]

    def test_fovea_sets_it(self):
        self.assertEqual(self.count(), "5000")

    def test_the_users_value_stays(self):
        self.assertEqual(self.count(GOMP_SPINCOUNT="77"), "77")
        self.assertEqual(self.count(OMP_WAIT_POLICY="passive"), "0")  # libgomp's count for that policy
        self.assertNotEqual(self.count(OMP_WAIT_POLICY="active"), "5000")


class Loading(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-launcher-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.version = run(PROGRAM, "--version").stdout

    def test_by_any_name_from_any_folder(self):
        (self.folder / "link").symlink_to(PROGRAM)
        (self.folder / "second").symlink_to("link")
        for name in ("./link", "./second", self.folder / "link"):
            self.assertEqual(run(name, "--version", cwd=self.folder).stdout, self.version)
        path = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        self.assertEqual(run("sh", "-c", "second --version", env=os.environ | path, cwd="/").stdout, self.version)
        for name in ("", "another", "/no/such/fovea"):
            shown = subprocess.run([name, "--version"], executable=PROGRAM, capture_output=True, text=True, cwd=self.folder)
            self.assertEqual(shown.stdout, self.version)

    def test_not_the_library_of_another_fovea(self):
        other = self.folder / "libfovea_program.so"
        other.write_text("no library")
        self.assertEqual(run(PROGRAM, "--version", env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)}).stdout, self.version)

    def test_a_missing_or_damaged_library_is_one_line(self):
        (self.folder / "bin").mkdir()
        (self.folder / "lib").mkdir()
        alone, library = self.folder / "bin" / "fovea", self.folder / "lib" / "libfovea_program.so"
        shutil.copy(PROGRAM, alone)
        for damage in (lambda: None, lambda: library.write_bytes(b"no library")):
            damage()
            shown = run(alone, "--version", cwd=self.folder)
            self.assertEqual((shown.returncode, shown.stdout), (1, ""))
            self.assertRegex(shown.stderr, r"^Error: the program cannot be loaded: [^\n]*libfovea_program\.so: [^\n]*; "
                                           r"build or install Fovea again\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)

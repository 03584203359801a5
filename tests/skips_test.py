#!/usr/bin/env python3
"""A test that is skipped says why where people see it: ./fovea.sh test prints the reasons that CTest keeps to its log."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOG = """1/4 Testing: {name}
Output:
----------------------------------------------------------
{output}
<end of output>
Test time =   0.07 sec
"""
# The output of GoogleTest, unittest and pytest, and the reason that is to be told.
STYLES = {
    "src/fovea/x_test.cc:12: Skipped\nneeds AVX-512\n\n[  SKIPPED ] X.Y (0 ms)": "needs AVX-512",
    "test_x (__main__.X.test_x) ... skipped 'no Java here'": "no Java here",
    "SKIPPED [1] python/tests/test_x.py:3: needs transformers 5": "needs transformers 5",
}


def told(output):
    """The output of tell_skips of fovea.sh for a log with this output of a test."""
    function = re.search(r"^tell_skips\(\) \{.*?^\}", (ROOT / "fovea.sh").read_text(), re.M | re.S)[0]
    with tempfile.NamedTemporaryFile("w") as log:
        log.write(LOG.format(name="example", output=output))
        log.flush()
        return subprocess.run(["bash", "-c", f"{function}\ntell_skips {log.name}"], capture_output=True, text=True,
                              check=True).stdout


class Skips(unittest.TestCase):
    def test_reasons_of_each_style_are_told(self):
        for output, reason in STYLES.items():
            self.assertIn(reason, told(output))
        self.assertEqual(told("OK: nothing was left out"), "")

    def test_without_a_browser_its_test_says_so(self):
        with tempfile.TemporaryDirectory() as empty:
            result = subprocess.run([sys.executable, ROOT / "tests" / "report_browser_test.py"], capture_output=True, text=True,
                                    env=os.environ | {"FOVEA": "not started", "PATH": empty})
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertRegex(told(result.stdout), r"^skipped: no browser found; install one of chromium, .*\n$")

    def test_without_data_its_test_says_so(self):
        result = subprocess.run([sys.executable, ROOT / "tests" / "real_data_test.py"], capture_output=True, text=True,
                                env=os.environ | {"FOVEA": "not started", "FOVEA_DATA": "", "PYTHON": sys.executable})
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertRegex(told(result.stdout), r"^skipped: FOVEA_DATA names no folder")


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""The script that reports what a GPU does, bench/cuda/run.py, at tiny sizes on the stand-in for one: what it writes, and
what it does about parts that fail, disagree or take too long."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("skipped: this Python has no torch")
    sys.exit(77)

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "bench" / "cuda"
sys.path.insert(0, str(FOLDER))
from watching import Report, watch  # noqa: E402


def run(*options, **environment):
    return subprocess.run([sys.executable, FOLDER / "run.py", *options], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **environment})


class Scripts:
    """Parts that are a line of Python each; `rows` is the file of their rows."""

    environment = dict(os.environ)

    def __init__(self, **scripts):
        self.scripts = scripts

    def command(self, part, rows):
        return [sys.executable, "-u", "-c", f"rows = open({str(rows)!r}, 'a', buffering=1)\n{self.scripts[part]}"]


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def report_of(self, limit=20, minutes=1, **scripts):
        report = Report(self.folder, {}, minutes, self.folder / "work")
        for part in scripts:
            watch(part, Scripts(**scripts), limit, report)
        written = json.loads((self.folder / "report.json").read_text())
        self.assertEqual(written["parts"], report.parts)
        return report, {name: part["state"] for name, part in report.parts.items()}

    def test_rows_that_agree(self):
        report, states = self.report_of(one="""rows.write('{"n": 1, "agrees": "yes"}\\n')""")
        self.assertEqual((states, report.status()), ({"one": "done"}, 0))
        self.assertIn("| n | agrees |\n|---|---|\n| 1 | yes |", (self.folder / "report.md").read_text())

    def test_the_next_part_runs_after_one_that_fails(self):
        report, states = self.report_of(bad="raise ValueError('no such thing')", good="rows.write('{}\\n')")
        self.assertEqual(states, {"bad": "failed: ValueError: no such thing", "good": "done"})
        self.assertEqual((report.status(), report.parts["bad"]["printed"][-1]), (1, "ValueError: no such thing"))
        self.assertNotIn("printed", report.parts["good"])

    def test_a_disagreement_is_told(self):
        lines = [json.dumps({"type": "float32", "input": "", "output": value, "agrees": agrees})
                 for value, agrees in ((1e-7, "yes"), ("nan", "NO"), (2e-7, "yes"))]
        report, states = self.report_of(mechanisms=f"rows.write({chr(10).join(lines) + chr(10)!r})")
        self.assertEqual((states, report.status()), ({"mechanisms": "done"}, 1))
        self.assertIn("| float32 |  | 3 | 1 | 2.00e-07 |", report.markdown())
        self.assertIn("Rows that disagree:", report.markdown())

    def test_a_part_that_takes_too_long_keeps_its_rows(self):
        endless = """rows.write('{"n": 1}\\n{"n"')\nimport time\ntime.sleep(600)"""
        report, states = self.report_of(limit=6, slow=endless)
        self.assertEqual((states, report.status()), ({"slow": "stopped after 6 s"}, 3))
        self.assertEqual(report.parts["slow"]["rows"], [{"n": 1}])

    def test_no_part_starts_without_time(self):
        report, states = self.report_of(minutes=0, late="rows.write('{}\\n')")
        self.assertEqual((states, report.status()), ({"late": "not started: no time is left"}, 3))


class ScriptTest(unittest.TestCase):
    def test_on_the_stand_in(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("--quick", "--device", "stand-in", "--parts", "mechanisms", "updates", "memory", "--program", "/none",
                       "--output", folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            written = json.loads((pathlib.Path(folder) / "report.json").read_text())
        parts = written["parts"]
        self.assertEqual({part["state"] for part in parts.values()}, {"done"})
        self.assertEqual(parts["machine"]["rows"][0]["device"], "a stand-in for a GPU")
        self.assertIn("the program fovea", " ".join(written["missing"]))
        for name in ("mechanisms", "updates", "memory"):
            self.assertGreaterEqual(len(parts[name]["rows"]), 2)
            self.assertEqual({row["agrees"] for row in parts[name]["rows"]}, {"yes"}, parts[name])

    @unittest.skipIf(torch.cuda.is_available(), "this machine has a GPU")
    def test_without_a_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("--output", folder)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^run.py: missing here: a torch with CUDA and its device \(torch .* finds none\); run this "
                         "where there is one, or try the script with --device cpu\n$")

    def test_a_library_that_does_not_load(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("--device", "cpu", "--output", folder, "--library", "/none.so")
        self.assertEqual(done.returncode, 1)
        self.assertIn("this Python's torch does not load '/none.so'; build it against this torch, or leave it out", done.stderr)


if __name__ == "__main__":
    unittest.main()

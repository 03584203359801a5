#!/usr/bin/env python3
"""recipes/k-sweep.sh: its tables, that it resumes, stops at Ctrl-C, and refuses what it cannot use."""
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from fovea_program import TINY, Workplace

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "recipes" / "k-sweep.sh"
PLACE = Workplace()
FILES = ["--train-sets", *PLACE.sides["train"], "--valid-sets", *PLACE.sides["valid"], "--vocabs", PLACE.vocab, PLACE.vocab]


def sweep(*arguments):
    return [str(argument) for argument in (SCRIPT, *FILES, *arguments, "--options", *TINY, "--quiet")]


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


class KSweep(unittest.TestCase):
    def refused(self, *arguments, says):
        result = run(sweep(*arguments))
        self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), result.stderr)
        self.assertIn(says, result.stderr)

    def test_tables(self):
        output = PLACE.folder / "tables"
        command = sweep("--k", 8, 2, "--mechanisms", "full", "random", "topk", "--updates", 2, "--output", output)
        first = run(command)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stdout, r"^BLEU on \S+valid.trg after 2 updates\n\nk = +8 +2\nfull +\d+\.\d\d\n"
                                       r"random +\d+\.\d\d +\d+\.\d\d\ntopk +\d+\.\d\d +\d+\.\d\d\n\nThe same of topk by k\n\n"
                                       r"topk\(2\) +\d+\.\d\d\ntopk\(8\) +\d+\.\d\d\nfull +\d+\.\d\d\n$")
        self.assertIn("model 5 of 5: topk-k2-seed1", first.stderr)
        self.assertIn('attention: "random(8)"', (output / "random-k8-seed1" / "averaged" / "config.yml").read_text())

        # Finished models are neither trained nor scored again; their scores are what the table shows.
        for mechanism, bleu in (("full", "30.00"), ("topk-k8", "31.25"), ("topk-k2", "7.50")):
            (output / f"{mechanism}-seed1" / "valid.bleu").write_text(bleu + "\n")
        models = sorted(output.glob("*/averaged"))
        times = [model.stat().st_mtime_ns for model in models]
        again = run(command)
        self.assertRegex(again.stdout, r"\ntopk +31\.25 +7\.50\n(.*\n)*topk\(2\) +7\.50\ntopk\(8\) +31\.25\nfull +30\.00\n$")
        self.assertEqual([model.stat().st_mtime_ns for model in models], times)
        self.refused("--k", 8, 2, "--updates", 3, "--output", output, says="holds runs with other files or options")

    def test_seeds_and_test_set(self):
        output = PLACE.folder / "seeds"
        command = sweep("--k", 4, "--mechanisms", "window", "--seeds", 1, 2, "--updates", 1, "--output", output,
                        "--test-sets", *PLACE.sides["test"])
        self.assertEqual(run(command).returncode, 0)
        for seed, bleu in ((1, "20.00"), (2, "21.00")):
            (output / f"window-k4-seed{seed}" / "test.bleu").write_text(bleu + "\n")
        self.assertRegex(run(command).stdout, r"BLEU on \S+test.trg .*: mean and \(standard deviation\) of 2 seeds\n\nk = +4\n"
                                              r"window +20\.50 \(0\.71\)\n\nBLEU on \S+valid.trg")
        config = (output / "window-k4-seed1" / "averaged" / "config.yml").read_text()
        self.assertIn('attention: "window(4)"', config)
        self.assertIn('attention-cross: "full"', config)

    def test_stops_and_continues(self):
        output = PLACE.folder / "stopped"
        command = sweep("--k", 2, "--mechanisms", "topk", "--updates", 400, "--output", output)
        default = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # as from a terminal
        script = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=default)
        checkpoints = output / "topk-k2-seed1" / "checkpoints"
        while script.poll() is None and not checkpoints.exists():
            time.sleep(0.05)
        os.killpg(script.pid, signal.SIGINT)
        errors = script.communicate(timeout=120)[1]
        self.assertEqual(script.returncode, 130, errors)
        self.assertIn("stopped; run the same command again to continue", errors)
        self.assertFalse((output / "topk-k2-seed1" / "done").exists())
        continued = run(command)
        self.assertEqual(continued.returncode, 0, continued.stderr)
        self.assertTrue(re.search(r"topk\(2\) +\d", continued.stdout))

    def test_mistakes(self):
        self.refused("--mechanisms", "widow", says="--mechanisms: got 'widow'; expected some of full block")
        self.refused("--k", "two", says="got 'two'; expected a whole number of at least 1")
        self.refused("--seeds", says="--seeds: got no value")
        self.refused("--seed", 1, says="unknown option '--seed'")
        self.refused("--test-sets", "a", says="--test-sets: got 1 files; expected source and target")


if __name__ == "__main__":
    unittest.main(verbosity=2)

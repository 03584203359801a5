#!/usr/bin/env python3
"""Language models whose training, generation or scoring is stopped."""
import signal
import subprocess
import time
import unittest

from fovea_program import PROGRAM, checked
from language_models import F, TEXT, VALID, generate, of_bytes, score, training, write


class Signals(unittest.TestCase):
    def stop(self, arguments, number, met):
        """Sends the signal as soon as `met` says so of the log and of the output; the exit status and the log."""
        with open(F / "signal.log", "w+b") as log, open(F / "signal.out", "w+b") as out:
            with subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out, stderr=log) as process:
                deadline = time.monotonic() + 300
                while not met((F / "signal.log").read_text(errors="replace"), (F / "signal.out").read_bytes()):
                    self.assertIsNone(process.poll(), (F / "signal.log").read_text(errors="replace"))
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.001)
                process.send_signal(number)
                code = process.wait(timeout=300)
        return code, (F / "signal.log").read_text(errors="replace")

    def state(self, model):
        return {path.name: path.read_bytes() for path in (model / "last").iterdir()}

    def test_training_resumes_to_the_same_bytes(self):
        options = ["--disp-freq", 1, "--save-freq", 20, "--valid-sets", VALID, "--valid-freq", 25, "--after-batches", 400]
        checked(*training(F / "whole", *options, "--quiet"))
        expected = self.state(F / "whole")
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            model = F / f"stopped-{number}"
            got, log = self.stop(training(model, *options), number, lambda log, out: "Up. 43 :" in log)
            self.assertEqual(got, code, log)
            self.assertNotIn("Training finished", log)
            if number != signal.SIGKILL:
                self.assertIn("Training interrupted (via signal)", log)
            log = checked(*training(model, *options)).stderr
            self.assertIn("[run] resuming after update", log)
            self.assertEqual(self.state(model), expected)

    def test_ctrl_c_ends_generate_and_score(self):
        endless = ["generate", "--model", of_bytes(), "--prompt", "ab", "--max-length", 100_000_000, "--cpu-threads", 1,
                   "--attention", "window(4)"]
        long_text = write("long", TEXT.read_bytes() * 100)
        scoring = ["score", "--model", of_bytes(), "--train-sets", long_text, "--level", "unit", "--cpu-threads", 1]
        for command in (endless, scoring):
            got, log = self.stop(command, signal.SIGINT, lambda log, out: len(out) > 200)
            self.assertEqual(got, 130, log)
            self.assertNotIn("Error", log)


if __name__ == "__main__":
    unittest.main(verbosity=2)

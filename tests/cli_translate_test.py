#!/usr/bin/env python3
"""What translate, score and evaluate do where a signal comes, their input ends too early or is too long."""
import gzip
import signal
import subprocess
import time
import unittest

from fovea_program import PROGRAM, Workplace, checked, run

PLACE = Workplace()


class Signals(unittest.TestCase):
    def test_translation_stops(self):
        arguments = [PROGRAM, "translate", "--model", str(PLACE.model()), "--cpu-threads", "1"]
        for number in (signal.SIGTERM, signal.SIGINT):
            with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as process:
                process.stdin.write("un stelli .\n")
                process.stdin.flush()
                process.stdout.readline()  # it translates what has come, and waits for more
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=300), 128 + number)
                self.assertIn("translating stopped by SIG", process.stderr.read())

    def test_what_the_shell_ignores_stays_ignored(self):
        for number in (signal.SIGINT, signal.SIGHUP):
            ignore = lambda: signal.signal(number, signal.SIG_IGN)
            with subprocess.Popen([PROGRAM, "translate", "--model", PLACE.model(), "--cpu-threads", "1"], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  preexec_fn=ignore) as process:
                process.stdin.write("un stelli .\n")
                process.stdin.flush()
                process.stdout.readline()
                process.send_signal(number)
                process.communicate("un\n", timeout=300)
                self.assertEqual(process.returncode, 0)


class Pipelines(unittest.TestCase):
    def interrupt(self, number, arguments, lines=1, is_ready=lambda: True):
        """Sends the signal and ends the input at once, as Ctrl-C on a pipeline does."""
        with subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdin.write(b"un stelli .\n" * lines)
            process.stdin.flush()
            deadline = time.monotonic() + 300
            while not is_ready():
                self.assertIsNone(process.poll())
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.001)
            process.send_signal(number)
            process.stdin.close()
            log = process.stderr.read().decode()
            self.assertEqual(process.wait(timeout=300), 128 + number, log)
            self.assertIn("stopped by SIG", log)

    def test_an_interrupted_writer_is_no_end_of_what_is_translated(self):
        out = PLACE.folder / "interrupted.out"
        for number in (signal.SIGINT, signal.SIGTERM):
            self.interrupt(number, ["translate", "--model", PLACE.model(), "--cpu-threads", 1, "--output", out],
                           is_ready=lambda: any(part.stat().st_size for part in PLACE.folder.glob("interrupted.out.tmp*")))
            self.assertFalse(out.exists())

    def test_an_interrupted_writer_is_no_end_of_what_is_read(self):
        longer = PLACE.folder / "longer"
        longer.write_text("un stelli .\n" * 10_001)
        commands = (["score", "--model", PLACE.model(), "--cpu-threads", 1, "--train-sets", "-", longer],
                    ["evaluate", "--reference", longer])
        for number in (signal.SIGINT, signal.SIGTERM):
            for command in commands:
                with self.subTest(command=command[0], signal=number):
                    # More than a pipe holds: who takes it reads already, and catches signals.
                    self.interrupt(number, command, lines=10_000)

    def test_what_came_before_damage_is_translated(self):
        packed = gzip.compress(PLACE.sides["train"][0].read_bytes())
        cut = run("translate", "--model", PLACE.model(), "--cpu-threads", 1, "--beam-size", 1, "--max-length-factor", 1,
                  stdin=packed[:len(packed) // 2])
        self.assertEqual(cut.returncode, 1, cut.stderr)
        lines = cut.stdout.count("\n")
        self.assertGreater(lines, 100)
        self.assertIn(f"cannot unpack standard input after line {lines}: the archive is damaged or cut short", cut.stderr)


class LongLines(unittest.TestCase):
    def setUp(self):
        self.model = PLACE.folder / "learned"
        if not self.model.exists():
            checked(*PLACE.training(self.model, "--after-batches", 1, "--quiet", "--transformer-positions", "learned",
                                    "--max-positions", 60, "--max-length", 59))

    def commands(self, lines):
        side = PLACE.folder / "long"
        side.write_text("".join("un " * 100 + "\n" for _ in range(lines)))
        common = ["--model", self.model, "--cpu-threads", 1]
        return (["translate", *common, "--input", side, "--beam-size", 1, "--max-length-factor", 0.1],
                ["score", *common, "--train-sets", side, side])

    def test_are_blamed_on_what_limits_them(self):
        for max_length, to, by in ((1000, 59, "the model's learned positions"), (7, 7, "--max-length")):
            for command in self.commands(1):
                said = checked(*command, "--max-length", max_length).stderr
                self.assertIn(f"tokens; cut to {to} ({by})", said)
                self.assertIn(f"1 line was longer than {by} and was cut", said)

    def test_are_counted(self):
        for command in self.commands(7):
            said = checked(*command, "--max-length", 5).stderr
            self.assertIn("7 lines were longer than --max-length and were cut", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)

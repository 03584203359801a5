#!/usr/bin/env python3
"""translate, score and evaluate as filters of lines, and where a signal comes, their input ends too early or is too long."""
import bz2
import gzip
import lzma
import select
import signal
import subprocess
import time
import unittest

from fovea_program import PROGRAM, Workplace, checked, run

PLACE = Workplace()


class Lines(unittest.TestCase):
    def translate(self, text, *options):
        return checked("translate", "--model", PLACE.model(), "--beam-size", 2, "--cpu-threads", 1, "--quiet",
                       "--max-length-factor", 1, *options, stdin=text)

    def test_as_many_out_as_in(self):
        for text in ("", "\n", "a\n\n\nb", b"\xff\xfe broken \xc3\n ok\n", " \t \n"):
            lines = text.count(b"\n" if isinstance(text, bytes) else "\n") + (not text.endswith(b"\n" if isinstance(text, bytes) else "\n") if text else 0)
            self.assertEqual(self.translate(text).stdout.count("\n"), lines, repr(text))

    def test_lines_that_are_not_utf8_are_named(self):
        said = self.translate(b"ok\n\xff\n" + b"\xfe\n" * 6).stderr
        self.assertIn("line 2 is not UTF-8", said)
        self.assertEqual(said.count(" is not UTF-8"), 5, said)
        self.assertIn("7 lines were not UTF-8", said)

    def test_a_million_tokens_are_cut_with_a_warning(self):
        result = checked("translate", "--model", PLACE.model(), "--beam-size", 1, "--cpu-threads", 1,
                         "--max-length", 50, "--max-length-factor", 1, stdin="un " * 1_000_000 + "\nke\n")
        self.assertEqual(result.stdout.count("\n"), 2)
        self.assertIn("cut to 50", result.stderr)

    def test_packed_input_and_output(self):
        text = PLACE.sides["test"][0].read_bytes()
        packed, out = PLACE.folder / "in.gz", PLACE.folder / "out.gz"
        packed.write_bytes(gzip.compress(text))
        self.translate("", "--input", packed, "--output", out)
        plain = self.translate(text).stdout
        self.assertEqual(gzip.decompress(out.read_bytes()).decode(), plain)
        for name, unpack in {"bz2": bz2.decompress, "xz": lzma.decompress}.items():
            out = PLACE.folder / f"out.{name}"
            self.translate("", "--input", packed, "--output", out)
            self.assertEqual(unpack(out.read_bytes()).decode(), plain)

    def test_terms_are_said_and_bad_lists_are_refused(self):
        terms = PLACE.folder / "terms.tsv"
        source, target = (side.read_text().split() for side in PLACE.sides["test"])
        words = [word for word in dict.fromkeys(target) if word.isalpha()][:2]
        pair = source[0], words[0]
        terms.write_text("\t".join(pair) + "\n")
        text = PLACE.sides["test"][0].read_text()
        result = checked("translate", "--model", PLACE.model(), "--beam-size", 2, "--cpu-threads", 1, "--terms", terms, stdin=text)
        lines = [(line.split(), out.split()) for line, out in zip(text.splitlines(), result.stdout.splitlines())]
        with_term = [(line, out) for line, out in lines if pair[0] in line]
        self.assertTrue(with_term)
        for line, out in with_term:
            self.assertTrue(pair[1] in out or pair[1].title() == out[0], (line, out))
        self.assertIn("--terms", result.stderr)
        for bad, says in {"a b\n": "line 1: got no tab; expected SOURCE<TAB>TARGET",
                          "a\tb\nc\t\n": "line 2: got a term without a target",
                          "": "got no term; expected lines SOURCE<TAB>TARGET",
                          "a\t\u2603\n": "line 1: got the target '\u2603', which has characters that the model's vocabulary lacks"}.items():
            terms.write_text(bad)
            refused = run("translate", "--model", PLACE.model(), "--terms", terms, stdin="a\n")
            self.assertEqual(refused.returncode, 1, bad)
            self.assertIn(f"{terms}", refused.stderr)
            self.assertIn(says, refused.stderr)
        both = run("translate", "--model", PLACE.model(), "--terms", terms, "--documents", stdin="a\n")
        self.assertIn("--terms are for single sentences; leave out --documents", both.stderr)
        gone = run("translate", "--model", PLACE.model(), "--terms", PLACE.folder / "none", stdin="a\n")
        self.assertEqual((gone.returncode, gone.stderr.count("\n")), (1, 1), gone.stderr)

    def test_n_best_and_scores(self):
        lines = self.translate("un stelli .\n", "--n-best").stdout.splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertRegex(line, r"^0 \|\|\| .* \|\|\| F0= -[0-9.e-]+ \|\|\| -[0-9.e-]+$")

    def test_precisions_agree(self):
        # The best score, a mean of log-probabilities of some units, of which two digits are kept: near, not the same.
        def score(*options):
            return float(self.translate("un stelli .\n", "--n-best", *options).stdout.splitlines()[0].split(" ||| ")[3])

        exact = score()
        for precision in ("bfloat16", "int8"):
            rounded = score("--precision", precision)
            self.assertNotEqual(rounded, exact, precision)
            self.assertAlmostEqual(rounded, exact, delta=0.05 * abs(exact), msg=precision)

    def test_score_is_the_sum_of_the_n_best(self):
        line = self.translate("un stelli .\n", "--n-best", "--normalize", 0).stdout.splitlines()[0]
        _, text, feature, _ = line.split(" ||| ")
        source, target = PLACE.folder / "one.src", PLACE.folder / "one.trg"
        source.write_text("un stelli .\n")
        target.write_text(text + "\n")
        scored = checked("score", "--model", PLACE.model(), "--train-sets", source, target, "--quiet").stdout
        # Four digits are printed of sums of float32 logarithms; the text may be cut into other pieces than were
        # generated, then the score is lower, though not by much in a model that has hardly learnt.
        self.assertLessEqual(float(scored), float(feature[4:]) + 1e-3)
        self.assertGreater(float(scored), 3 * float(feature[4:]))


class FirstLines(unittest.TestCase):
    """Lines come as soon as they and the lines before them are done."""
    COMMAND = ["translate", "--model", PLACE.model(), "--cpu-threads", 1, "--quiet"]

    def started(self, *options):
        return subprocess.Popen([PROGRAM, *map(str, [*self.COMMAND, *options])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_each_typed_line_is_answered_before_the_next(self):
        lines = PLACE.sides["test"][0].read_text().splitlines(keepends=True)[:3]
        expected = checked(*self.COMMAND, stdin="".join(lines)).stdout.splitlines(keepends=True)
        with self.started() as process:
            for line, answer in zip(lines, expected):
                process.stdin.write(line)
                process.stdin.flush()
                self.assertTrue(select.select([process.stdout], [], [], 60)[0], "no answer")
                self.assertEqual(process.stdout.readline(), answer)

    def test_a_reader_of_one_line_ends_the_work_of_a_large_file(self):
        text = PLACE.folder / "large"
        text.write_text(PLACE.sides["train"][0].read_text() * 20)
        first = checked(*self.COMMAND, stdin=text.read_text().splitlines()[0] + "\n").stdout
        with self.started("--input", text) as process:
            self.assertEqual(process.stdout.readline(), first)
            process.stdout.close()
            self.assertEqual((process.stderr.read(), process.wait(timeout=120)), ("", 0))

    def test_lines_keep_their_order_whatever_the_windows(self):
        lines = [line for pair in zip(PLACE.sides["test"][0].read_text().splitlines(), [""] * 50) for line in pair]
        text = "\n".join(lines) + "\n"
        one_by_one = "".join(checked(*self.COMMAND, stdin=line + "\n").stdout for line in lines[:6])
        outputs = {checked(*self.COMMAND, *options, stdin=text).stdout
                   for options in ([], ["--mini-batch", 1, "--maxi-batch", 1], ["--mini-batch", 3, "--maxi-batch", 5], ["--mini-batch-words", 30])}
        self.assertEqual(len(outputs), 1)
        self.assertTrue(outputs.pop().startswith(one_by_one))


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
                           is_ready=lambda: any(part.stat().st_size for part in PLACE.folder.glob(".fovea-*/new")))
            self.assertFalse(out.exists())

    def test_an_interrupted_writer_is_no_end_of_what_is_read(self):
        longer = PLACE.folder / "longer"
        longer.write_text("un stelli .\n" * 10_001)
        commands = (["score", "--model", PLACE.model(), "--cpu-threads", 1, "--train-sets", "-", longer],
                    ["evaluate", "--reference", longer])
        for number in (signal.SIGINT, signal.SIGTERM):
            for command in commands:
                with self.subTest(command=command[0], signal=number):
                    # The lines are more than a pipe holds: a reader that takes them is reading already, and catches
                    # signals.
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

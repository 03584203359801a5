#!/usr/bin/env python3
"""A stranger's files and a small machine get an Error of one line from the program, and no more work than is read."""
import os
import re
import resource
import shutil
import struct
import subprocess
import unittest
import zipfile

from fovea_program import PROGRAM, Refusals, Workplace, checked, run

PLACE = Workplace()
F = PLACE.folder
SIZES = ["--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--mini-batch", 8,
         "--segment-length", 32, "--cpu-threads", 1]


def training(model, *options):
    return ["train", "--task", "language", "--model", model, "--train-sets", PLACE.sides["train"][1], "--valid-sets",
            PLACE.sides["valid"][1], "--vocabs", "bytes", "--valid-freq", 4, "--save-freq", 4, *SIZES, *options]


def language_model():
    path = F / "language"
    if not path.exists():
        checked(*training(path, "--after-batches", 4, "--quiet"))
    return path


def with_sum(checkpoint, name, *command):
    """Gives the file its right checksum, which the refusal of the wrong one tells."""
    told = run(*command).stderr
    right, wrong = re.search(rf"{re.escape(name)}: damaged: its checksum is (\w+), not (\w+)", told).groups()
    sums = checkpoint / "checksums.yml"
    sums.write_text(sums.read_text().replace(wrong, right))


class Progress(Refusals):
    """A run whose checkpoint was made by hand, with the right checksums."""

    def resumed(self, key, value, says, *options):
        run_folder = F / "hand"
        shutil.rmtree(run_folder, ignore_errors=True)
        shutil.copytree(language_model(), run_folder, symlinks=True)
        checkpoint, = (run_folder / "checkpoints").iterdir()
        progress = checkpoint / "progress.yml"
        text = progress.read_text()
        self.assertIn(f'{key}: "', text)
        progress.write_text(re.sub(rf'(?m)^{re.escape(key)}: ".*"$', f'{key}: "{value}"', text))
        command = training(run_folder, "--after-batches", 8, *options)
        with_sum(checkpoint, "progress.yml", *command)
        self.refused(*command, says=[f"progress.yml: {key}: got", *says])

    def test_numbers_out_of_range_are_refused(self):
        for key, value in (("batch", -5), ("batch", 1 << 63), ("updates", -1), ("epoch", 0), ("epoch", 1 << 62),
                           ("skipped", -1), ("validated", 9), ("seconds", "1e300"), ("seconds", "nan"),
                           ("best-updates.bits-per-byte", 5), ("stalled.bits-per-byte", 99), ("best.bits-per-byte", "inf")):
            with self.subTest(key=key, value=value):
                self.resumed(key, value, [f"'{value}'; expected a "], "--early-stopping", 3, "--stop-after-seconds", 100)

    def test_numbers_that_do_not_fit_the_run_are_refused(self):
        self.resumed("updates", 5, ["expected the number in the folder's name, update-00000004"])
        self.resumed("batch", 1000000, ["but epoch 1 has", "batches"])


class ClosedPipe(unittest.TestCase):
    """A reader that has what it wanted, as in `| head -1`, ends the command without an error."""

    def ends(self, *arguments):
        with subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            self.assertNotEqual(process.stdout.read(1), b"")
            process.stdout.close()
            errors = process.stderr.read().decode()
            self.assertEqual((process.wait(timeout=300), errors), (0, ""))

    def test_short_commands_end_without_an_error(self):
        """Each writes into a pipe whose reader has left before."""
        model = PLACE.model()
        for words in (["--help"], ["train", "--help-all"], ["--version"], ["spec", "topk(8)", "--length", 6], ["kernels"], ["info", model],
                      ["curves", model], ["clauses", "--input", PLACE.sides["test"][0]],
                      ["evaluate", "--references", PLACE.sides["test"][0], "--input", PLACE.sides["test"][0]],
                      ["translate", "--model", model, "--quiet", "--input", PLACE.sides["test"][0]],
                      ["analyze", "--model", model, "--quiet", "--source", "a b"]):
            ends = os.pipe()
            os.close(ends[0])
            result = subprocess.run([PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, stdout=ends[1], stderr=subprocess.PIPE)
            os.close(ends[1])
            self.assertEqual((result.returncode, result.stderr), (0, b""), words)

    def test_long_commands_end_with_their_reader(self):
        """Each would work for minutes."""
        line = PLACE.sides["train"][0].read_text().splitlines()[0]
        (F / "many").write_text((line + "\n") * 100000)
        language = ["--model", language_model(), "--cpu-threads", 1, "--quiet"]
        self.ends("generate", *language, "--prompt", "a", "--count", 1000000, "--max-length", 1000, "--mini-batch", 2)
        self.ends("score", *language, "--level", "unit", "--train-sets", F / "many", "--mini-batch", 2)
        pairs = ["--model", PLACE.model(), "--cpu-threads", 1, "--quiet"]
        self.ends("translate", *pairs, "--input", F / "many", "--mini-batch", 4, "--maxi-batch", 1)
        self.ends("translate", *pairs, "--input", F / "many", "--mini-batch", 64, "--maxi-batch", 10, "--n-best")
        self.ends("score", *pairs, "--train-sets", F / "many", F / "many", "--mini-batch", 4, "--maxi-batch", 1)
        self.ends("align", *pairs, "--train-sets", F / "many", F / "many", "--mini-batch", 4, "--maxi-batch", 1)
        self.ends("filter", *pairs, "--train-sets", F / "many", F / "many", "--mini-batch", 4, "--maxi-batch", 1)
        self.ends("clauses", "--input", F / "many")


class Threads(Refusals):
    """Processes that have no room for the stacks of many threads, or of any."""

    def limit(self, stack):
        def set_limits():
            resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
            resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
        return set_limits

    def test_more_than_the_system_gives_are_refused(self):
        model, text = PLACE.model(), PLACE.sides["test"][0]
        sizes = SIZES[:SIZES.index("--cpu-threads")]
        for command in (["translate", "--model", model, "--input", text],
                        ["train", "--task", "language", "--model", F / "never", "--train-sets", text, "--vocabs", "bytes", *sizes],
                        ["score", "--model", language_model(), "--train-sets", text],
                        ["vocab", "--train-sets", text, "--type", "unigram", "--dim-vocabs", 100, "--output", F / "never"]):
            self.refused(*command, "--cpu-threads", 4096, says=["--cpu-threads: got 4096, but the system lets this process have",
                                                                "expected at most that"], preexec_fn=self.limit(64 << 20))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two processors")
    def test_processors_that_the_system_does_not_give_are_not_used(self):
        command = ["score", "--model", language_model(), "--train-sets", PLACE.sides["test"][0], "--level", "line"]
        result = checked(*command, preexec_fn=self.limit(16 << 30))
        self.assertRegex(result.stderr, r"Warning: the system lets this process have 1 threads, and there are \d+ processors")
        self.assertEqual(result.stdout, checked(*command).stdout)
        self.refused("translate", "--model", PLACE.model(), stdin="a\n", preexec_fn=self.limit(16 << 30),
                     says="the system does not let this process start another thread")


class Controls(Refusals):
    """Names that terminals would obey."""
    NAME = "a\n[2026-01-01 00:00:00] done\x1b[2J\u009b1m\u202egpj"
    CLEAN = "a [2026-01-01 00:00:00] done [2J 1m gpj"

    def test_the_log_has_none(self):
        folder = F / self.NAME
        folder.mkdir()
        log = folder / "log"
        for form in ("text", "json"):
            result = checked("vocab", "--train-sets", *PLACE.sides["test"], "--type", "char", "--output", folder / "v.spm",
                             "--log", log, "--log-format", form)
            for text in (result.stderr, log.read_text()):
                self.assertIn(f"{self.CLEAN}/v.spm", text)
                self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
                self.assertNotRegex(text, r"(?m)^\[2026-01-01")
        self.refused("vocab", "--train-sets", folder / "none", "--output", "x", says=f"{self.CLEAN}/none")
        self.refused("translate", self.NAME, code=2, says=f"'{self.CLEAN}'")
        wrong = run("spec", f"full({self.NAME}")
        self.assertEqual(wrong.stderr.count("\n"), 3)
        self.assertIn(f"\n  full({self.CLEAN}\n", wrong.stderr)

    def test_pictures_have_none(self):
        drawn = checked("analyze", "--model", PLACE.model(), "--source", self.NAME, "--target", self.NAME).stdout
        self.assertNotRegex(drawn, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


class Records(Refusals):
    def test_any_number_of_a_record_is_drawn_or_refused(self):
        path = F / "record"
        path.mkdir()
        def record(cost, updates=2, elapsed=1):
            (path / "log.jsonl").write_text('{"event":"start","updates":0,"elapsed":0.0}\n{"event":"train","updates":1,"cost":5,'
                                            f'"elapsed":1}}\n{{"event":"train","updates":{updates},"cost":{cost},"elapsed":{elapsed}}}\n')
            return ["curves", path, "--output", F / "curves.svg"]
        for cost in ("1e-320", "5e-324", "1e300", "-1e300", "null", "0"):
            checked(*record(cost))
            self.assertNotRegex((F / "curves.svg").read_text(), "nan|inf")
        self.refused(*record(1, updates=-5), says="log.jsonl:3: has 'updates' outside of 0 to 1000000000000000")
        self.refused(*record(1, elapsed="1e300"), says="log.jsonl:3: has 'elapsed' outside of 0 to 1e10")
        self.refused(*record("1e999"), says="log.jsonl:3: ")


class Sizes(Refusals):
    """Small files that ask for much memory, or large ones where a few lines are expected."""

    def test_archives_that_unpack_to_far_more_than_weights_do(self):
        path = F / "zeros.npz"
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % (80 << 18)
        array = b"\x93NUMPY\x01\0" + struct.pack("<H", 118) + header.ljust(117) + b"\n" + bytes(80 << 20)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.npy", array)
        self.refused("convert", "--from", "marian", path, "--vocabs", PLACE.vocab, PLACE.vocab, "--output", F / "converted",
                     says="its arrays say that they have 83,886,208 bytes, more than 20 times the file's")

    def test_configurations_have_a_limit(self):
        path = F / "large.yml"
        path.write_text("valid-metrics: " + "x" * (50 << 20))
        self.refused("train", "-c", path, says="expected a configuration of at most 1,048,576")


if __name__ == "__main__":
    unittest.main()

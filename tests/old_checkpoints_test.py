#!/usr/bin/env python3
"""Checkpoints of an earlier Fovea load, translate, score and resume as they did there: see tests/old/README.md."""
import hashlib
import os
import pathlib
import platform
import shutil
import tempfile
import unittest

from fovea_program import checked

OLD = pathlib.Path(__file__).resolve().parent / "old"
LAST_UPDATE = 606

# A learned alpha calls expm1f, whose last bit changed in glibc 2.41.
LIBC, LIBC_VERSION = platform.libc_ver()
SAME_EXPM1F = LIBC == "glibc" and tuple(map(int, LIBC_VERSION.split("."))) < (2, 41)
RUNS = ("post", "pre", "average", "alpha")
EXACT_RUNS = RUNS if SAME_EXPM1F else RUNS[:3]

# The other tasks, of version 0.1.0: the update at which end.yml was made, and the command that gives answer.txt.
TASKS = {
    "language": (24, ["score", "--train-sets", "corpus/test.src", "--level", "line"]),
    "image": (24, ["score", "--train-sets", "tasks/images.npy", "--level", "image"]),
    "tagging": (24, ["tag", "--input", "tasks/names.columns"]),
    "caption": (24, ["caption", "--features", "tasks/images.npy", "--n-best", "--beam-size", "3", "--max-length", "12"]),
}

# A task whose attention has routed heads: how the program that made the files scores its text after the resumed run and
# after a new run of 3 updates. Vectors of routed heads have been normalised with sums in another order since, which
# moves a log-probability by some 1e-8 of itself; other members of a cluster would move it by a thousandth.
ROUTED = "language"
MOST_ROUNDING = 1e-6

# The instruction sets of Fovea's kernels and of libtorch's that every machine has.
PORTABLE = os.environ | {"FOVEA_CPU": "portable", "ATEN_CPU_CAPABILITY": "default"}
BEST = {name: value for name, value in os.environ.items() if name not in ("FOVEA_CPU", "ATEN_CPU_CAPABILITY")}


def best_of(beam):
    """The text of each line's first hypothesis."""
    best = {}
    for line in beam.splitlines():
        number, text = line.split(" ||| ")[:2]
        best.setdefault(number, text)
    return list(best.values())


class OldCheckpoints(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-old-"))
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(OLD, self.folder, symlinks=True, dirs_exist_ok=True)
        self.test = [self.folder / "corpus" / f"test.{side}" for side in ("src", "trg")]

    def assert_has_lines(self, path, wanted, but=()):
        """The file has every line of `wanted`, but for those that begin with one of `but`; it may have more."""
        there = set(path.read_text().splitlines())
        missing = [line for line in wanted.read_text().splitlines() if line not in there and not line.startswith(but)]
        if missing:
            self.fail(f"{path}: {len(missing)} lines of {wanted} are missing, the first: {missing[:3]}")

    def train(self, run, model, updates, *options):
        checked("train", "-c", "common.yml", "-c", f"{run}.yml", "--model", model, "--after-batches", updates, "--quiet", *options,
                cwd=self.folder, env=PORTABLE)
        return self.folder / model / "last"

    def translate(self, run, *options, env):
        return checked("translate", "--model", self.folder / run / "end", "--quiet", *options,
                       stdin=self.test[0].read_text(), env=env).stdout

    def test_a_run_resumes_to_the_same_bytes(self):
        for run in EXACT_RUNS:
            with self.subTest(run):
                last, end = self.train(run, f"{run}/run", LAST_UPDATE), self.folder / run / "end"
                self.assertEqual(last.resolve().name, f"update-{LAST_UPDATE:08}")
                self.assert_has_lines(last / "config.yml", end / "config.yml", but="fovea-version:")
                self.assert_has_lines(last / "progress.yml", end / "progress.yml")
                # These name the tensors that differ, and the files hold the tensors.
                self.assert_has_lines(last / "checksums.yml", end / "checksums.yml", but=("config.yml:", "progress.yml:"))
                for name in ("model.safetensors", "source.spm", "target.spm"):
                    self.assertTrue((last / name).read_bytes() == (end / name).read_bytes(), name)
                optimizer = hashlib.sha256((last / "optimizer.safetensors").read_bytes()).hexdigest()
                self.assertEqual(optimizer, (end / "optimizer.sha256").read_text().split()[0])

    def test_a_new_run_begins_with_the_same_bytes(self):
        for run in EXACT_RUNS:
            with self.subTest(run):
                last = self.train(run, f"new-{run}", 3, "--defaults", 1)
                self.assert_has_lines(last / "checksums.yml", OLD / run / "first.yml")

    def test_a_model_translates_and_scores_to_the_same_bytes(self):
        one = ("--cpu-threads", 1)
        for run in EXACT_RUNS:
            with self.subTest(run):
                wanted = {name: (OLD / run / f"{name}.txt").read_text() for name in ("beam", "greedy", "scores")}
                self.assertEqual(self.translate(run, "--beam-size", 5, "--n-best", *one, env=PORTABLE), wanted["beam"])
                self.assertEqual(self.translate(run, "--beam-size", 1, *one, env=PORTABLE), wanted["greedy"])
                scores = checked("score", "--model", self.folder / run / "end", "--train-sets", *self.test, "--quiet", *one,
                                 env=PORTABLE)
                self.assertEqual(scores.stdout, wanted["scores"])

    def test_a_model_translates_to_the_same_text_on_any_instruction_set(self):
        for run in RUNS:
            with self.subTest(run):
                beam = (OLD / run / "beam.txt").read_text()
                self.assertEqual(self.translate(run, "--beam-size", 5, env=BEST).splitlines(), best_of(beam))
                self.assertEqual(self.translate(run, "--beam-size", 1, env=BEST), (OLD / run / "greedy.txt").read_text())

    def answer(self, task, run):
        return checked(*TASKS[task][1], "--model", self.folder / "tasks" / task / run, "--cpu-threads", 1, "--quiet", cwd=self.folder,
                       env=PORTABLE).stdout

    def train_task(self, task, run, updates):
        model = self.folder / "tasks" / task / run
        checked("train", "-c", f"tasks/{task}.yml", "--model", model, "--after-batches", updates, cwd=self.folder, env=PORTABLE)
        return model / "last"

    def test_models_of_the_other_tasks_answer_and_resume_as_they_did(self):
        for task in TASKS.keys() - {ROUTED}:
            with self.subTest(task):
                old = OLD / "tasks" / task
                self.assertEqual(self.answer(task, "run"), (old / "answer.txt").read_text())
                self.assert_has_lines(self.train_task(task, "run", TASKS[task][0]) / "checksums.yml", old / "end.yml")
                self.assert_has_lines(self.train_task(task, "new", 3) / "checksums.yml", old / "first.yml")

    def assert_scores(self, task, run, wanted):
        scores, old = ([float(line) for line in text.split()] for text in (self.answer(task, run), wanted.read_text()))
        self.assertEqual(len(scores), len(old))
        for score, before in zip(scores, old):
            self.assertLess(abs(score - before), MOST_ROUNDING * abs(before), wanted)

    def test_a_model_with_routed_heads_answers_and_resumes_as_it_did_but_for_rounding(self):
        old = OLD / "tasks" / ROUTED
        self.assert_scores(ROUTED, "run", old / "answer.txt")
        self.train_task(ROUTED, "run", TASKS[ROUTED][0])
        self.assert_scores(ROUTED, "run", old / "resumed.txt")
        self.train_task(ROUTED, "new", 3)
        self.assert_scores(ROUTED, "new", old / "begun.txt")


if __name__ == "__main__":
    unittest.main(verbosity=2)

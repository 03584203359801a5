#!/usr/bin/env python3
"""Runs that move, resume with other options or lose a checkpoint: what is used, and what the log says of it."""
import json
import os
import re
import shutil
import unittest

from fovea_program import Refusals, Workplace, checked

PLACE = Workplace()
VALIDATION = ["--valid-sets", *PLACE.sides["valid"], "--valid-metrics", "ce-mean-words", "--valid-freq", 4]


def train(model, *options, updates=8, **more):
    """Trains to that many updates; returns what was logged."""
    return checked(*PLACE.training(model, "--after-batches", updates, "--save-freq", 4, *options), **more).stderr


def copy(source, name):
    target = PLACE.folder / name
    shutil.copytree(source, target, symlinks=True)
    return target


def last(model):
    return os.readlink(model / "last").removeprefix("checkpoints/update-").lstrip("0")


def warnings(said):
    return [line.split("Warning: ", 1)[1] for line in said.splitlines() if "Warning: " in line]


class Pretrained(unittest.TestCase):
    """A run from the weights of another model, which fit: the log says which options of the two models differ."""

    def start(self, name, *options):
        said = train(PLACE.folder / name, "--pretrained-model", PLACE.model(), *options, updates=1)
        return warnings(said), [line.split("] ", 1)[1] for line in said.splitlines() if "options of the model" in line]

    def test_equal_options_are_not_mentioned(self):
        self.assertEqual(self.start("equal"), ([], []))

    def test_mechanisms_and_dropouts_are_mentioned(self):
        self.assertEqual(self.start("learns-on", "--attention", "topk(3)", "--transformer-dropout", 0), ([], [
            f"[run] options of the model that differ from those of '{PLACE.model()}': transformer-dropout: 0.1 -> 0, "
            "attention: full -> topk(3)"]))

    def test_what_changes_the_meaning_of_weights_is_a_warning(self):
        said = self.start("meaning", "--transformer-ffn-activation", "geglu", "--transformer-heads", 4,
                          "--transformer-positions", "alibi")
        self.assertEqual(said, ([
            f"--pretrained-model: the weights of '{PLACE.model()}' fit, but were trained with other options, so they compute "
            "something else here: transformer-heads: 2 -> 4, transformer-positions: rotary -> alibi, "
            "transformer-ffn-activation: swiglu -> geglu; give the options of that model unless you want "
            "this"], []))


class Folders(Refusals):
    """-c FOLDER/train.yml is the run in that folder."""

    def test_a_moved_run_continues_where_it_is(self):
        first, moved = PLACE.folder / "first", PLACE.folder / "moved"
        train(first, "--log", first / "logs" / "train.log", updates=4)
        first.rename(moved)
        said = checked("train", "-c", moved / "train.yml", "--after-batches", 6).stderr
        self.assertIn(f"the run is the one in '{moved}', the folder of the file of --config, which names '{first}'", said)
        self.assertIn("resuming after update 4", said)
        self.assertFalse(first.exists())
        self.assertIn("resuming after update 4", (moved / "logs" / "train.log").read_text())
        self.assertIn(f'\nmodel: "{moved}"\n', (moved / "train.yml").read_text())
        self.assertEqual(last(moved), "6")
        # The command also works from inside the folder, when there is nothing left to say.
        said = checked("train", "-c", "train.yml", "--after-batches", 7, cwd=moved).stderr
        self.assertNotIn("the run is the one in", said)
        self.assertEqual(last(moved), "7")

    def test_a_copied_run_leaves_the_original_alone(self):
        original = PLACE.folder / "original"
        train(original, updates=4)
        kept = {path: path.read_bytes() for path in original.rglob("*") if path.is_file()}
        other = copy(original, "copied")
        said = checked("train", "-c", other / "train.yml", "--after-batches", 6).stderr
        self.assertIn("resuming after update 4", said)
        self.assertEqual({path: path.read_bytes() for path in original.rglob("*") if path.is_file()}, kept)
        # --model counts, and so does a later file; a train.yml outside of a run is a file like any other.
        third = PLACE.folder / "third"
        said = checked("train", "-c", other / "train.yml", "--model", third, "--after-batches", 1).stderr
        self.assertNotIn("the run is the one in", said)
        self.assertIn(f"a new run in '{third}'", said)
        plain = PLACE.folder / "plain"
        plain.mkdir()
        shutil.copy(third / "train.yml", plain / "train.yml")
        for files, named in (((other / "train.yml", plain / "train.yml"), third), ((plain / "train.yml", other / "train.yml"), other)):
            options = [option for file in files for option in ("-c", file)]
            self.assertIn(f'\nmodel: "{named}"\n', checked("train", *options, "--dump-config").stdout)

    def test_relative_data_say_where_they_are_looked_for(self):
        here = PLACE.folder
        run_folder, elsewhere = here / "relative", here / "elsewhere"
        elsewhere.mkdir()
        corpus = [path.relative_to(here) for path in PLACE.sides["train"]]
        near = dict(zip(PLACE.sides["train"], corpus))
        checked(*[near.get(part, part) for part in PLACE.training("relative", "--after-batches", 2)], cwd=here)
        self.refused("train", "-c", run_folder / "train.yml", "--after-batches", 3, cwd=elsewhere,
                     says=[f"--train-sets: '{corpus[0]}' of '{run_folder / 'train.yml'}' does not exist", f"'{elsewhere}'",
                           f"the run was started in '{here}'"])
        self.assertFalse((elsewhere / "relative").exists())
        said = checked("train", "-c", run_folder / "train.yml", "--after-batches", 3, cwd=here).stderr
        self.assertIn("resuming after update 2", said)
        given = [here / path for path in corpus]
        checked("train", "-c", run_folder / "train.yml", "--train-sets", *given, "--after-batches", 4, cwd=elsewhere)
        self.assertEqual(last(run_folder), "4")


class Options(unittest.TestCase):
    CHANGED = "[run] options that differ from those of the run so far: "

    def changes(self, said):
        lines = [line.split(self.CHANGED, 1)[1] for line in said.splitlines() if self.CHANGED in line]
        self.assertLess(len(lines), 2, said)
        return set(lines[0].split(", ")) if lines else set()

    def test_one_line_lists_what_changed(self):
        model = PLACE.folder / "changed"
        train(model, *VALIDATION)
        said = train(model, *VALIDATION)
        self.assertEqual(self.changes(said), set(), said)
        said = train(model, *VALIDATION, "--learn-rate", 0.0004, "--lr-warmup", 4001, "--label-smoothing", 0.2, "--valid-metrics",
                     "perplexity", updates=10)
        self.assertEqual(self.changes(said), {"learn-rate: 0.01125 -> 4e-04", "lr-warmup: 100 -> 4001", "after-batches: 8 -> 10",
                                              "label-smoothing: 0.1 -> 0.2", "valid-metrics: ce-mean-words -> ce-mean-words perplexity"})
        # Options of a process that saved nothing do not count, and neither does an edited train.yml.
        train(model, "--seed", 1, updates=3)
        text = (model / "train.yml").read_text()
        self.assertIn("\nlr-decay: \"inv-sqrt\"\n", text)
        (model / "train.yml").write_text(text.replace('lr-decay: "inv-sqrt"', 'lr-decay: "none"').replace("after-batches: 3", "after-batches: 12"))
        said = checked("train", "-c", model / "train.yml").stderr
        self.assertEqual(self.changes(said) & {"lr-decay: inv-sqrt -> none", "after-batches: 10 -> 12"},
                         {"lr-decay: inv-sqrt -> none", "after-batches: 10 -> 12"})

    def test_without_a_record(self):
        model = PLACE.folder / "bare"
        train(model)
        (model / "log.jsonl").write_text('not JSON\n{"event":"start"}\n[1]\n')
        self.assertEqual(self.changes(train(model, "--seed", 2, updates=9)), {"seed: 1 -> 2", "after-batches: 8 -> 9"})
        (model / "log.jsonl").unlink()
        (model / "train.yml").unlink()
        said = train(model, updates=10)
        self.assertIn("does not say with which options its checkpoint was made", said)
        self.assertEqual(self.changes(said), set())

    def test_a_learning_rate_that_jumps(self):
        rate = ["--learn-rate", 0.01, "--lr-warmup", 2]
        for name, first, then, jumps in (
                ("cosine", ["--lr-decay", "cosine", "--after-batches", 8], ["--after-batches", 16], True),
                ("linear", ["--lr-decay", "linear", "--after-batches", 0, "--after-epochs", 1], ["--after-epochs", 2], True),
                ("higher", ["--after-batches", 8], ["--after-batches", 9, "--learn-rate", 0.02], True),
                ("lower", ["--after-batches", 8], ["--after-batches", 9, "--learn-rate", 0.005], True),
                ("rewarmed", ["--after-batches", 8], ["--after-batches", 9, "--lr-warmup", 4000], True),
                ("same", ["--after-batches", 8], ["--after-batches", 9], False),
                ("warming", ["--lr-warmup", 100, "--after-batches", 2], ["--after-batches", 3], False),
                ("done", ["--lr-decay", "cosine", "--after-batches", 8], [], False)):
            with self.subTest(name):
                model = PLACE.folder / f"rate-{name}"
                train(model, *rate, *first)
                said = train(model, *rate, *first, *then)
                found = [line for line in warnings(said) if "the learning rate jumps from " in line]
                self.assertEqual(len(found), jumps, said)

    def test_a_run_that_is_done_has_no_new_best(self):
        model = PLACE.folder / "done"
        options = ["--valid-sets", *PLACE.sides["valid"], "--valid-metrics", "ce-mean-words", "perplexity", "--valid-freq", 5,
                   "--learn-rate", 0.01, "--lr-warmup", 2]
        self.assertIn("new best", train(model, *options))
        for keep in (6, 7):  # with other options it validates again
            said = train(model, *options, "--keep-last", keep)
            self.assertNotIn("new best", said)
            self.assertEqual(said.count(" : the best, as before"), 2, said)
            self.assertEqual(os.readlink(model / "best"), "checkpoints/update-00000008")
        valid = [line for line in map(json.loads, (model / "log.jsonl").read_text().splitlines()) if line["event"] == "valid"]
        self.assertEqual([line["new_best"] for line in valid], [True] * 4 + [False] * 4)
        # Other validation data have a best value of their own.
        self.assertIn("new best", train(model, *options[:1], *PLACE.sides["test"], *options[3:]))


class Choice(Refusals):
    """Which checkpoint a command takes."""

    @classmethod
    def setUpClass(cls):
        cls.model = PLACE.folder / "chosen"
        # Nothing gets better: the first validation chose the best checkpoint.
        train(cls.model, *VALIDATION, "--keep-last", 3, "--learn-rate", "1e-30", updates=12)

    def said(self, model, *options):
        return checked("translate", "--model", model, *options, stdin="un stelli .\n").stderr

    def test_it_is_in_the_log(self):
        name = r"chosen/checkpoints/update-000000\d\d, \d+ updates, best ce-mean-words [\d.]+ after update \d+$"
        both = [*PLACE.sides["test"]]
        for command in (["translate", "--input", both[0]], ["score", "--train-sets", *both], ["align", "--train-sets", *both],
                        ["filter", "--train-sets", *both], ["analyze", "--train-sets", *both],
                        ["report", "--train-sets", *both, "--output", PLACE.folder / "report.html"]):
            said = checked(command[0], "--model", self.model, "--log-level", "debug", *command[1:]).stderr
            self.assertEqual(len(re.findall(name, said, re.M)), 1, said)
            self.assertEqual(warnings(said), [], said)
        said = checked("embed", "--model", self.model, "--pieces", "--log-level", "debug", stdin="un\n").stderr
        self.assertRegex(said, re.compile(name, re.M))
        said = train(PLACE.folder / "from-it", "--pretrained-model", self.model, updates=1)
        self.assertRegex(said, re.compile(name, re.M))
        output = PLACE.folder / "mean"
        said = checked("average", "--model", self.model, "--last", 2, "--output", output).stderr
        self.assertIn("averaging update-00000008, update-00000012 of ", said)
        self.assertIn("mean, a model alone", self.said(output, "--log-level", "debug"))
        said = checked("average", "--model", self.model, "--last", 2, "--until", 10, "--output", output).stderr
        self.assertIn("averaging update-00000004, update-00000008 of ", said)
        self.refused("average", "--model", self.model, "--last", 2, "--until", 7, "--output", output,
                     says=["--last 2: '", "has 1 checkpoints of at most 7 updates"])
        self.assertNotIn("checkpoint", self.said(self.model))

    def test_a_fallback_warns(self):
        for name in ("best", "last"):
            lost = copy(self.model, f"lost-{name}")
            for link in {"best": ["best"], "last": ["best", "last"]}[name]:
                (lost / link).unlink()
                (lost / link).symlink_to("checkpoints/update-00000099")
            for command in (["translate", "--model", lost, "--quiet"], ["score", "--model", lost, "--train-sets", *PLACE.sides["test"], "--quiet"],
                            PLACE.training(PLACE.folder / f"from-{name}", "--pretrained-model", lost, "--after-batches", 1, "--overwrite", "--quiet")):
                said = checked(*command, stdin="un\n").stderr
                self.assertEqual(len(warnings(said)), 1, said)
                self.assertIn("best' leads to 'checkpoints/update-00000099', which does not exist; taking '", said)
                self.assertIn("update-00000012' instead", said)

    def test_a_copy_without_links_warns(self):
        bare = copy(self.model, "no-links")
        (bare / "best").unlink()
        self.assertIn("no-links' was validated, but has no link 'best'; taking '", self.said(bare, "--quiet"))
        (bare / "last").unlink()
        self.assertIn("no-links' has several checkpoints and no link 'last'; taking '", self.said(bare, "--quiet"))
        self.refused("translate", "--model", bare / "best", says="no such folder")
        (bare / "best").symlink_to("checkpoints/none")
        self.refused("translate", "--model", bare / "best", says=["a link to 'checkpoints/none', which does not exist"])

    def test_resuming_and_averaging_warn(self):
        lost = copy(self.model, "lost-resume")
        (lost / "last").unlink()
        (lost / "last").symlink_to("checkpoints/update-00000099")
        said = checked("average", "--model", lost, "--last", 2, "--output", PLACE.folder / "mean-lost").stderr
        self.assertIn("last' leads to 'checkpoints/update-00000099', which does not exist; taking '", said)
        said = train(lost, *VALIDATION, "--keep-last", 3, updates=13)
        self.assertEqual(said.count("last' leads to 'checkpoints/update-00000099', which does not exist; taking '"), 1, said)
        self.assertIn("resuming after update 12", said)
        best = copy(self.model, "lost-best-folder")
        shutil.rmtree(best / os.readlink(best / "best"))
        said = train(best, *VALIDATION, "--keep-last", 3, updates=13)
        self.assertIn("the checkpoint of the best ce-mean-words, '", said)

    def test_runs_as_they_are_do_not_warn(self):
        model = PLACE.folder / "plain-run"
        self.assertEqual(warnings(train(model)), [])
        self.assertEqual(warnings(self.said(model)), [])
        self.assertEqual(warnings(train(model, updates=9)), [])
        said = checked("average", "--model", model, "--last", 1, "--output", PLACE.folder / "mean-plain").stderr
        self.assertEqual(warnings(said), [])


class Routing(unittest.TestCase):
    def test_translation_scores_say_what_they_know_of_the_future(self):
        warning = "routed(c,w) chooses the members of a cluster in the whole segment, so probabilities are optimistic"
        for name, routed, count in (("faithful", "routed(2,4)", 1), ("strict", "routed(2,4,causal)", 0)):
            model = PLACE.folder / name
            said = train(model, "--attention-decoder", f"1*full;1*{routed}", *VALIDATION)
            self.assertEqual(said.count(warning), count, said)
            data = ["--model", model, "--train-sets", *PLACE.sides["test"]]
            said = checked("score", *data, "--summary")
            self.assertEqual((said.stderr.count(warning), said.stdout.count("|routing:whole-segment|version:")), (count, count))
            said = checked("score", *data)
            self.assertEqual((said.stderr.count(warning), said.stderr.count("|routing:whole-segment|version:")), (count, count))
            self.assertEqual(checked("filter", *data).stderr.count(warning), count)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""`average --each`: windows of checkpoints, averaged and validated."""
import re
import shutil
import unittest

from fovea_program import Refusals, checked, run
from short_runs import PLACE, records, train


class AverageEach(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.model, _ = train("each", "--keep-last", 10, "--learn-rate", 0.01, "--lr-warmup", 4, updates=24)  # 6 checkpoints

    def average(self, *options):
        output = PLACE.folder / "average"
        shutil.rmtree(output, ignore_errors=True)
        said = checked("average", "--model", self.model, "--output", output, *options)
        head, *rows = [line.split() for line in said.stdout.splitlines()]
        return output, head, rows

    def test_the_best_window_is_kept(self):
        output, head, rows = self.average("--last", 2, "--each", 2)
        self.assertEqual(head, ["first", "last", "perplexity"])
        name = "update-{:08}".format
        self.assertEqual([row[:2] for row in rows], [[name(4), name(8)], [name(12), name(16)], [name(20), name(24)]])
        best = min(rows, key=lambda row: float(row[2]))
        # This equals the average of a run that ends there.
        shorter = PLACE.folder / "shorter"
        shutil.rmtree(shorter, ignore_errors=True)
        shutil.copytree(self.model, shorter, symlinks=True)
        for path in (shorter / "checkpoints").iterdir():
            if path.name > best[1]:
                shutil.rmtree(path)
        (shorter / "last").unlink()
        (shorter / "last").symlink_to(f"checkpoints/{best[1]}")
        checked("average", "--model", shorter, "--last", 2, "--output", PLACE.folder / "plain")
        self.assertEqual((output / "model.safetensors").read_bytes(), (PLACE.folder / "plain" / "model.safetensors").read_bytes())
        self.assertEqual(run("translate", "--model", output, stdin="un stelli .\n").returncode, 0)

    def test_values_are_those_of_training(self):
        """An average of one checkpoint is that checkpoint."""
        _, head, rows = self.average("--last", 1, "--each", 1, "--valid-metrics", "ce-mean-words", "perplexity")
        self.assertEqual(head, ["first", "last", "ce-mean-words", "perplexity"])
        logged = {line["updates"]: line["value"] for line in records(self.model)
                  if line["event"] == "valid" and line["metric"] == "ce-mean-words"}
        self.assertEqual(len(rows), 6)
        for row in rows:
            self.assertAlmostEqual(float(row[2]), logged[int(row[1].removeprefix("update-"))], delta=0.00006)  # rounding of 4 digits

    def test_other_validation_data(self):
        _, _, own = self.average("--last", 3, "--each", 3)
        _, _, other = self.average("--last", 3, "--each", 3, "--valid-sets", *PLACE.sides["test"])
        self.assertEqual([row[:2] for row in own], [row[:2] for row in other])
        self.assertNotEqual(own, other)

    def test_bad_input(self):
        average = ["average", "--model", self.model, "--output", PLACE.folder / "x"]
        self.refused(*average, "--last", 7, "--each", 1, says=["--last 7: '", "has 6 checkpoints"])
        self.refused(*average, "--valid-sets", "a", "b", says=["--valid-sets is for --each"], code=2)
        self.refused(*average, "--each", 1, "--valid-sets", "a", says=["--valid-sets"], code=2)
        self.refused(*average, "--each", 1, "--valid-metrics", "blue", says=["--valid-metrics: got 'blue'", "did you mean 'bleu'?"], code=2)
        edited = PLACE.folder / "edited"
        shutil.copytree(self.model, edited, symlinks=True)
        text = (edited / "train.yml").read_text()
        for key, value, says in (("valid-beam-size", "0", "valid-beam-size: got '0'; expected a whole number of at least 1"),
                                 ("valid-sets", "[a]", "train.yml: --valid-sets"),
                                 ("vocabs", "[a, b, c]", "train.yml: --vocabs")):
            changed = re.sub(rf"(?m)^{key}:.*\n(?: *- .*\n)*", "", text)
            (edited / "train.yml").write_text(f"{changed}{key}: {value}\n")
            self.refused("average", "--model", edited, "--output", PLACE.folder / "x", "--each", 1, says=[str(edited), says])
        bare = PLACE.folder / "bare"
        shutil.copytree(self.model, bare, symlinks=True)
        (bare / "train.yml").unlink()
        self.refused("average", "--model", bare, "--output", PLACE.folder / "x", "--each", 1, says=["--valid-sets"], code=2)
        (bare / "train.yml").write_text('fovea-version: "99.1"\n')
        self.refused("average", "--model", bare, "--output", PLACE.folder / "x", "--each", 1, says=["fovea 99.1 wrote this file"])
        self.assertFalse((PLACE.folder / "x").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)

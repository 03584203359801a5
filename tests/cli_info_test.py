#!/usr/bin/env python3
"""`fovea info`: what a model is, one fact a line."""
import json
import os
import re
import shutil
import unittest

from fovea_program import Refusals, checked
from short_runs import PLACE, records, train


def facts(*arguments):
    return dict(line.split(": ", 1) for line in checked("info", *arguments).stdout.splitlines())


class Info(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.trained = train("info", "--valid-metrics", "bleu", "--attention", "topk(4)",
                                       "--attention-cross", "full", "--learn-rate", 0.01, "--lr-warmup", 4, updates=12)

    def test_a_run(self):
        told = facts(self.model)
        self.assertEqual(told["task"], "translation")
        self.assertEqual(told["attention"], "topk(4)")
        self.assertEqual(told["attention-cross"], "full")
        self.assertNotIn("attention-encoder", told)  # not set
        self.assertEqual(told["parameters"], re.search(r"([\d,]+) parameters", self.trained)[1].replace(",", ""))
        self.assertEqual(int(told["file source.spm bytes"]), PLACE.vocab.stat().st_size)
        self.assertEqual(told["train-sets"], " ".join(map(str, PLACE.sides["train"])))

    def test_best_values_are_those_of_the_record(self):
        told = facts(self.model)
        valid = [line for line in records(self.model) if line["event"] == "valid" and line["metric"] == "ce-mean-words"]
        best = min(valid, key=lambda line: line["value"])
        self.assertAlmostEqual(float(told["best ce-mean-words"]), best["value"], places=12)
        self.assertEqual(int(told["best ce-mean-words updates"]), best["updates"])
        self.assertLessEqual(int(told["best bleu updates"]), int(facts(self.model / "last")["updates"]))

    def test_json_has_the_same_facts(self):
        told, whole = facts(self.model), json.loads(checked("info", self.model, "--json").stdout)
        self.assertEqual(list(told), list(whole))
        self.assertEqual(told["dim-vocabs"], ", ".join(map(str, whole["dim-vocabs"])))
        self.assertEqual(int(told["updates"]), whole["updates"])

    def test_an_average_has_no_training(self):
        average = PLACE.folder / "info-average"
        checked("average", "--model", self.model, "--last", 2, "--output", average)
        told = facts(average)
        self.assertEqual(told["checkpoint"], str(average))
        self.assertNotIn("updates", told)

    def test_bad_input(self):
        self.refused("info", says="MODEL: got none; expected the folder", code=2)
        self.refused("info", PLACE.folder / "nowhere", says=["nowhere", "MODEL"])
        broken = PLACE.folder / "info-broken"
        shutil.copytree(self.model / "last", broken)
        weights = broken / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        self.refused("info", broken, says="model.safetensors")
        (broken / "model.safetensors").unlink()
        self.refused("info", broken, says="model.safetensors")
        os.mkfifo(broken / "model.safetensors")  # nobody writes: reading it would never end
        self.refused("info", broken, says="model.safetensors")


if __name__ == "__main__":
    unittest.main()

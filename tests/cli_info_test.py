#!/usr/bin/env python3
"""`fovea info`: what a model is, one fact a line."""
import json
import os
import re
import shutil
import unittest

from fovea_program import PROGRAM, Refusals, checked
from short_runs import PLACE, records, train


def facts(*arguments):
    return dict(line.split(": ", 1) for line in checked("info", *arguments).stdout.splitlines())


class Info(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.trained = train("info", "--valid-metrics", "bleu", "--attention", "topk(4)",
                                       "--attention-cross", "full", "--learn-rate", 0.01, "--lr-warmup", 4, updates=12)

    def test_what_a_person_asks_first(self):
        told = facts(self.model)
        self.assertEqual(list(told), ["task", *(["languages"] if "languages" in told else []), "mechanism", "size", "data", "updates", "best",
                                      "checkpoint", "continue"])
        whole = facts(self.model, "--all")
        self.assertEqual(told["mechanism"], "topk(4); cross full")
        self.assertIn(f"{int(whole['parameters']):,} parameters", told["size"])
        self.assertIn(f"{whole['enc-depth']} + {whole['dec-depth']} layers of {whole['transformer-heads']} heads", told["size"])
        for measure in ("ce-mean-words", "bleu"):
            self.assertIn(f"{measure} {float(whole[f'best {measure}']):.4f} after {whole[f'best {measure} updates']} updates",
                          told["best"])
        self.assertEqual(told["updates"].split(";")[0], "12 of 12")
        self.assertEqual(facts(self.model / "checkpoints" / f"update-{4:08}")["updates"], "12 of 12; 4 in this checkpoint")
        self.assertEqual(told["continue"], f"{PROGRAM} train -c {self.model / 'train.yml'}")
        resumed = checked(*told["continue"].split()[1:], "--after-batches", 13)
        self.assertIn("resuming after update 12", resumed.stderr)

    def test_options_of_mechanisms_that_the_model_lacks(self):
        told = facts(self.model, "--all")
        self.assertFalse([name for name in told if name.startswith(("routing-", "span-", "clause-"))])
        self.assertIn("routing-decay", json.loads(checked("info", self.model, "--json").stdout))
        spanned, _ = train("info-span", "--attention-decoder", "span(8,2)", "--attention-encoder", "clause(1)", updates=1)
        told = facts(spanned, "--all")
        self.assertIn("span-loss", told)
        self.assertIn("clause-flags", told)
        self.assertNotIn("routing-decay", told)

    def test_a_run(self):
        told = facts(self.model, "--all")
        self.assertEqual(told["task"], "translation")
        self.assertEqual(told["attention"], "topk(4)")
        self.assertEqual(told["attention-cross"], "full")
        self.assertNotIn("attention-encoder", told)  # not set
        self.assertEqual(told["parameters"], re.search(r"([\d,]+) parameters", self.trained)[1].replace(",", ""))
        self.assertEqual(int(told["file source.spm bytes"]), PLACE.vocab.stat().st_size)
        self.assertEqual(told["train-sets"], " ".join(map(str, PLACE.sides["train"])))

    def test_best_values_are_those_of_the_record(self):
        told = facts(self.model, "--all")
        valid = [line for line in records(self.model) if line["event"] == "valid" and line["metric"] == "ce-mean-words"]
        best = min(valid, key=lambda line: line["value"])
        self.assertAlmostEqual(float(told["best ce-mean-words"]), best["value"], places=12)
        self.assertEqual(int(told["best ce-mean-words updates"]), best["updates"])
        self.assertLessEqual(int(told["best bleu updates"]), int(facts(self.model / "last", "--all")["updates"]))

    def test_json_has_the_same_facts(self):
        told, whole = facts(self.model, "--all"), json.loads(checked("info", self.model, "--json").stdout)
        self.assertEqual(list(told), [name for name in whole if not name.startswith(("routing-", "span-", "clause-"))])
        self.assertEqual(told["dim-vocabs"], ", ".join(map(str, whole["dim-vocabs"])))
        self.assertEqual(int(told["updates"]), whole["updates"])

    def test_an_average_has_no_training(self):
        average = PLACE.folder / "info-average"
        checked("average", "--model", self.model, "--last", 2, "--output", average)
        told = facts(average, "--all")
        self.assertEqual(told["checkpoint"], str(average))
        self.assertNotIn("updates", told)
        self.assertEqual(list(facts(average)), ["task", "mechanism", "size", "checkpoint"])

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

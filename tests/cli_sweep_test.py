#!/usr/bin/env python3
"""`fovea analyze --sweep` and `--cost` from the command line: losses against `score`, counts against the definitions."""
import json
import math
import os
import re
import subprocess
import unittest

from analyzed_models import F, PAIRS, SOURCE, TARGET, analyze, language, translation
from fovea_program import checked, run


class Sweeps(unittest.TestCase):
    def test_the_own_mechanism_has_the_score(self):
        summary = checked("score", "--model", translation(), "--train-sets", SOURCE, TARGET, "--summary", "--quiet",
                          "--cpu-threads", 1).stdout
        loss = float(re.search(r"ce-mean-words (\S+)", summary)[1])
        picture = F / "curve.svg"
        table = analyze(translation(), "--train-sets", SOURCE, TARGET, "--sweep", "full", "topk(2)", "topk(4)", "cross=topk(1)",
                        "--output", picture).splitlines()
        self.assertEqual(table[0].split(), ["spec", "loss", "perplexity"])
        rows = {line.split()[0]: float(line.split()[1]) for line in table[1:5]}
        self.assertEqual(list(rows), ["full", "topk(2)", "topk(4)", "cross=topk(1)"])
        self.assertAlmostEqual(rows["full"], loss, places=6)
        scored = checked("score", "--model", translation(), "--train-sets", SOURCE, TARGET, "--summary", "--quiet",
                         "--attention-cross", "topk(1)", "--cpu-threads", 1).stdout
        self.assertAlmostEqual(rows["cross=topk(1)"], float(re.search(r"ce-mean-words (\S+)", scored)[1]), places=6)
        self.assertNotEqual(rows["topk(2)"], rows["full"])
        self.assertIn("topk(k)", picture.read_text())

    def test_bleu(self):
        found = json.loads(analyze(translation(), "--train-sets", SOURCE, TARGET, "--sweep", "full", "--beam-size", 2, "--json"))
        checked("translate", "--model", translation(), "--input", SOURCE, "--output", F / "hypotheses", "--beam-size", 2,
                "--cpu-threads", 1, "--quiet")
        text = checked("evaluate", "--reference", TARGET, "--metrics", "bleu", stdin=(F / "hypotheses").read_bytes()).stdout
        self.assertAlmostEqual(found["records"][0]["bleu"], float(re.search(r"= ([\d.]+)", text)[1]), delta=0.0051)
        self.assertAlmostEqual(math.log(found["records"][0]["perplexity"]), found["records"][0]["loss"])

    def test_tokens_of_bleu(self):
        arguments = [translation(), "--train-sets", SOURCE, TARGET, "--sweep", "full", "--tokenize", "char"]
        found = json.loads(analyze(*arguments, "--beam-size", 1, "--json"))
        checked("translate", "--model", translation(), "--input", SOURCE, "--output", F / "hypotheses", "--beam-size", 1,
                "--cpu-threads", 1, "--quiet")
        text = checked("evaluate", "--reference", TARGET, "--metrics", "bleu", "--tokenize", "char",
                       stdin=(F / "hypotheses").read_bytes()).stdout
        self.assertEqual(found["tokenize"], "char")
        self.assertGreater(found["records"][0]["bleu"], 0.02)
        self.assertAlmostEqual(found["records"][0]["bleu"], float(re.search(r"= ([\d.]+)", text)[1]), delta=0.0051)
        self.assertIn("BLEU: of the whole text, tokens of char, beam 1\n", analyze(*arguments, "--beam-size", 1))
        refused = run("analyze", "--model", *arguments)
        self.assertEqual((refused.returncode, refused.stderr.count("\n")), (2, 1), refused.stderr)
        self.assertIn("--tokenize: is for BLEU; add --beam-size, or leave it out", refused.stderr)

    def test_of_a_language_model(self):
        model = language("full")
        scored = checked("score", "--model", model, "--train-sets", TARGET, "--quiet", "--cpu-threads", 1).stdout
        bits = float(re.search(r"bits-per-unit (\S+)", scored)[1])
        found = json.loads(analyze(model, "--train-sets", TARGET, "--sweep", "full", "decoder=topk(2)", "--json"))
        self.assertEqual([r["spec"] for r in found["records"]], ["full", "decoder=topk(2)"])
        self.assertAlmostEqual(found["records"][0]["loss"] / math.log(2), bits, places=5)
        for record in found["records"]:  # a byte is a unit
            self.assertAlmostEqual(record["bits_per_byte"], record["loss"] / math.log(2), places=9)
        table = analyze(model, "--train-sets", TARGET, "--sweep", "full").splitlines()
        self.assertEqual(table[0].split(), ["spec", "loss", "perplexity", "bits/byte"])
        self.assertAlmostEqual(float(table[1].split()[3]), bits, places=3)

    def test_the_text_is_read_once(self):
        pipe = F / "read-once"
        os.mkfifo(pipe)
        with subprocess.Popen(["sh", "-c", f"cat '{TARGET}' > '{pipe}'"]) as writer:
            checked("analyze", "--model", language("full"), "--train-sets", pipe, "--sweep", "full", "topk(2)", "--cpu-threads", 1)
            self.assertEqual(writer.wait(timeout=60), 0)

    def test_refused(self):
        for spec in ("rela-g", "entmax(learned)", "routed(2,4)"):
            result = run("analyze", "--model", translation(), "--train-sets", SOURCE, TARGET, "--sweep", "full", f"encoder={spec}")
            self.assertEqual(result.returncode, 1, spec)
            self.assertIn("which this model (trained with", result.stderr)
            self.assertEqual(result.stdout, "")


class Costs(unittest.TestCase):
    def test_operations(self):
        found = json.loads(analyze(translation(), "--cost", "--sweep", "full", "topk(4)", "--lengths", 10, "--json"))
        by = {(r["spec"], r["kind"]): r for r in found["records"]}
        self.assertEqual(len(by), 6)
        self.assertEqual(by["full", "encoder"]["scored"], 2 * 100)
        self.assertEqual(by["full", "decoder"]["scored"], 2 * 55)
        self.assertEqual(by["topk(4)", "cross"]["weighted"], 2 * 40)
        self.assertEqual(by["full", "cross"]["score_flops"], 2 * 8 * 2 * 100)
        self.assertNotIn("speeds", found)
        self.assertIn("FLOPs", analyze(language("full"), "--cost", "--lengths", 10, 20))

    def test_speeds(self):
        found = json.loads(analyze(translation(), "--cost", "--train-sets", SOURCE, TARGET, "--json", "--beam-size", 1))
        self.assertEqual([r["group"] for r in found["speeds"]], list(range(1, 11)))
        self.assertEqual(sum(r["pairs"] for r in found["speeds"]), PAIRS)
        for before, after in zip(found["speeds"], found["speeds"][1:]):
            self.assertLessEqual(before["longest"], after["shortest"])
        self.assertTrue(all(r["training"] > 0 and r["decoding"] > 0 for r in found["speeds"]))
        self.assertIn("tenth", analyze(translation(), "--cost", "--train-sets", SOURCE, TARGET, "--beam-size", 1))


    def test_speeds_of_a_language_model(self):
        found = json.loads(analyze(language("full"), "--cost", "--train-sets", TARGET, "--lengths", 8, 16, "--cost-units", 40,
                                   "--sweep", "full", "topk(2)", "--json"))
        self.assertEqual([(r["spec"], r["length"], r["segments"]) for r in found["speeds"]],
                         [("full", 8, 5), ("full", 16, 2), ("topk(2)", 8, 5), ("topk(2)", 16, 2)])
        self.assertTrue(all(r["training"] > 0 and r["decoding"] > 0 for r in found["speeds"]))
        self.assertIn("units a second", analyze(language("full"), "--cost", "--train-sets", TARGET, "--lengths", 8))
        for options, says in ((("--lengths", 100000), "--cost measures segments of 100,000 units; give more text"),
                              (("--lengths", 2000), "the model has learned positions for")):
            result = run("analyze", "--model", language("full"), "--cost", "--train-sets", TARGET, "--quiet", *options)
            self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (1, "", 1), result.stderr)
            self.assertIn(says, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

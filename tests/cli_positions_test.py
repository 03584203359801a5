#!/usr/bin/env python3
"""Position schemes that act on scores, from training to text, in every task that has them."""
import unittest

from fovea_program import Workplace, checked, run

PLACE = Workplace()
F = PLACE.folder
SCHEMES = ("shaw(4,values)", "transformer-xl(clamp=9)", "alibi", "learned+rotary+shaw(3)+transformer-xl+alibi")


class Language(unittest.TestCase):
    def test_train_score_and_generate(self):
        for number, scheme in enumerate(SCHEMES):
            model = F / f"language-{number}"
            checked("train", "--task", "language", "--model", model, "--train-sets", PLACE.sides["train"][1], "--vocabs", "bytes",
                    "--segment-length", 32, "--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32,
                    "--mini-batch", 8, "--cpu-threads", 1, "--after-batches", 4, "--quiet", "--attention", "topk(8)",
                    "--transformer-positions", scheme)
            test = PLACE.sides["test"][1]
            whole, halves = ([float(line.split(" ")[1]) for line in checked(
                "score", "--model", model, "--train-sets", test, "--quiet", "--cpu-threads", 1, "--mini-batch", batch).stdout
                              .splitlines() if line.startswith("bits-per-byte ")] for batch in (64, 5))
            self.assertEqual(whole, halves)
            text = {precision: checked("generate", "--model", model, "--prompt", "un ", "--max-length", 40, "--quiet", "--seed", 3,
                                       "--cpu-threads", 1, "--precision", precision).stdout
                    for precision in ("float32", "bfloat16", "int8")}
            self.assertTrue(all(made.startswith("un ") for made in text.values()), text)

    def test_resumes_to_the_same_bytes(self):
        options = ["train", "--task", "language", "--train-sets", PLACE.sides["train"][1], "--vocabs", "bytes", "--segment-length",
                   32, "--dim-emb", 16, "--dec-depth", 2, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--mini-batch", 8,
                   "--cpu-threads", 1, "--quiet", "--transformer-positions", "shaw(3,values)+transformer-xl"]
        checked(*options, "--model", F / "whole", "--after-batches", 6)
        checked(*options, "--model", F / "halves", "--after-batches", 3)
        checked(*options, "--model", F / "halves", "--after-batches", 6)
        weights = [(F / name / "last" / "model.safetensors").read_bytes() for name in ("whole", "halves")]
        self.assertEqual(*weights)


class Translation(unittest.TestCase):
    def test_translations_do_not_depend_on_the_batch(self):
        for number, scheme in enumerate(SCHEMES):
            model = F / f"translation-{number}"
            checked(*PLACE.training(model, "--after-batches", 6, "--quiet", "--transformer-positions", scheme))
            source = PLACE.sides["test"][0]
            for precision in ("float32", "bfloat16", "int8"):
                made = [checked("translate", "--model", model, "--input", source, "--quiet", "--cpu-threads", 1,
                                "--max-length-factor", 1, "--beam-size", 3, "--n-best", "--precision", precision, "--mini-batch",
                                batch).stdout for batch in (1, 64)]
                self.assertEqual(*made)
                self.assertGreaterEqual(len(made[0].splitlines()), len(source.read_text().splitlines()))
            pair = PLACE.sides["test"]
            said = checked("score", "--model", model, "--train-sets", *pair, "--quiet", "--cpu-threads", 1).stdout
            self.assertTrue(all(float(line) < 0 for line in said.splitlines()))

    def test_what_does_not_fit(self):
        for scheme, message in (("shaw(0)", "expected a distance between 1 and 65536 or 'values'"),
                                ("transformer-xl(9)", "expected clamp=N, N between 0 and 1e+06"),
                                ("alibi+none", "'none' stands alone"), ("shaw+shaw(3)", "give each scheme once")):
            said = run(*PLACE.training(F / "refused", "--transformer-positions", scheme))
            self.assertEqual(said.returncode, 2, said.stderr)
            self.assertIn(message, said.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""The messages of `fovea analyze` for options, texts and models that do not fit."""
import unittest

from analyzed_models import F, PAIRS, PLACE, SOURCE, TARGET, language, translation
from fovea_program import Refusals, checked, without_privilege


class BadInput(Refusals):
    def refused(self, *arguments, **options):
        self.assertEqual(super().refused("analyze", *arguments, **options).stdout, "")

    def test_options(self):
        model = ["--model", translation()]
        text = ["--train-sets", SOURCE, TARGET]
        self.refused(*model, says="--source is missing; expected a sentence, or text files in --train-sets", code=2)
        self.refused(*model, *text, "--source", "un", says="--source and --train-sets: expected one of them", code=2)
        self.refused(*model, *text, "--unit", "letter", says="--unit", code=2)
        self.refused(*model, *text, "--tau", 0, says="--tau: expected numbers above 0", code=2)
        self.refused(*model, *text, "--by", "tag", says="--by: got 'tag'; expected previous or column:FILE", code=2)
        self.refused(*model, *text, "--by", "previous", "--unit", "piece", says="--by needs --unit word", code=2)
        self.refused(*model, "--sweep", "full", says="--sweep needs --train-sets", code=2)
        self.refused(*model, *text, "--sweep", "full", "--output", F / "curve.png", says="expected a name that ends in .svg", code=2)
        self.refused(*model, *text, "--sweep", "cross=", says="--sweep: got 'cross='", code=2)
        self.refused(*model, translation(), *text, "--cost", says="give one --model", code=2)
        self.refused(*model, "--train-sets", SOURCE, says="--train-sets", code=2)
        self.refused(*model, *text, "--output", F / "no" / "folder", says="--output")
        picture = [*model, "--source", "un"]
        self.refused(*picture, "--output", F / "head.png", says="pictures are SVG, expected a name that ends in .svg", code=2)
        self.refused(*picture, "--json", "--output", F / "head.svg", says="this call writes text or JSON", code=2)
        self.refused("--model", language("full"), "--source", "un", "--output", F / "head.svg",
                     says="this call writes text or JSON", code=2)
        self.refused("--model", language("full"), "--train-sets", TARGET, "--sweep", "cross=full", says="a language model has no",
                     code=2)

    def test_options_that_the_mode_does_not_read(self):
        model, text = ["--model", translation()], ["--train-sets", SOURCE, TARGET]
        picture = [*model, "--source", "un"]
        for options, wrong in ((picture, ["--unit", "piece"]), (picture, ["--tau", 2]), (picture, ["--lengths", 5]),
                               (picture, ["--cost-pairs", 20]), (picture, ["--mini-batch", 3]),
                               ([*model, *text], ["--layer", 1]), ([*model, *text], ["--head", 1]),
                               ([*model, *text], ["--beam-size", 3]), ([*model, *text], ["--lengths", 5]),
                               ([*model, *text, "--sweep", "full"], ["--by", "previous"]),
                               ([*model, *text, "--sweep", "full"], ["--draws", 3]),
                               ([*model, "--cost"], ["--source", "un"]), ([*model, "--cost"], ["--seed", 3]),
                               ([*model, "--cost"], ["--beam-size", 3]), ([*model, "--cost"], ["--cost-pairs", 30])):
            self.refused(*options, *wrong, says=f"{wrong[0]}: is for ", code=2)
        self.refused(*picture, "--target", "x", "--beam-size", 3, says="--beam-size: is for a translation of --source", code=2)
        self.refused("--model", translation(), translation(), "--source", "un", says="the picture of --source is of one model",
                     code=2)
        model = ["--model", language("full")]
        for options, wrong in (([*model, "--cost"], ["--source", "un"]), ([*model, "--cost"], ["--segment", 8]),
                               ([*model, "--cost"], ["--cost-units", 100]), ([*model, "--source", "un"], ["--mini-batch", 3]),
                               ([*model, "--train-sets", TARGET, "--sweep", "full"], ["--tau", 3])):
            self.refused(*options, *wrong, says=f"{wrong[0]}: is for ", code=2)

    def test_output_in_a_folder_that_may_not_change(self):
        folder = F / "fixed"
        folder.mkdir()
        folder.chmod(0o555)
        self.refused("--model", translation(), "--train-sets", SOURCE, TARGET, "--output", folder / "x", says="--output",
                     before=without_privilege())

    def test_text(self):
        empty, short = F / "empty", F / "short"
        empty.write_text("")
        short.write_text("a b\n")
        model = ["--model", translation()]
        self.refused(*model, "--train-sets", empty, empty, says="--train-sets: the text has no lines")
        self.refused(*model, "--cost", "--train-sets", short, short, says="expected 10 pairs at least")
        self.refused(*model, "--train-sets", SOURCE, TARGET, "--by", f"column:{F / 'none'}", says="none")
        self.refused(*model, "--train-sets", SOURCE, TARGET, "--by", f"column:{empty}", says="ends after line 0")
        wrong = F / "wrong"
        wrong.write_text("".join("X\n" for _ in range(PAIRS)))
        self.refused(*model, "--train-sets", SOURCE, TARGET, "--by", f"column:{wrong}", says=" entries; expected ")
        self.refused(*model, "--train-sets", short, short, "--by", f"column:{TARGET}", says=" entries; expected 2")

    def test_models(self):
        deeper = F / "deeper"
        arguments = PLACE.training(deeper, "--after-batches", 1, "--quiet")
        arguments[arguments.index("--dec-depth") + 1] = 2
        checked(*arguments)
        self.refused("--model", translation(), deeper, "--train-sets", SOURCE, TARGET,
                     says="expected models of one shape")
        self.refused("--model", translation(), language("full"), "--train-sets", SOURCE, TARGET, says="task")
        routed = translation("mixed", "--attention-encoder", "1*full;1*window(3)")
        self.refused("--model", translation(), routed, "--train-sets", SOURCE, TARGET, says="expected models of one shape")
        other = F / "other.spm"
        checked("vocab", "--train-sets", *PLACE.sides["train"], "--dim-vocabs", 299, "--output", other)
        arguments = PLACE.training(F / "other", "--after-batches", 1, "--quiet")
        checked(*[other if part == PLACE.vocab else part for part in arguments])
        self.refused("--model", translation(), F / "other", "--train-sets", SOURCE, TARGET, says="has another vocabulary than '")

    def test_language_models(self):
        model, text = language("full"), ["--train-sets", TARGET]
        other = language("full+topk(300)")
        self.refused("--model", model, other, *text, says="has other mechanisms than '")
        checked("analyze", "--model", model, other, *text, "--attention", "topk(2)", "--quiet")
        pieces = language("full+softmax", "--vocabs", PLACE.vocab)
        self.refused("--model", model, pieces, *text, says="has another vocabulary than '")
        short = language("softmax", "--segment-length", 20)
        self.refused("--model", model, short, *text, says=f"has --segment-length 20, but '{model}' has ")
        checked("analyze", "--model", model, short, *text, "--segment", 16, "--quiet")
        for options in ([], ["--sweep", "full"]):
            self.refused("--model", model, *text, "--segment", 2000, *options,
                         says="--segment: got 2,000; the model has learned positions for 1,024 units; expected at most as many")


if __name__ == "__main__":
    unittest.main(verbosity=2)

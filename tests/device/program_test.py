#!/usr/bin/env python3
"""The whole program on a stand-in for a GPU (stand_in.cc), beside the same commands on the CPU: what they train, write and
say is the same. The stand-in refuses what a GPU refuses: operators on tensors of both devices, and the host's eyes on the
device's memory."""
import array
import json
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import cli_caption_test as captions  # noqa: E402
import cli_image_test as images  # noqa: E402
import cli_tagging_test as tagging  # noqa: E402
import language_models as language  # noqa: E402
from fovea_program import Refusals, checked, run  # noqa: E402

STAND_IN = os.environ["FOVEA_STAND_IN"]
PLACE, F = language.PLACE, language.F
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+")
# float32 on both sides, in sums of another order, over a few updates; two digits are lost to the optimiser's quotients.
FLOAT, BFLOAT = 1e-4, 2e-2


def environment(**more):
    return {**os.environ, "LD_PRELOAD": STAND_IN, **more}


def on_device(*arguments, env=None, **options):
    return checked(*arguments, "--devices", 0, env=env or environment(), **options)


def numbers(text):
    return [float(x) for x in NUMBER.findall(text)]


class SameAsTheCpu(unittest.TestCase):
    def expect_close(self, got, want, tolerance, what=""):
        self.assertEqual(NUMBER.sub("#", got), NUMBER.sub("#", want), what)
        for x, y in zip(numbers(got), numbers(want)):
            self.assertLessEqual(abs(x - y), tolerance * max(1, abs(y)), (what, got, want))

    def expect_same(self, *arguments, tolerance=FLOAT, **options):
        """Returns what the command printed on the CPU."""
        want = checked(*arguments, **options).stdout
        self.expect_close(on_device(*arguments, **options).stdout, want, tolerance, arguments)
        return want

    def expect_same_training(self, make, name, *options, tolerance=FLOAT):
        """make(folder, *options) is a command of training. Returns the folders of both runs."""
        folders = F / f"{name}-cpu", F / f"{name}-device"
        options = ["--after-batches", 6, "--disp-freq", 1, "--save-freq", 6, *options]
        checked(*make(folders[0], *options))
        on_device(*make(folders[1], *options))
        costs = [[line["cost"] for line in map(json.loads, (folder / "log.jsonl").read_text().splitlines()) if "cost" in line]
                 for folder in folders]
        self.assertEqual(len(costs[0]), 6, costs)
        for got, want in zip(costs[1], costs[0]):
            self.assertLessEqual(abs(got - want), tolerance * abs(want), (name, costs))
        return folders


# Options of a model and of a training that reach other operators; each line is a training of translation.
MODELS = {
    "full": [],
    "window": ["--attention", "window(4)|global(1)", "--attention-cross", "full"],
    "random": ["--attention", "random(3)", "--attention-cross", "topk(3)"],
    "topk": ["--attention", "topk(3)"],
    "sparsemax": ["--attention", "sparsemax", "--transformer-dropout-attention", 0.2],
    "entmax": ["--attention", "entmax(1.5)", "--attention-cross", "entmax(learned)"],
    "rela": ["--attention", "rela-g"],
    "relu": ["--attention", "relu", "--attention-cross", "topk(4)+sparsemax"],
    "heads": ["--attention", "1*window(3);1*topk(2)", "--attention-cross", "full"],
    "shaw": ["--transformer-positions", "shaw(4)"],
    "alibi": ["--transformer-positions", "alibi"],
    "rotary": ["--transformer-positions", "rotary", "--transformer-heads-kv", 1],
    "transformer-xl": ["--transformer-positions", "transformer-xl"],
    "learned": ["--transformer-positions", "learned"],
    "span": ["--attention-decoder", "span(8,4)", "--span-loss", 0.01],
    "geglu": ["--transformer-ffn-activation", "geglu", "--transformer-norm-kind", "rms"],
    "swiglu": ["--transformer-ffn-activation", "swiglu", "--transformer-norm", "pre", "--transformer-dropout", 0.1],
    "dropout": ["--transformer-dropout", 0.1, "--transformer-dropout-ffn", 0.1, "--transformer-dropout-embedding", 0.1],
    "checkpointing": ["--gradient-checkpointing", "--transformer-dropout", 0.1],
    "adagrad": ["--optimizer", "adagrad", "--clip-norm-tensor", 0.1],
    "adafactor": ["--optimizer", "adafactor"],
    "smoothing": ["--exponential-smoothing", "1e-2", "--label-smoothing", 0.1, "--update-freq", 2],
    "ssru": ["--transformer-decoder-autoreg", "ssru"],
    "bfloat16": ["--precision", "bfloat16"],
}


def trained(name, make, *options):
    """The folder of a model trained on the CPU for a few updates, once."""
    path = F / f"device-{name}"
    if not path.exists():
        checked(*make(path, "--after-batches", 12, "--quiet", *options))
    return path


class Translation(SameAsTheCpu):
    def test_every_model_trains_and_translates_alike(self):
        text = "".join(PLACE.sides["test"][0].read_text().splitlines(keepends=True)[:8])
        for name, options in MODELS.items():
            with self.subTest(name):
                if name == "bfloat16":  # where other words may win by rounding
                    self.expect_same_training(PLACE.training, name, *options, tolerance=BFLOAT)
                    continue
                model, _ = self.expect_same_training(PLACE.training, name, *options)
                for search in (["--beam-size", 1], ["--beam-size", 3, "--n-best"]):
                    self.expect_same("translate", "--model", model, "--quiet", "--max-length", 8, *search, stdin=text)

    def test_other_commands_of_its_models(self):
        model, sides = PLACE.model(), PLACE.sides["test"]
        one = [sides[0].read_text().splitlines()[0], sides[1].read_text().splitlines()[0]]
        page = F / "device-report.html"
        for precision, tolerance in (("float32", FLOAT), ("bfloat16", BFLOAT)):
            self.expect_same("score", "--model", model, "--train-sets", *sides, "--quiet", "--precision", precision,
                             tolerance=tolerance)
        self.expect_same("align", "--model", model, "--train-sets", *sides, "--quiet")
        self.expect_same("analyze", "--model", model, "--quiet", "--train-sets", *sides)
        self.expect_same("analyze", "--model", model, "--quiet", "--source", one[0], "--target", one[1])
        on_device("report", "--model", model, "--train-sets", *sides, "--quiet", "--output", page)


class Language(SameAsTheCpu):
    def test_trains_scores_and_generates_alike(self):
        for name, options in {"full": [], "topk": ["--attention", "topk(4)", "--transformer-positions", "rotary"],
                              "memory": ["--memory-length", 16, "--transformer-positions", "transformer-xl"],
                              "routed": ["--attention", "1*blocks(8,1);1*routed(3,8)"],
                              "causal": ["--attention", "1*blocks(8,1);1*routed(3,8,causal)+topk(2)"],
                              "span": ["--attention", "span(16,4)", "--span-loss", 0.01]}.items():
            with self.subTest(name):
                model, _ = self.expect_same_training(language.training, f"language-{name}", *options)
                self.expect_same("score", "--model", model, "--train-sets", language.TEST, "--quiet")
                for choice in (["--temperature", 0], ["--seed", 3, "--top-k", 5, "--count", 3], ["--top-p", 0.9, "--seed", 4]):
                    self.expect_same("generate", "--model", model, "--quiet", "--prompt", "un ", "--max-length", 12, *choice)
                self.expect_same("analyze", "--model", model, "--quiet", "--train-sets", language.TEST)


class Others(SameAsTheCpu):
    def test_images(self):
        model, _ = self.expect_same_training(images.training, "image", "--attention", "1*local(6);1*strided(6)")
        self.expect_same("score", "--model", model, "--train-sets", images.VALID, "--quiet")
        drawn = {}
        for where, call in (("cpu", checked), ("device", on_device)):
            call("generate", "--model", model, "--quiet", "--seed", 2, "--output", F / f"drawn-{where}.png")
            drawn[where] = images.read_png(F / f"drawn-{where}.png")
        self.assertEqual(drawn["device"], drawn["cpu"])

    def test_captions(self):
        model, _ = self.expect_same_training(captions.training, "captions")
        self.expect_same("caption", "--model", model, "--features", captions.scenes() / "test.npy", "--quiet")

    def test_vectors_and_filters(self):
        model, sides = PLACE.model(), PLACE.sides["test"]
        self.expect_same("filter", "--model", model, "--train-sets", *sides, "--quiet", "--show", 3)
        lines, vectors = sides[0].read_text(), {}
        for where, call in (("cpu", checked), ("device", on_device)):
            output = F / f"vectors-{where}"
            call("embed", "--model", model, "--output", output, "--quiet", stdin=lines)
            data = output.read_bytes()
            begin = 8 + int.from_bytes(data[:8], "little")
            vectors[where] = data[:begin], array.array("f", data[begin:])
        self.assertEqual(vectors["device"][0], vectors["cpu"][0])
        for got, want in zip(vectors["device"][1], vectors["cpu"][1], strict=True):
            self.assertLessEqual(abs(got - want), FLOAT * max(1, abs(want)))

    def test_labels(self):
        tagging.Tagging.setUpClass()
        model, _ = self.expect_same_training(tagging.train, "labels")
        self.expect_same("score", "--model", model, "--train-sets", tagging.F / "valid", "--quiet")
        self.expect_same("tag", "--model", model, "--quiet", stdin="ama to Amax City ,\n")


class Refused(Refusals):
    def test_a_device_that_is_not_there(self):
        for command in (PLACE.training(F / "none", "--after-batches", 2), ["translate", "--model", PLACE.model()]):
            self.refused(*command, "--devices", 0, says="--devices 0: libtorch sees no CUDA device; use --devices cpu")
        self.assertFalse((F / "none").exists())

    def test_int8(self):
        says = "--precision int8 runs on the CPU, but --devices is 0; use --devices cpu, or --precision bfloat16"
        for command in (["translate", "--model", PLACE.model()],
                        ["generate", "--model", trained("bytes", language.training), "--prompt", "a"]):
            self.refused(*command, "--devices", 0, "--precision", "int8", code=2, says=says, env=environment())

    def test_narrow_caches(self):
        self.refused("generate", "--model", trained("bytes", language.training), "--prompt", "a", "--devices", 0,
                     "--cache-precision", "int8", says="expected layers with full attention on the CPU", env=environment())

    def test_a_type_that_the_device_lacks(self):
        self.refused("translate", "--model", PLACE.model(), "--devices", 0, "--precision", "bfloat16", stdin="a\n",
                     env=environment(FOVEA_TEST_DEVICE_WITHOUT="BFloat16"),
                     says="cannot compute with numbers of the type BFloat16; use --precision float32, or --devices cpu")

    def test_no_memory(self):
        folder = F / "no-memory"
        large = PLACE.training(folder, "--dim-emb", 64, "--transformer-dim-ffn", 4096, "--save-freq", 1, "--overwrite")
        on_device(*large, "--after-batches", 2, "--mini-batch-words", 100)
        last = (folder / "last").resolve()
        small = environment(FOVEA_TEST_DEVICE_MIB="4")
        self.refused(*large, "--after-batches", 20, "--mini-batch-words", 4000, "--devices", 0, env=small,
                     says=["out of memory", "--mini-batch", "--gradient-checkpointing"])
        self.assertEqual((folder / "last").resolve(), last)


if __name__ == "__main__":
    unittest.main()

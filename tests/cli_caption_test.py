#!/usr/bin/env python3
"""Captions from the command line, as a newcomer uses and misuses them."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from array_file import npy
from fovea_program import PROGRAM, Refusals, Workplace, checked, run

F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
RECIPES = pathlib.Path(__file__).resolve().parent.parent / "recipes"
SIZES = ["--dim-emb", 16, "--enc-depth", 1, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32,
         "--patch-size", 16, "--mini-batch", 8, "--learn-rate", "0.01", "--lr-warmup", 5, "--cpu-threads", 1]


def safetensors(tensors):
    """{name: (shape, floats)}"""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        begin = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header)
    text += " " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text.encode() + data


def write(name, content):
    path = F / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def scenes():
    """The folder of a few drawn scenes, once."""
    path = F / "scenes"
    if not path.exists():
        subprocess.run([sys.executable, RECIPES / "caption_scenes.py", path, "--train", "40", "--valid", "5", "--test", "6"], check=True)
        text = "".join(line.split("\t")[1] for line in (path / "train.tsv").read_text().splitlines(keepends=True))
        (path / "train.txt").write_text(text)
        checked("vocab", "--type", "word", "--train-sets", path / "train.txt", "--dim-vocabs", 500, "--output", path / "words.spm")
    return path


def training(model, *options, features=None, captions=None):
    return ["train", "--task", "caption", "--model", model, "--features", features or scenes() / "train.npy", "--captions",
            captions or scenes() / "train.tsv", "--vocabs", scenes() / "words.spm", *SIZES, *options]


def model():
    """The folder of a model trained for a few updates, once."""
    path = F / "model"
    if not path.exists():
        checked(*training(path, "--after-batches", 12, "--quiet"))
    return path


def caption(*arguments):
    return run("caption", "--cpu-threads", 1, "--quiet", "--model", model(), *arguments)


class Cut(unittest.TestCase):
    def test_an_array_that_is_cut_costs_no_update(self):
        features, folder = F / "cut.npy", F / "cut"
        whole = (scenes() / "train.npy").read_bytes()
        features.write_bytes(whole)
        command = training(folder, "--after-batches", 100000, "--save-freq", 100000, "--disp-freq", 1, features=features)
        with subprocess.Popen([PROGRAM, *map(str, command)], stderr=subprocess.PIPE, text=True) as process:
            log = []
            for line in process.stderr:
                log.append(line)
                if "Up. 3 " in line:
                    os.truncate(features, 1000)
        self.assertEqual(process.returncode, 1, log)
        errors = [line for line in log if line.startswith("Error")]
        self.assertEqual(len(errors), 1, log)
        self.assertIn("cut.npy' was cut while it was in use", errors[0])
        updates = int((folder / "last").resolve().name.removeprefix("update-"))
        self.assertEqual(updates, sum(" : Up. " in line for line in log))
        self.assertGreaterEqual(updates, 3)
        features.write_bytes(whole)
        log = checked(*training(folder, "--after-batches", updates + 1, features=features)).stderr
        self.assertIn(f"resuming after update {updates}", log)
        self.assertNotIn("Warning", log)


class Use(unittest.TestCase):
    def test_scenes_are_drawn_as_promised(self):
        again = F / "again"
        subprocess.run([sys.executable, RECIPES / "caption_scenes.py", again, "--train", "40", "--valid", "5", "--test", "6"], check=True)
        for file in sorted(again.iterdir()):
            self.assertEqual(file.read_bytes(), (scenes() / file.name).read_bytes(), file.name)
        held_out = ["red triangle", "blue circle", "green cross", "yellow square", "purple circle"]
        shows = lambda name: [any(look in line for look in held_out) for line in (scenes() / name).read_text().splitlines()]
        self.assertTrue(all(shows("heldout.tsv")))
        self.assertFalse(any(shows("train.tsv") + shows("valid.tsv") + shows("test.tsv")))

    def test_train_caption_and_evaluate(self):
        log = checked(*training(F / "use", "--after-batches", 12, "--valid-freq", 6, "--valid-features", scenes() / "valid.npy",
                                "--valid-captions", scenes() / "valid.tsv", "--attention", "topk(2)", "--sparsify", "train")).stderr
        self.assertIn("[data] 200 captions of 40 images, ", log)
        for measure in ("ce-mean-words", "coco-bleu", "cider"):
            self.assertEqual(log.count(f" : {measure} : "), 2, log)
        said = checked("caption", "--model", F / "use", "--features", scenes() / "test.npy", "--cpu-threads", 1)
        self.assertEqual(len(said.stdout.splitlines()), 6)
        self.assertRegex(said.stderr, r"wrote captions of 6 images in [\d.]+ s")
        references = [scenes() / f"test.ref.{i}" for i in range(1, 6)]
        report = checked("evaluate", "--metrics", "cider", "coco-bleu", "--reference", *references, stdin=said.stdout).stdout
        self.assertRegex(report, r"^COCO-BLEU\|nrefs:5\|case:mixed\|tok:none = [\d.]+ .*\n +CIDEr\|nrefs:5\|case:mixed\|tok:none = [\d.]+\n$")

    def test_the_beam(self):
        images = scenes() / "test.npy"
        greedy = caption("--features", images, "--beam-size", 1)
        self.assertEqual((greedy.stderr, len(greedy.stdout.splitlines())), ("", 6))
        best = caption("--features", images, "--n-best", "--beam-size", 3, "--length-penalty", "gnmt", "--normalize", 0.6)
        self.assertEqual(len(best.stdout.splitlines()), 18)
        self.assertRegex(best.stdout.splitlines()[3], r"^1 \|\|\| .* \|\|\| F0= -[\d.]+ \|\|\| -[\d.]+$")
        short = caption("--features", images, "--max-length", 2, "--output", F / "short")
        self.assertEqual(short.stdout, "")
        self.assertTrue(all(len(line.split()) <= 2 for line in (F / "short").read_text().splitlines()))
        for precision in ("int8", "bfloat16"):
            self.assertEqual(len(caption("--features", images, "--precision", precision, "--attention", "full").stdout.splitlines()), 6)

    def test_features_with_karpathys_captions(self):
        tensors = {str(100 + i): ([1 + i % 2, 3], [i + j / 7 for j in range(3 * (1 + i % 2))]) for i in range(6)}
        features = write("f.safetensors", safetensors(tensors))
        images = [{"cocoid": 100 + i, "split": ["train", "restval", "val"][i % 3],
                   "sentences": [{"tokens": ["a", "red", "circle"], "raw": "A red circle."}] * 2} for i in range(6)]
        captions = write("dataset.json", json.dumps({"images": images}))
        log = checked(*training(F / "karpathy", "--after-batches", 4, "--valid-captions", captions, "--valid-freq", 2,
                                features=features, captions=captions)).stderr
        self.assertIn("[data] 8 captions of 4 images, 32 tokens", log)
        self.assertIn("[data] 4 captions of 2 images, 16 tokens", log)
        ids = write("ids", "105\n101\n")
        said = checked("caption", "--model", F / "karpathy", "--features", features, "--image-ids", ids, "--cpu-threads", 1)
        self.assertEqual(len(said.stdout.splitlines()), 2)
        self.assertNotIn("in the order of", said.stderr)
        said = checked("caption", "--model", F / "karpathy", "--features", features, "--cpu-threads", 1)
        self.assertIn("captions in the order of the file's tensors: 100, 101, 102 ...; --image-ids gives another order", said.stderr)

    def test_coco_with_an_array(self):
        features = write("coco.npy", npy((2, 2, 3), struct.pack("<12f", *range(12)), "<f4"))
        ids = write("coco.ids", "57\n9\n")
        captions = write("captions_train.json", json.dumps({"annotations": [{"image_id": 57, "id": 1, "caption": "a red circle"}]}))
        log = checked(*training(F / "coco", "--after-batches", 2, "--image-ids", ids, features=features, captions=captions)).stderr
        self.assertIn("left out 1 image without captions in --captions", log)


class BadInput(Refusals):
    def test_a_pattern_for_every_attention(self):
        said = checked(*training(F / "pattern", "--attention", "window(4)+topk(2)", "--after-batches", 1)).stderr
        self.assertIn("cross-attention uses 'topk(2)' for --attention 'window(4)+topk(2)'", said)
        self.refuse(2, "'window' compares the positions", *training(F / "no", "--attention-cross", "window(4)"))

    def test_features(self):
        whole = safetensors({"0": ([1, 3], [1, 2, 3])})
        cases = [("double.npy", npy((1, 1, 3), bytes(24), "<f8"), "an array of type '<f8'; expected '<f4', which is float32"),
                 ("flat.npy", npy((3,), bytes(12), "<f4"), "an array of the shape [3]; expected [images, regions, width]"),
                 ("cut.npy", npy((2, 1, 3), bytes(12), "<f4"), "the header says [2, 1, 3], but the file has 12 bytes of values"),
                 ("hostile.npy", npy((1 << 62, 1 << 12, 1 << 12), b"", "<f4"), "the header says"),
                 ("fortran.npy", npy((1, 1, 1), bytes(4), "<f4", True), "an array in Fortran's order"),
                 ("integers.npy", npy((1, 1, 1, 3), bytes(12), "<i4"), "an array of type '<i4'; expected '|u1'"),
                 ("cut.safetensors", whole[:-1], "cut.safetensors'"), ("empty.safetensors", b"", "the file is empty"),
                 ("none.safetensors", safetensors({}), "has no tensor; expected one for each image"),
                 ("nan.safetensors", safetensors({"0": ([1, 1], [float("nan")])}), "are not all finite"),
                 ("flat.safetensors", safetensors({"0": ([3], [1, 2, 3])}), "expected F32 [regions, width]"),
                 ("text.png", b"text", "its first byte is 116; expected PNG, .npy")]
        captions = write("one.tsv", "0\ta red circle\n")
        for name, content, expected in cases:
            self.refuse(1, expected, *training(F / "no", "--after-batches", 1, features=write(name, content), captions=captions))
        self.refuse(1, "--features: no such file", *training(F / "no", features=F / "gone"))
        both = [write("a.safetensors", whole), scenes() / "train.npy"]
        self.refuse(1, "are of different kinds", "caption", "--model", model(), "--features", *both)

    def test_captions(self):
        cases = [("no tab\n", "line 1 is 'no tab'; expected an image's id, a tab and a caption"), ("", "the file is empty"),
                 (b"\xff\t\xfe\n", "is not UTF-8 text"), ('{"images": [', "is not JSON"), ('{"a":' * 150, "is nested too deeply"),
                 ("{}", "is JSON without captions"), ('{"annotations": [{"caption": "a"}]}', "annotation 1 has no id"),
                 ("77\ta red circle\n", "1 caption of images that are not there, first '77'; the images are '0' to '39'"),
                 ("0\t\n", "has no usable caption")]
        for content, expected in cases:
            self.refuse(1, expected, *training(F / "no", captions=write("bad", content)))
        ids = write("ids", "1\n1\n")
        self.refuse(1, "has 2 ids, but there are 40 images", *training(F / "no", "--image-ids", ids))
        self.refuse(1, "--captions: no such file", *training(F / "no", captions=F / "gone"))

    def test_options(self):
        self.refuse(2, "--features is missing", "train", "--task", "caption", "--model", F / "nowhere")
        self.refuse(2, "--features is missing", "caption", "--model", model())
        self.refuse(2, "--model is missing", "caption", "--features", scenes() / "test.npy")
        arguments = training(F / "no")
        arguments[arguments.index("--patch-size") + 1] = 5
        self.refuse(1, "cannot be cut into patches of 5x5", *arguments)
        other = write("other.npy", npy((1, 16, 16, 3), bytes(768)))
        self.refuse(1, "got images of 16x16x3 (height x width x channels), but the model reads images of 32x32x3",
                    "caption", "--model", model(), "--features", other)
        features = write("wide.npy", npy((1, 1, 3), bytes(12), "<f4"))
        self.refuse(1, "got features of width 3, but the model reads images of 32x32x3", "caption", "--model", model(), "--features", features)

    def test_models_of_other_tasks(self):
        place = Workplace()
        self.refuse(1, "is a model of the task translation; expected one of the task caption", "caption", "--model", place.model(),
                    "--features", scenes() / "test.npy")
        self.refuse(1, "is a model of the task caption; expected one of the task translation", "translate", "--model", model())


if __name__ == "__main__":
    unittest.main(verbosity=2)

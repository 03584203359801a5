#!/usr/bin/env python3
"""Five tiny trainings, one of each task, give the losses and the outputs of commands that golden.json keeps.

Initial weights, dropout, the order of the data and random(k) are functions of seeds and numbers, and the trainings use a
thread and the portable kernels. Machines then differ in the last bits of exp, log, sin and cos alone.

FOVEA_GOLDEN=FILE names exact values of this machine instead: the test writes the file if it is not there, and else compares
every digit, and a checksum of all weights. Record it before a change that is to keep every bit, and compare after it.
"""
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import tempfile
import unittest

from array_file import npy
from fovea_program import checked

RECORDED = pathlib.Path(__file__).resolve().parent / "golden.json"
EXACT = os.environ.get("FOVEA_GOLDEN")
PORTABLE = os.environ | {"FOVEA_CPU": "portable", "ATEN_CPU_CAPABILITY": "default"}
# A share of the value. The best instruction sets, which sum in another order, differ from the portable ones by 1e-7 of a
# loss after ten updates; another initial weight, dropout mask or seed of random(k) by 1e-3 and more.
TOLERANCE = 1e-5

SIZES = ["--dim-emb", 16, "--transformer-heads", 2, "--transformer-dim-ffn", 24, "--transformer-dropout-attention",
         0.1, "--transformer-dropout-ffn", 0.1, "--cpu-threads", 1, "--learn-rate", 0.01, "--lr-warmup", 4, "--lr-decay", "none",
         "--after-batches", 10, "--disp-freq", 1, "--valid-freq", 5, "--quiet"]
SOURCE = "the a man woman dog who sees and hears while he runs to of red house .".split()
TARGET = "der die mann frau hund sieht hört weil rennt nach rotes haus .".split()
VERSION = "|version:" + checked("--version").stdout.split()[1]
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")

# The task, its options of training, and the command whose output is kept, with its standard input.
TASKS = {
    "translation": (
        ["--enc-depth", 3, "--dec-depth", 2, "--train-sets", "train.src", "train.trg", "--valid-sets", "valid.src", "valid.trg",
         "--vocabs", "src.spm", "trg.spm", "--mini-batch-words", 200, "--valid-metrics", "ce-mean-words", "--tied-embeddings",
         "--attention-encoder", "mix(full,clause(1),clause(2))", "--attention-decoder", "window(4)|random(2)", "--attention-layers",
         "encoder.2=rela-g", "cross.2=random(3)", "--transformer-positions", "learned+rotary", "--clause-flags"],
        ["translate", "--beam-size", 3, "--n-best"], "valid.src"),
    "language": (
        ["--dec-depth", 2, "--train-sets", "train.src", "--valid-sets", "valid.src", "--vocabs", "bytes", "--mini-batch", 4,
         "--segment-length", 24, "--memory-length", 8, "--transformer-positions", "shaw(4)", "--tied-embeddings",
         "--gradient-checkpointing", "--attention", "1*local(6);1*routed(2,4,causal)"],
        ["score", "--train-sets", "valid.src"], None),
    "image": (
        ["--dec-depth", 2, "--train-sets", "train.npy", "--valid-sets", "valid.npy", "--mini-batch", 2, "--crop", 3, 4, "--flip",
         "--attention", "1*random(4);1*fixed(6,2)+entmax(1.5)", "--attention-layers", "decoder.2=span(10,4)", "--span-start", 0.5,
         "--attention-seed", 3, "--transformer-norm", "post", "--transformer-norm-kind", "layer"],
        ["score", "--train-sets", "valid.npy"], None),
    "tagging": (
        ["--enc-depth", 2, "--train-sets", "train.conll", "--valid-sets", "valid.conll", "--vocabs", "src.spm", "--mini-batch", 8,
         "--valid-metrics", "accuracy", "--embedding-norm", "--token-types", 2, "--transformer-positions", "learned",
         "--max-positions", 32, "--attention", "topk(3)+relu", "--attention-layers", "encoder.2=mix(full,clause(1),token)"],
        ["tag"], "valid.conll"),
    "caption": (
        ["--enc-depth", 2, "--dec-depth", 2, "--features", "train.npy", "--captions", "train.tsv", "--valid-features", "valid.npy",
         "--valid-captions", "valid.tsv", "--vocabs", "trg.spm", "--mini-batch", 4, "--patch-size", 2, "--valid-metrics",
         "ce-mean-words", "--attention", "random(3)", "--attention-cross", "topk(4)", "--tied-embeddings"],
        ["caption", "--features", "valid.npy", "--n-best", "--beam-size", 3, "--normalize", 2], None),
}


class Draw:
    """Choices that every version of Python makes alike, which promises that of random() alone."""

    def __init__(self, seed):
        self.number = random.Random(seed).random

    def below(self, limit):
        return int(self.number() * limit)

    def words(self, known):
        return [known[self.below(len(known))] for _ in range(4 + self.below(9))]


def write_data(folder):
    (folder / "src.words").write_text(" ".join(SOURCE) + "\n")
    (folder / "trg.words").write_text(" ".join(TARGET) + "\n")
    checked("vocab", "--type", "word", "--clause-flags", "--train-sets", "src.words", "--output", "src.spm", cwd=folder)
    checked("vocab", "--type", "word", "--train-sets", "trg.words", "--output", "trg.spm", cwd=folder)
    for seed, (name, count) in enumerate((("train", 60), ("valid", 6))):
        draw = Draw(seed)
        source, target = ([draw.words(known) for _ in range(count)] for known in (SOURCE, TARGET))
        for side, sentences in (("src", source), ("trg", target)):
            (folder / f"{name}.{side}").write_text("".join(" ".join(words) + "\n" for words in sentences))
        (folder / f"{name}.conll").write_text("".join(
            "".join(f"{word} {'I-NOUN' if len(word) > 3 else 'O'}\n" for word in words) + "\n" for words in source))
        images = count // 3
        (folder / f"{name}.npy").write_bytes(npy((images, 4, 6, 1), bytes(draw.below(40) + 5 * (i % 6) for i in range(24 * images))))
        (folder / f"{name}.tsv").write_text("".join(f"{i % images}\t{' '.join(words)}\n" for i, words in enumerate(target)))


def weights_of(checkpoint):
    """A checksum of the names and values of all weights."""
    lines = (checkpoint / "checksums.yml").read_text().splitlines()
    return hashlib.sha256("\n".join(line for line in lines if line.startswith("model.safetensors/")).encode()).hexdigest()


def losses_of(run):
    """The loss of each update and of each validation."""
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [record["cost" if record["event"] == "train" else "value"] for record in records if record["event"] in ("train", "valid")]


class Golden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-golden-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        write_data(cls.folder)

    def made(self, task):
        options, command, text = TASKS[task]
        run = self.folder / task
        checked("train", "--task", task, "--model", run, *SIZES, *options, cwd=self.folder, env=PORTABLE)
        output = checked(*command, "--model", run, "--cpu-threads", 1, "--quiet", cwd=self.folder, env=PORTABLE,
                         stdin=(self.folder / text).read_text() if text else "").stdout
        return {"losses": losses_of(run), "output": output.replace(VERSION, "").splitlines(), "weights": weights_of(run / "last")}

    def assert_close(self, got, wanted, what):
        self.assertEqual(len(got), len(wanted), what)
        for a, b in zip(got, wanted):
            self.assertLessEqual(abs(a - b), TOLERANCE * max(1, abs(b)), f"{what}: {got}, expected {wanted}")

    def test_every_task(self):
        recorded = pathlib.Path(EXACT) if EXACT else RECORDED
        made = {task: self.made(task) for task in TASKS}
        if EXACT and not recorded.exists():
            recorded.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
        for task, wanted in json.loads(recorded.read_text()).items():
            with self.subTest(task):
                got = made[task]
                if EXACT:
                    self.assertEqual(got, wanted)
                    continue
                self.assert_close(got["losses"], wanted["losses"], "losses")
                texts, numbers = ([re.findall(NUMBER, line) for line in lines] for lines in (got["output"], wanted["output"]))
                self.assertEqual([re.sub(NUMBER, "#", line) for line in got["output"]],
                                 [re.sub(NUMBER, "#", line) for line in wanted["output"]])
                for a, b in zip(texts, numbers):
                    self.assert_close(list(map(float, a)), list(map(float, b)), "numbers of the output")


if __name__ == "__main__":
    unittest.main(verbosity=2)

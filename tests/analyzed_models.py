"""The models that the tests of `fovea analyze` share, and how they call it."""
import json
import re

from attention_oracle import HEADS, SEGMENT, WIDTH
from fovea_program import Workplace, checked

PLACE = Workplace()
F = PLACE.folder
SOURCE, TARGET = PLACE.sides["test"]
PAIRS = 50


def translation(name="model", *options):
    """The folder of a translation model trained for a few updates, once."""
    path = F / name
    if not path.exists():
        checked(*PLACE.training(path, "--after-batches", 20, "--quiet", *options))
    return path


def language(attention, *options):
    path = F / ("language-" + re.sub(r"\W", "-", attention))
    if not path.exists():
        checked("train", "--task", "language", "--model", path, "--train-sets", TARGET, "--vocabs", "bytes",
                "--segment-length", SEGMENT, "--dim-emb", WIDTH, "--dec-depth", 2, "--transformer-norm", "post", "--transformer-heads", HEADS,
                "--transformer-dim-ffn", 16, "--mini-batch", 8, "--learn-rate", "0.02", "--lr-warmup", 2, "--cpu-threads", 1,
                "--after-batches", 8, "--quiet", "--attention", attention, "--transformer-positions", "learned", *options)
    return path


def analyze(model, *options, **more):
    return checked("analyze", "--model", *(model if isinstance(model, list) else [model]), "--cpu-threads", 1, "--quiet",
                   *options, **more).stdout


def records(model, *options, sides=(SOURCE, TARGET)):
    found = json.loads(analyze(model, "--train-sets", *sides, "--json", *options))
    return {(r["kind"], r["layer"], r["head"]): r for r in found["records"]}

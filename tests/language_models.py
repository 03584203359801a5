"""Small language models that tests of the command line share."""
from fovea_program import Workplace, checked, run

PLACE = Workplace()
F = PLACE.folder
TEXT, VALID, TEST = PLACE.sides["train"][1], PLACE.sides["valid"][1], PLACE.sides["test"][1]
SIZES = ["--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32,
         "--mini-batch", 8, "--learn-rate", "0.01", "--lr-warmup", 5, "--cpu-threads", 1]


def training(model, *options, vocabs="bytes", text=TEXT, segment=32):
    return ["train", "--task", "language", "--model", model, "--train-sets", text, "--vocabs", vocabs,
            "--segment-length", segment, *SIZES, *options]


def made(name, *options, **data):
    """The folder of a model trained for a few updates, once."""
    path = F / name
    if not path.exists():
        checked(*training(path, "--after-batches", 12, "--quiet", *options, **data))
    return path


def of_bytes():
    return made("bytes")


def of_pieces():
    return made("pieces", vocabs=PLACE.vocab)


def write(name, content):
    path = F / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def generate(*arguments, **options):
    return run("generate", "--cpu-threads", 1, "--quiet", *arguments, **options)


def score(*arguments, **options):
    return run("score", "--cpu-threads", 1, "--quiet", *arguments, **options)

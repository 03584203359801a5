"""Training and decoding of the Multi30k tiny model against the same model in eager PyTorch modules."""
import hashlib
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys

from timing import timing_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOVEA = ROOT / "build" / "release" / "bin" / "fovea"
SOURCE_WORDS = 13  # of a sentence to translate; </s> makes 14 pieces
STEPS = SOURCE_WORDS + 2  # of a translation as long as its source, and its </s>
MAX_LENGTH = 256  # pieces; neither side trains on longer sentences


def made_up_text(folder, lines=20000):
    """Parallel text whose sentences have 5 to 21 words, each word about a piece of a vocabulary of 10,000."""
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [a + b + c for a in letters for b in letters for c in letters][:9000]
    draw.shuffle(words)
    weights = [1 / (rank + 20) for rank in range(len(words))]
    for side in ("source", "target"):
        sentences = (" ".join(draw.choices(words, weights, k=5 + i * 7 % 17)) for i in range(lines))
        (folder / f"{side}.txt").write_text("\n".join(sentences) + "\n")
    sentence = (" ".join(draw.choices(words, weights, k=SOURCE_WORDS)) for _ in range(10 * 64))
    (folder / "long.txt").write_text("\n".join(sentence) + "\n")


def run(*command, threads):
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment)
    done.check_returncode()
    return done


def make_vocabulary(folder, corpus):
    """Named after the text: the folder outlives a run, and the next one may be on another corpus."""
    text = hashlib.sha256(b"".join(path.read_bytes() for path in corpus)).hexdigest()
    vocab = folder / f"joint-{text[:12]}.spm"
    if not vocab.exists():
        run(FOVEA, "vocab", "--type", "bpe", "--dim-vocabs", 10000, "--train-sets", *corpus, "--output", vocab, threads=1)
    return vocab


def write_lengths(folder, corpus, vocab):
    """The file of sentence lengths that the peer's batches are cut from, as ours are."""
    lengths = folder / "lengths.txt"
    lengths.write_text(run(FOVEA.with_name("piece_counts"), vocab, *corpus, MAX_LENGTH, threads=1).stdout)
    return lengths


def train_tiny(folder, corpus, vocab, *options, threads):
    return run(FOVEA, "train", "-c", ROOT / "recipes" / "multi30k-tiny.yml", "--model", folder / "model", "--overwrite",
               "--vocabs", vocab, vocab, "--train-sets", *corpus, "--valid-freq", 100000, "--save-freq", 100000,
               "--cpu-threads", threads, *options, threads=threads)


def train_fovea(folder, corpus, vocab, options):
    """Target pieces a second: the median over the log's lines but the first, which pays for loading."""
    done = train_tiny(folder, corpus, vocab, "--mini-batch-words", options.tokens, "--max-length", MAX_LENGTH,
                      "--after-batches", options.updates + 5, "--disp-freq", 5, "--precision", options.precision,
                      "--log-format", "json", threads=options.threads)
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    rates = [line["words_per_second"] for line in lines if line.get("event") == "train"][1:]
    return statistics.median(rates)


def make_untrained(folder, corpus):
    """After one update a model repeats itself to the last word allowed; after some dozen it ends every sentence at once."""
    vocab = make_vocabulary(folder, corpus)
    train_tiny(folder, corpus, vocab, "--mini-batch-words", 500, "--after-batches", 1, threads=1)


def trained_model(folder, threads):
    """A small model with 8 heads of 64, for its queries and keys: made once, and found again by later runs, which go on
    with one that was stopped."""
    model, corpus, vocab = folder / "trained", folder / "generated", folder / "generated.spm"
    sides = [corpus / "train.src", corpus / "train.trg"]
    if not vocab.exists():
        run(FOVEA, "corpus", "--generate", 20000, "--output", corpus, threads=1)
        run(FOVEA, "vocab", "--dim-vocabs", 1500, "--train-sets", *sides, "--output", vocab, threads=1)
    run(FOVEA, "train", "--model", model, "--train-sets", *sides, "--vocabs", vocab, vocab, "--dim-emb", 512,
        "--transformer-heads", 8, "--transformer-dim-ffn", 512, "--enc-depth", 1, "--dec-depth", 1,
        "--transformer-norm", "post", "--transformer-norm-kind", "layer", "--transformer-positions", "sinusoidal",
        "--transformer-ffn-activation", "relu", "--tied-embeddings-all", "--mini-batch-words", 1000,
        "--after-batches", 400, "--learn-rate", 0.0003, "--lr-warmup", 100,
        "--cpu-threads", threads, threads=threads)
    return model


def peer(task, options, *more):
    done = run(sys.executable, ROOT / "bench" / "eager_transformer.py", task, "--threads", options.threads, *more,
               threads=options.threads)
    return json.loads(done.stdout.splitlines()[-1])


class Options:
    def __init__(self, threads, precision="float32", tokens=4096, updates=20):
        self.threads, self.precision, self.tokens, self.updates = threads, precision, tokens, updates


def ratio_row(ours, theirs):
    """Rates of both sides; the spread is the greater of the two, in per cent."""
    mine, others = timing_of(ours), timing_of(theirs)
    return mine.seconds, others.seconds, {"times faster": mine.seconds / others.seconds,
                                          "spread %": 100 * max(mine.spread, others.spread)}


def training(folder, corpus, threads, quick):
    vocab = make_vocabulary(folder, corpus)
    lengths = write_lengths(folder, corpus, vocab)
    rows = []
    for precision in ("float32", "bfloat16"):
        for tokens in (4096,) if quick else (4096, 8192):
            options = Options(threads, precision, tokens, 10 if quick else 20)
            ours, theirs = [], []
            for _ in range(2 if quick else 3):
                ours.append(train_fovea(folder, corpus, vocab, options))
                theirs.append(peer("train", options, "--precision", precision, "--tokens", tokens, "--updates",
                                   options.updates, "--lengths", lengths)["tokens_per_second"])
            mine, others, ratio = ratio_row(ours, theirs)
            rows.append({"precision": precision, "batch tokens": tokens, "pieces/s": mine, "eager pieces/s": others, **ratio})
    return rows


def sentences_per_second(folder, options):
    """As the program tells it, without loading. Both sides make as many steps, the peer a fixed number of them."""
    done = run(FOVEA, "translate", "--model", folder / "model", "--beam-size", 5, "--mini-batch", 64, "--max-tokens", 100000,
               "--max-length-factor", 1, "--cpu-threads", options.threads, "--precision", options.precision, "--input",
               folder / "long.txt", "--output", folder / "out.txt", threads=options.threads)
    said = re.search(r"translated ([0-9,]+) lines, .* ([0-9,]+) target tokens in .* s \(([0-9.]+) lines/s", done.stderr)
    lines, tokens = (int(said[group].replace(",", "")) for group in (1, 2))
    if abs(tokens / lines - STEPS) > 0.05 * STEPS:
        raise ValueError(f"the translations have {tokens / lines:.1f} pieces on average; the peer makes {STEPS}")
    return float(said[3])


def decoding(folder, threads, quick):
    """With the model of make_untrained(); the peer computes in float32."""
    rows = []
    for count in dict.fromkeys((1, threads)):
        ours, theirs = {"float32": [], "int8": []}, []
        for _ in range(3 if quick else 5):
            for precision, rates in ours.items():
                rates.append(sentences_per_second(folder, Options(count, precision)))
            theirs.append(peer("decode", Options(count), "--steps", STEPS, "--updates", 4 if quick else 8)
                          ["sentences_per_second"])
        for precision, rates in ours.items():
            mine, others, ratio = ratio_row(rates, theirs)
            rows.append({"precision": precision, "threads": count, "beam": 5, "batch": 64, "sentences/s": mine,
                         "eager float32 sentences/s": others, **ratio})
    return rows

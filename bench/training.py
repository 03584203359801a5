"""Training and decoding of the Multi30k tiny model against the same model in eager PyTorch modules."""
import hashlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOVEA = ROOT / "build" / "release" / "bin" / "fovea"
SOURCE_WORDS = 13  # of a sentence to translate; </s> makes 14 pieces
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
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")
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


def train_fovea(folder, corpus, vocab, options):
    """Target pieces a second: the median over the log's lines but the first, which pays for loading."""
    done = run(FOVEA, "train", "-c", ROOT / "recipes" / "multi30k-tiny.yml", "--model", folder / "model", "--overwrite",
               "--vocabs", vocab, vocab, "--train-sets", *corpus, "--mini-batch-words", options.tokens,
               "--max-length", MAX_LENGTH, "--after-batches", options.updates + 5, "--disp-freq", 5,
               "--valid-freq", 100000, "--save-freq", 100000, "--precision", options.precision,
               "--cpu-threads", options.threads, "--log-format", "json", threads=options.threads)
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    rates = [line["words_per_second"] for line in lines if line.get("event") == "train"][1:]
    return statistics.median(rates)


def make_untrained(folder, corpus):
    """After one update a model repeats itself to the last word allowed; after some dozen it ends every sentence at once."""
    vocab = make_vocabulary(folder, corpus)
    run(FOVEA, "train", "-c", ROOT / "recipes" / "multi30k-tiny.yml", "--model", folder / "model", "--overwrite",
        "--vocabs", vocab, vocab, "--train-sets", *corpus, "--mini-batch-words", 500, "--after-batches", 1,
        "--valid-freq", 100000, "--save-freq", 100000, "--cpu-threads", 1, threads=1)


def peer(task, options, *more):
    done = run(sys.executable, ROOT / "bench" / "eager_transformer.py", task, "--threads", options.threads, *more,
               threads=options.threads)
    return json.loads(done.stdout.splitlines()[-1])


class Options:
    def __init__(self, threads, precision="float32", tokens=4096, updates=20):
        self.threads, self.precision, self.tokens, self.updates = threads, precision, tokens, updates


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
            ours, theirs = statistics.median(ours), statistics.median(theirs)
            rows.append({"precision": precision, "batch tokens": tokens, "pieces/s": ours, "eager pieces/s": theirs,
                         "times faster": ours / theirs})
    return rows


def seconds_to_translate(folder, model, lines, threads, precision):
    """Processor time does not tell what two threads bring, so this is the wall's; loading is taken off by the caller."""
    import time

    part = folder / "part.txt"
    part.write_text("\n".join((folder / "long.txt").read_text().splitlines()[:lines]) + "\n")
    start = time.perf_counter()
    run(FOVEA, "translate", "--model", model, "--beam-size", 5, "--mini-batch", 64, "--max-tokens", 100000,
        "--max-length-factor", 1, "--cpu-threads", threads, "--precision", precision, "--input", part,
        "--output", folder / "out.txt", "--quiet", threads=threads)
    passed = time.perf_counter() - start
    words, steps = len((folder / "out.txt").read_text().split()) / lines, SOURCE_WORDS + 1
    if not 0.9 * steps <= words <= 1.1 * steps:
        raise SystemExit(f"the translations have {words:.1f} words on average; the peer makes {steps}")
    return passed


def decoding(folder, threads, quick):
    """With the model of make_untrained() both sides make as many steps; `extra` sentences are timed as the difference
    between a long input and a short one. The peer computes in float32."""
    model, extra = folder / "model", 256 if quick else 512
    ours, theirs = {"float32": [], "int8": []}, []
    for _ in range(2 if quick else 3):
        for precision, rates in ours.items():
            both, first = (seconds_to_translate(folder, model, lines, threads, precision) for lines in (64 + extra, 64))
            rates.append(extra / (both - first))
        theirs.append(peer("decode", Options(threads), "--steps", SOURCE_WORDS + 1, "--updates", extra // 64)
                      ["sentences_per_second"])
    theirs = statistics.median(theirs)
    medians = {precision: statistics.median(rates) for precision, rates in ours.items()}
    return [{"precision": precision, "beam": 5, "batch": 64, "sentences/s": rate, "eager float32 sentences/s": theirs,
             "times faster": rate / theirs} for precision, rate in medians.items()]

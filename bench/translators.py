"""Translating with Fovea and with other programs for translation, CTranslate2 and Marian: the same weights, converted by
`fovea convert`, the same batches, the same search. Each peer runs in a process of its own, which loads its model before
anything is timed: translators.py ctranslate2|marian FOLDER OPTIONS-AS-JSON."""
import importlib.util
import itertools
import json
import pathlib
import re
import subprocess
import sys
import time

BATCH = {"tiny": 64, "base": 32}  # sentences
PACKAGES = {"ctranslate2": "ctranslate2", "marian": "pymarian"}
LINES = {"tiny": 384, "base": 64}
SHAPES = {"tiny": {"dim-emb": 128, "transformer-dim-ffn": 256, "transformer-heads": 4, "enc-depth": 4, "dec-depth": 4},
          "base": {"dim-emb": 512, "transformer-dim-ffn": 2048, "transformer-heads": 8, "enc-depth": 6, "dec-depth": 6}}


def missing(peer):
    """Why the peer cannot be measured, or nothing."""
    if importlib.util.find_spec(PACKAGES[peer]) is None:
        return f"the Python package {PACKAGES[peer]} is not installed; pip install {PACKAGES[peer]}"
    return None


class Setting:
    """The work of both sides."""

    def __init__(self, size, threads, beam, precision):
        self.size, self.threads, self.beam, self.precision = size, threads, beam, precision


# The models, made once in `folder` and found again by later runs. They have seen one update: such a model never ends a
# sentence, so all sides make translations as long as the source.


def training_files(folder):
    import training

    if not (folder / "long.txt").exists():
        training.made_up_text(folder)
    sides = folder / "source.txt", folder / "target.txt"
    return sides, training.make_vocabulary(folder, sides)


def ctranslate2_models(folder, size):
    """The peer's model for each precision, and Fovea's."""
    import training

    model, converted = folder / f"full-{size}", folder / f"ctranslate2-{size}"
    if not converted.exists():
        sides, vocab = training_files(folder)
        shape = [word for name, value in SHAPES[size].items() for word in (f"--{name}", value)]
        training.run(training.FOVEA, "train", "-c", training.ROOT / "recipes" / "multi30k-tiny.yml", "--model", model, "--overwrite",
                     "--attention", "full", "--train-sets", *sides, "--vocabs", vocab, vocab, *shape, "--mini-batch-words", 500,
                     "--after-batches", 1, "--save-freq", 100000, "--valid-freq", 100000, threads=1)
        training.run(training.FOVEA, "convert", "--to", "ctranslate2", model, "--output", converted, threads=1)
    return {"float32": converted, "int8": converted}, model


def marian_models(folder, size):
    """Marian trains its own model, because no program writes one for it; Fovea reads that."""
    import training

    own, packed, model = folder / f"marian-{size}.npz", folder / f"marian-{size}.int8.bin", folder / f"from-marian-{size}"
    if not model.exists():
        sides, vocab = training_files(folder)
        options = {"type": "transformer", "train-sets": sides, "vocabs": [vocab, vocab], "model": own, **SHAPES[size], "after": "1u",
                   "mini-batch-words": 500, "label-smoothing": 0.1, "tied-embeddings-all": "true", "cpu-threads": 1, "workspace": 1000,
                   "dim-vocabs": [10000, 10000], "max-length": 100, "seed": 1, "overwrite": "true", "quiet": "true"}
        written = [word for name, value in options.items() for word in (f"--{name}", *(value if isinstance(value, (list, tuple)) else [value]))]
        training.run(sys.executable, "-m", "pymarian", "train", *written, threads=1)
        training.run(sys.executable, "-m", "pymarian", "convert", "--from", own, "--to", packed, "--gemm-type", "intgemm8", threads=1)
        training.run(training.FOVEA, "convert", "--from", "marian", own, "--vocabs", vocab, vocab, "--output", model, threads=1)
    return {"float32": own, "int8": packed}, model


MODELS = {"ctranslate2": ctranslate2_models, "marian": marian_models}


def split_text(model, text):
    """Writes the pieces of each line beside the text, for peers that take pieces."""
    import training

    done = subprocess.run([training.FOVEA, "embed", "--model", model, "--pieces", "--quiet"], input=text.read_text(), capture_output=True,
                          text=True, check=True)
    text.with_suffix(".pieces").write_text(done.stdout.replace(" </s>", ""))


# The sides. Each gives the sentences a second for the whole text, and the translations.


def fovea_run(model, text, setting):
    import training

    output = text.with_suffix(".out")
    done = training.run(training.FOVEA, "translate", "--model", model, "--beam-size", setting.beam, "--mini-batch", BATCH[setting.size], "--max-tokens",
                        100000, "--max-length-factor", 1, "--cpu-threads", setting.threads, "--precision",
                        setting.precision, "--input", text, "--output", output, threads=setting.threads)
    said = re.search(r"translated [0-9,]+ lines, .* s \(([0-9.,]+) lines/s", done.stderr)
    return float(said[1].replace(",", "")), output.read_text().splitlines()


class Peer:
    """A process that translates the same text again and again."""

    def __init__(self, name, model, text, setting):
        options = {**vars(setting), "text": str(text)}
        command = [sys.executable, __file__, name, str(model), json.dumps(options)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.run()  # the first run of a batch is slower

    def run(self):
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise ValueError((self.process.communicate()[1].strip().splitlines() or ["the peer ended"])[-1])
        answer = json.loads(line)
        return len(answer["translations"]) / answer["seconds"], answer["translations"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def row(peer, models, model, text, setting, rounds):
    import training

    rate, ours_said = fovea_run(model, text, setting)
    other = Peer(peer, models[setting.precision], text, setting)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(fovea_run(model, text, setting)[0])
        found, theirs_said = other.run()
        theirs.append(found)
    other.close()
    mine, others, ratio = training.ratio_row(ours, theirs)
    same = sum(a == b for a, b in zip(ours_said, theirs_said)) / len(ours_said)
    return {"model": setting.size, "precision": setting.precision, "threads": setting.threads, "beam": setting.beam,
            "sentences/s": mine, f"{peer} sentences/s": others, **ratio, "same %": 100 * same}


def rows(peer, folder, threads, quick):
    found = []
    for size in LINES:
        models, model = MODELS[peer](folder, size)
        some = folder / f"{peer}-{size}.txt"
        some.write_text("".join(itertools.islice(itertools.cycle((folder / "long.txt").read_text().splitlines(True)), LINES[size])))
        split_text(model, some)
        for count, beam, precision in itertools.product(dict.fromkeys((1, threads)), (1, 5), ("float32", "int8")):
            found.append(row(peer, models, model, some, Setting(size, count, beam, precision), 2 if quick else 3))
    return found


# In the peer's process.


def timed(run):
    began = time.perf_counter()
    results = run()
    return time.perf_counter() - began, results


def ctranslate2_side(folder, options):
    import ctranslate2

    lines = [line.split() for line in pathlib.Path(options["text"]).with_suffix(".pieces").read_text().splitlines()]
    # Threads share each batch, or have batches of their own, whichever is faster.
    ways = [{"inter_threads": 1, "intra_threads": options["threads"]}, {"inter_threads": options["threads"], "intra_threads": 1}]
    translators = [ctranslate2.Translator(folder, device="cpu", compute_type=options["precision"], **way)
                   for way in (ways if options["threads"] > 1 else ways[:1])]
    # As many pieces as the source and its </s> have. One limit holds for a call, and most lines are as long as the middle one.
    length = sorted(map(len, lines))[len(lines) // 2] + 1

    def run(translator):
        return translator.translate_batch(lines, max_batch_size=BATCH[options["size"]], beam_size=options["beam"], length_penalty=1,
                                          disable_unk=True, min_decoding_length=length, max_decoding_length=length)

    for translator in translators:
        run(translator)  # the first run is slower
    best = min(translators, key=lambda translator: timed(lambda: run(translator))[0])
    return lambda: run(best), lambda results: ["".join(result.hypotheses[0]).replace("\u2581", " ").strip() for result in results]


def marian_side(model, options):
    import pymarian

    vocab = next(pathlib.Path(model).parent.glob("joint-*.spm"))
    translator = pymarian.Translator(
        f"--models {model} --vocabs {vocab} {vocab} --beam-size {options['beam']} --normalize 1 --mini-batch {BATCH[options['size']]} --maxi-batch 100 "
        f"--maxi-batch-sort src --max-length-factor 1 --cpu-threads {options['threads']} --workspace 512 --quiet "
        "--max-length 1000")
    text = pathlib.Path(options["text"]).read_text().rstrip("\n")
    return lambda: translator.translate(text), lambda result: result.split("\n")


def serve_runs(peer, model, options):
    run, texts = {"ctranslate2": ctranslate2_side, "marian": marian_side}[peer](model, options)
    for _ in sys.stdin:
        seconds, results = timed(run)
        print(json.dumps({"seconds": seconds, "translations": texts(results)}), flush=True)


if __name__ == "__main__":
    serve_runs(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))

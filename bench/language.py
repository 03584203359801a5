"""Training and generation with a language model of bytes against the same model in eager PyTorch modules."""
import json
import math
import re
import statistics
import subprocess
import sys

import torch

import eager_decoder
import inputs as made
import training as tools
from attention import kernel_of
from roof_share import least_seconds
from timing import timing_of

WIDTH, DEPTH, HEADS, INNER = 256, 4, 4, 1024
UPDATE_BYTES = 16384
SPECS = ["full", "topk(32)", "window(256)"]
LENGTHS, QUICK_LENGTHS = (512, 2048, 8192), (512, 2048)  # of segments
PROMPT, LENGTH = 100, 500  # bytes of a prompt, and to add to it


def train(text, model, *options, threads):
    """The log's objects. Nothing is saved or validated before the end."""
    done = tools.run(tools.FOVEA, "train", "--task", "language", "--vocabs", "bytes", "--dim-emb", WIDTH, "--dec-depth", DEPTH,
                     "--transformer-heads", HEADS, "--transformer-dim-ffn", INNER, "--transformer-ffn-activation", "gelu",
                     "--transformer-norm-kind", "layer", "--transformer-positions", "sinusoidal", "--transformer-dropout", 0.1,
                     "--learn-rate", 0.0003, "--lr-warmup", 4000,
                     "--model", model, "--overwrite", "--train-sets", text, "--valid-freq", 10**9, "--save-freq", 10**9,
                     "--log-format", "json", "--cpu-threads", threads, *options, threads=threads)
    return [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]


def peer(task, *options, threads):
    done = tools.run(sys.executable, tools.ROOT / "bench" / "eager_decoder.py", task, "--threads", threads, *options,
                     threads=threads)
    return json.loads(done.stdout.splitlines()[-1])


# The most that rounding may change between two float32 programs: a log-probability, and all gradients over their norm.
MOST_LOG_P, MOST_GRADIENT = 1e-5, 1e-5


def differences(folder, text, threads):
    """Compares both sides on one batch from the same weights, {name: difference}: logits by the log-probabilities of
    the text's first segment, the mean loss, the gradients. An update with a learning rate of nothing leaves the first
    weights, and its Adam holds a tenth of the gradient as the mean of all so far."""
    length, segments, rate = 128, 4, 1e-30
    model = folder / "agreement"
    log = train(text, model, "--mini-batch", segments, "--segment-length", length, "--after-batches", 1, "--disp-freq", 1,
                "--learn-rate", rate, "--lr-warmup", 0, "--clip-norm", 0, "--transformer-dropout", 0,
                threads=threads)
    cost = next(line["cost"] for line in log if line.get("event") == "train")
    peers = eager_decoder.load(model)
    ids, targets = eager_decoder.Batches(text, segments, length)(0)
    loss = peers.loss(ids, targets)
    loss.backward()
    gradients = {name: weight.grad for name, weight in peers.named_parameters()}
    means = made.read_tensors(model / "last" / "optimizer.safetensors", [f"mean/{name}" for name in gradients])
    squares = [((means[f"mean/{name}"] / 0.1 - grad) ** 2).sum().item() for name, grad in gradients.items()]
    norm = math.sqrt(sum((grad**2).sum().item() for grad in gradients.values()))

    first = folder / "agreement.txt"
    first.write_bytes(text.read_bytes()[:length])
    scored = tools.run(tools.FOVEA, "score", "--model", model, "--train-sets", first, "--level", "unit", "--context", length,
                       "--stride", length, "--quiet", threads=threads)
    ours = torch.tensor([float(line) for line in scored.stdout.split()])
    with torch.no_grad():
        theirs = peers(ids[:1]).log_softmax(-1)[0].gather(1, targets[0][:, None]).flatten()
    return {"log-probability": (ours - theirs).abs().max().item(), "loss": abs(cost - loss.item()),
            "gradients": math.sqrt(sum(squares)) / norm}


def require_same_model(folder, text, threads):
    found = differences(folder, text, threads)
    if not max(found["log-probability"], found["loss"]) < MOST_LOG_P or not found["gradients"] < MOST_GRADIENT:
        raise ValueError("the peer computes something else: " +
                         ", ".join(f"{name} differs by {value:.1e}" for name, value in found.items()))


def least_update_seconds(spec, precision, length, program, roof):
    """The least seconds of an update, by the method of roof_share: products with the weights, of which backward
    has two, attention, and Adam's bytes."""
    dtype = getattr(torch, precision)
    inputs = [x.to(dtype) for x in made.normal(length, HEADS, WIDTH // HEADS)]
    weights = DEPTH * (4 * WIDTH**2 + 2 * WIDTH * INNER) + eager_decoder.VOCABULARY * WIDTH
    products = 6 * weights * UPDATE_BYTES / roof[precision]
    kernel = kernel_of(program, spec, inputs, True, "both")
    attention, _ = least_seconds(spec, inputs, True, "both", kernel, roof)
    adam = 8 * 4 * weights / roof["bandwidth"]  # reads weight, gradient and two moments, writes all but the gradient; clears it
    return products + attention * DEPTH * (UPDATE_BYTES // length) + adam


def our_rates(folder, text, spec, length, precision, updates, threads):
    """Bytes a second of each update but the first two, by the log."""
    log = train(text, folder / "language", "--attention", spec, "--segment-length", length, "--mini-batch",
                UPDATE_BYTES // length, "--after-batches", updates + 2, "--disp-freq", 1, "--precision", precision,
                threads=threads)
    return [line["words_per_second"] for line in log if line.get("event") == "train"][2:]


def peer_rates(text, length, precision, updates, threads, *more):
    return peer("train", "--text", text, "--segments", UPDATE_BYTES // length, "--segment-length", length, "--precision",
                precision, "--updates", updates, *more, threads=threads)


def compiled_rates(*arguments):
    """None where torch.compile fails: it needs a C++ compiler, and PyTorch may not know the processor."""
    try:
        return peer_rates(*arguments, "--compile")["bytes_per_second"]
    except subprocess.CalledProcessError as error:
        print(f"bench: language: torch.compile fails: {(error.stderr or '').strip().splitlines()[-1:]}", file=sys.stderr)
        return None


def training_rows(folder, text, given, roof):
    rows, threads = [], given.threads
    require_same_model(folder, text, threads)
    updates, rounds = (3, 1) if given.quick else (5, 3)
    for length in QUICK_LENGTHS if given.quick else LENGTHS:
        for precision in ("float32", "bfloat16"):
            rates = {name: [] for name in (*SPECS, "eager", "compiled")}
            compiles = True
            for _ in range(rounds):
                for spec in SPECS:
                    rates[spec] += our_rates(folder, text, spec, length, precision, updates, threads)
                rates["eager"] += peer_rates(text, length, precision, updates, threads)["bytes_per_second"]
                more = compiled_rates(text, length, precision, updates, threads) if compiles else None
                compiles = more is not None
                rates["compiled"] += more or []
            for spec in SPECS:
                least = least_update_seconds(spec, precision, length, tools.FOVEA, roof)
                rows.append(training_row(spec, precision, length, rates, least))
    return rows


def training_row(spec, precision, length, rates, least):
    ours, eager = timing_of(rates[spec]), timing_of(rates["eager"])
    compiled = statistics.median(rates["compiled"]) if rates["compiled"] else math.nan
    return {"precision": precision, "segment": length, "mechanism": spec, "bytes/s": ours.seconds,
            "eager bytes/s": eager.seconds, "compiled bytes/s": compiled, "times faster": ours.seconds / eager.seconds,
            "than compiled": ours.seconds / compiled, "spread %": 100 * max(ours.spread, eager.spread),
            "share of roof": least * ours.seconds / UPDATE_BYTES}


def made_up_prompts(text, count):
    """Lines of the same number of bytes, out of the text."""
    flat = text.read_text().replace("\n", " ")
    return [flat[i * PROMPT : (i + 1) * PROMPT] for i in range(count)]


def our_generation(folder, model, prompts, precision, threads):
    """(bytes a second by the program's own clock, the new bytes of each prompt)"""
    output = folder / "generated.txt"
    done = tools.run(tools.FOVEA, "generate", "--model", model, "--input", prompts, "--output", output, "--max-length",
                     LENGTH, "--temperature", 0, "--precision", precision, "--cpu-threads", threads, threads=threads)
    rate = re.search(r"generated ([0-9,]+) bytes in .* s \(([0-9]+) per second\)", done.stderr)
    count = len(prompts.read_bytes().splitlines())
    if int(rate[1].replace(",", "")) != count * LENGTH:
        raise ValueError(f"generated {rate[1]} bytes, the peer {count * LENGTH}")
    texts = re.split(rb"\n?==> [0-9]+ of [0-9]+ <==\n", output.read_bytes())
    texts = texts[1:] if count > 1 else texts
    return float(rate[2]), [text[PROMPT : PROMPT + LENGTH] for text in texts]


def require_same_text(ours, peers):
    """Byte for byte up to the first where the peer's two best are all but equal, which rounding decides. Returns the
    share of bytes before it."""
    same = total = 0
    for mine, theirs, leads in zip(ours, peers["bytes"], peers["leads"], strict=True):
        theirs = bytes(theirs)
        total += len(theirs)
        differing = next((i for i in range(len(theirs)) if mine[i : i + 1] != theirs[i : i + 1]), len(theirs))
        same += differing
        if differing < len(theirs) and not leads[differing] < 1e-3:
            raise ValueError(f"the peer generates something else: byte {differing} differs, where its best leads by "
                             f"{leads[differing]:.1e}")
    return same / total


def generation_rows(folder, text, given, model):
    """`model`: a run of bytes, or None for a small one that is trained first."""
    threads, rows = given.threads, []
    if model is None:
        model = folder / "generating"
        train(text, model, "--segment-length", 512, "--mini-batch", 8, "--after-batches", 20 if given.quick else 100,
              "--learn-rate", 2e-3, "--lr-warmup", 20, threads=threads)
    for streams in (1, 64):
        prompts, output = folder / "prompts.txt", folder / "peer.json"
        prompts.write_text("".join(line + "\n" for line in made_up_prompts(text, streams)))
        ours, theirs = {"float32": [], "bfloat16": [], "int8": []}, {"sdpa": [], "products": []}
        for _ in range(3 if given.quick else 5):
            for precision, rates in ours.items():
                rate, texts = our_generation(folder, model, prompts, precision, threads)
                rates.append(rate)
                if precision == "float32":
                    exact = texts
            found = peer("generate", "--model", model, "--prompts", prompts, "--length", LENGTH, "--output", output,
                         threads=threads)
            for name, rates in theirs.items():
                rates.append(found["bytes_per_second"][name])
        same = require_same_text(exact, json.loads(output.read_text()))
        best = max(theirs.values(), key=statistics.median)
        for precision, rates in ours.items():
            mine, others, ratio = tools.ratio_row(rates, best)
            rows.append({"streams": streams, "precision": precision, "bytes/s": mine, "eager float32 bytes/s": others, **ratio,
                         "same bytes %": 100 * same if precision == "float32" else math.nan})
    return rows

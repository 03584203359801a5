"""Updates of the Multi30k model of recipes/multi30k-sweep.yml on a device: attention of the package beside
scaled_dot_product_attention in the same eager modules, in turns, and the program's own training if there is one for the
device."""
import json
import os
import pathlib
import subprocess
import tempfile
import time
from types import SimpleNamespace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import eager_transformer as eager
import fovea
from mechanisms import difference
from timing import timing_of
from waiting import wait

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPECS = ("full", "topk(8)", "sparsemax")
TOLERANCE = 1e-3  # of a loss and its gradients, relative to the norm: float32, through 20 sublayers


class Sizes:
    def __init__(self, quick):
        self.tokens, self.vocabulary, self.updates, self.turns = (200, 300, 4, 2) if quick else (4096, 10000, 200, 5)
        self.depth = 1 if quick else 4


class Sparse(eager.Attention):
    """The peer's module with attention of the package; masks are the lengths of the keys."""

    spec = "full"

    def attend(self, q, k, v, mask=None, causal=False):
        heads = fovea.attention(q, k, v, self.spec, causal=causal, cross=not causal, k_lengths=mask)
        return self.out(heads.transpose(1, 2).flatten(2))


def model_of(name, sizes, dropout, device):
    torch.manual_seed(1)
    attention = eager.Attention if name == "eager" else type("Sparse", (Sparse,), {"spec": name})
    return eager.Transformer(sizes.vocabulary, depth=sizes.depth, dropout=dropout, norm="pre", attention=attention).to(device)


def batch_on(batch, name, device):
    """The arguments of Transformer.loss(): the peer's mask of the source, or its lengths on the CPU."""
    source, mask, inputs, outputs, real = batch
    lengths = mask.sum(-1).flatten()
    return (source.to(device), mask.to(device) if name == "eager" else lengths, inputs.to(device), outputs.to(device),
            real.to(device))


def loss_and_gradients(model, name, batch, device):
    with sdpa_kernel(SDPBackend.MATH):  # the same sums on every device
        loss = model.loss(*batch_on(batch, name, device))
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))]


def first_rows(sizes, device):
    """The loss and the gradients of one small batch on the device, beside the CPU's, and full beside the peer's."""
    small = eager.make_batch([(9, 11), (14, 8), (6, 6), (20, 21)], sizes.vocabulary, torch.Generator().manual_seed(3))
    of_peer = loss_and_gradients(model_of("eager", sizes, 0, "cpu"), "eager", small, "cpu")
    for name in ("eager", *SPECS):
        want = of_peer if name == "full" else loss_and_gradients(model_of(name, sizes, 0, "cpu"), name, small, "cpu")
        got = loss_and_gradients(model_of(name, sizes, 0, device), name, small, device)
        worst = max((difference(a, b) for a, b in zip(got, want)), key=lambda x: float("inf") if x != x else x)
        yield {"model": name, "type": "float32", "updates": 1, "compared with": "eager, CPU" if name == "full" else "CPU",
               "loss": float(got[0]), "ms per update": "", "spread %": "", "times eager's": "",
               "difference": worst, "agrees": "yes" if worst <= TOLERANCE else "NO"}


class Side:
    """A model in training."""

    def __init__(self, name, sizes, precision, given):
        self.name, self.given = name, given
        self.is_bfloat16 = precision == "bfloat16"
        self.model = model_of(name, sizes, 0.3, given.torch_device).train()
        self.adam = torch.optim.Adam(self.model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-8, fused=not given.stand_in)
        self.seconds, self.losses = [], []

    def update(self, batch):
        with torch.autocast(self.given.torch_device, torch.bfloat16, enabled=self.is_bfloat16):
            loss = self.model.loss(*batch)
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()
        return loss.detach()

    def turn(self, batches):
        """The time of an update and the mean loss of these batches; the device is idle before and after."""
        there = [batch_on(batch, self.name, self.given.torch_device) for batch in batches]
        wait(self.given)
        start = time.perf_counter()
        losses = [self.update(batch) for batch in there]
        wait(self.given)
        self.seconds.append((time.perf_counter() - start) / len(batches))
        self.losses.append(float(torch.stack(losses).mean()))


def trained_rows(sizes, precision, given):
    """The sides take turns, each at the same batches."""
    wanted = SimpleNamespace(updates=sizes.updates - 2, lengths=None, tokens=sizes.tokens)
    batches = eager.make_batches(wanted, sizes.vocabulary)
    sides = [Side(name, sizes, precision, given) for name in ("eager", *SPECS)]
    share = sizes.updates // sizes.turns
    for side in sides:  # loads what the device needs, which is not measured
        side.turn(batches[:1])
        side.seconds.clear(), side.losses.clear()
    for first in range(0, sizes.updates, share):
        for side in sides:
            side.turn(batches[first:first + share])
        print(f"updates: {precision}, {first + share} of {sizes.updates}: "
              + ", ".join(f"{side.name} {1e3 * side.seconds[-1]:.1f} ms" for side in sides), flush=True)
    peer = timing_of(sides[0].seconds)
    for side in sides:
        mine = timing_of(side.seconds)
        falls = side.losses[-1] < side.losses[0]
        yield {"model": side.name, "type": precision, "updates": sizes.updates, "compared with": "its first updates",
               "loss": side.losses[-1], "ms per update": 1e3 * mine.seconds, "spread %": 100 * mine.spread,
               "times eager's": mine.seconds / peer.seconds, "difference": side.losses[-1] - side.losses[0],
               "agrees": "yes" if falls else "NO"}


def program_row(given, sizes, precision):
    """`fovea train --devices 0` on made-up text of like lengths; the median over the lines of its log but the first."""
    import training

    row = {"model": "fovea train, full", "type": precision, "updates": sizes.updates, "compared with": "", "loss": "",
           "ms per update": "", "spread %": "", "times eager's": "", "difference": ""}
    training.FOVEA = given.program
    environment = dict(os.environ, **({"LD_PRELOAD": given.stand_in} if given.stand_in else {}))
    share = sizes.updates // sizes.turns
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        training.made_up_text(folder, 400 if given.quick else 20000)
        corpus = [folder / "source.txt", folder / "target.txt"]
        command = [given.program, "train", "-c", ROOT / "recipes" / "multi30k-sweep.yml", "--model", folder / "model",
                   "--train-sets", *corpus, "--vocabs", folder / "joint.spm", folder / "joint.spm", "--valid-freq", 100000,
                   "--save-freq", 100000, "--mini-batch-words", sizes.tokens, "--enc-depth", sizes.depth, "--dec-depth", sizes.depth, "--after-batches", sizes.updates, "--disp-freq", share,
                   "--precision", precision, "--log-format", "json"]
        if given.device != "cpu":
            command += ["--devices", 0]
        vocabulary = [given.program, "vocab", "--type", "bpe", "--dim-vocabs", sizes.vocabulary, "--train-sets", *corpus,
                      "--output", folder / "joint.spm"]
        for step in (vocabulary, command):
            done = subprocess.run([str(x) for x in step], capture_output=True, text=True, env=environment)
            if done.returncode:
                said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
                return row | {"agrees": f"not measured: {said}"}
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    lines = [line for line in lines if line.get("event") == "train"]
    seconds = [line["seconds"] / share for line in lines][1:]
    timing = timing_of(seconds)
    falls = lines[-1]["cost"] < lines[0]["cost"]
    return row | {"compared with": "its first updates", "loss": lines[-1]["cost"], "ms per update": 1e3 * timing.seconds,
                  "spread %": 100 * timing.spread, "difference": lines[-1]["cost"] - lines[0]["cost"],
                  "agrees": "yes" if falls else "NO"}


def rows(given):
    sizes = Sizes(given.quick)
    yield from first_rows(sizes, given.torch_device)
    for precision in ("float32",) if given.quick or given.stand_in else ("float32", "bfloat16"):
        found = list(trained_rows(sizes, precision, given))
        yield from found
        if given.program:
            row = program_row(given, sizes, precision)
            if row["ms per update"]:
                row["times eager's"] = row["ms per update"] / found[0]["ms per update"]
            yield row

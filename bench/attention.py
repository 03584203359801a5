"""Attention against its peers: 8 heads of 64, batch 1."""
import json
import pathlib
import struct
import subprocess
import sys

import torch
import torch.nn.functional as F

import fovea
import peers
from timing import in_turns

HEADS, HEAD_DIM = 8, 64
SPECS = ["topk(32)", "window(256)", "sparsemax", "entmax(1.5)", "relu", "full"]


def normal_inputs(n, heads=HEADS, head_dim=HEAD_DIM):
    random = torch.Generator().manual_seed(n)
    return [torch.randn(1, heads, n, head_dim, generator=random) for _ in range(3)]


def bfloat16_inputs(n):
    return [x.bfloat16() for x in normal_inputs(n)]


def read_tensors(path, names):
    """float32 tensors of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    found = {}
    for name in names:
        if name in header:
            begin, end = header[name]["data_offsets"]
            values = torch.frombuffer(bytearray(data[8 + size + begin : 8 + size + end]), dtype=torch.float32)
            found[name] = values.view(header[name]["shape"])
    return found


def read_config(path):
    """The values of a checkpoint's config.yml, as texts without quotes."""
    lines = (line.partition(":") for line in pathlib.Path(path).read_text().splitlines())
    return {name: value.strip().strip('"') for name, _, value in lines}


def position_vectors(learned, n, width):
    """learned: [max_positions, width], or None for sinusoidal ones."""
    if learned is None:
        half = width // 2
        place = torch.arange(1, n + 1)[:, None] * torch.exp(torch.arange(half) * (-9.21034 / max(1, half - 1)))
        return torch.cat([place.sin(), place.cos()], -1)
    if n > learned.size(0):
        raise SystemExit(f"bench: --model has position vectors for {learned.size(0)} words, got a length of {n}; "
                         "give smaller --sizes")
    return learned[:n]


def trained_inputs(model, n):
    """q, k and v of the first encoder layer of a trained model, for n words drawn by Zipf's law: pieces are numbered
    about by frequency. A run's folder or a checkpoint."""
    folder = pathlib.Path(model)
    folder = next((folder / name for name in ("best", "last") if (folder / name).exists()), folder)
    block = "encoder.layers.0.self_attention"
    projection, norm = ([f"{block}{part}.{name}" for name in ("weight", "bias")] for part in (".qkv", "_norm"))
    tables = ["embeddings.weight", "encoder.embeddings.weight"]
    tensors = read_tensors(folder / "model.safetensors", [*tables, "encoder.positions.weight", *projection, *norm])
    table = next(tensors[name] for name in tables if name in tensors)
    width = table.size(1)
    config = read_config(folder / "config.yml")
    heads = int(config["transformer-heads"])
    random = torch.Generator().manual_seed(n)
    words = torch.exp(torch.rand(n, generator=random) * torch.log(torch.tensor(float(table.size(0))))).long() - 1
    x = table[words.clamp(min=2)] * width**0.5 + position_vectors(tensors.get("encoder.positions.weight"), n, width)
    if config["transformer-norm"] == "pre":
        x = F.layer_norm(x, (width,), *(tensors[name] for name in norm))
    qkv = F.linear(x, *(tensors[name] for name in projection))
    return [part.contiguous() for part in qkv.view(n, 3, heads, width // heads).permute(1, 2, 0, 3)[:, None]]


def forward(function, inputs):
    def run():
        with torch.no_grad():
            return function(*inputs)

    return run


def forward_backward(function, inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    grad = torch.randn_like(inputs[0])

    def run():
        torch.autograd.grad(function(*leaves), leaves, grad)

    return run


PASSES = {"forward": forward, "both": forward_backward}


def ours(spec, causal):
    return lambda q, k, v: fovea.attention(q, k, v, spec, causal=causal)


def pairs_of(spec, n, causal):
    if spec.startswith("window"):
        k = int(spec.removeprefix("window(").removesuffix(")"))
        offsets = range(1 - k, 1) if causal else range(-((k - 1) // 2), k // 2 + 1)
        return sum(max(0, n - abs(offset)) for offset in offsets)
    return n * (n + 1) // 2 if causal else n * n


def least_seconds(spec, q, causal, which, roof):
    """What the spec's own operations at the machine's peak, or its own bytes at its bandwidth, would take for q of
    [1, heads, n, head_dim]."""
    _, heads, n, head_dim = q.shape
    pairs = pairs_of(spec, n, causal) * heads
    if spec.startswith(("topk", "sparsemax", "entmax")):  # narrow scores of all pairs, then exact ones of a few
        operations = 2 * pairs * head_dim / roof["screening"]
    else:
        # Scores and gradients of weights are products of two inputs, the others of a weight or its gradient with one.
        of_inputs, of_weights = (2, 2) if which == "forward" else (6, 8)
        rate = roof["bfloat16" if q.dtype == torch.bfloat16 else "float32"]
        operations = (of_inputs / rate + of_weights / roof["float32"]) * pairs * head_dim
    moved = (4 if which == "forward" else 12) * heads * n * head_dim * q.element_size()
    return max(operations, moved / roof["bandwidth"])


def against_sdpa(sizes, seconds, roof, inputs_of, specs=SPECS):
    rows = []
    for n in sizes:
        for causal in (False, True):
            for which, make in PASSES.items():
                inputs = inputs_of(n)
                candidates = {"sdpa": make(peers.sdpa(causal), inputs)}
                candidates |= {spec: make(ours(spec, causal), inputs) for spec in specs}
                times = in_turns(candidates, seconds)
                for spec in specs:
                    rows.append({"n": n, "causal": causal, "pass": which, "mechanism": spec, "ms": 1e3 * times[spec],
                                 "SDPA ms": 1e3 * times["sdpa"], "times faster": times["sdpa"] / times[spec],
                                 "share of roof": least_seconds(spec, inputs[0], causal, which, roof) / times[spec]})
    return rows


def compare(pairs, seconds, **columns):
    """pairs: (n, mechanism, peer's name, pass, our function, the peer's); columns: the same in every row."""
    rows = []
    for n, spec, peer, which, function, other in pairs:
        inputs = normal_inputs(n)
        times = in_turns({"ours": PASSES[which](function, inputs), "peer": PASSES[which](other, inputs)}, seconds)
        rows.append({"n": n, "mechanism": spec, "peer": peer, "pass": which, **columns, "ms": 1e3 * times["ours"],
                     "peer ms": 1e3 * times["peer"], "times faster": times["peer"] / times["ours"]})
    return rows


def against_others(quick, seconds, malloc):
    pairs = []
    for n in (1024,) if quick else (1024, 4096):
        pairs += [(n, "topk(32)", "topk, masked_fill, softmax", which, ours("topk(32)", False), peers.topk(32))
                  for which in PASSES]
    alphas = {"sparsemax": 2.0, "entmax(1.5)": 1.5, "entmax(1.3)": 1.3} if peers.has_entmax() else {}
    for spec, alpha in alphas.items():
        pairs += [(1024, spec, "entmax package", which, ours(spec, False), peers.entmax_package(alpha))
                  for which in PASSES]
    return compare(pairs, seconds, malloc=malloc)


def against_flex(quick, seconds):
    pairs = []
    for n in (2048,) if quick else (2048, 8192):
        for causal in (False, True):
            for spec in ("window(256)", "block(256)", "dilated(256,2)"):
                name = "compiled FlexAttention" + (", causal" if causal else "")
                other = peers.flex(peers.flex_pairs(spec, causal), causal, n)
                pairs.append((n, spec, name, "forward", ours(spec, causal), other))
    return compare(pairs, seconds)


def memory(specs, n, peer_n, threads):
    """Peak memory beyond the inputs, each in a process of its own (the peer's at peer_n: it holds n x n matrices)."""
    rows = []
    for name, size in [*((spec, n) for spec in specs), ("topk(32) in PyTorch", peer_n)]:
        script = pathlib.Path(__file__).with_name("attention_memory.py")
        command = [sys.executable, str(script), name, str(size), str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        mib = float(done.stdout.split()[-1])
        rows.append({"mechanism": name, "n": size, "MiB beyond the inputs": mib, "KiB a query and head": mib * 1024 / size / HEADS})
    return rows

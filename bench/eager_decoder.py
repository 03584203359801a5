"""The peer of the language figures: the same decoder-only Transformer in eager PyTorch modules, written to be fast.

Equal segments without padding; one product for queries, keys and values; scaled_dot_product_attention with is_causal; the
fused Adam. Generation keeps keys and values in buffers that are allocated once. Parameters have the names of
src/fovea/nn/model.h and stack.h, so that a checkpoint of `fovea train` loads as it is.
"""
import argparse
import json
import math
import pathlib
import time

import torch
import torch.nn.functional as F
from torch import nn

from eager_transformer import tune_malloc
from inputs import read_config, read_tensors

END = 256  # the unit before the first byte of a text
VOCABULARY = 257


def sinusoids(length, width):
    """The table of --transformer-positions sinusoidal: positions from 1, sines before cosines."""
    half = width // 2
    angle = torch.arange(1, length + 1).double()[:, None] * 1e4 ** (-torch.arange(half).double() / max(1, half - 1))
    return torch.cat([angle.sin(), angle.cos()], -1).float()


class Rotary:
    """Turns the pairs (i, i + D / 2) of a head of D dimensions by position * 10000^(-2 i / D)."""

    def __init__(self, length, head_dim):
        angle = torch.arange(length).double()[:, None] * 1e4 ** (-torch.arange(0, head_dim, 2).double() / head_dim)
        self.cos, self.sin = angle.cos().float(), angle.sin().float()

    def __call__(self, x, first):  # [B, H, N, D]
        cos, sin = (part[first : first + x.size(2)].to(x.dtype) for part in (self.cos, self.sin))
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def softmax_by_products(q, k, v):
    """Attention of one query to all keys, which does not need the causal mask."""
    return (q @ k.transpose(-1, -2) * q.size(-1) ** -0.5).softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, config, rotary):
        super().__init__()
        self.heads, self.rotary = config.heads, rotary
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def project(self, x, first=0):  # [B, N, W] -> three of [B, H, N, W / H]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return (self.rotary(q, first), self.rotary(k, first), v) if self.rotary else (q, k, v)

    def output(self, mixed):
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        return self.output(F.scaled_dot_product_attention(*self.project(x), is_causal=True))

    def step(self, x, cache, first, attend):
        """x: the next tokens, all of a prompt or one. Writes their keys and values to the cache."""
        q, k, v = self.project(x, first)
        end = first + x.size(1)
        for kept, new in zip(cache, (k, v)):
            kept[:, :, first:end] = new
        if first == 0:
            return self.output(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self.output(attend(q, *(kept[:, :, :end] for kept in cache)))


class FeedForward(nn.ModuleDict):
    def __init__(self, config):
        gated = config.activation in ("geglu", "swiglu")
        super().__init__({"in": nn.Linear(config.width, config.inner * (2 if gated else 1)),
                          "out": nn.Linear(config.inner, config.width)})
        self.function = {"relu": F.relu, "swiglu": F.silu}.get(config.activation, F.gelu)
        self.gated = gated

    def forward(self, x):
        inner = self["in"](x)
        if self.gated:
            a, b = inner.chunk(2, -1)
            return self["out"](self.function(a) * b)
        return self["out"](self.function(inner))


class Layer(nn.Module):
    def __init__(self, config, rotary, norm):
        super().__init__()
        self.self_attention, self.feed_forward = Attention(config, rotary), FeedForward(config)
        self.self_attention_norm, self.feed_forward_norm = norm(), norm()
        self.dropout = config.dropout

    def add(self, x, y):
        return x + F.dropout(y, self.dropout, self.training)

    def forward(self, x):
        x = self.add(x, self.self_attention(self.self_attention_norm(x)))
        return self.add(x, self.feed_forward(self.feed_forward_norm(x)))

    def step(self, x, *cached):
        x = x + self.self_attention.step(self.self_attention_norm(x), *cached)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Config:
    """A model's configuration, from command-line options or from a checkpoint's config.yml."""

    def __init__(self, width=256, depth=4, heads=4, inner=1024, dropout=0.1, positions="sinusoidal", activation="gelu",
                 norm="layer", tied=False, longest=8192):
        self.width, self.depth, self.heads, self.inner, self.dropout = width, depth, heads, inner, dropout
        self.positions, self.activation, self.norm, self.tied, self.longest = positions, activation, norm, tied, longest

    @classmethod
    def of_checkpoint(cls, folder):
        read = read_config(folder / "config.yml")
        if read["transformer-norm"] != "pre":
            raise ValueError(f"'{folder}': the peer has pre-norm alone, the model {read['transformer-norm']}")
        longest = int(read["max-positions"]) if "learned" in read["transformer-positions"] else 8192
        return cls(int(read["dim-emb"]), int(read["dec-depth"]), int(read["transformer-heads"]),
                   int(read["transformer-dim-ffn"]), 0.0, read["transformer-positions"],
                   read["transformer-ffn-activation"], read.get("transformer-norm-kind", "layer"),
                   read["tied-embeddings"] == "true", longest)


class DecoderOnly(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.width

        def norm():
            return nn.RMSNorm(width, eps=1e-6) if config.norm == "rms" else nn.LayerNorm(width)

        self.scale, self.dropout = math.sqrt(width), config.dropout
        self.embeddings = nn.Embedding(VOCABULARY, width)
        nn.init.normal_(self.embeddings.weight, std=width**-0.5)
        if config.positions == "learned":
            self.positions = nn.Embedding(config.longest, width)
        table = sinusoids(config.longest, width) if config.positions == "sinusoidal" else None
        self.register_buffer("table", table, persistent=False)
        rotary = Rotary(config.longest, width // config.heads) if config.positions == "rotary" else None
        self.layers = nn.ModuleList(Layer(config, rotary, norm) for _ in range(config.depth))
        self.norm = norm()
        self.output = nn.Linear(width, VOCABULARY)
        nn.init.normal_(self.output.weight, std=width**-0.5)
        if config.tied:
            self.output.weight = self.embeddings.weight

    def embed(self, ids, first=0):
        x = self.embeddings(ids) * self.scale
        table = self.positions.weight if hasattr(self, "positions") else self.table
        if table is not None:
            x = x + table[first : first + ids.size(1)].to(x.dtype)
        return F.dropout(x, self.dropout, self.training)

    def forward(self, ids):  # [B, N] -> logits [B, N, V]
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))

    def loss(self, ids, targets):
        return F.cross_entropy(self(ids).flatten(0, 1), targets.flatten())

    def step(self, ids, caches, first, attend):
        """The logits [B, V] of what follows the next tokens ids [B, N]."""
        x = self.embed(ids, first)
        for layer, cache in zip(self.layers, caches):
            x = layer.step(x, cache, first, attend)
        return self.output(self.norm(x[:, -1]))


def load(folder):
    """The model of a run's folder or of a checkpoint."""
    folder = next((folder / name for name in ("best", "last") if (folder / name).exists()), folder)
    config = Config.of_checkpoint(folder)
    model = DecoderOnly(config)
    wanted = [name for name in model.state_dict() if not (config.tied and name == "output.weight")]
    found = read_tensors(folder / "model.safetensors", wanted)
    if set(found) != set(wanted):
        raise ValueError(f"'{folder}': the checkpoint has no {', '.join(sorted(set(wanted) - set(found)))}")
    if config.tied:
        found["output.weight"] = found["embeddings.weight"]
    model.load_state_dict(found)
    return model


class Batches:
    """The batches that `fovea train --vocabs bytes --order stream --documents no` makes, in its order: the text cut in as
    many streams as a batch has segments, whose lengths differ by one at most, the longer ones first; batch s has the
    s-th segment of each."""

    def __init__(self, path, streams, segment_length):
        text = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8).long()
        self.before = torch.cat([torch.tensor([END]), text])  # the unit before the one at each place, and the last
        length, longer = divmod(text.numel(), streams)
        self.begins = [stream * length + min(stream, longer) for stream in range(streams)]
        self.segment_length, self.count = segment_length, length // segment_length

    def __call__(self, number):
        """(inputs, targets), each [streams, segment_length]."""
        if number >= self.count:
            raise ValueError(f"the text has {self.count} batches of whole segments; fewer --updates, or a longer --text")
        offset = number * self.segment_length
        rows = torch.stack([self.before[b + offset : b + offset + self.segment_length + 1] for b in self.begins])
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


class Training:
    """One update after another as `fovea train` makes them: mean loss, gradients cut to norm 1, the fused Adam."""

    def __init__(self, model, precision, is_compiled=False):
        self.model = model.train()
        self.loss = torch.compile(model.loss, dynamic=False) if is_compiled else model.loss
        self.adam = torch.optim.Adam(model.parameters(), lr=3e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self.is_narrow = precision == "bfloat16"

    def update(self, inputs, targets):
        self.adam.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.is_narrow):
            loss = self.loss(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.adam.step()


def train(arguments):
    """Bytes a second of every update but the first two."""
    torch.manual_seed(1)
    model = DecoderOnly(Config(dropout=arguments.dropout, longest=arguments.segment_length))
    training = Training(model, arguments.precision, arguments.compile)
    batches = Batches(arguments.text, arguments.segments, arguments.segment_length)
    rates = []
    for number in range(arguments.updates + 2):
        start = time.perf_counter()
        inputs, targets = batches(number)
        training.update(inputs, targets)
        rates.append(targets.numel() / (time.perf_counter() - start))
    return {"bytes_per_second": rates[2:]}


@torch.inference_mode()
def continued(model, prompts, length, attend):
    """prompts [R, N] -> (the most probable bytes after them [R, length], by how much each beats the next best)."""
    rows, prompt = prompts.shape
    first = model.layers[0].self_attention
    head_dim = first.out.weight.size(0) // first.heads
    dtype = first.out.weight.dtype
    caches = [[torch.empty(rows, first.heads, prompt + length, head_dim, dtype=dtype) for _ in "kv"] for _ in model.layers]
    ids, chosen, leads, position = prompts, [], [], 0
    for _ in range(length):
        logits = model.step(ids, caches, position, attend)
        position += ids.size(1)
        logits[:, END] = -torch.inf
        best = logits.topk(2)
        ids = best.indices[:, :1]
        chosen.append(ids)
        leads.append(best.values[:, 0] - best.values[:, 1])
    return torch.cat(chosen, 1), torch.stack(leads, 1)


def generate(arguments):
    """Bytes a second with either attention of a step; what was generated goes to --output."""
    model = load(arguments.model).eval()
    if arguments.precision == "bfloat16":
        model = model.bfloat16()
    lines = arguments.prompts.read_bytes().splitlines()
    if len({len(line) for line in lines}) != 1:
        raise ValueError("--prompts: the peer takes lines of one length")
    prompts = torch.tensor([[END, *line] for line in lines])
    rates = {}
    for name, attend in (("sdpa", F.scaled_dot_product_attention), ("products", softmax_by_products)):
        continued(model, prompts, 16, attend)
        start = time.perf_counter()
        chosen, leads = continued(model, prompts, arguments.length, attend)
        rates[name] = chosen.numel() / (time.perf_counter() - start)
    arguments.output.write_text(json.dumps({"bytes": chosen.tolist(), "leads": leads.float().tolist()}))
    return {"bytes_per_second": rates}


@torch.inference_mode()
def steps(arguments):
    """Milliseconds of each step over caches of --keys random keys and values, with either attention of a step."""
    torch.manual_seed(1)
    model = DecoderOnly(Config(positions="rotary", longest=arguments.keys + arguments.length + 2)).eval()
    if arguments.precision == "bfloat16":
        model = model.bfloat16()
    first = model.layers[0].self_attention
    dtype, head_dim = first.out.weight.dtype, first.out.weight.size(0) // first.heads
    shape = arguments.streams, first.heads, arguments.keys + arguments.length + 2, head_dim
    caches = [[torch.empty(shape, dtype=dtype).normal_() for _ in "kv"] for _ in model.layers]
    found = {}
    for name, attend in (("sdpa", F.scaled_dot_product_attention), ("products", softmax_by_products)):
        ids, times = torch.ones(arguments.streams, 1, dtype=torch.long), []
        for position in range(arguments.keys, arguments.keys + arguments.length + 2):
            start = time.perf_counter()
            ids = model.step(ids, caches, position, attend)[:, :END].argmax(-1, keepdim=True)
            times.append(1e3 * (time.perf_counter() - start))
        found[name] = times[2:]
    return {"ms": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["train", "generate", "steps"])
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, help="a run of fovea train or a checkpoint, for generate")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--segments", type=int, default=32, help="in a batch")
    parser.add_argument("--segment-length", type=int, default=512)
    parser.add_argument("--updates", type=int, default=6, help="timed")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--prompts", type=pathlib.Path, help="a line each")
    parser.add_argument("--length", type=int, default=500, help="bytes to generate, or steps")
    parser.add_argument("--streams", type=int, default=1, help="of steps")
    parser.add_argument("--keys", type=int, default=2048, help="in the caches of steps")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    tune_malloc()
    torch.set_num_threads(arguments.threads)
    print(json.dumps({"train": train, "generate": generate, "steps": steps}[arguments.task](arguments)))


if __name__ == "__main__":
    main()

"""Queries, keys and values, each [1, heads, n, head_dim]: normal ones, and those of a trained model's first layer."""
import json
import pathlib
import struct

import torch
import torch.nn.functional as F

HEADS, HEAD_DIM = 8, 64


def normal(n, heads=HEADS, head_dim=HEAD_DIM):
    random = torch.Generator().manual_seed(n)
    return [torch.randn(1, heads, n, head_dim, generator=random) for _ in range(3)]


def bfloat16(n):
    return [x.bfloat16() for x in normal(n)]


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
        raise ValueError(f"--model has position vectors for {learned.size(0)} words, got a length of {n}; give smaller --sizes")
    return learned[:n]


class Trained:
    """The first encoder layer of a trained model, a run's folder or a checkpoint."""

    def __init__(self, model):
        folder = pathlib.Path(model)
        folder = next((folder / name for name in ("best", "last") if (folder / name).exists()), folder)
        block = "encoder.layers.0.self_attention"
        self.projection, self.norm = ([f"{block}{part}.{name}" for name in ("weight", "bias")] for part in (".qkv", "_norm"))
        tables = ["embeddings.weight", "encoder.embeddings.weight"]
        try:
            names = [*tables, "encoder.positions.weight", *self.projection, *self.norm]
            self.tensors = read_tensors(folder / "model.safetensors", names)
            self.table = next(self.tensors[name] for name in tables if name in self.tensors)
            self.config = read_config(folder / "config.yml")
            self.heads = int(self.config["transformer-heads"])
        except (OSError, KeyError, StopIteration, ValueError, struct.error) as error:
            raise ValueError(f"--model: '{model}' is no translation model's folder or checkpoint ({error!r})") from None
        self.head_dim = self.table.size(1) // self.heads

    def inputs(self, n):
        """For n words drawn by Zipf's law: pieces are numbered about by frequency, from 2 on."""
        width = self.table.size(1)
        random = torch.Generator().manual_seed(n)
        words = 1 + torch.exp(torch.rand(n, generator=random) * torch.log(torch.tensor(self.table.size(0) - 1.0))).long()
        x = self.table[words.clamp(max=self.table.size(0) - 1)] * width**0.5
        x = x + position_vectors(self.tensors.get("encoder.positions.weight"), n, width)
        if self.config["transformer-norm"] == "pre":
            x = F.layer_norm(x, (width,), *(self.tensors[name] for name in self.norm))
        qkv = F.linear(x, *(self.tensors[name] for name in self.projection))
        return [part.contiguous() for part in qkv.view(n, 3, self.heads, self.head_dim).permute(1, 2, 0, 3)[:, None]]

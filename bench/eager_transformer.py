"""The peer of the training and decoding figures: the same Transformer in eager PyTorch modules, written to be fast.

Padded batches of sentences of like lengths; one product for queries, keys and values; scaled_dot_product_attention;
the loss on real tokens alone; the fused Adam. Decoding caches keys and values.
"""
import argparse
import ctypes
import functools
import itertools
import json
import math
import pathlib
import time

import torch
import torch.nn.functional as F
from torch import nn


def tune_malloc(keep=1 << 30):
    """The settings of base/malloc.cc: large buffers stay in the heap between steps, up to `keep` bytes of it unused; -1
    for any."""
    m_trim_threshold, m_top_pad, m_mmap_max = -1, -2, -4
    libc = ctypes.CDLL(None)
    for option, value in ((m_mmap_max, 0), (m_trim_threshold, keep), (m_top_pad, 64 << 20)):
        libc.mallopt(option, value)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def split(self, x):  # [B, N, W] -> [B, H, N, W / H]
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def keys(self, memory):
        width = memory.size(-1)
        kv = F.linear(memory, self.qkv.weight[width:], self.qkv.bias[width:])
        return [self.split(part) for part in kv.chunk(2, -1)]

    def query(self, x):
        width = x.size(-1)
        return self.split(F.linear(x, self.qkv.weight[:width], self.qkv.bias[:width]))

    def attend(self, q, k, v, mask=None, causal=False):
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(heads.transpose(1, 2).flatten(2))

    def forward(self, x, mask=None, causal=False):
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        return self.attend(q, k, v, mask, causal)


class Layer(nn.Module):
    def __init__(self, attention, width, inner, dropout, cross, norm):
        super().__init__()
        self.attention = attention()
        self.cross = attention() if cross else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout, self.is_pre = dropout, norm == "pre"

    def add(self, x, sublayer, norm):
        """The residual of a sublayer, a function of x, with the norm before or behind it."""
        y = F.dropout(sublayer(self.norms[norm](x) if self.is_pre else x), self.dropout, self.training)
        return x + y if self.is_pre else self.norms[norm](x + y)

    def feed_forward(self, x):
        return self.outer(F.relu(self.inner(x)))

    def forward(self, x, mask=None, causal=False, memory=None, memory_mask=None):
        x = self.add(x, lambda x: self.attention(x, mask, causal), 0)
        if self.cross is not None:
            keys = self.cross.keys(memory)
            x = self.add(x, lambda x: self.cross.attend(self.cross.query(x), *keys, memory_mask), 1)
        return self.add(x, self.feed_forward, -1)


class Transformer(nn.Module):
    """norm: "post", behind sublayers, or "pre", before them and at the end of both halves; attention(width, heads): the
    module of each sublayer of attention."""

    def __init__(self, vocabulary=10000, width=128, inner=256, heads=4, depth=4, dropout=0.3, norm="post",
                 attention=Attention):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        layers = functools.partial(Layer, functools.partial(attention, width, heads), width, inner, dropout, norm=norm)
        self.encoder = nn.ModuleList(layers(cross=False) for _ in range(depth))
        self.decoder = nn.ModuleList(layers(cross=True) for _ in range(depth))
        self.ends = nn.ModuleList(nn.LayerNorm(width) if norm == "pre" else nn.Identity() for _ in range(2))
        self.width, self.dropout = width, dropout
        place = torch.arange(512)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        self.register_buffer("positions", torch.cat([place.sin(), place.cos()], -1))

    def embed(self, ids, first=0):
        x = self.embedding(ids) * math.sqrt(self.width) + self.positions[first : first + ids.size(1)]
        return F.dropout(x, self.dropout, self.training)

    def encode(self, source, mask):
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.ends[0](x)

    def forward(self, source, mask, inputs):
        memory = self.encode(source, mask)
        x = self.embed(inputs)
        for layer in self.decoder:
            x = layer(x, causal=True, memory=memory, memory_mask=mask)
        return self.ends[1](x)

    def loss(self, source, mask, inputs, outputs, real):
        """The smoothed cross-entropy of a batch of make_batch(), by its real tokens."""
        logits = F.linear(self(source, mask, inputs)[real], self.embedding.weight, self.bias)
        return F.cross_entropy(logits, outputs, label_smoothing=0.1)

    def step(self, tokens, position, caches, crosses, mask):
        """tokens [R, 1]; caches: of each layer keys and values so far. The logits of the next word."""
        x = self.embed(tokens, position)
        for layer, cache, cross in zip(self.decoder, caches, crosses):
            def attend(x, layer=layer, cache=cache):
                q, k, v = (layer.attention.split(part) for part in layer.attention.qkv(x).chunk(3, -1))
                cache[:] = [torch.cat([old, new], 2) if old is not None else new for old, new in zip(cache, (k, v))]
                return layer.attention.attend(q, *cache)

            x = layer.add(x, attend, 0)
            x = layer.add(x, lambda x, layer=layer, cross=cross: layer.cross.attend(layer.cross.query(x), *cross, mask), 1)
            x = layer.add(x, layer.feed_forward, -1)
        return F.linear(self.ends[1](x)[:, 0], self.embedding.weight, self.bias)


def read_lengths(path):
    """[(source, target)] of lines of two numbers."""
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()]


def made_up_lengths(count, random):
    """[(source, target)], 6 to 22 tokens, 14 on average, as Multi30k's."""
    drawn = torch.randint(6, 23, (count,), generator=random).tolist()
    return list(zip(drawn, drawn))


def cut(lengths, target_tokens):
    """Batches of at most so many target tokens of sentences of like lengths, as `fovea train` makes them."""
    batches, rows, total = [], [], 0
    for source, target in sorted(lengths, key=lambda pair: pair[::-1]):
        if rows and total + target > target_tokens:
            batches.append(rows)
            rows, total = [], 0
        rows.append((source, target))
        total += target
    return [*batches, rows]


def make_batch(rows, vocabulary, random):
    """rows: (source, target) lengths of its sentences."""
    def words(real):
        return (torch.rand(real.shape, generator=random) ** 3 * vocabulary).long().clamp_(max=vocabulary - 1)

    real_source, real = (torch.arange(max(side))[None] < torch.tensor(side)[:, None] for side in zip(*rows))
    return words(real_source), real_source[:, None, None, :], words(real), words(real)[real], real


def make_batches(arguments, vocabulary=10000, seed=1):
    """In random order; a text too short for all updates comes again."""
    random = torch.Generator().manual_seed(seed)
    count = arguments.updates + 2
    lengths = (read_lengths(arguments.lengths) if arguments.lengths
               else made_up_lengths(count * arguments.tokens // 14 + 1, random))
    batches = cut(lengths, arguments.tokens)
    order = torch.randperm(len(batches), generator=random).tolist()
    return [make_batch(batches[i], vocabulary, random) for i in itertools.islice(itertools.cycle(order), count)]


def train(arguments):
    torch.manual_seed(1)
    model = Transformer().train()
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-8, fused=True)
    batches = make_batches(arguments)
    clock = time.perf_counter
    times = []
    for source, mask, inputs, outputs, real in batches:
        start = clock()
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bfloat16"):
            loss = model.loss(source, mask, inputs, outputs, real)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
        times.append((clock() - start, outputs.numel()))
    rates = sorted(tokens / seconds for seconds, tokens in times[2:])
    print(json.dumps({"tokens_per_second": rates[len(rates) // 2], "updates": len(rates)}))


@torch.inference_mode()
def beam_search(model, source, mask, beam, steps):
    """Fixed length, no early stop: the cost of `steps` steps, with the hypotheses reordered after each."""
    sentences = source.size(0)
    memory = model.encode(source, mask)
    rows = torch.arange(sentences).repeat_interleave(beam)
    crosses = [[part[rows] for part in layer.cross.keys(memory)] for layer in model.decoder]
    row_mask, caches = mask[rows], [[None, None] for _ in model.decoder]
    tokens = torch.zeros(sentences * beam, 1, dtype=torch.long)
    scores = torch.full((sentences, beam), -1e9)
    scores[:, 0] = 0
    for position in range(steps):
        log_p = F.log_softmax(model.step(tokens, position, caches, crosses, row_mask), -1)
        best, index = (scores[:, :, None] + log_p.unflatten(0, (sentences, beam))).flatten(1).topk(beam)
        parents = (index // log_p.size(-1) + torch.arange(sentences)[:, None] * beam).flatten()
        tokens, scores = (index % log_p.size(-1)).flatten()[:, None], best
        for cache in caches:
            cache[:] = [part[parents] for part in cache]
    return tokens


def decode(arguments):
    torch.manual_seed(1)
    model = Transformer().eval()
    random = torch.Generator().manual_seed(2)
    clock = time.perf_counter
    times = []
    for _ in range(arguments.updates + 1):
        source = torch.randint(0, 10000, (arguments.batch, 14), generator=random)
        mask = torch.ones(arguments.batch, 1, 1, 14, dtype=torch.bool)
        start = clock()
        beam_search(model, source, mask, arguments.beam, arguments.steps)
        times.append(clock() - start)
    seconds = sorted(times[1:])[len(times[1:]) // 2]
    print(json.dumps({"sentences_per_second": arguments.batch / seconds}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["train", "decode"])
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--tokens", type=int, default=4096, help="target tokens of a batch, at most")
    parser.add_argument("--updates", type=int, default=10, help="timed batches")
    parser.add_argument("--lengths", type=pathlib.Path, metavar="FILE",
                        help="source and target tokens of a sentence to train on, a line each; default made up")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="sentences decoded together")
    parser.add_argument("--steps", type=int, default=15, help="words of a translation")
    arguments = parser.parse_args()
    tune_malloc()
    torch.set_num_threads(arguments.threads)
    {"train": train, "decode": decode}[arguments.task](arguments)


if __name__ == "__main__":
    main()

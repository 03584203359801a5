"""Adaptive span against its published algorithm (published.py): a block of tokens over a full cache, forward and
backward. As in training, the gradients are those of queries, keys, values, the table of distances and the spans."""
import itertools
import math

import torch

import fovea
from attention import forward_backward, require_equal
from published import AdaptiveSpan
from timing import compared, in_turns

LIMIT, RAMP, BLOCK, HEADS, HEAD_DIM = 8192, 32, 512, 8, 64
SPANS = {"one of 8,000, seven of 100": [8000] + 7 * [100], "eight of 390": 8 * [390]}


def reach(length):
    """Keys before a query that a head of this span sees: its ramp, and the multiple of 64 of the limit around it."""
    used = min(LIMIT, math.ceil(length) + RAMP)
    return LIMIT - min(LIMIT - 1, LIMIT - used) // 64 * 64


def ours(k):
    """q, k, v and positions as AdaptiveSpan takes them, and z [H]."""
    stage = f"+topk({k})" if k else ""

    def run(q, keys, values, positions, z):
        reaches = [reach(length) for length in (z.detach() * LIMIT).tolist()]
        groups = [(r, len(list(heads))) for r, heads in itertools.groupby(reaches)]
        spec = ";".join(f"{heads}*span({r},{RAMP}){stage}" for r, heads in groups)
        before = torch.arange(max(reaches) - 1, -1, -1.0)  # tokens between a key and the query
        mask = ((z[:, None] * LIMIT - before) / RAMP + 1).clamp(0, 1)
        some = mask > 0
        ramp = torch.where(some, torch.where(some, mask, 1.0).log(), -math.inf)
        return fovea.attention(q[None], keys[None], values[None], spec, causal=True, offset_bias=ramp,
                               offset_first=-max(reaches), offset_queries=q[None], offset_rows=positions.T[:, None],
                               offset_rows_first=-LIMIT)[0]

    return run


def inputs_of(lengths, seed=1):
    random = torch.Generator().manual_seed(seed)
    shapes = [(HEADS, BLOCK, HEAD_DIM), (HEADS, LIMIT + BLOCK, HEAD_DIM), (HEADS, LIMIT + BLOCK, HEAD_DIM), (HEAD_DIM, LIMIT)]
    return *(torch.randn(shape, generator=random) for shape in shapes), torch.tensor(lengths) / LIMIT


def rows(seconds):
    found = []
    for k in (0, 8):
        for name, lengths in SPANS.items():
            inputs = inputs_of(lengths)
            mine, peer = ours(k), AdaptiveSpan(LIMIT, RAMP, k)
            require_equal(mine, peer, inputs, name)
            times = in_turns({"ours": forward_backward(mine, inputs), "peer": forward_backward(peer, inputs)}, seconds)
            found.append({"spans": name, "mechanism": f"span({LIMIT},{RAMP})" + (f"+topk({k})" if k else ""),
                          "tokens": BLOCK, **compared(times["ours"], times["peer"])})
    return found

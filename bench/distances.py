"""Scores with a term by the distance of a key: Transformer-XL against its published algorithm (published.py), and what
shaw(64) and alibi cost beside the same call without them."""
import torch

import attention
import fovea
import inputs
import published
from timing import compared, in_turns

MECHANISMS, TERMS = ("full", "topk(32)", "window(256)"), ("shaw(64)", "alibi")
SHAW = 64


def transformer_xl(q, k, v, u, w, relative):
    """As published.transformer_xl takes them."""
    return fovea.attention((q + u)[None], k[None], v[None], causal=True, offset_queries=(q + w)[None],
                           offset_rows=relative.transpose(0, 1), offset_rows_first=1 - k.size(1))[0]


def against_transformer_xl(quick, seconds):
    segment, memory = (64, 256) if quick else (512, 2048)
    heads, width = inputs.HEADS, inputs.HEAD_DIM
    random = torch.Generator().manual_seed(1)
    shapes = [(heads, segment, width), *2 * [(heads, memory + segment, width)], *2 * [(heads, 1, width)],
              (heads, memory + segment, width)]
    given = [torch.randn(shape, generator=random) for shape in shapes]
    attention.require_equal(transformer_xl, published.transformer_xl, given, "transformer-xl")
    candidates = {"ours": transformer_xl, "peer": published.transformer_xl}
    times = in_turns({name: attention.forward_backward(run, given) for name, run in candidates.items()}, seconds)
    return [{"segment": segment, "memory": memory, "mechanism": "full", **compared(times["ours"], times["peer"])}]


def slopes():
    return torch.tensor([2.0 ** (-8 * (h + 1) / inputs.HEADS) for h in range(inputs.HEADS)])


def inputs_of(n, term):
    """q, k and v; with shaw the learned vectors of the offsets -64 ... 0 too."""
    given = inputs.normal(n)
    if term.startswith("shaw"):
        given.append(torch.randn(SHAW + 1, inputs.HEAD_DIM, generator=torch.Generator().manual_seed(n)))
    return given


def term_of(term, q, *vectors):
    """offset_bias and offset_first of fovea.attention."""
    if term == "alibi":
        return slopes()[:, None] * torch.arange(1.0 - q.size(2), 1.0), 1 - q.size(2)
    return q @ vectors[0].T * q.size(-1) ** -0.5, -SHAW


def ours(mechanism, term):
    """The term "none": a call without any."""
    def run(q, k, v, *vectors):
        if term == "none":
            return fovea.attention(q, k, v, mechanism, causal=True)
        bias, first = term_of(term, q, *vectors)
        return fovea.attention(q, k, v, mechanism, causal=True, offset_bias=bias, offset_first=first)

    return run


def eager(mechanism, term):
    """The mechanism with the term of all pairs, dense."""
    def keeps(scores):
        n = scores.size(-1)
        if mechanism == "topk(32)":
            return scores >= scores.topk(min(32, n), -1).values[..., -1:]
        distance = torch.arange(n)[:, None] - torch.arange(n)
        return (distance < (256 if mechanism == "window(256)" else n)).expand_as(scores)

    def run(q, k, v, *vectors):
        n = q.size(2)
        bias, first = term_of(term, q, *vectors)
        index = (torch.arange(n) - torch.arange(n)[:, None] - first).clamp(0, bias.size(-1) - 1)
        by_pair = bias[:, index] if bias.dim() == 2 else bias[0].gather(-1, index.expand(q.size(1), n, n))
        return published.with_term(q[0], k[0], v[0], by_pair, keeps)[None]

    return run


training_pass = attention.forward_backward


def cost_of_terms(quick, seconds):
    n = 512 if quick else 4096
    rows = []
    for mechanism in MECHANISMS:
        candidates = {"none": training_pass(ours(mechanism, "none"), inputs.normal(n))}
        for term in TERMS:
            attention.require_equal(ours(mechanism, term), eager(mechanism, term), inputs_of(384, term),
                                    f"{mechanism} with {term}")
            candidates[term] = training_pass(ours(mechanism, term), inputs_of(n, term))
        times = in_turns(candidates, seconds)
        for term in TERMS:
            with_term, without = times[term], times["none"]
            rows.append({"n": n, "mechanism": mechanism, "term": term, "ms": 1e3 * with_term.seconds,
                         "ms without": 1e3 * without.seconds, "times the time": with_term.seconds / without.seconds,
                         "spread %": 100 * max(with_term.spread, without.spread)})
    return rows


def memory_of_terms(n, threads):
    rows = []
    for mechanism in MECHANISMS:
        without = attention.peak_mib(f"{mechanism} causal with none", n, threads)
        for term in TERMS:
            mib = attention.peak_mib(f"{mechanism} causal with {term}", n, threads)
            rows.append({"n": n, "mechanism": mechanism, "term": term, "MiB beyond the inputs": mib,
                         "MiB without": without, "times the memory": mib / without})
    return rows

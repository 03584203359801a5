"""The time that a mechanism's own operations, or its own bytes, would take at the machine's measured peak."""
import torch

import fovea

SCREENING = ("cpu-topk", "cpu-entmax")
SAMPLE = 24  # rows whose weights above zero are counted


def offsets_of(name, causal):
    """Differences of key and query that window(k) or dilated(k,r) allows, as docs/attention.md defines them."""
    k, step = [*map(int, name.partition("(")[2].rstrip(")").split(",")), 1][:2]
    low, high = (1 - k, 0) if causal else (-(k // 2), (k - 1) // 2)
    return range(low * step, high * step + 1, step)


def pairs_of(spec, n, causal):
    """Pairs that the spec's pattern allows, of one head."""
    name = spec.partition("+")[0]
    if name.startswith(("window", "dilated")):
        return sum(max(0, n - abs(offset)) for offset in offsets_of(name, causal))
    if name.startswith("blocktopk"):
        block, best = map(int, name.partition("(")[2].rstrip(")").split(",")[:2])
        return sum(min(i // block, best - 1) * block + i % block + 1 if causal else min(best * block, n) for i in range(n))
    if name.startswith("block"):
        k = int(name.removeprefix("block(").removesuffix(")"))
        blocks = [k] * (n // k) + [n % k]
        return sum(b * (b + 1) // 2 if causal else b * b for b in blocks)
    return n * (n + 1) // 2 if causal else n * n


def kept_share(spec, inputs, causal):
    """Weights other than zero over candidates, in a sample of rows."""
    q, k, _ = inputs
    n = q.size(2)
    has_pattern = spec.startswith(("window", "dilated", "block"))
    stages = spec.partition("+")[2] if has_pattern else spec
    if stages in ("", "full", "gelu", "leaky-relu"):
        return 1.0
    kept = candidates = 0
    for row in torch.linspace(0, n - 1, min(n, SAMPLE)).long().tolist():
        keys = pairs_of(spec, n, causal) // n if has_pattern else row + 1 if causal else n
        weights = fovea.attention_weights(q[:, :, row : row + 1].float(), k[:, :, :keys].float(), stages, cross=True)
        kept += (weights != 0).sum().item()
        candidates += weights.numel()
    return kept / candidates


def least_seconds(spec, inputs, causal, which, kernel, roof):
    """(seconds, what takes most of them): screening, products or memory. In float32 a pair costs 2 head_dim operations a
    product: scores and the output in forward, five products more in backward, which computes the scores anew where they
    are not saved. Products with a weight or its gradient count kept pairs alone."""
    q = inputs[0]
    _, heads, n, head_dim = q.shape
    pairs = pairs_of(spec, n, causal) * heads
    kept = pairs * kept_share(spec, inputs, causal)
    narrow = q.dtype == torch.bfloat16
    inner = roof["bfloat16" if narrow else "float32"]  # products of two inputs
    outer = roof["weights" if narrow else "float32"]  # of an input with weights or their gradients
    times = {}
    if kernel in SCREENING:  # narrow scores of all pairs, then float32 of the kept ones: scores, output; four gradients
        times["screening"] = 2 * head_dim * pairs / roof["screening"]
        times["products"] = (4 if which == "forward" else 12) * head_dim * kept / roof["float32"]
    else:
        of_inputs, of_weights = (2, 2) if which == "forward" else (6, 8)
        times["products"] = (of_inputs * pairs / inner + of_weights * kept / outer) * head_dim
    moved = (4 if which == "forward" else 12) * heads * n * head_dim * q.element_size() / roof["bandwidth"]
    work = sum(times.values())
    return (moved, "memory") if moved > work else (work, max(times, key=times.get))

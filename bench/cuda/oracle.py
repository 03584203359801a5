"""The mechanisms by their definitions, dense and in double precision on the CPU, and what the operators of a device
compute beside them."""
import math

import torch

import fovea


def allowed(spec, n, causal):
    """[n, n], true where query i may see key j: the patterns of docs/attention.md."""
    distance = torch.arange(n)[None, :] - torch.arange(n)[:, None]
    step = 2 if spec == "dilated(8,2)" else 1
    low, high = (-7 * step, 0) if causal else (-4 * step, 3 * step)
    pairs = torch.ones(n, n, dtype=torch.bool)
    if spec in ("window(8)", "dilated(8,2)"):
        pairs = (distance >= low) & (distance <= high) & (distance % step == 0)
    if spec == "block(8)":
        pairs = torch.arange(n)[None, :] // 8 == torch.arange(n)[:, None] // 8
    return pairs & (distance <= 0) if causal else pairs


def simplex(scores, alpha):
    """entmax: (alpha - 1) z - tau, positive part, to the power 1 / (alpha - 1), with the tau that makes it sum to 1,
    by bisection. Gradients flow through tau by one step of Newton's method, which is exact at the solution."""
    z = (alpha - 1) * scores
    power = 1 / (alpha - 1)
    with torch.no_grad():
        low = z.amax(-1, keepdim=True) - 1
        high = z.amax(-1, keepdim=True)
        for _ in range(100):
            middle = (low + high) / 2
            is_low = (z - middle).clamp(min=0).pow(power).sum(-1, keepdim=True) >= 1
            low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
        positive = z > low
        slope = torch.where(positive, (z - low).clamp(min=1e-300).pow(power - 1), 0).sum(-1, keepdim=True) * power
    mass = torch.where(positive, (z - low).clamp(min=1e-300).pow(power), 0).sum(-1, keepdim=True)
    tau = low + (mass - 1) / slope
    return torch.where(positive, (z - tau).clamp(min=1e-300).pow(power), 0)


def weights(spec, scores):
    """The transforms; -inf marks pairs that are not allowed."""
    if spec == "relu":
        return scores.clamp(min=0)
    if spec in ("sparsemax", "entmax(1.5)"):
        return simplex(scores, 2 if spec == "sparsemax" else 1.5)
    if spec == "topk(8)" and scores.size(-1) > 8:
        scores = scores.masked_fill(scores < scores.topk(8).values[..., -1:], -math.inf)
    return scores.softmax(-1)


def dense(spec, q, k, v, causal):
    """[B, H, n, head_dim] in double precision; k and v may have fewer heads."""
    groups = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
    pairs = allowed(spec, q.size(2), causal)
    return weights(spec, scores.masked_fill(~pairs, -math.inf)) @ v


SPECS = ("full", "topk(8)", "sparsemax", "entmax(1.5)", "relu", "window(8)", "dilated(8,2)", "block(8)")
SHAPES = ((2, 3, 3, 37, 16), (1, 4, 2, 129, 64), (1, 2, 1, 64, 128), (1, 1, 1, 1, 8))  # B, H, H_kv, n, head_dim
# The difference allowed, relative to the norm: sums of n products, and inputs that both sides read rounded.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}


def difference(left, right):
    """The norm of the difference, relative to right's norm."""
    return float((left.double().cpu() - right).norm() / right.norm().clamp(min=1e-12))


def checked(spec, shape, dtype, causal, device):
    """{what: how far the device is from the definition}: the output and the three gradients."""
    batch, heads, kv_heads, n, head_dim = shape
    random = torch.Generator().manual_seed(n)
    made = [torch.randn(batch, h, n, head_dim, generator=random, dtype=torch.float64, device="cpu").to(dtype)
            for h in (heads, kv_heads, kv_heads, heads)]
    exact = [x.double().requires_grad_() for x in made[:3]]
    there = [x.to(device).requires_grad_() for x in made[:3]]
    want = dense(spec, *exact, causal)
    got = fovea.attention(*there, spec, causal=causal, enable_gqa=heads != kv_heads)
    wants = [want, *torch.autograd.grad(want, exact, made[3].double())]
    gots = [got, *torch.autograd.grad(got, there, made[3].to(device))]
    return {name: difference(g.detach(), w.detach()) for name, g, w in zip(("output", "dq", "dk", "dv"), gots, wants)}


def rows(device, quick=False):
    """One for each mechanism and type: the greatest difference of each kind over shapes and causality."""
    for dtype, tolerance in list(TOLERANCE.items())[:1 if quick else None]:
        for spec in SPECS:
            worst = {}
            for shape in SHAPES[:1 if quick else None]:
                for causal in (False, True):
                    for name, value in checked(spec, shape, dtype, causal, device).items():
                        worst[name] = max(worst.get(name, 0), math.inf if math.isnan(value) else value)
            yield {"type": str(dtype).removeprefix("torch."), "mechanism": spec, **worst,
                   "agrees": "yes" if max(worst.values()) <= tolerance else "NO"}

"""Against other projects' packages; a missing one is named and its test skipped."""
import math

import pytest
import torch

import fovea
import specs

H, N, D = 2, 24, 8


def weights_and_gradient(spec, q, k, grad, **options):
    """Weights by attention on an identity of values: their gradient is that of the scores' own map."""
    values = torch.eye(N, dtype=q.dtype).expand(1, H, N, N)
    padded_q, padded_k = (torch.cat([t, torch.zeros(1, H, N, N - D, dtype=t.dtype)], -1) for t in (q, k))
    out = fovea.attention(padded_q, padded_k, values, spec, scale=1 / math.sqrt(D), **options)
    inputs = (q, k, *options.values())
    return out, torch.autograd.grad(out, inputs, grad)


def peer_and_gradient(function, q, k, grad, *more):
    out = function(q @ k.transpose(-1, -2) / math.sqrt(D))
    return out, torch.autograd.grad(out, (q, k, *more), grad)


def compare(mine, theirs, dtype, tolerance=None):
    # float32: 2^-24 on sums of N products and the peer's own rounding; float64: its solver's.
    tolerance = tolerance or (2e-5 if dtype == torch.float32 else 1e-10)
    for a, b in zip((mine[0], *mine[1]), (theirs[0], *theirs[1])):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_entmax(dtype, spread):
    entmax = pytest.importorskip("entmax", reason="pip could not install entmax")
    q, k = specs.inputs(1, H, N, D, dtype=dtype, count=2)
    q, k, grad = (spread * q).requires_grad_(), k.requires_grad_(), torch.randn(1, H, N, N, dtype=dtype)
    for spec, function in {"sparsemax": entmax.sparsemax, "entmax(1.5)": entmax.entmax15}.items():
        compare(weights_and_gradient(spec, q, k, grad), peer_and_gradient(lambda s: function(s, dim=-1), q, k, grad), dtype)
    # The peer halves an interval 50 times and divides by the sum: good to 1e-7 in its own words, in float64.
    for alpha in (1.25, 1.5, 2.0, 2.5):
        compare(weights_and_gradient(f"entmax({alpha})", q, k, grad),
                peer_and_gradient(lambda s: entmax.entmax_bisect(s, alpha, dim=-1), q, k, grad), dtype,
                {torch.float32: 2e-4, torch.float64: 1e-6}[dtype])


def test_entmax_learned_alpha():
    entmax = pytest.importorskip("entmax", reason="pip could not install entmax")
    q, k = (t.requires_grad_() for t in specs.inputs(1, H, N, D, count=2))
    grad, alpha = torch.randn(1, H, N, N, dtype=q.dtype), torch.tensor([1.2, 1.7], dtype=q.dtype, requires_grad=True)
    theirs = peer_and_gradient(lambda s: entmax.entmax_bisect(s, alpha[None, :, None, None], dim=-1), q, k, grad, alpha)
    compare(weights_and_gradient("entmax(learned)", q, k, grad, alpha=alpha), theirs, q.dtype, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_x_transformers_top_k(dtype):
    attend = pytest.importorskip("x_transformers.attend", reason="pip could not install x-transformers")
    q, k = (t.requires_grad_() for t in specs.inputs(1, H, N, D, dtype=dtype, count=2))
    with torch.no_grad():  # quarters, so that scores are exact in any order of sums; every one twice: ties
        q.mul_(4).round_().div_(4)
        k.mul_(4).round_().div_(4)
        k[:, :, 12:] = k[:, :, :12]
    grad = torch.randn(1, H, N, N, dtype=dtype)
    for wanted in (1, 3, 8, N):
        compare(weights_and_gradient(f"topk({wanted})", q, k, grad),
                peer_and_gradient(lambda s: attend.sparse_topk_attn(s, wanted), q, k, grad), dtype)


@pytest.mark.parametrize("causal", [False, True])
def test_scaled_dot_product_attention(causal):
    x = specs.inputs(2, H, N, D, dtype=torch.float32, requires_grad=True)
    mine, theirs = (f() for f in (lambda: fovea.attention(*x, causal=causal),
                                  lambda: torch.nn.functional.scaled_dot_product_attention(*x, is_causal=causal)))
    grad = torch.randn_like(mine)
    compare((mine, torch.autograd.grad(mine, x, grad)), (theirs, torch.autograd.grad(theirs, x, grad)), torch.float32)

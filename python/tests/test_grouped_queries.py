"""Fewer heads of keys and values than of queries, and values of another width."""
import pytest
import torch

import fovea
import specs

H, KV, D = 6, 2, 8


def repeated(x, dim=1):
    return x.repeat_interleave(H // KV, dim)


def drawn(queries=9, keys=9, dtype=torch.float32, value_width=D):
    shapes = ((2, H, queries, D), (2, KV, keys, D), (2, KV, keys, value_width))
    return [specs.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def whole_heads(spec):
    """Specs of three heads, for six."""
    return ";".join(f"{2 * int(n)}*{rest}" for n, _, rest in (g.partition("*") for g in spec.split(";"))) if ";" in spec else spec


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spec", specs.ALL + specs.RANDOM)
def test_equal_repeated_heads(spec, causal):
    spec = whole_heads(spec)
    for dtype in (torch.float32, torch.float64):
        q, k, v = drawn(dtype=dtype)
        more = {**specs.extras(spec, H, D, dtype), "seed": 3, "dropout": 0.2, "dropout_seed": 5}
        try:
            expected = fovea.attention(q, repeated(k), repeated(v), spec, causal=causal, **more)
        except RuntimeError as error:  # a mechanism that is not causal
            assert causal, error
            return
        out = fovea.attention(q, k, v, spec, causal=causal, enable_gqa=True, **more)
        torch.testing.assert_close(out, expected)
        grad = torch.randn_like(out)
        # Sums over three heads in another order.
        for a, b in zip(torch.autograd.grad(out, (q, k, v), grad), torch.autograd.grad(expected, (q, k, v), grad)):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("spec", ["1*window(3);5*topk(2)", "2*full;2*relu;2*topk(3)", "5*local(4);1*sparsemax"])
def test_groups_of_heads_within_those_that_share_a_key(spec):
    q, k, v = drawn()
    out = fovea.attention(q, k, v, spec, causal=True, enable_gqa=True)
    expected = fovea.attention(q, repeated(k), repeated(v), spec, causal=True)
    grad = torch.randn_like(out)
    torch.testing.assert_close(out, expected)
    for a, b in zip(torch.autograd.grad(out, (q, k, v), grad), torch.autograd.grad(expected, (q, k, v), grad)):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fovea.attention_weights(q, k, spec, causal=True, enable_gqa=True),
                               fovea.attention_weights(q, repeated(k), spec, causal=True))


@specs.CPU_KERNELS
@pytest.mark.parametrize("spec", ["full", "topk(32)", "window(64)", "sparsemax", "relu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_long_sequences_give_the_bits_of_repeated_heads(spec, dtype):
    """Long enough for each of the kernels, and for backward in several parts."""
    q, k, v = drawn(1000, 1000, dtype)
    out = fovea.attention(q, k, v, spec, causal=True, enable_gqa=True)
    expected = fovea.attention(q, repeated(k), repeated(v), spec, causal=True)
    assert torch.equal(out, expected)
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, (q, k, v), grad)
    of_heads = torch.autograd.grad(expected, (q, k, v), grad)
    assert torch.equal(got[0], of_heads[0])
    for a, b in zip(got[1:], of_heads[1:]):  # the repeated ones are rounded before they are summed
        bound = 2**-6 if dtype == torch.bfloat16 else 1e-5
        assert (a - b).abs().max() <= bound * b.abs().max()


@pytest.mark.parametrize("spec", ["full", "topk(3)", "window(4)"])
def test_decoding_is_the_end_of_the_full_pass(spec):
    q, k, v = (x.detach() for x in drawn())
    whole = fovea.attention(q, k, v, spec, causal=True, enable_gqa=True)
    step = fovea.attention(q[:, :, -2:], k, v, spec, causal=True, enable_gqa=True)
    torch.testing.assert_close(step, whole[:, :, -2:])
    rows = [x[0].transpose(0, 1) for x in (q, k, v)]  # packed, with keys where a list says
    tokens = torch.tensor([4, 2, 0])
    out = fovea.attention(rows[0][-1:], rows[1], rows[2], spec, causal=True, q_offsets=torch.tensor([0, 1]),
                          k_begins=torch.tensor([0]), k_lengths=torch.tensor([3]), k_tokens=tokens, enable_gqa=True)
    expected = fovea.attention(rows[0][-1:], *(x[tokens.to(x.device)] for x in rows[1:]), spec, causal=True, enable_gqa=True)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("spec", ["full", "topk(2)", "1*window(3);5*sparsemax"])
@pytest.mark.parametrize("width", [5, 12])
def test_values_of_another_width(spec, width):
    q, k, v = drawn(dtype=torch.float64, value_width=width)
    out = fovea.attention(q, k, v, spec, enable_gqa=True)
    weights = fovea.attention_weights(q, k, spec, enable_gqa=True)
    torch.testing.assert_close(out, weights @ repeated(v))
    q, k, v = drawn(5, 5, torch.float64, width)
    assert torch.autograd.gradcheck(lambda *x: fovea.attention(*x, spec, enable_gqa=True), (q, k, v), nondet_tol=1e-12)


def test_a_norm_over_values_of_another_width():
    q, k, v = drawn(value_width=5)
    gain = torch.linspace(0.5, 2, H * 5, device=specs.DEVICE)
    out = fovea.attention(q, k, v, "relu+rmsnorm", gain=gain, enable_gqa=True)
    heads = (fovea.attention_weights(q, k, "relu", enable_gqa=True) @ repeated(v)).transpose(1, 2).flatten(2)
    expected = heads / (heads.square().mean(-1, keepdim=True) + 1e-8).sqrt() * gain
    torch.testing.assert_close(out.transpose(1, 2).flatten(2), expected, rtol=1e-4, atol=1e-5)


def test_second_derivatives():
    q, k, v = drawn(3, 3, torch.float64)
    assert torch.autograd.gradgradcheck(lambda *x: fovea.attention(*x, "topk(2)", enable_gqa=True), (q, k, v))


def test_compiles():
    q, k, v = drawn(value_width=5)

    def run(q, k, v):
        return fovea.attention(q, k, v, "1*window(3);5*topk(2)", causal=True, enable_gqa=True)

    torch.testing.assert_close(torch.compile(run, fullgraph=True, backend="aot_eager")(q, k, v), run(q, k, v))


def test_refusals():
    q, k, v = drawn()
    with pytest.raises(RuntimeError, match="equal heads, head sizes and batches.*; fewer heads of k and v go with enable_gqa"):
        fovea.attention(q, k, v)
    four = specs.randn(2, 4, 9, D)
    with pytest.raises(RuntimeError, match="q has 6 heads and k 4; with enable_gqa expected a number of heads of k that divides"):
        fovea.attention(q, four, four, enable_gqa=True)
    with pytest.raises(RuntimeError, match="k like v"):
        fovea.attention(q, k, four, enable_gqa=True)

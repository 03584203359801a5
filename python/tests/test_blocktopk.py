"""blocktopk(b,k) and blocktopk(b,k,bounds): attention to a query's own block of keys and the k - 1 best others, against a
dense definition in double, its laws, layouts, grouped keys, head groups, compilation and export."""
import math

import pytest
import torch

import fovea
from test_blocks import chosen_by_definition

SPECS = ("blocktopk(4,2)", "blocktopk(3,3,bounds)", "blocktopk(5,1)")


def inputs(*shape, heads_kv=None, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [shape] + [(shape[0], heads_kv or shape[1], *shape[2:])] * 2
    return [torch.randn(*s, generator=generator, dtype=torch.float32).to(dtype) for s in shapes]


def parts_of(spec):
    words = spec[10:].split(")")[0].split(",")
    return int(words[0]), int(words[1]), "bounds" if len(words) > 2 else "mean"


def definition(q, k, v, spec, causal):
    block, best, score = parts_of(spec)
    seen = chosen_by_definition(q.detach(), k.detach(), block, best, causal, score)
    allowed = seen.repeat_interleave(block, -1)[..., :k.size(2)]
    if causal:
        n_q, n_k = q.size(2), k.size(2)
        allowed = allowed & torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
    share = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    return (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~allowed, -math.inf).softmax(-1) @ v


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 3e-5)])
def test_values_and_gradients_are_those_of_the_definition(spec, causal, dtype, tolerance):
    for H, H_kv, N in ((2, 2, 23), (4, 2, 17), (3, 1, 9), (1, 1, 1)):
        ours, theirs = ([x.clone().to(kind).requires_grad_() for x in inputs(2, H, N, 6, heads_kv=H_kv)]
                        for kind in (dtype, torch.float64))
        out = fovea.attention(*ours, spec, causal=causal, enable_gqa=H != H_kv)
        expected = definition(*theirs, spec, causal)
        torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
        grad = inputs(*out.shape, seed=1)[0]
        for got, want in zip(torch.autograd.grad(out, ours, grad.to(dtype)), torch.autograd.grad(expected, theirs, grad)):
            torch.testing.assert_close(got.double(), want, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("spec, same", [("blocktopk(1,4)", "topk(3,keep=window(1))"), ("blocktopk(8,4)", "full"),
                                        ("blocktopk(8,1)", "block(8)"), ("blocktopk(100,1,bounds)", "full")])
@pytest.mark.parametrize("causal", [True, False])
def test_laws(spec, same, causal):
    x = inputs(2, 3, 29, 8)
    torch.testing.assert_close(fovea.attention(*x, spec, causal=causal), fovea.attention(*x, same, causal=causal))


def test_head_groups_choose_for_themselves():
    q, k, v = inputs(1, 6, 21, 8, heads_kv=3)
    spec = "1*blocktopk(4,2);2*topk(3);3*blocktopk(3,3,bounds)+relu"
    out = fovea.attention(q, k, v, spec, causal=True, enable_gqa=True)
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    parts = [fovea.attention(q[:, a:b], k[:, a:b], v[:, a:b], own, causal=True)
             for a, b, own in ((0, 1, "blocktopk(4,2)"), (1, 3, "topk(3)"), (3, 6, "blocktopk(3,3,bounds)+relu"))]
    torch.testing.assert_close(out, torch.cat(parts, 1))


@pytest.mark.parametrize("spec", SPECS[:2])
def test_padding_packed_sequences_and_steps(spec):
    q, k, v = inputs(2, 2, 26, 8, dtype=torch.float32)
    lengths = torch.tensor([26, 15])
    padded = fovea.attention(q, k, v, spec, causal=True, q_lengths=lengths)
    alone = fovea.attention(q[1:, :, :15], k[1:, :, :15], v[1:, :, :15], spec, causal=True)
    torch.testing.assert_close(padded[1:, :, :15], alone)
    assert (padded[1, :, 15:] == 0).all()
    rows = [torch.cat([x[0].transpose(0, 1), x[1, :, :15].transpose(0, 1)]) for x in (q, k, v)]
    packed = fovea.attention(*rows, spec, causal=True, q_offsets=torch.tensor([0, 26, 41]))
    torch.testing.assert_close(packed[26:].transpose(0, 1)[None], alone)
    for t in (0, 7, 25):  # a step over a cache
        step = fovea.attention(q[:, :, t:t + 1], k[:, :, :t + 1], v[:, :, :t + 1], spec, causal=True)
        torch.testing.assert_close(step, fovea.attention(q, k, v, spec, causal=True)[:, :, t:t + 1])
    keys = [x.transpose(1, 2).flatten(0, 1) for x in (k, v)]
    step = fovea.attention(q[:, :, 14], *keys, spec, causal=True, q_offsets=torch.tensor([0, 1, 2]),
                           k_begins=torch.tensor([0, 26]), k_lengths=torch.tensor([15, 15]))
    torch.testing.assert_close(step[1], alone[0, :, 14])


def test_weights_are_zero_outside_the_blocks():
    q, k, v = inputs(1, 2, 16, 8)
    weights = fovea.attention_weights(q, k, "blocktopk(4,2)", causal=True)
    torch.testing.assert_close(weights @ v, fovea.attention(q, k, v, "blocktopk(4,2)", causal=True))
    assert (weights[..., 15, :].unflatten(-1, (4, 4)).sum(-1) > 0).sum(-1).eq(2).all()


def test_compiled_and_exported():
    x = inputs(1, 2, 24, 8, dtype=torch.float32)

    def attend(q, k, v):
        return fovea.attention(q, k, v, "blocktopk(4,2)", causal=True)

    torch.testing.assert_close(torch.compile(attend)(*x), attend(*x))
    layer = fovea.Attention(16, 2, "blocktopk(4,2)", causal=True).eval()
    y = torch.randn(2, 24, 16)
    torch.testing.assert_close(torch.compile(layer)(y), layer(y))
    exported = torch.export.export(layer, (y,))
    torch.testing.assert_close(exported.module()(y), layer(y))


def test_layer_trains():
    torch.manual_seed(0)
    layer = fovea.Attention(16, 2, "blocktopk(4,2)", causal=True)
    layer(torch.randn(2, 24, 16)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters() if p is not layer.k_proj.bias)


@pytest.mark.parametrize("given, message", [
    (dict(cross=True), "'blocktopk' compares the positions of queries and keys"),
    (dict(indices=torch.zeros(1, 20, 1, dtype=torch.long)), "both choose the keys of a query; leave one of them out"),
    (dict(spec="blocktopk(4,2)+scaled"), "ties decide how many candidates a query of blocktopk has"),
])
def test_refusals(given, message):
    x = inputs(1, 2, 20, 8, dtype=torch.float32)
    with pytest.raises((RuntimeError, ValueError), match=message):
        fovea.attention(*x, **{"spec": "blocktopk(4,2)", "causal": not given.get("cross"), **given})

"""routed(c,w,random) against a dense definition in double: every cluster takes w tokens of a sequence at random, scores are
products of normalised queries and keys within it, and a query's outputs are averaged over its clusters."""
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import fovea
import specs

H, D = 4, 6
_MASK = 2**64 - 1
_OWN_KEYS = 0x6B657973


def mix(x):
    """SplitMix64's last steps."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def combined(*numbers):
    seed, *rest = numbers
    for number in rest:
        seed = mix(seed ^ mix(number))
    return seed


def members(length, stream, cluster, window):
    """Positions of a cluster's members, ascending: those with the greatest ranks, of equal ones the earlier."""
    ranks = [combined(stream, cluster, position) >> 32 for position in range(length)]
    return sorted(sorted(range(length), key=lambda i: -ranks[i])[:window])


def normalised(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-6).sqrt()


def weights_within(scores, spec, causal):
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    if "topk(2)" in spec and scores.size(-1) > 2:
        scores = scores.masked_fill(scores < scores.topk(2).values[..., -1:], -torch.inf)
    return scores.relu() if "relu" in spec else scores.softmax(-1)


def definition(q, k, v, spec, causal=False, seed=0, layer=0, scale=1.0, lengths=None, first_head=0):
    """The output [B, H, N_q, D] and the weights [B, H, N_q, N_k] of heads of one mechanism."""
    clusters, window = (int(text) for text in spec[7:].split(")")[0].split(",")[:2])
    outputs, shown = [], torch.zeros(*q.shape[:3], k.size(2), dtype=q.dtype)
    for b in range(q.size(0)):
        n_q, n_k = lengths[b] if lengths else (q.size(2), k.size(2))
        for h in range(q.size(1)):
            stream = combined(seed, layer, first_head + h)
            of_keys = stream if causal else combined(stream, _OWN_KEYS)
            x, y, values = normalised(q[b, h, :n_q]), normalised(q[b, h, :n_q] if causal else k[b, h, :n_k]), v[b, h, :n_k]
            out, count = torch.zeros(q.size(2), v.size(-1), dtype=q.dtype), torch.zeros(q.size(2), 1, dtype=q.dtype)
            for cluster in range(clusters):
                queries, keys = members(n_q, stream, cluster, window), members(n_k, of_keys, cluster, window)
                if not queries or not keys:
                    continue
                p = weights_within(x[queries] @ y[keys].T * scale, spec, causal)
                out = out.index_add(0, torch.tensor(queries), p @ values[keys])
                count[queries] += 1
                shown[b, h, torch.tensor(queries)[:, None], torch.tensor(keys)] += p.detach()
            shown[b, h] /= count + 0.01
            outputs.append(out / (count + 0.01))
    return torch.stack(outputs).unflatten(0, q.shape[:2]), shown


def inputs(n=11, n_k=None, batch=2, heads=H, dtype=torch.float64):
    sizes = (n, n_k or n, n_k or n)
    return [torch.randn(batch, heads, size, D, dtype=dtype, requires_grad=True) for size in sizes]


def gradients(out, x):
    return torch.autograd.grad(out, x, torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape), allow_unused=True)


def close(found, wanted):
    for f, w in zip(found, wanted, strict=True):
        # Queries are the keys of causal heads, so k has no gradient there.
        torch.testing.assert_close(torch.zeros(()) if f is None else f.detach(), torch.zeros(()) if w is None else w.detach(),
                                   rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
@pytest.mark.parametrize("spec", ["routed(3,4,random)", "routed(2,40,random)", "routed(1,1,random)",
                                  "routed(3,5,random)+topk(2)", "routed(4,3,random)+relu"])
def test_definition(spec, kind):
    x = inputs(n_k=7 if kind == "cross" else None)
    flags = {} if kind == "self" else {kind: True}
    want, weights = definition(*x, spec, kind == "causal", seed=5, layer=3)
    out = fovea.attention(*x, spec, seed=5, layer=3, **flags)
    close([out, *gradients(out, x)], [want, *gradients(want, x)])
    close([fovea.attention_weights(*x[:2], spec, seed=5, layer=3, **flags)], [weights])


def test_fast_kernels_are_close_to_the_definition():
    x = [t.detach().float().requires_grad_() for t in inputs()]
    for spec in ("routed(3,4,random)", "routed(3,5,random)+topk(2)"):
        want, _ = definition(*(exact := [t.detach().double().requires_grad_() for t in x]), spec)
        out = fovea.attention(*x, spec)
        for found, wanted in zip([out, *gradients(out, x)], [want, *gradients(want, exact)]):
            assert (found - wanted).norm() <= 1e-5 * wanted.norm()


def test_head_groups_draw_by_their_heads():
    x = inputs()
    mixed = fovea.attention(*x, "2*routed(2,3,random);2*topk(4)", seed=9)
    routed, _ = definition(*(t[:, :2] for t in x), "routed(2,3,random)", seed=9)
    close([mixed], [torch.cat([routed, fovea.attention(*(t[:, 2:] for t in x), "topk(4)")], 1)])
    last = fovea.attention(*x, "2*topk(4);2*routed(2,3,random)", seed=9)[:, 2:]
    close([last], [definition(*(t[:, 2:] for t in x), "routed(2,3,random)", seed=9, first_head=2)[0]])


@pytest.mark.parametrize("causal", [False, True])
def test_lengths_and_packed_sequences_are_the_same_calls(causal):
    x, lengths = inputs(), torch.tensor([11, 5])
    spec = "routed(3,4,random)+topk(2)"
    dense = fovea.attention(*x, spec, causal=causal, q_lengths=lengths)
    want, _ = definition(*x, spec, causal, lengths=[(11, 11), (5, 5)])
    close([dense, *gradients(dense, x)], [want, *gradients(want, x)])
    packed = [torch.cat([t[0].transpose(0, 1), t[1, :, :5].transpose(0, 1)]) for t in x]
    found = fovea.attention(*packed, spec, causal=causal, q_offsets=torch.tensor([0, 11, 16]))
    assert torch.equal(found, torch.cat([dense[0].transpose(0, 1), dense[1, :, :5].transpose(0, 1)]))


def test_shared_heads_of_keys():
    q, k, v = inputs()
    few = [t[:, :2].detach().requires_grad_() for t in (k, v)]
    for spec in ("routed(2,5,random)", "1*topk(3);3*routed(2,5,random)"):
        out = fovea.attention(q, *few, spec, enable_gqa=True)
        wide = [t.repeat_interleave(2, 1) for t in few]
        want = fovea.attention(q, *wide, spec)
        close([out, *gradients(out, [q, *few])], [want, *gradients(want, [q, *few])])


def test_values_of_another_width_and_a_scale():
    q, k, v = inputs()
    for width in (2, 9):
        values = torch.randn(2, H, 11, width, dtype=torch.float64, requires_grad=True)
        for scale in (None, 0.3):
            out = fovea.attention(q, k, values, "routed(3,4,random)", scale=scale)
            want, _ = definition(q, k, values, "routed(3,4,random)", scale=1.0 if scale is None else scale)
            close([out, *gradients(out, [q, k, values])], [want, *gradients(want, [q, k, values])])


def test_weights_times_values_are_the_output():
    x = inputs()
    lengths = torch.tensor([11, 5])
    for spec in ("routed(3,5,random)+entmax(1.5)", "routed(2,6,random)+topk(3,keep=window(2))",
                 "routed(3,5,random)+entmax(learned)"):
        given = specs.extras(spec, H, D)
        weights = fovea.attention_weights(*x[:2], spec, k_lengths=lengths, **given)
        torch.testing.assert_close(weights @ x[2], fovea.attention(*x, spec, k_lengths=lengths, **given), rtol=1e-9, atol=1e-10)


def test_an_alpha_for_each_head():
    x, spec = inputs(), "routed(3,5,random)+entmax(learned)"
    alpha = torch.tensor([1.2, 1.5, 1.7, 2.0], dtype=torch.float64, requires_grad=True)
    out = fovea.attention(*x, spec, alpha=alpha)
    # Heads that have one value are heads of a fixed alpha.
    want = fovea.attention(*x, "1*{0}(1.2);1*{0}(1.5);1*{0}(1.7);1*{0}(2)".format("routed(3,5,random)+entmax"))
    torch.testing.assert_close(out, want, rtol=1e-6, atol=1e-8)
    fixed = [t.detach() for t in x]
    assert torch.autograd.gradcheck(lambda a: fovea.attention(*fixed, spec, alpha=a), [alpha], atol=1e-4, fast_mode=True)


def test_derivatives_of_both_orders():
    x = [torch.randn(1, 2, 5, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(lambda *t: fovea.attention(*t, "routed(2,3,random)"), x, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *t: fovea.attention(*t, "routed(2,3,random)", causal=True), x, fast_mode=True)


def test_dropout_acts_on_the_weights():
    x, spec = [t.detach() for t in inputs(n=40, batch=8)], "routed(1,40,random)"
    v = torch.ones_like(x[2])
    first, again, other = (fovea.attention(x[0] * 0.01, x[1], v, spec, dropout=0.25, dropout_seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, other)
    # 1,280 means of 40 nearly equal weights that survive by 3 of 4: the deviation of their mean is below 0.003.
    assert abs(first.mean() * 1.01 - 1) < 0.015


def test_norms_over_heads():
    x = inputs()
    gain = torch.linspace(0.5, 1.5, H * D, dtype=torch.float64)
    out = fovea.attention(*x, "routed(3,4,random)+relu+rmsnorm", gain=gain)
    z, _ = definition(*x, "routed(3,4,random)+relu")
    z = z.transpose(1, 2).flatten(2)
    want = z / (z.square().mean(-1, keepdim=True) + 1e-8).sqrt() * gain
    close([out.transpose(1, 2).flatten(2)], [want])


def test_padding_reaches_nothing():
    x = [t.detach() for t in inputs()]
    lengths = torch.tensor([11, 5])
    spoiled = [t.clone() for t in x]
    for t in spoiled:
        t[1, :, 5:] = math.nan
    results = []
    for given in (x, spoiled):
        leaves = [t.requires_grad_() for t in given]
        out = fovea.attention(*leaves, "routed(3,4,random)", q_lengths=lengths)
        results.append([out, *torch.autograd.grad(out.sum(), leaves)])
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_bits_do_not_depend_on_threads_and_other_sentences():
    x = [t.detach().float() for t in inputs(n=200, batch=3)]
    spec = "routed(6,50,random)+topk(8)"
    torch.set_num_threads(4)
    try:
        many = fovea.attention(*x, spec)
    finally:
        torch.set_num_threads(1)
    assert torch.equal(many, fovea.attention(*x, spec))
    # Members are drawn by positions, so a sentence has the same ones alone.
    assert torch.equal(many[1:2], fovea.attention(*(t[1:2] for t in x), spec))


class _Largest(TorchDispatchMode):
    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(x, torch.Tensor):
                self.numbers = max(self.numbers, x.numel())
        return out


def test_memory_follows_the_members():
    n, clusters, window = 2048, 16, 128
    x = [torch.randn(1, 1, n, D, requires_grad=True) for _ in range(3)]
    with _Largest() as largest:
        fovea.attention(*x, f"routed({clusters},{window},random)", causal=True).sum().backward()
    # A member keeps its weights for backward.
    assert clusters * window * D <= largest.numbers <= clusters * window * window < n * n


def test_empty_sequences_and_batches():
    x = [torch.randn(5, H, D) for _ in range(3)]
    out = fovea.attention(*x, "routed(2,3,random)", q_offsets=torch.tensor([0, 0, 5, 5]))
    assert torch.equal(out, fovea.attention(*x, "routed(2,3,random)", q_offsets=torch.tensor([0, 5])))
    nothing = torch.randn(0, H, 7, D, requires_grad=True)
    fovea.attention(nothing, nothing, nothing, "routed(2,3,random)").sum().backward()
    assert fovea.attention_weights(nothing, nothing, "routed(2,3,random)").shape == (0, H, 7, 7)


@pytest.mark.parametrize("given", [{}, {"causal": True}, {"q_lengths": torch.tensor([11, 4])}])
def test_compiled_into_one_graph(given):
    spec = "2*routed(3,4,random)+topk(2);2*topk(2)"
    compiled = torch.compile(lambda *t, **o: fovea.attention(*t, spec, **o), fullgraph=True, backend="aot_eager")
    for n in (11, 13):  # the second has lengths that the graph does not know
        x = inputs(n=n, dtype=torch.float32)
        want, found = (f(*x, **given) for f in (lambda *t, **o: fovea.attention(*t, spec, **o), compiled))
        assert torch.equal(found, want)
        assert all(torch.equal(a, b) for a, b in zip(gradients(found, x), gradients(want, x)))


def test_module_trains():
    layer, x = fovea.Attention(16, 4, "routed(2,4,random)", layer=1, seed=3), torch.randn(2, 6, 16)
    layer(x).sum().backward()
    assert layer.q_proj.weight.grad.abs().sum() > 0
    other = fovea.Attention(16, 4, "routed(2,4,random)", layer=2, seed=3)
    other.load_state_dict(layer.state_dict())
    assert not torch.equal(layer(x), other(x)), "layers draw apart"


@pytest.mark.parametrize("spec,given,message", [
    ("routed(2,3)", {}, r"'routed\(2,3\)' needs centroids, which models of fovea train learn; in Python, use "
     r"routed\(2,3,random\)"),
    ("routed(2,3,causal)", {"causal": True}, "needs centroids"),
    ("2*topk(3);2*routed(2,3)", {}, "needs centroids"),
    ("routed(2,3,random)", {"indices": torch.zeros(1, 6, 2, dtype=torch.int64)}, "both choose the keys of a query"),
    ("routed(2,3,random)", {"offset_bias": torch.zeros(4, 3)}, "got offset_bias, which .* clusters keep no distances"),
    ("routed(2,3,random)+topk(2,keep=window(2))", {"cross": True}, "positions"),
])
def test_refusals_are_one_line(spec, given, message):
    x = torch.randn(1, H, 6, D)
    with pytest.raises((RuntimeError, ValueError), match=message) as error:
        fovea.attention(x, x, x, spec, **given)
    assert "\n" not in str(error.value) or isinstance(error.value, fovea.SpecError)


def test_refusals_of_layouts_are_one_line():
    q, k = torch.randn(1, H, 3, D), torch.randn(1, H, 6, D)
    with pytest.raises(RuntimeError, match="got 3 queries and 6 keys in a sequence; expected the same tokens") as error:
        fovea.attention(q, k, k, "routed(2,3,random)", causal=True)
    assert "\n" not in str(error.value)
    rows = torch.randn(6, H, D)
    with pytest.raises(RuntimeError, match="routed reads whole sequences; give k_offsets, not k_begins") as error:
        fovea.attention(rows[:1], rows, rows, "routed(2,3,random)", q_offsets=torch.tensor([0, 1]), k_begins=torch.tensor([0]),
                        k_lengths=torch.tensor([6]))
    assert "\n" not in str(error.value)


def test_terms_by_distance_act_in_the_other_heads_alone():
    x = inputs()
    bias = torch.randn(H, 3, dtype=torch.float64)
    out = fovea.attention(*x, "2*routed(2,3,random);2*topk(4)", offset_bias=bias, offset_first=-1)
    close([out[:, :2]], [definition(*(t[:, :2] for t in x), "routed(2,3,random)")[0]])
    close([out[:, 2:]], [fovea.attention(*(t[:, 2:] for t in x), "topk(4)", offset_bias=bias[2:], offset_first=-1)])

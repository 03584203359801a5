"""Terms of scores by offset against plain formulas of PyTorch, and laws."""
import math

import pytest
import torch

import fovea

H, D = 3, 8
SPECS = ["full", "softcap(0.6)", "softcap(0.6)+topk(4)", "sink(0.5)", "top-p(0.6)", "sigmoid(-2)", "window(5)", "strided(3)", "topk(4)", "topk(3,keep=window(2))", "entmax(1.5)", "sparsemax", "relu", "gelu",
         "1*full;2*topk(3)"]


def offsets(queries, keys):
    """o [N_q, N_k] of the last queries of N_k tokens."""
    return torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)


def index(queries, keys, first, count):
    return (offsets(queries, keys) - first).clamp(0, count - 1)


def weights_of(scores, spec, causal):
    """The weights of [B, H, N_q, N_k] scores, by attention over the scores as they are."""
    n_q, n_k = scores.shape[-2:]
    masked = scores.masked_fill(offsets(n_q, n_k) > 0, -torch.inf) if causal else scores
    if spec == "relu":
        return masked.relu()
    if spec.startswith("topk"):
        k = min(int(spec[5:-1]), n_k)
        masked = masked.masked_fill(masked < masked.topk(k).values[..., -1:], -torch.inf)
    return masked.softmax(-1)


def inputs(*shape, keys=None, dtype=torch.float64):
    n = shape[-2] if keys is None else keys
    q = torch.randn(*shape, dtype=dtype, requires_grad=True)
    k, v = (torch.randn(*shape[:-2], n, shape[-1], dtype=dtype, requires_grad=True) for _ in range(2))
    return q, k, v


def term(name, n_q, n_k, q):
    """Arguments for attention() and what they add to the scores."""
    by = {"dtype": q.dtype, "requires_grad": True}
    first, count = -6, 9
    at = index(n_q, n_k, first, count)
    if name == "head":
        bias = torch.randn(H, count, **by)
        return {"offset_bias": bias, "offset_first": first}, bias[:, at]
    if name == "query":
        bias = torch.randn(*q.shape[:-1], count, **by)
        return {"offset_bias": bias, "offset_first": first}, bias.gather(-1, at.expand(*q.shape[:-2], n_q, n_k))
    queries, rows = torch.randn(*q.shape, **by), torch.randn(count, 1 if name == "shared" else H, D, **by)
    products = queries @ rows.permute(1, 2, 0) / math.sqrt(D)
    return ({"offset_queries": queries, "offset_rows": rows, "offset_rows_first": first},
            products.gather(-1, at.expand(*q.shape[:-2], n_q, n_k)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_q, n_k", [(7, 7), (3, 40), (70, 130)])
@pytest.mark.parametrize("spec", ["full", "topk(4)", "relu"])
@pytest.mark.parametrize("name", ["head", "query", "product", "shared"])
def test_terms_are_added_to_scores(name, spec, n_q, n_k, causal, dtype):
    q, k, v = inputs(2, H, n_q, D, keys=n_k, dtype=dtype)
    more, added = term(name, n_q, n_k, q)
    out = fovea.attention(q, k, v, spec, causal=causal, **more)
    scores = q @ k.mT / math.sqrt(D) + added
    expected = weights_of(scores, spec, causal) @ v
    tolerance = {"rtol": 1e-10, "atol": 1e-10} if dtype == torch.float64 else {"rtol": 2e-4, "atol": 2e-5}
    torch.testing.assert_close(out, expected, **tolerance)
    leaves = [q, k, v, *(x for x in more.values() if isinstance(x, torch.Tensor))]
    grad = torch.randn_like(out)
    for got, wanted in zip(torch.autograd.grad(out, leaves, grad), torch.autograd.grad(expected, leaves, grad)):
        torch.testing.assert_close(got, wanted, **tolerance)
    weights = fovea.attention_weights(q, k, spec, causal=causal, **more)
    torch.testing.assert_close(weights, weights_of(scores, spec, causal), **tolerance)


@pytest.mark.parametrize("spec", ["full", "topk(4)"])
@pytest.mark.parametrize("heads", [1, H])
def test_values_by_offset(heads, spec):
    q, k, v = inputs(2, H, 9, D)
    values = torch.randn(5, heads, D, dtype=q.dtype, requires_grad=True)
    out = fovea.attention(q, k, v, spec, causal=True, offset_values=values, offset_values_first=-3)
    weights = weights_of(q @ k.mT / math.sqrt(D), spec, True)
    rows = values.expand(5, H, D)[index(9, 9, -3, 5)]  # [N, N, H, D]
    expected = weights @ v + torch.einsum("bhij,ijhd->bhid", weights, rows)
    torch.testing.assert_close(out, expected)
    leaves, grad = [q, k, v, values], torch.randn_like(out)
    for got, wanted in zip(torch.autograd.grad(out, leaves, grad), torch.autograd.grad(expected, leaves, grad)):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("spec", SPECS)
def test_zero_terms_change_nothing(spec, dtype):
    q, k, v = inputs(1, H, 33, D, dtype=dtype)
    plain = fovea.attention(q, k, v, spec, causal=True)
    zeros = {"offset_bias": torch.zeros(H, 4), "offset_queries": q.detach(), "offset_rows": torch.zeros(3, 1, D, dtype=dtype)}
    close = {"rtol": 0, "atol": 1e-2 if dtype == torch.bfloat16 else 1e-5}
    torch.testing.assert_close(fovea.attention(q, k, v, spec, causal=True, **zeros), plain, **close)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n", [6, 300])  # cpu-rows; cpu-topk and cpu-entmax
@pytest.mark.parametrize("spec", ["full", "window(3)", "topk(1)", "topk(3,keep=window(2))", "sparsemax", "entmax(1.7)", "relu",
                                  "gelu", "topk(3)+leaky-relu(0.2)"])
def test_minus_infinity_leaves_a_pair_out(spec, n, dtype):
    """A query sees the two keys before it; the first query has none."""
    x = [t.requires_grad_() for t in torch.randn(3, 1, H, n, D, dtype=torch.float64).to(dtype)]
    before = torch.arange(n)[:, None] - torch.arange(1, 3)
    expected = fovea.attention(*x, spec, causal=True, indices=before.clamp(min=-1)[None])
    weight = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, x, weight)
    by_head = torch.tensor([-math.inf, 0, 0, -math.inf]).expand(H, 4)
    close = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
    for bias in (by_head, by_head[None, :, None].expand(1, H, n, 4)):
        bias = bias.clone().requires_grad_()
        out = fovea.attention(*x, spec, causal=True, offset_bias=bias, offset_first=-3)
        torch.testing.assert_close(out, expected, **close)
        *grads, of_bias = torch.autograd.grad(out, (*x, bias), weight)
        for got, want in zip(grads, wanted):
            torch.testing.assert_close(got, want, **close)
        assert not of_bias[..., 0].any() and not of_bias[..., 3].any() and of_bias.isfinite().all()


@pytest.mark.parametrize("spec", SPECS)
def test_packed_sequences_have_positions_of_their_own(spec):
    """Packed, padded and one by one: the same; and queries that stand behind a cache."""
    lengths = [5, 12, 1]
    bounds = torch.tensor([0, 5, 17, 18])
    q, k, v = (torch.randn(18, H, D) for _ in range(3))
    by_head, rows = torch.randn(H, 9), torch.randn(6, H, D)
    more = {"offset_bias": by_head, "offset_first": -7, "offset_rows": rows, "offset_rows_first": -4}
    out = fovea.attention(q, k, v, spec, causal=True, q_offsets=bounds, offset_queries=q, **more)
    for first, n in zip(bounds, lengths):
        alone = [x[first:first + n] for x in (q, k, v)]
        one = fovea.attention(*alone, spec, causal=True, offset_queries=alone[0], **more)
        torch.testing.assert_close(out[first:first + n], one, rtol=1e-5, atol=1e-5)
        last = fovea.attention(alone[0][-1:], *alone[1:], spec, causal=True, offset_queries=alone[0][-1:], **more)
        torch.testing.assert_close(last, one[-1:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_no_leak_from_the_future(spec):
    q, k, v = (x.detach() for x in inputs(1, H, 40, D, dtype=torch.float32))
    more = {"offset_bias": torch.randn(H, 79), "offset_first": -39, "offset_rows": torch.randn(79, 1, D),
            "offset_rows_first": -39}
    before = fovea.attention(q, k, v, spec, causal=True, offset_queries=q, **more)
    changed = [torch.cat([x[:, :, :25], torch.randn(1, H, 15, D)], 2) for x in (q, k, v)]
    after = fovea.attention(*changed, spec, causal=True, offset_queries=changed[0], **more)
    assert torch.equal(before[:, :, :25], after[:, :, :25]) and not torch.equal(before, after)


def rel_shift(x):
    """Transformer-XL's: [H, N_q, N_k], columns by descending distance."""
    h, n_q, n_k = x.shape
    padded = torch.cat([torch.zeros(h, n_q, 1, dtype=x.dtype), x], 2).view(h, n_k + 1, n_q)
    return padded[:, 1:].reshape(h, n_q, n_k)


@pytest.mark.parametrize("memory, clamp", [(0, None), (11, None), (11, 6)])
def test_transformer_xl(memory, clamp):
    """Against section 3.3 of Dai et al. 2019 as its code computes it: rel_shift over all distances."""
    n_q = 13
    n_k = n_q + memory
    q, k, v = (torch.randn(1, H, n, D, dtype=torch.float64) for n in (n_q, n_k, n_k))
    u, w, weight = torch.randn(H, D).double(), torch.randn(H, D).double(), torch.randn(H * D, H * D).double()
    distances = torch.arange(n_k - 1, -1, -1.0, dtype=torch.float64)
    if clamp:
        distances = distances.clamp(max=clamp)
    angles = distances[:, None] / 10000 ** (torch.arange(0, H * D, 2.0, dtype=torch.float64) / (H * D))
    r = (torch.cat([angles.sin(), angles.cos()], 1) @ weight.T).view(n_k, H, D)
    content = torch.einsum("hid,hjd->hij", q[0] + u[:, None], k[0])
    position = rel_shift(torch.einsum("hid,jhd->hij", q[0] + w[:, None], r))
    scores = (content + position) / math.sqrt(D)
    expected = scores.masked_fill(offsets(n_q, n_k) > 0, -torch.inf).softmax(-1) @ v[0]
    rows = r[-(clamp + 1):] if clamp else r  # offsets -clamp ... 0
    out = fovea.attention(q + u[:, None], k, v, causal=True, offset_queries=q + w[:, None], offset_rows=rows,
                          offset_rows_first=1 - len(rows))
    torch.testing.assert_close(out[0], expected, rtol=1e-10, atol=1e-10)
    in_float = [x.float() for x in (q + u[:, None], k, v)]
    out = fovea.attention(*in_float, causal=True, offset_queries=(q + w[:, None]).float(), offset_rows=rows.float(),
                          offset_rows_first=1 - len(rows))
    torch.testing.assert_close(out[0], expected.float(), rtol=1e-5, atol=1e-5)


def test_operator_passes_opcheck():
    q, k, v = inputs(2, H, 6, D, dtype=torch.float32)
    terms = [torch.randn(H, 5, requires_grad=True), torch.randn(2, H, 6, 4, requires_grad=True),
             torch.randn(2, H, 6, D, requires_grad=True), torch.randn(3, H, D, requires_grad=True)]
    arguments = (q, k, v, None, terms, [-3, -2, -1, -4, 7], [None] * 7, "topk(3)", "causal", 0.5, 0.0, [0, 0, 0, 1], 0, True)
    most = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.fovea.attention_forward.default, arguments, test_utils=most)
    out, stats, kept, sums = (x.detach() for x in torch.ops.fovea.attention_forward(*arguments))
    assert sums.shape == (2, H, 6, 7)
    torch.testing.assert_close(sums.sum(-1), torch.ones(2, H, 6))
    detached = [x.detach() for x in (q, k, v)]
    backward = (torch.randn_like(out), torch.randn_like(sums), *detached, out, stats, kept, sums, None,
                [x.detach() for x in terms], *arguments[5:6], 0b1011, *arguments[6:-1])
    torch.library.opcheck(torch.ops.fovea.attention_backward.default, backward)
    grads = torch.ops.fovea.attention_backward(*backward)[-1]
    assert [g.numel() > 0 for g in grads] == [True, True, False, True]


@pytest.mark.parametrize("name", ["head", "query", "product"])
def test_second_derivatives(name):
    q, k, v = inputs(1, H, 5, D)
    more, _ = term(name, 5, 5, q)
    leaves = [x for x in more.values() if isinstance(x, torch.Tensor)]
    names = [n for n, x in more.items() if isinstance(x, torch.Tensor)]

    def run(q, k, v, *terms):
        return fovea.attention(q, k, v, causal=True, **(more | dict(zip(names, terms))))

    assert torch.autograd.gradgradcheck(run, (q, k, v, *leaves), fast_mode=True, atol=1e-5)


def test_compiles_into_one_graph():
    q, k, v = inputs(2, H, 20, D, dtype=torch.float32)
    more, _ = term("query", 20, 20, q)
    values = torch.randn(3, H, D, requires_grad=True)

    def run(q, k, v, bias):
        return fovea.attention(q, k, v, "topk(5)", causal=True, offset_bias=bias, offset_first=-6, offset_values=values)

    leaves = [q, k, v, more["offset_bias"], values]
    compiled = torch.compile(run, fullgraph=True)(*leaves[:-1])
    expected = run(*leaves[:-1])
    torch.testing.assert_close(compiled, expected)
    for a, b in zip(torch.autograd.grad(compiled.sum(), leaves), torch.autograd.grad(expected.sum(), leaves)):
        torch.testing.assert_close(a, b)


def test_says_what_does_not_fit():
    q, k, v = (x.detach() for x in inputs(2, H, 6, D, dtype=torch.float32))

    def refusal(**more):
        with pytest.raises(RuntimeError) as error:
            fovea.attention(q, k, v, **more)
        return str(error.value).splitlines()[0]

    assert "terms by offset are for self-attention" in refusal(cross=True, offset_bias=torch.zeros(H, 3))
    assert "offset_bias has shape [2, 3]; expected [3, offsets]" in refusal(offset_bias=torch.zeros(2, 3))
    assert "offset_bias by query is Float [6, 3, 2]" in refusal(offset_bias=torch.zeros(6, 3, 2))
    assert "offset_queries and offset_rows go together" in refusal(offset_queries=q)
    assert "offset_rows is Float [4, 2, 8]" in refusal(offset_queries=q, offset_rows=torch.zeros(4, 2, D))
    assert "offset_values is Float [4, 3, 7]" in refusal(offset_values=torch.zeros(4, H, 7))
    with pytest.raises(TypeError, match="offset_first"):
        fovea.attention(q, k, v, offset_bias=torch.zeros(H, 3), offset_first=1.5)


def masked_by_span(q, k, v, rows, z, limit, ramp, count):
    """Adaptive span from its definition: softmax over the `limit` keys before each query, of those times the
    mask, of which topk keeps the `count` greatest, divided by their sum."""
    n = q.size(-2)
    distance = torch.arange(n)[:, None] - torch.arange(n)
    seen = (distance >= 1) & (distance <= limit)
    scores = (q @ k.transpose(-1, -2) + (q @ rows.T).gather(-1, (limit - distance).clamp(0, limit - 1).expand(H, n, n))) / D ** 0.5
    scores = scores.masked_fill(~seen, -torch.inf)
    mask = ((z[:, None, None] * limit - (distance - 1)) / ramp + 1).clamp(0, 1)
    weights = torch.where(seen, scores, 0).exp() * seen * mask
    if count:
        weights = weights * (weights >= weights.topk(min(count, n), -1).values[..., -1:])
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total == 0, 1, total) @ v


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_adaptive_span_by_its_definition(count, dtype):
    limit, ramp, n = 20, 4, 37
    q, k, v = (torch.randn(H, n, D, dtype=torch.float64).to(dtype).requires_grad_() for _ in range(3))
    rows = torch.randn(limit, D, dtype=torch.float64).to(dtype).requires_grad_()
    z = torch.tensor([0.013, 0.33, 0.97], dtype=torch.float64, requires_grad=True)
    before = torch.arange(limit - 1, -1, -1.0, dtype=torch.float64)
    mask = ((z[:, None] * limit - before) / ramp + 1).clamp(0, 1)
    bias = torch.where(mask > 0, torch.where(mask > 0, mask, 1).log(), -torch.inf).to(dtype)
    spec = f"span({limit},{ramp})" + (f"+topk({count})" if count else "")
    out = fovea.attention(q[None], k[None], v[None], spec, causal=True, offset_bias=bias, offset_first=-limit,
                          offset_queries=q[None], offset_rows=rows[:, None], offset_rows_first=-limit)[0]
    wide = [x.detach().double().requires_grad_() for x in (q, k, v, rows)] + [z.detach().clone().requires_grad_()]
    expected = masked_by_span(*wide, limit, ramp, count)
    # Sums of 37 numbers near 1, in the type.
    tolerance = 1e-11 if dtype == torch.float64 else 3e-5
    torch.testing.assert_close(out.double(), expected, atol=tolerance, rtol=tolerance)
    grad = torch.randn_like(expected)
    mine = torch.autograd.grad(out, (q, k, v, rows, z), grad.to(dtype))
    for got, want in zip(mine, torch.autograd.grad(expected, wide, grad)):
        torch.testing.assert_close(got.double(), want, atol=20 * tolerance, rtol=20 * tolerance)


def test_spans_that_are_refused():
    q = torch.randn(1, H, 6, D)
    with pytest.raises(RuntimeError, match="needs causal self-attention, such as a decoder's; got self-attention that is not"):
        fovea.attention(q, q, q, "span(4,2)")
    with pytest.raises(RuntimeError, match="'span' weighs with softmax; got sparsemax"):
        fovea.attention(q, q, q, "span(4,2)+sparsemax", causal=True)
    with pytest.raises(ValueError, match="fovea.Attention has no learned spans"):
        fovea.Attention(H * D, H, "span(4,2)", causal=True)

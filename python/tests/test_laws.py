"""Laws that hold for every mechanism, whatever its kernel: in double (the reference) and in float32 (the fast ones)."""
import math

import pytest
import torch

import fovea
import specs
from specs import properties

H, N, D = 3, 11, 8
# Outputs of size one or a few, sums of a dozen terms: 2^-53 and 2^-24 times a few hundred.
TOLERANCE = {torch.float64: {"rtol": 1e-12, "atol": 1e-12}, torch.float32: {"rtol": 2e-5, "atol": 2e-5}}
DTYPES = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
ON_SIMPLEX = [s for s in specs.TRANSFORMS if s not in specs.POINTWISE and not s.startswith("sink")] + ["entmax(1.5)"]
EVERY = pytest.mark.parametrize("spec", specs.ALL + specs.RANDOM)


def close(a, b, dtype):
    torch.testing.assert_close(a, b, **TOLERANCE[dtype])


def qkv(dtype, n=N, batch=1):
    return specs.inputs(batch, H, n, D, dtype=dtype)


def run(x, spec, **options):
    return fovea.attention(*x, spec, **specs.extras(spec, H, D, x[0].dtype), **options)


@EVERY
def test_parse_prints_canonically(spec):
    text = fovea.parse(spec)
    assert fovea.parse(text) == text


@DTYPES
@EVERY
def test_causal_attention_sees_no_future(spec, dtype):
    x = qkv(dtype)
    before = run(x, spec, causal=True)
    y = [t.clone() for t in x]
    for t in y:
        t[:, :, 7:] = torch.randn_like(t[:, :, 7:])
    assert torch.equal(run(y, spec, causal=True)[:, :, :7], before[:, :, :7])


@DTYPES
@EVERY
@pytest.mark.parametrize("causal", [False, True])
def test_padding_and_neighbours_change_nothing(spec, causal, dtype):
    """A sequence alone, in a padded batch, and in a packed one."""
    x = qkv(dtype, n=N + 3, batch=3)
    lengths = torch.tensor([N, 5, N + 3])
    padded = run(x, spec, causal=causal, q_lengths=lengths, k_lengths=lengths)
    assert not padded[1, :, 5:].any() or "bias" in fovea.parameters(spec)
    rows = [torch.cat([t[b, :, :n].transpose(0, 1) for b, n in enumerate(lengths)]) for t in x]
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    packed = run(rows, spec, causal=causal, q_offsets=offsets)
    for b, n in enumerate(lengths):
        alone = run([t[b:b + 1, :, :n] for t in x], spec, causal=causal)[0]
        close(padded[b, :, :n], alone, dtype)
        close(packed[offsets[b]:offsets[b + 1]].transpose(0, 1), alone, dtype)


@specs.CPU_KERNELS
@pytest.mark.parametrize("spec", ["full", "topk(8)", "sparsemax", "entmax(1.5)"])
def test_a_sentence_has_its_bits_in_any_batch(spec):
    """Lengths around the one at which kernels change: each sentence's kernel is its own."""
    lengths = torch.tensor([5, 255, 256, 700])
    x = specs.inputs(4, 2, 700, D, dtype=torch.float32, requires_grad=True)
    weight = specs.randn(4, 2, 700, D)
    out = run(x, spec, causal=True, q_lengths=lengths, k_lengths=lengths)
    grads = torch.autograd.grad((out * weight).sum(), x)
    for b, n in enumerate(lengths):
        own = [t.detach()[b:b + 1, :, :n].requires_grad_() for t in x]
        alone = run(own, spec, causal=True)
        assert torch.equal(alone[0], out[b, :, :n])
        for a, b_grad in zip(torch.autograd.grad((alone * weight[b:b + 1, :, :n]).sum(), own), grads):
            assert torch.equal(a[0], b_grad[b, :, :n])


@DTYPES
@EVERY
def test_decoding_step_by_step_is_the_full_pass(spec, dtype):
    x = qkv(dtype)
    full = run(x, spec, causal=True)
    q, k, v = x
    for i in (0, 4, N - 1):
        step = run((q[:, :, i:i + 1], k[:, :, :i + 1], v[:, :, :i + 1]), spec, causal=True)
        close(step, full[:, :, i:i + 1], dtype)


@specs.CPU_KERNELS
@EVERY
def test_strides_do_not_matter(spec):
    x = qkv(torch.float32, batch=2)
    plain = run(x, spec)
    for permuted in ([t.transpose(1, 2).contiguous().transpose(1, 2) for t in x],
                     [torch.stack([t, t], -1)[..., 0] for t in x], [torch.cat([t, t], -1)[..., :D] for t in x]):
        assert torch.equal(run(permuted, spec), plain)


@specs.CPU_KERNELS
@pytest.mark.parametrize("spec", [s for s in specs.ALL + specs.RANDOM if "seed" not in properties(s)])
def test_threads_do_not_matter(spec):
    x = [t.requires_grad_() for t in qkv(torch.float32, n=33, batch=2)]
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        out = run(x, spec, causal=True, dropout=0.1, dropout_seed=3)
        results.append((out, *torch.autograd.grad(out.square().sum(), x)))
    torch.set_num_threads(1)
    for a, b in zip(*results):
        assert torch.equal(a, b)


@DTYPES
@pytest.mark.parametrize("transform", specs.TRANSFORMS)
def test_wide_patterns_and_selections_are_full(transform, dtype):
    x = qkv(dtype)
    full = run(x, transform)
    for pairs in (f"topk({N})", "topk(1000)", f"window({2 * N})", f"block({N})", f"global({N})", f"random({N})",
                  "local(999)|global(20)", "full&full", f"topk(1,keep=window({2 * N}))"):
        close(run(x, f"{pairs}+{transform}"), full, dtype)


@DTYPES
def test_top_1_takes_the_value_of_the_best_key(dtype):
    q, k, v = qkv(dtype)
    best = (q @ k.transpose(-1, -2)).argmax(-1, keepdim=True)
    for transform in ON_SIMPLEX:
        close(run((q, k, v), f"topk(1)+{transform}"), v.gather(2, best.expand(-1, -1, -1, D)), dtype)


@DTYPES
def test_ties_at_the_threshold_all_stay(dtype):
    q, k, v = qkv(dtype)
    q, k = (4 * q).round() / 4, (4 * k).round() / 4  # scores exact in any order of sums
    k = k[:, :, :4].repeat(1, 1, 3, 1)[:, :, :N]  # keys 0, 4, 8 equal, 1, 5, 9, 2, 6, 10 and 3, 7 too
    scores = q @ k.transpose(-1, -2)
    for wanted in (1, 2, 4):
        chosen = scores >= scores.topk(wanted).values[..., -1:]
        assert (chosen.sum(-1) > wanted).any()
        weights = (scores / math.sqrt(D)).masked_fill(~chosen, -math.inf).softmax(-1)
        close(run((q, k, v), f"topk({wanted})"), weights @ v, dtype)


@specs.CPU_KERNELS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("heads,keys,width", [(1, 70, 4), (1, 33, 17), (2, 130, 40), (1, 300, 5)])
def test_equal_keys_tie_wherever_they_stand(heads, keys, width, dtype):
    """Though a product of matrices may add in another order at its edges."""
    torch.manual_seed(0)
    key, q = specs.randn(heads, 1, width).to(dtype), specs.randn(1, heads, 50, width).to(dtype)
    k, v = key.expand(1, heads, keys, width), torch.arange(keys, dtype=dtype)[:, None].expand(1, heads, keys, width)
    assert (fovea.attention_weights(q, k, "topk(1)", cross=True) > 0).all()
    out = fovea.attention(q, k, v, "topk(1)", cross=True)
    mean = torch.full_like(out, (keys - 1) / 2)
    torch.testing.assert_close(out, mean, rtol=8 * torch.finfo(dtype).eps, atol=0)  # sums by vectors


@DTYPES
@pytest.mark.parametrize("selection", ["", "topk(4)+", "random(7)+"])
@pytest.mark.parametrize("transform", ON_SIMPLEX)
def test_weights_sum_to_one(selection, transform, dtype):
    q, k, _ = qkv(dtype)
    ones = torch.ones_like(q)
    close(run((q, k, ones), selection + transform), ones, dtype)
    weights = fovea.attention_weights(q, k, selection + transform)
    assert (weights >= 0).all()
    close(weights.sum(-1), torch.ones_like(weights[..., 0]), dtype)


@DTYPES
@pytest.mark.parametrize("alpha", [1.3, 2, 2.5, 4, 8, 64])
@pytest.mark.parametrize("n", [20, 700])
def test_entmax_sums_to_one_however_steep(alpha, n, dtype):
    """Above alpha 2 the power of a weight that tau is found from may be 1e-21 and far less."""
    q, k, v = qkv(dtype, n)
    q, spec = q[..., :20, :], f"entmax({alpha})"
    for deviation in (0.05, 1, 5):
        out = fovea.attention(q, deviation * k, torch.ones_like(v), spec, cross=True)
        close(out, torch.ones_like(out), dtype)
    close(fovea.attention(q, 0 * k, v, spec, cross=True), v.mean(-2, keepdim=True).expand_as(q), dtype)


@DTYPES
@pytest.mark.parametrize("spec", ["sparsemax", "entmax(1.9)", "entmax(1.5)", "topk(4000)+sparsemax", "entmax(1.2)"])
@pytest.mark.parametrize("n", [4096, 20000])
def test_weights_of_nearly_equal_scores_sum_to_one(spec, n, dtype):
    """A few queries over a long cache: 1 - mu, of which a weight is made, is 5e-5."""
    for deviation in (0, 1e-6, 1e-5):
        q, k = deviation * specs.randn(1, 1, 8, 16, dtype=dtype), specs.randn(1, 1, n, 16, dtype=dtype)
        out = fovea.attention(q, k, torch.ones_like(k), spec, cross=True)
        # Sums so far are n / 2 in all, each rounded by half an eps.
        assert (out - 1).abs().max() < n / 2 * torch.finfo(dtype).eps


@specs.CPU_KERNELS
@DTYPES
@pytest.mark.parametrize("spec", ["full", "topk(2)", "topk(9)", "sparsemax"])
def test_infinite_values_without_weight_stay_where_they_are(spec, dtype):
    q, k, v = (torch.ones(1, 1, n, 1, dtype=dtype, device=specs.DEVICE) for n in (40, 400, 400))
    k *= -1e3
    k[..., 0, 0], k[..., 1, 0], v[..., 1:, 0] = 1e3, 0, math.inf
    out = fovea.attention(q, k, v, spec, cross=True, scale=1.0)
    close(out, torch.ones_like(out), dtype)


@specs.CPU_KERNELS
@pytest.mark.parametrize("spec", ["full", "relu", "sigmoid(0)", "gelu", "leaky-relu(0.1)"])
def test_a_score_of_minus_infinity_is_no_candidate(spec):
    for dtype in (torch.float32, torch.float64):
        q, k = (torch.ones(1, 1, 2, 4, dtype=dtype, device=specs.DEVICE) for _ in "qk")
        v = torch.randn(1, 1, 2, 4, dtype=dtype, device=specs.DEVICE)
        k[..., 0, :] = -math.inf
        assert torch.equal(fovea.attention_weights(q, k, spec)[..., 0], torch.zeros(1, 1, 2, dtype=dtype, device=specs.DEVICE))
        close(fovea.attention(q, k, v, spec), fovea.attention(q, k[..., 1:, :], v[..., 1:, :], spec, cross=True), dtype)


@specs.CPU_KERNELS
@pytest.mark.parametrize("n", [100, 600])  # cpu-rows and cpu-entmax
def test_gradient_of_alpha_is_blind_to_an_offset_of_values(n):
    grads = []
    for dtype, offset in ((torch.float64, 0), (torch.float32, 100)):
        torch.manual_seed(1)
        q, k, v = (specs.randn(1, 2, n, 16).to(dtype) for _ in range(3))
        alpha = torch.full((2,), 1.05, dtype=dtype, device=specs.DEVICE, requires_grad=True)
        out = fovea.attention(0.3 * q, k, v + offset, "entmax(learned)", alpha=alpha)
        weight = specs.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(dtype)
        grads.append(torch.autograd.grad((out * weight).sum(), alpha)[0].double())
    # v + 100 has rounded v to 2^-18.
    torch.testing.assert_close(grads[1], grads[0], rtol=2e-4, atol=2e-4 * grads[0].abs().max().item())


@pytest.mark.parametrize("scale", [2.0**20, 2.0**60])
def test_scores_that_tie_as_products_tie_whatever_the_scale(scale):
    """The scores have one dimension, on the grid of the least floats."""
    torch.manual_seed(0)
    q, k = 2.0**-80 * (1 + torch.rand(1, 1, 64, 1)), 2.0**-66 * (1 + torch.rand(1, 1, 600, 1))
    scores = q @ k.transpose(-1, -2) * scale
    chosen = scores >= scores.topk(8).values[..., -1:]
    assert (chosen.sum(-1) > 8).any()
    out = fovea.attention(q, k, torch.ones_like(k), "topk(8)+leaky-relu(1)", cross=True, scale=scale)
    close(out[..., 0] / scale * 2.0**146, (scores * chosen).sum(-1) / scale * 2.0**146, torch.float32)


@DTYPES
@pytest.mark.parametrize("alpha", [1.3, 2.5, 4, 8, 64])
@pytest.mark.parametrize("others", [0, 400])
def test_entmax_of_two_keys(alpha, others, dtype):
    """w^b - (1 - w)^b = b d for weights w and 1 - w of scores d apart, b = alpha - 1; keys far below have none."""
    b = alpha - 1
    for wanted in (0.5, 0.55, 0.7, 0.9, 0.99):
        apart = (wanted**b - (1 - wanted) ** b) / b
        k = torch.tensor([0, -apart] + others * [-9.0], dtype=dtype, device=specs.DEVICE)[:, None]
        v = torch.tensor([1, 0] + others * [5.0], dtype=dtype, device=specs.DEVICE)[:, None]
        q = torch.ones(40, 1, dtype=dtype, device=specs.DEVICE)
        out = fovea.attention(q[None, None], k[None, None], v[None, None], f"entmax({alpha})", cross=True, scale=1.0)
        # d's rounding, relatively, moves w by less than as much: d dw / dd is below w / b.
        torch.testing.assert_close(out, torch.full_like(out, wanted), rtol=0, atol=TOLERANCE[dtype]["atol"])


@pytest.mark.parametrize("n", [30, 400])
@pytest.mark.parametrize("alpha", [2.2, 3.0])
def test_gradients_above_alpha_2(n, alpha):
    """Compares float32 with double, for alpha's gradient too."""
    grads, drawn = [], qkv(torch.float32, n)
    for dtype in (torch.float32, torch.float64):
        x = [t.to(dtype, copy=True).requires_grad_() for t in drawn]
        x.append(torch.full((H,), alpha, dtype=dtype, device=specs.DEVICE, requires_grad=True))
        out = fovea.attention(*x[:3], "entmax(learned)", causal=True, alpha=x[3])
        grads.append([g.double() for g in torch.autograd.grad(out.square().sum(), x)])
    for got, right in zip(*grads):
        assert (got - right).norm() < 0.01 * right.norm()


def test_supports_are_nested():
    q, k, _ = qkv(torch.float64, n=40)
    weights = [fovea.attention_weights(3 * q, k, s) > 0 for s in ("sparsemax", "entmax(1.7)", "entmax(1.5)", "entmax(1.2)")]
    for small, large in zip(weights, weights[1:]):
        assert (small <= large).all() and small.sum() < large.sum()


@DTYPES
def test_entmax_meets_its_neighbours(dtype):
    x = qkv(dtype)
    learned = {"alpha": torch.full((H,), 2.0, dtype=dtype, device=specs.DEVICE)}
    close(fovea.attention(*x, "entmax(learned)", **learned), fovea.attention(*x, "sparsemax"), dtype)
    learned = {"alpha": torch.full((H,), 1.5, dtype=dtype, device=specs.DEVICE)}
    close(fovea.attention(*x, "entmax(learned)", **learned), fovea.attention(*x, "entmax(1.5)"), dtype)
    # d p / d alpha is of size one, so alpha - 1 = 1e-3 moves outputs by a few times 1e-3.
    torch.testing.assert_close(fovea.attention(*x, "entmax(1.001)"), fovea.attention(*x, "full"), rtol=0.01, atol=0.01)


@DTYPES
def test_relu_of_positive_scores_is_linear_attention(dtype):
    q, k, v = qkv(dtype)
    q, k = q.abs(), k.abs()
    linear = (q / math.sqrt(D)) @ (k.transpose(-1, -2) @ v)
    torch.testing.assert_close(run((q, k, v), "relu"), linear, rtol=1e-5, atol=1e-4)
    rows = linear.transpose(1, 2).flatten(2)
    normed = rows * (rows.square().mean(-1, keepdim=True) + 1e-8).rsqrt()
    gain = specs.extras("rmsnorm", H, D, dtype)["gain"]
    close(run((q, k, v), "relu+rmsnorm").transpose(1, 2).flatten(2), normed * gain, dtype)


@DTYPES
@pytest.mark.parametrize("transform", specs.POINTWISE)
def test_pointwise_transforms_add_up_over_keys(transform, dtype):
    q, k, v = qkv(dtype)
    parts = [run((q, k[:, :, s], v[:, :, s]), transform, cross=True) for s in (slice(0, 4), slice(4, N))]
    close(parts[0] + parts[1], run((q, k, v), transform), dtype)


@DTYPES
@pytest.mark.parametrize("spec", specs.TRANSFORMS + [f"topk(3)+{t}" for t in specs.TRANSFORMS])
def test_order_of_keys_does_not_matter(spec, dtype):
    q, k, v = qkv(dtype)
    order = torch.randperm(N, device=specs.DEVICE)
    close(run((q, k[:, :, order], v[:, :, order]), spec), run((q, k, v), spec), dtype)


@DTYPES
@pytest.mark.parametrize("spec", [s for s in specs.ALL + specs.RANDOM if "bias" not in fovea.parameters(s)])
def test_rows_without_candidates_are_zero(spec, dtype):
    x = [t.requires_grad_() for t in qkv(dtype)]
    out = run(x, spec, k_lengths=torch.tensor([0]), q_lengths=torch.tensor([N]))
    assert not out.any()
    for grad in torch.autograd.grad(out.sum(), x):
        assert not grad.any()


@DTYPES
def test_nan_reaches_its_rows_and_no_others(dtype):
    q, k, v = qkv(dtype)
    for spec in ("full", "topk(3)", "sparsemax", "entmax(1.5)", "relu", "entmax(1.3)"):
        bad = q.clone()
        bad[0, 1, 4, 2] = math.nan
        out = run((bad, k, v), spec)
        assert out[0, 1, 4].isnan().all() and out.isnan().sum() == D
        bad = k.clone()
        bad[0, 1, 4, 2] = math.nan
        out = run((q, bad, v), spec, causal=True)
        assert out[0, 1, 4:].isnan().all() and out.isnan().sum() == D * (N - 4)


@DTYPES
def test_a_block_before_the_first_key_is_empty(dtype):
    q, k, v = qkv(dtype, n=9)
    out = fovea.attention(q, k[:, :, :4], v[:, :, :4], "block(3)")  # query i stands at position i - 5
    assert (out[:, :, :5] == 0).all() and (out[:, :, 5:] != 0).all()


def test_weights_are_for_looking_at():
    q, k = specs.inputs(1, H, N, D, count=2, requires_grad=True)
    assert not fovea.attention_weights(q, k, "topk(2)").requires_grad


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("live", [(), (1,), (0, 2), (0, 1, 2)])
def test_relu_skips_what_is_not_positive(live, causal):
    """In every three groups of a dozen queries, some have positive scores only, the others none."""
    n = 430
    group = torch.arange(n) // 12 % 3
    sign = torch.where(torch.isin(group, torch.tensor(live, dtype=torch.int64)), 1, -1)[:, None].to(specs.DEVICE)
    x = [sign * specs.randn(1, H, n, D).abs(), specs.randn(1, H, n, D).abs(), specs.randn(1, H, n, D)]
    grad = specs.randn(1, H, n, D)

    def naive(q, k, v):
        scores = q @ k.transpose(2, 3) / D**0.5
        return (scores.tril() if causal else scores).relu() @ v

    results = []
    for function, tensors in ((lambda *t: fovea.attention(*t, "relu", causal=causal), x),
                              (naive, [t.double() for t in x])):
        tensors = [t.clone().requires_grad_() for t in tensors]
        out = function(*tensors)
        results.append((out, *torch.autograd.grad(out, tensors, grad.to(out.dtype))))
    for ours, truth in zip(*results):
        # sums of n products of size one: 2^-24 of each
        torch.testing.assert_close(ours.double(), truth, rtol=1e-5, atol=n * 2**-22)


@pytest.mark.parametrize("spec", ["full", "topk(3)", "sparsemax", "window(4)", "rela-g"])
def test_bfloat16_is_float32_of_rounded_inputs(spec):
    x = qkv(torch.bfloat16)
    out = run(x, spec, causal=True)
    assert out.dtype == torch.bfloat16
    wide = run([t.float() for t in x], spec, causal=True)
    # One rounding of the output to 8 bits, and for norms one of z before.
    torch.testing.assert_close(out.float(), wide, rtol=2**-6, atol=2**-6)


@DTYPES
@pytest.mark.parametrize("spec", ["full", "window(4)", "topk(3)", "topk(2,keep=window(2))", "entmax(1.5)", "relu", "sink(0.5)"])
def test_a_soft_cap_is_its_formula(spec, dtype):
    """Weights are those of scores c tanh(s / c), which queries and keys of another width give exactly: units, and the scores."""
    q, k, v = qkv(dtype)
    scores = 0.9 * torch.tanh(q @ k.transpose(2, 3) * D**-0.5 / 0.9)
    units = torch.eye(N, dtype=dtype).expand(1, H, -1, -1)
    right = fovea.attention_weights(scores, units, spec, scale=1.0, causal=True)
    close(fovea.attention_weights(q, k, f"{spec}+softcap(0.9)", causal=True), right, dtype)
    close(fovea.attention(q, k, v, f"{spec}+softcap(0.9)", causal=True), right @ v, dtype)


@DTYPES
def test_scores_far_above_a_cap_are_ties(dtype):
    """tanh rises strictly, but its numbers end at 1: topk(1) keeps all keys there, and their gradients are 0."""
    q, k, v = torch.ones(1, 1, 1, 1, dtype=dtype), torch.tensor([3.0, 40, 50, -60], dtype=dtype).view(1, 1, 4, 1), qkv(dtype)[2][:, :1, :4]
    q.requires_grad_()
    weights = fovea.attention_weights(q, k, "topk(1)+softcap(1)", scale=1.0, cross=True)
    assert weights.flatten().tolist() == [0, 0.5, 0.5, 0]
    out = fovea.attention(q, k, v, "topk(1)+softcap(1)", scale=1.0, cross=True)
    close(out, v[:, :, 1:3].mean(2, keepdim=True), dtype)
    assert torch.autograd.grad(out.sum(), q)[0].abs().max() < 1e-12


@DTYPES
@pytest.mark.parametrize("n", [5, 11, 700])
@pytest.mark.parametrize("select", ["", "topk(3)+", "window(5)+"])
def test_a_sink_far_below_is_softmax_and_scales_what_it_leaves(select, n, dtype):
    """sink(-64) takes nothing; at zero scores sink(c) leaves m / (m + e^c) of m keys' mean."""
    q, k, v = (specs.randn(2, H, n, D, dtype=dtype) for _ in range(3))
    close(fovea.attention(q, k, v, select + "sink(-64)"), fovea.attention(q, k, v, select + "softmax"), dtype)
    if select != "topk(3)+":
        whole = fovea.attention(torch.zeros_like(q), k, v, select + "softmax", causal=True)
        left = fovea.attention(torch.zeros_like(q), k, v, select + "sink(1)", causal=True)
        keys = torch.arange(1, n + 1, dtype=dtype, device=specs.DEVICE).clamp(max=5 if select else n)[:, None]
        close(left, whole * keys / (keys + torch.e), dtype)

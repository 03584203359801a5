"""Pairs that come with the call, `indices` and `block_indices`, against a dense mask in double."""
import pathlib
import re
import resource

import pytest
import torch

import fovea

H, KV, D = 4, 2, 16
SPECS = ["full", "topk(4)", "relu", "entmax(1.5)", "topk(6)+relu", "topk(3,keep=window(5))", "window(16)"]


def entmax15(s):
    """By bisection of the threshold."""
    z = (s - s.amax(-1, True)) / 2
    low, high = torch.full_like(s[..., :1], -1.0), torch.zeros_like(s[..., :1])
    for _ in range(80):
        middle = (low + high) / 2
        above = (z - middle).clamp_min(0).square().sum(-1, True) >= 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    low = low.detach()
    # One step of Newton's makes the threshold a function of the scores.
    rest = (z - low).clamp_min(0)
    tau = low + (rest.square().sum(-1, True) - 1) / (2 * rest.sum(-1, True)).clamp_min(1e-12)
    return (z - tau).clamp_min(0).square()


def oracle(q, k, v, listed, spec):
    """Dense, in double. listed: [B, H, N_q, N_k] bool, with causal limit and padding."""
    q, k, v = q.double(), *(x.double().repeat_interleave(q.size(1) // x.size(1), 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
    offset = torch.arange(k.size(2)) - (torch.arange(q.size(2))[:, None] + k.size(2) - q.size(2))
    window = (offset <= 0) & (offset > -16)
    keep = (offset <= 0) & (offset > -5)
    listed = listed & window if spec == "window(16)" else listed
    best = {"topk(4)": 4, "topk(6)+relu": 6, "topk(3,keep=window(5))": 3}.get(spec)
    if best:
        kept = listed & keep if "keep" in spec else torch.zeros_like(listed)
        rest = scores.masked_fill(~listed | kept, -torch.inf)
        least = rest.topk(min(best, rest.size(-1)), -1).values[..., -1:]
        listed = listed & (kept | (rest >= least))
    scores = scores.masked_fill(~listed, -torch.inf)
    empty = ~listed.any(-1, keepdim=True)
    if "relu" in spec:
        weights = scores.clamp_min(0)
    else:
        weights = (entmax15 if "entmax" in spec else lambda s: s.softmax(-1))(scores.masked_fill(empty, 0))
    return weights.masked_fill(empty | ~listed, 0) @ v


def lists(limits, count, generator, unit=1):
    """For limits [...] of keys that may be listed: [..., count], in any order, -1 among them; some lists are empty."""
    units = (limits + unit - 1) // unit
    most = max(int(units.max()), count)
    noise = torch.rand(*limits.shape, most, generator=generator)
    noise = noise.masked_fill(torch.arange(most) >= units[..., None], 2)
    noise[torch.rand(limits.shape, generator=generator) < 0.1] = 2
    values, order = noise.sort(-1)
    values, order = values[..., :count], order[..., :count]
    shuffled = torch.randperm(count, generator=generator)
    return order.masked_fill(values >= (1.5 if count < most else 0.8), -1)[..., shuffled]


def mask_of(entries, keys, unit=1):
    """[..., keys] bool of [..., count] entries."""
    units = -(-keys // unit)
    hit = torch.zeros(*entries.shape[:-1], units + 1, dtype=torch.bool)
    hit.scatter_(-1, entries.long().where(entries >= 0, units), True)
    return hit[..., :units].repeat_interleave(unit, -1)[..., :keys]


class Drawn:
    """Queries and keys, lists by key or by block, and their mask."""

    def __init__(self, queries, keys, causal, blocks, dtype=torch.float32, count=12, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.q, self.k, self.v = (torch.randn(2, h, n, D, generator=g).to(dtype).requires_grad_()
                                  for h, n in ((H, queries), (KV, keys), (KV, keys)))
        places = torch.arange(queries) + keys - queries
        limits = (places + 1 if causal else torch.full((queries,), keys)).expand(2, KV if blocks else 1, queries)
        unit = 8 if blocks else 1
        entries = lists(limits, 3 if blocks else count, g, unit)
        listed = mask_of(entries, keys, unit)
        if causal:
            listed = listed & (torch.arange(keys) <= places[:, None])
        self.listed = listed.repeat_interleave(H // listed.size(1), 1)
        self.options = {"causal": causal, "enable_gqa": True}
        if blocks:
            self.options |= {"block_indices": entries, "block_size": unit}
        else:
            self.options["indices"] = entries[:, 0].to(torch.int32)
        self.x = (self.q, self.k, self.v)


CASES = [(40, 40, True, False), (33, 70, True, False), (40, 40, False, False), (1, 90, True, False), (50, 50, True, True),
         (3, 61, True, True), (37, 37, False, True)]


@pytest.mark.parametrize("queries, keys, causal, blocks", CASES)
@pytest.mark.parametrize("spec", SPECS)
def test_equals_a_dense_mask(spec, queries, keys, causal, blocks):
    if not causal and "window" in spec:
        return  # the oracle's window looks back
    for dtype, tolerance in ((torch.float32, 2e-5), (torch.bfloat16, 3e-2), (torch.float64, 1e-9)):
        d = Drawn(queries, keys, causal, blocks, dtype)
        out = fovea.attention(*d.x, spec, **d.options)
        assert out.dtype == dtype
        selects = "topk" in spec and dtype == torch.bfloat16  # in bfloat16 other scores are the greatest
        expected = oracle(*d.x, d.listed, spec)
        if selects:
            continue
        torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
        grad = torch.randn_like(expected)
        for a, b in zip(torch.autograd.grad(out, d.x, grad.to(dtype)), torch.autograd.grad(expected, d.x, grad)):
            torch.testing.assert_close(a.double(), b.double(), rtol=5 * tolerance, atol=5 * tolerance)


@pytest.mark.parametrize("blocks", [False, True])
def test_packed_sequences_have_their_own_positions(blocks):
    parts = [Drawn(n, n, True, blocks, count=9, seed=n) for n in (20, 1, 31)]
    pack = [torch.cat([d.x[i][0].transpose(0, 1) for d in parts]) for i in range(3)]
    name = "block_indices" if blocks else "indices"
    entries = [d.options[name][0].transpose(0, 1) if blocks else d.options[name][0] for d in parts]
    options = {**parts[0].options, name: torch.cat(entries)}
    offsets = torch.tensor([0, 20, 21, 52])
    out = fovea.attention(*pack, "topk(4)", q_offsets=offsets, **options)
    for d, begin, end in zip(parts, offsets, offsets[1:]):
        expected = oracle(*(x[:1] for x in d.x), d.listed[:1], "topk(4)")[0].transpose(0, 1)
        torch.testing.assert_close(out[begin:end].double(), expected, rtol=1e-5, atol=1e-5)


def test_padding_has_no_lists():
    d = Drawn(40, 40, False, False)
    length = torch.tensor([40, 25])
    entries = d.options["indices"].clone()
    entries[1] = entries[1].masked_fill(entries[1] >= 25, -1)
    entries[1, 25:] = 10 ** 6  # of queries that are padding: not read
    out = fovea.attention(*d.x, indices=entries, enable_gqa=True, q_lengths=length, k_lengths=length)
    listed = mask_of(entries.where(entries < 25, -1), 40)[:, None]
    listed[0] = d.listed[0, :1]
    expected = oracle(*d.x, listed.expand(2, H, 40, 40), "full")
    torch.testing.assert_close(out[0].double(), expected[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out[1, :, :25].double(), expected[1, :, :25], rtol=1e-5, atol=1e-5)
    assert out[1, :, 25:].eq(0).all()


@pytest.mark.parametrize("blocks", [False, True])
def test_a_cache_in_pieces(blocks):
    """Decoding over keys that lie where k_tokens says."""
    d = Drawn(2, 50, True, blocks)
    place = torch.randperm(100)[:50]
    k, v = (torch.randn(100, KV, D).index_copy(0, place, x[0].transpose(0, 1).detach()) for x in (d.k, d.v))
    name = "block_indices" if blocks else "indices"
    entries = d.options[name][0].transpose(0, 1) if blocks else d.options[name][0]
    options = {**d.options, name: entries, "k_tokens": place, "k_begins": torch.tensor([0]),
               "k_lengths": torch.tensor([50]), "q_offsets": torch.tensor([0, 2])}
    out = fovea.attention(d.q[0].transpose(0, 1).detach(), k, v, **options)
    torch.testing.assert_close(out, fovea.attention(*d.x, **d.options)[0].transpose(0, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", ["full", "topk(4)", "entmax(1.5)", "topk(3,keep=window(5))", "window(16)"])
def test_lists_of_long_runs(spec):
    """Queries whose lists hardly differ are computed together."""
    d = Drawn(150, 150, True, False)
    places = torch.arange(150)
    entries = places.repeat(2, 150, 1)
    entries = entries.masked_fill((places > places[:, None]) | (torch.rand(2, 150, 1) < 0.1), -1)
    entries[1, 40:90] = entries[1, 40:90].masked_fill(places % 50 < 10, -1)
    d.listed = mask_of(entries, 150)[:, None].expand(2, H, 150, 150)
    out = fovea.attention(*d.x, spec, **{**d.options, "indices": entries})
    expected = oracle(*d.x, d.listed, spec)
    grad = torch.randn_like(expected)
    torch.testing.assert_close(out.double(), expected, rtol=2e-5, atol=2e-5)
    for a, b in zip(torch.autograd.grad(out, d.x, grad.float()), torch.autograd.grad(expected, d.x, grad)):
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-4, atol=1e-4)


def test_order_and_threads_change_no_bit():
    d = Drawn(300, 300, True, False, count=64)
    entries = d.options["indices"]

    def run(entries):
        x = [t.detach().requires_grad_() for t in d.x]
        out = fovea.attention(*x, "topk(20)", causal=True, enable_gqa=True, indices=entries, dropout=0.1, dropout_seed=3)
        out.square().sum().backward()
        return [out, *(t.grad for t in x)]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = run(entries)
        torch.set_num_threads(3)
        for other in (run(entries), run(entries[..., torch.randperm(entries.size(-1))].long())):
            assert all(map(torch.equal, alone, other))
    finally:
        torch.set_num_threads(before)


def test_groups_of_heads_read_their_own_lists():
    d = Drawn(40, 40, True, True)
    spec = "1*full;2*topk(4);1*relu"
    out = fovea.attention(*d.x, spec, **d.options)
    parts = [oracle(*d.x, d.listed, s) for s in ("full", "topk(4)", "relu")]
    expected = torch.cat([parts[0][:, :1], parts[1][:, 1:3], parts[2][:, 3:]], 1)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
    weights = fovea.attention_weights(d.q, d.k, spec, **d.options)
    assert weights[~d.listed].eq(0).all()
    torch.testing.assert_close(weights @ d.v.repeat_interleave(2, 1), out, rtol=1e-4, atol=1e-5)


def test_terms_and_other_widths():
    d = Drawn(40, 40, True, False)
    bias = torch.randn(H, 30, requires_grad=True)
    value = torch.randn(2, KV, 40, 24, requires_grad=True)
    terms = {"offset_bias": bias, "offset_first": -29, "offset_queries": torch.randn(2, H, 40, D, requires_grad=True),
             "offset_rows": torch.randn(9, 1, D, requires_grad=True), "offset_rows_first": -8}
    x = [d.q, d.k, value, bias, terms["offset_queries"], terms["offset_rows"]]
    out = fovea.attention(d.q, d.k, value, "topk(5)", **d.options, **terms)
    full = fovea.attention(*(t.double() for t in (d.q, d.k, value)), "topk(5)", **d.options,
                           **{n: t.double() if isinstance(t, torch.Tensor) else t for n, t in terms.items()})
    grad = torch.randn_like(out)
    torch.testing.assert_close(out.double(), full, rtol=1e-5, atol=1e-5)
    for a, b in zip(torch.autograd.grad(out, x, grad), torch.autograd.grad(full, x, grad.double())):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_compiles_and_passes_opcheck():
    d = Drawn(24, 24, True, False)
    f = torch.compile(lambda q, k, v, i: fovea.attention(q, k, v, "topk(4)", causal=True, enable_gqa=True, indices=i),
                      fullgraph=True)
    entries = d.options["indices"]
    out, expected = f(*d.x, entries), fovea.attention(*d.x, "topk(4)", **d.options)
    assert torch.equal(out, expected)
    for a, b in zip(torch.autograd.grad(out.sum(), d.x), torch.autograd.grad(expected.sum(), d.x)):
        assert torch.equal(a, b)
    kwargs = {"kind": "causal", "enable_gqa": True, "indices": entries}
    torch.library.opcheck(torch.ops.fovea.attention.default, (*d.x, "topk(4)"), kwargs)
    d = Drawn(24, 24, True, True)
    kwargs = {"kind": "causal", "enable_gqa": True, "block_indices": d.options["block_indices"], "block_size": 8}
    torch.library.opcheck(torch.ops.fovea.attention.default, (*d.x, "full"), kwargs)


def test_module_takes_them():
    layer = fovea.Attention(32, 2, "topk(4)", causal=True)
    x = torch.randn(1, 20, 32)
    everything = torch.arange(20).expand(1, 20, 20).masked_fill(torch.arange(20) > torch.arange(20)[:, None], -1)
    torch.testing.assert_close(layer(x, indices=everything), layer(x))
    assert not torch.allclose(layer(x, indices=everything[..., :3]), layer(x))
    with pytest.raises(RuntimeError, match="leave one of them out"):
        fovea.attention(*[torch.randn(1, 2, 20, 16)] * 3, "routed(2,4,random)", indices=everything)


def test_memory_follows_the_lists():
    n = 16384  # n x n floats are a gigabyte
    g = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, 1, n, 16, generator=g, requires_grad=True) for _ in range(3))
    entries = (torch.rand(1, n, 1, generator=g) * torch.arange(1, n + 1)[:, None]).to(torch.int32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fovea.attention(q, k, v, causal=True, indices=entries).sum().backward()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300e3
    assert q.grad is not None and v.grad.sum() == pytest.approx(n * 16, rel=1e-3)


def test_the_guide():
    text = (pathlib.Path(__file__).parents[2] / "docs" / "python.md").read_text()
    code, = re.findall(r"```python\n(.*?)```", text.split("### Given indices")[1].split("Other functions:")[0], re.S)
    q, k, v = (torch.randn(2, 8, 512, 64, requires_grad=i == 0) for i in range(3))
    names = {"torch": torch, "fovea": fovea, "q": q, "k": k, "v": v}
    exec(code, names)
    assert names["indices"].shape == (2, 512, 16) and names["out"].shape == q.shape
    names["out"].sum().backward()
    assert (fovea.attention_weights(q, k, causal=True, indices=names["indices"]) > 0).sum(-1).max() == 16


def bad(**changes):
    good = {"indices": torch.tensor([[[0, -1], [1, 0], [2, 0]]]), "causal": True}
    return {name: x for name, x in {**good, **changes}.items() if x is not None}


@pytest.mark.parametrize("options, message", [
    (bad(indices=torch.tensor([[[0, -1], [1, 0], [3, 0]]])), r"indices names key 3 for query 2 of sequence 0; expected 0 to 2"),
    (bad(indices=torch.tensor([[[0, -1], [-2, 0], [2, 0]]])), r"indices names key -2 for query 1 of sequence 0; expected"),
    (bad(indices=torch.tensor([[[0, 1], [1, 0], [2, 0]]])), r"key 1 for query 0 .* behind the query .* expected 0 to 0, or -1"),
    (bad(indices=torch.tensor([[[0, -1], [1, 1], [2, 0]]])), r"key 1 for query 1 of sequence 0 twice; expected each once"),
    (bad(indices=torch.zeros(1, 3)), r"indices is Float \[1, 3\] .* expected int32 or int64 \[B, N_q, k\]"),
    (bad(indices=torch.zeros(1, 3, 2)), r"indices is Float"),
    (bad(indices=torch.zeros(1, 4, 2, dtype=torch.long)), r"indices is Long \[1, 4, 2\]"),
    (bad(indices=torch.zeros(1, 2, 3, 1, dtype=torch.long)), r"expected int32 or int64 \[B, N_q, k\], shared by all heads"),
    (bad(block_indices=torch.zeros(1, 2, 3, 1, dtype=torch.long)), r"got indices and block_indices"),
    (bad(block_size=64), r"got block_size 64 without block_indices"),
    (bad(indices=None, block_indices=torch.zeros(1, 3, 3, 1, dtype=torch.long)), r"block_indices is Long .* a list for each head of k"),
    (bad(indices=None, block_indices=torch.ones(1, 2, 3, 1, dtype=torch.long)), r"block_indices names block 1 .* expected 0 to 0"),
    (bad(indices=None, block_size=0, block_indices=torch.zeros(1, 2, 3, 1, dtype=torch.long)), r"block_size is 0; expected"),
    (bad(indices=None, block_size=1, block_indices=torch.tensor([0, 1, 3]).view(1, 1, 3, 1).expand(1, 2, 3, 1)), r"block_indices names key 3"),
], ids=str)
def test_bad_lists_get_one_line(options, message):
    x = torch.randn(1, 2, 3, D)
    with pytest.raises(RuntimeError, match=message) as error:
        fovea.attention(x, x, x, **options)
    assert "\n" not in str(error.value).split("Exception raised")[0].strip()


def test_other_types_are_refused():
    x = torch.randn(1, 2, 3, D)
    with pytest.raises(TypeError, match="attention: indices is of type list; expected a tensor"):
        fovea.attention(x, x, x, indices=[[0]])

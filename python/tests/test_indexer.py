"""fovea.index_topk and fovea.index_loss against their definitions in double."""
import pytest
import torch

import fovea


def random(batch=2, queries=9, keys=23, heads=3, width=5, whole=False, dtype=torch.float64):
    shapes = (batch, queries, heads, width), (batch, keys, width), (batch, queries, heads)
    made = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    return [(x.round() if whole else x).to(dtype) for x in made]


def scores_of(q, k, weights):
    """[B, S, T], dense."""
    return (torch.einsum("bshd,btd->bsht", q, k).relu() * weights[..., None]).sum(2)


def visible(queries, keys, causal):
    every = torch.ones(queries, keys, dtype=torch.bool)
    return every.tril(keys - queries) if causal else every


def best_of(q, k, weights, k_best, causal):
    """By a stable sort in double."""
    scores = scores_of(q.double(), k.double(), weights.double())
    allowed = visible(q.size(1), k.size(1), causal)
    rows = []
    for row, seen in zip(scores.flatten(0, 1), allowed.repeat(q.size(0), 1)):
        places = seen.nonzero()[:, 0]
        order = row[places].sort(descending=True, stable=True).indices[:k_best]
        best = places[order].sort().values
        rows.append(torch.nn.functional.pad(best, (0, k_best - best.numel()), value=-1))
    return torch.stack(rows).view(*q.shape[:2], k_best).int()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.float16])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("k_best", [1, 6, 40])
def test_best_keys_with_ties(dtype, causal, k_best):
    q, k, weights = random(whole=True)  # exact sums, many of them equal
    found = fovea.index_topk(q.to(dtype), k.to(dtype), weights.to(dtype), k_best, causal)
    assert found.dtype == torch.int32
    assert torch.equal(found, best_of(q, k, weights, k_best, causal))


@pytest.mark.parametrize("sizes", [(1, 300, 300, 4, 64), (1, 70, 517, 2, 33), (3, 1, 129, 8, 17)])
def test_best_keys_of_odd_sizes(sizes):
    q, k, weights = random(*sizes, dtype=torch.float32)
    found = fovea.index_topk(q, k, weights, 32)
    scores = scores_of(q.double(), k.double(), weights.double())
    chosen = torch.zeros(*scores.shape[:2], scores.size(2) + 1, dtype=torch.bool)
    chosen.scatter_(2, torch.where(found < 0, scores.size(2), found).long(), True)
    chosen, seen = chosen[..., :-1], visible(q.size(1), k.size(1), True)
    assert not (chosen & ~seen).any()
    assert torch.equal(chosen.sum(2), seen.sum(1).clamp(max=32).expand(q.size(0), -1))
    least = scores.masked_fill(~chosen, torch.inf).amin(2)
    most = scores.masked_fill(chosen | ~seen, -torch.inf).amax(2)
    assert (most <= least + 1e-4).all()


def test_packed_sequences():
    (q, k, weights), offsets = random(1, 12, 12, whole=True, dtype=torch.float32), torch.tensor([0, 5, 12])
    found = fovea.index_topk(q[0], k[0], weights[0], 4, q_offsets=offsets)
    for part in slice(0, 5), slice(5, 12):
        assert torch.equal(found[part], best_of(q[:, part], k[:, part], weights[:, part], 4, True)[0])


def test_choice_compiles():
    q, k, weights = random(1, 40, 40, 2, 8, dtype=torch.float32)
    call = torch.compile(lambda *x: fovea.index_topk(*x, 5) + 0, fullgraph=True, backend="aot_eager")
    assert torch.equal(call(q, k, weights), fovea.index_topk(q, k, weights, 5))
    torch.library.opcheck(torch.ops.fovea.index_topk.default, (q, k, weights, 5),
                          test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))


@pytest.mark.parametrize("change, message", [
    ({"k": torch.ones(2, 7, 6)}, r"index_topk: q has shape \[2, 3, 4, 5\], k \[2, 7, 6\]"),
    ({"k": torch.ones(2, 7, 5).int()}, "expected one floating type"),
    ({"k_best": 0}, "got k_best 0; expected 1 or more"),
    ({"k_best": 2.5}, "index_topk: k_best is of type float; expected a whole number"),
    ({"q": None}, "index_topk: q is of type NoneType; expected a tensor"),
    ({"q_offsets": torch.tensor([0, 6])}, "got offsets for dense tensors"),
])
def test_choice_refuses(change, message):
    arguments = {"q": torch.ones(2, 3, 4, 5), "k": torch.ones(2, 7, 5), "weights": torch.ones(2, 3, 4), "k_best": 2}
    with pytest.raises((TypeError, RuntimeError), match=message):
        fovea.index_topk(**{**arguments, **change})


def chosen(queries, keys, count, batch=2):
    """Random keys without repetition, some places and one whole row empty."""
    indices = torch.stack([torch.randperm(keys)[:count] for _ in range(batch * queries)]).view(batch, queries, count)
    indices[torch.rand(indices.shape) < 0.2] = -1
    indices[0, 1] = -1
    return indices


def dense_loss(q, k, weights, indices, target):
    """The definition, over a row's own keys alone."""
    scores, losses = scores_of(q, k, weights), []
    for row, index, wanted in zip(scores.flatten(0, 1), indices.flatten(0, 1), target.flatten(0, 1)):
        keep = index >= 0
        if not keep.any() or not wanted[keep].sum() > 0:
            continue
        p = wanted[keep] / wanted[keep].sum()
        log_weights = row[index[keep]].log_softmax(0)
        losses.append(sum(p_j * (p_j.log() - log_j) for p_j, log_j in zip(p, log_weights) if p_j > 0))
    return torch.stack(losses)


@pytest.mark.parametrize("chunk", [1, 1 << 21])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss_and_gradients(monkeypatch, chunk, reduction):
    monkeypatch.setattr(fovea._indexer, "_CHUNK", chunk)
    leaves = [x.requires_grad_() for x in random()]
    indices = chosen(9, 23, 7)
    target = torch.rand(2, 9, 7, dtype=torch.float64)
    target[0, 3, 2] = target[1, 4] = 0
    ours = fovea.index_loss(*leaves, indices.int(), target, reduction=reduction)
    losses = dense_loss(*leaves, indices, target)
    plain = losses.mean() if reduction == "mean" else losses.sum()
    torch.testing.assert_close(ours, plain)
    for a, b in zip(torch.autograd.grad(3 * ours, leaves), torch.autograd.grad(3 * plain, leaves)):
        torch.testing.assert_close(a, b)


def test_loss_by_finite_differences():
    indices, target = chosen(4, 11, 5, 1), torch.rand(1, 4, 5, dtype=torch.float64)
    leaves = [x.requires_grad_() for x in random(1, 4, 11)]
    assert torch.autograd.gradcheck(lambda *x: fovea.index_loss(*x, indices, target), leaves)


@pytest.mark.parametrize("sizes", [(2, 9, 23, 3, 5, 7), (1, 300, 400, 4, 64, 96), (3, 40, 1, 1, 16, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_of_the_kernel(sizes, dtype):
    *sizes, count = sizes
    leaves = [x.requires_grad_() for x in random(*sizes, dtype=dtype)]
    exact = [x.detach().double().requires_grad_() for x in leaves]
    indices, target = chosen(*sizes[1:3], count, sizes[0]), torch.rand(sizes[0], sizes[1], count)
    ours, plain = fovea.index_loss(*leaves, indices, target), dense_loss(*exact, indices, target.double()).mean()
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), plain, rtol=1e-5, atol=1e-6)
    least = 1e-5 if dtype == torch.float32 else 1e-2  # of the greatest gradient
    for a, b in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(plain, exact)):
        assert a.dtype == dtype and (a - b).abs().max() <= least * b.abs().max() + 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(2, 6, 2, 9, 12, 5, 4), (1, 4, 4, 70, 300, 64, 33)])
def test_target_is_the_mean_of_the_heads(shape, dtype):
    batch, heads, key_heads, queries, keys, width, count = shape
    q, k = (torch.randn(batch, h, n, width, dtype=torch.float64).to(dtype) for h, n in ((heads, queries), (key_heads, keys)))
    indices = chosen(queries, keys, count, batch)
    scores = torch.matmul(q.double(), k.double().repeat_interleave(heads // key_heads, 1).transpose(2, 3)) * 0.3
    picked = scores.gather(3, indices.clamp(min=0)[:, None].expand(-1, heads, -1, -1))
    expected = picked.masked_fill((indices < 0)[:, None], -torch.inf).softmax(-1).mean(1).masked_fill(indices < 0, 0)
    found = fovea.index_target(q, k, indices.int(), 0.3)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(fovea.index_target(q.requires_grad_(), k, indices.int(), 0.3), found)


def test_target_refuses():
    q, k, indices = torch.ones(2, 6, 9, 5), torch.ones(2, 2, 12, 5), torch.zeros(2, 9, 4, dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"index_target: q has shape \[2, 6, 9, 5\], k \[2, 4, 12, 5\]"):
        fovea.index_target(q, torch.ones(2, 4, 12, 5), indices)
    with pytest.raises(RuntimeError, match=r"indices lie in \[0, 12\]; expected -1 or keys below 12"):
        fovea.index_target(q, k, indices.index_fill(2, torch.tensor([1]), 12))
    with pytest.raises(RuntimeError, match="indices Long; expected one floating type and int32"):
        fovea.index_target(q, k, indices.long())


def test_loss_in_bfloat16_and_without_gradients():
    q, k, weights = random(dtype=torch.float32)
    indices, target = chosen(9, 23, 7), torch.rand(2, 9, 7)
    exact = fovea.index_loss(q, k, weights, indices, target)
    near = fovea.index_loss(*(x.bfloat16().requires_grad_() for x in (q, k, weights)), indices, target)
    assert near.dtype == torch.float32 and not exact.requires_grad
    torch.testing.assert_close(near, exact, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
def test_loss_within_autocast_is_the_one_outside(dtype):
    leaves = [x.requires_grad_() for x in random(dtype=dtype)]
    indices, target = chosen(9, 23, 7), torch.rand(2, 9, 7)
    plain = fovea.index_loss(*leaves, indices, target)
    with torch.autocast("cpu", torch.bfloat16):
        ours = fovea.index_loss(*leaves, indices, target)
    for a, b in zip((ours, *torch.autograd.grad(ours, leaves)), (plain, *torch.autograd.grad(plain, leaves))):
        assert torch.equal(a, b)


def test_loss_refuses_second_derivatives():
    leaves = [x.requires_grad_() for x in random()]
    loss = fovea.index_loss(*leaves, chosen(9, 23, 7), torch.rand(2, 9, 7, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="index_loss: has no second derivatives; call backward"):
        torch.autograd.grad(loss, leaves, create_graph=True)


def test_loss_of_no_query_is_zero():
    leaves = [x.requires_grad_() for x in random(1, 3, 4)]
    loss = fovea.index_loss(*leaves, torch.full((1, 3, 2), -1), torch.rand(1, 3, 2))
    loss.backward()
    assert loss == 0 and all((x.grad == 0).all() for x in leaves)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("keys, count", [(0, 3), (4, 0)])
def test_no_keys_and_empty_lists(dtype, keys, count):
    q, k, weights = (torch.randn(size, dtype=dtype, requires_grad=True) for size in ((1, 2, 2, 4), (1, keys, 4), (1, 2, 2)))
    lists, target = torch.full((1, 2, count), -1, dtype=torch.int32), torch.zeros(1, 2, count, dtype=dtype)
    loss = fovea.index_loss(q, k, weights, lists, target)
    loss.backward()
    assert loss == 0 and not any(x.grad.any() for x in (q, k, weights))
    found = fovea.index_target(q.detach().transpose(1, 2), k.detach()[:, None], lists)
    assert found.shape == lists.shape and not found.any()


def test_loss_of_a_tiny_target_is_that_of_its_shares():
    q, k, weights = random(dtype=torch.float32)
    lists, target = chosen(9, 23, 7), torch.rand(2, 9, 7)
    # Numbers as small as these have five digits.
    torch.testing.assert_close(fovea.index_loss(q, k, weights, lists, target * 1e-40),
                               fovea.index_loss(q, k, weights, lists, target), rtol=1e-3, atol=1e-4)


def test_loss_compiles():
    leaves = [x.requires_grad_() for x in random(dtype=torch.float32)]
    indices, target = chosen(9, 23, 7), torch.rand(2, 9, 7)
    call = torch.compile(lambda *x: fovea.index_loss(*x, indices, target), fullgraph=True, backend="aot_eager")
    compiled, plain = call(*leaves), fovea.index_loss(*leaves, indices, target)
    torch.testing.assert_close(compiled, plain)
    for a, b in zip(torch.autograd.grad(compiled, leaves), torch.autograd.grad(plain, leaves)):
        torch.testing.assert_close(a, b)


def test_loss_lets_the_indexer_learn():
    """From a random start, the scores of these heads come to choose the keys of an attention."""
    x = torch.randn(1, 64, 16)
    attention = (x @ x.transpose(1, 2) / 2).masked_fill(~visible(64, 64, True), -torch.inf).softmax(-1)
    parts = [torch.nn.Linear(16, n) for n in (2 * 16, 16, 2)]
    optimizer = torch.optim.Adam([p for part in parts for p in part.parameters()], lr=0.02)

    def kept():
        q, k, weights = (part(x) for part in parts)
        q = q.unflatten(-1, (2, 16))
        found = fovea.index_topk(q, k, weights, 8)
        mass = attention.gather(2, found.clamp(min=0).long()).masked_fill(found < 0, 0).sum(2).mean()
        return mass, fovea.index_loss(q, k, weights, (wide := fovea.index_topk(q, k, weights, 32)),
                                      attention.gather(2, wide.clamp(min=0).long()))

    before, _ = kept()
    for _ in range(150):
        mass, loss = kept()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert 1 - mass < (1 - before) / 3


@pytest.mark.parametrize("change, message", [
    ({"target": torch.ones(2, 9, 6)}, r"index_loss: got q \[2, 9, .*; expected \[B, S, H, D\]"),
    ({"indices": torch.ones(2, 9, 7)}, "indices are Float and target is Float; expected int32 or int64"),
    ({"indices": torch.full((2, 9, 7), 23)}, r"indices lie in \[23, 23\]; expected -1 or keys below 23"),
    ({"k": torch.ones(2, 23, 5)}, "expected one floating type"),
    ({"target": torch.ones(2, 9, 7).int()}, "target is Int; expected int32 or int64, and a floating type"),
    ({"reduction": "none"}, "got reduction 'none'; expected 'mean' or 'sum'"),
    ({"q": 3}, "index_loss: q is of type int; expected a tensor"),
])
def test_loss_refuses(change, message):
    q, k, weights = random()
    arguments = {"q": q, "k": k, "weights": weights, "indices": chosen(9, 23, 7), "target": torch.rand(2, 9, 7)}
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        fovea.index_loss(**{**arguments, **change})

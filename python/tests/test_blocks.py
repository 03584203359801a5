"""fovea.block_topk: the blocks of MoBA and Quest, against their definitions, and attention over them."""
import pytest
import torch

import fovea


def inputs(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=dtype) for _ in range(3)]


def chosen_by_definition(q, k, block, best, causal, score):
    """Whether query i sees block m, key by key and block by block: bool [B, H, N_q, blocks]."""
    B, H, N_q, _ = q.shape
    N_k = k.size(2)
    blocks = [range(first, min(first + block, N_k)) for first in range(0, N_k, block)]
    seen = torch.zeros(B, H, N_q, len(blocks), dtype=torch.bool)
    for b in range(B):
        for h in range(H):
            keys = k[b, h // (H // k.size(1))]
            for i in range(N_q):
                own = (i + N_k - N_q) // block
                others = [m for m in range(len(blocks)) if (m < own if causal else m != own)]
                scores = {}
                for m in others:
                    part = keys[blocks[m].start:blocks[m].stop]
                    if score == "mean":
                        scores[m] = float(q[b, h, i] @ part.mean(0))
                    else:
                        scores[m] = float(torch.maximum(q[b, h, i] * part.amin(0), q[b, h, i] * part.amax(0)).sum())
                ranked = sorted(scores.values(), reverse=True)
                for m in others:
                    seen[b, h, i, m] = best > 1 and (len(others) < best or scores[m] >= ranked[best - 2])
                seen[b, h, i, own] = True
    return seen


def as_mask(lists, blocks):
    there = torch.zeros(*lists.shape[:-1], blocks + 1, dtype=torch.bool)
    return there.scatter_(-1, lists.long().where(lists >= 0, torch.tensor(blocks)), True)[..., :blocks]


@pytest.mark.parametrize("score", ["mean", "bounds"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_blocks_are_those_of_the_definition(score, causal, dtype):
    for B, H, H_kv, N_q, N_k, D, block, best in ((2, 2, 2, 13, 13, 5, 3, 2), (1, 4, 2, 9, 17, 8, 4, 3), (1, 1, 1, 7, 7, 3, 1, 4),
                                                 (1, 2, 1, 6, 6, 2, 8, 1)):
        # Small whole numbers in blocks of one, two or four: every sum is exact, and many are equal.
        block = {3: 2}.get(block, block)
        q, k, _ = (x.round() for x in inputs(B, H, max(N_q, N_k), D))
        q, k = q[:, :, :N_q].to(dtype), k[:, :H_kv, :N_k].to(dtype)
        lists = fovea.block_topk(q, k, block, best, causal=causal, score=score)
        assert lists.dtype == torch.int32 and lists.shape[:3] == q.shape[:3]
        expected = chosen_by_definition(q.double(), k.double(), block, best, causal, score)
        assert as_mask(lists, -(-N_k // block)).equal(expected)
        filled = lists >= 0
        assert (filled[..., :-1] | ~filled[..., 1:]).all()  # -1 behind the entries, which ascend
        assert (lists.diff() > 0)[filled[..., 1:]].all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("k_best", [2, 3, 5])
def test_blocks_of_one_key_are_top_k_beside_the_query_itself(dtype, causal, k_best):
    q, k, v = inputs(2, 3, 40, 8, dtype=dtype)
    by_blocks, by_keys = ([x.clone().requires_grad_() for x in (q, k, v)] for _ in range(2))
    lists = fovea.block_topk(by_blocks[0], by_blocks[1], 1, k_best, causal=causal)
    assert not lists.is_floating_point() and lists.size(-1) == k_best
    out = fovea.attention(*by_blocks, causal=causal, block_indices=lists, block_size=1)
    expected = fovea.attention(*by_keys, f"topk({k_best - 1},keep=window(1))", causal=causal)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(torch.autograd.grad(out.square().sum(), by_blocks),
                               torch.autograd.grad(expected.square().sum(), by_keys))


@pytest.mark.parametrize("score", ["mean", "bounds"])
@pytest.mark.parametrize("causal", [True, False])
def test_all_blocks_are_full_attention(score, causal):
    q, k, v = inputs(2, 3, 29, 8, dtype=torch.float32)
    lists = fovea.block_topk(q, k, 4, 8, causal=causal, score=score)
    torch.testing.assert_close(fovea.attention(q, k, v, causal=causal, block_indices=lists, block_size=4),
                               fovea.attention(q, k, v, causal=causal))


@pytest.mark.parametrize("score", ["mean", "bounds"])
def test_a_step_and_a_sequence_alone_choose_the_same(score):
    q, k, _ = inputs(2, 3, 33, 16, dtype=torch.float32)
    together = fovea.block_topk(q, k, 4, 3, score=score)
    for t in (0, 3, 4, 17, 32):
        step = fovea.block_topk(q[:, :, t:t + 1], k[:, :, :t + 1], 4, 3, score=score)
        assert as_mask(step, 9).equal(as_mask(together[:, :, t:t + 1], 9))
    lengths = torch.tensor([33, 20])
    padded = fovea.block_topk(q, k, 4, 3, score=score, lengths=lengths)
    alone = fovea.block_topk(q[1:, :, :20], k[1:, :, :20], 4, 3, score=score)
    assert as_mask(padded[1:, :, :20], 9).equal(as_mask(alone, 9))
    assert (padded[1, :, 20:] == -1).all()
    packed = [torch.cat([x[0].transpose(0, 1), x[1, :, :20].transpose(0, 1)]) for x in (q, k)]
    lists = fovea.block_topk(*packed, 4, 3, score=score, q_offsets=torch.tensor([0, 33, 53]))
    assert lists[33:].transpose(0, 1)[None].equal(alone) and lists[:33].transpose(0, 1).equal(together[0])


def test_block_topk_in_a_compiled_graph():
    q, k, v = inputs(1, 2, 24, 8, dtype=torch.float32)

    def attend(q, k, v):
        return fovea.attention(q, k, v, causal=True, block_indices=fovea.block_topk(q, k, 4, 2), block_size=4)

    torch.testing.assert_close(torch.compile(attend)(q, k, v), attend(q, k, v))


@pytest.mark.parametrize("call, message", [
    (lambda q: fovea.block_topk(q, q[..., :3], 2, 2), "q has shape"),
    (lambda q: fovea.block_topk(q, q[:, :2], 2, 2), "H_kv a divisor of H"),
    (lambda q: fovea.block_topk(q, q.half(), 2, 2), "expected one floating type"),
    (lambda q: fovea.block_topk(q, q, 0, 2), "got block_size 0; expected 1 to 2147483647"),
    (lambda q: fovea.block_topk(q, q, 2, 0), "got k_best 0; expected 1 to 2147483647"),
    (lambda q: fovea.block_topk(q, q, 2, 2, q_offsets=torch.tensor([0, 5])), "got offsets for dense tensors"),
    (lambda q: fovea.block_topk(q[0], q[0], 2, 2, lengths=torch.tensor([5])), "got lengths for packed tensors"),
    (lambda q: fovea.block_topk(q, q[:, :, :3], 2, 2, lengths=torch.tensor([5])), "expected as many of both"),
    (lambda q: fovea.block_topk(q, q, 2, 2, score="max"), "got score 'max'; expected 'mean' or 'bounds'"),
])
def test_mistakes_are_named(call, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        call(torch.randn(1, 3, 5, 4))

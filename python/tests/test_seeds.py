"""All drawn numbers, dropout's mask and random pairs, are functions of their seed."""
import torch

import fovea
from test_laws import H, qkv


def test_dropout_without_a_seed_draws_one_from_torchs_generator():
    x = qkv(torch.float32)
    torch.manual_seed(5)
    first, second = (fovea.attention(*x, dropout=0.4) for _ in range(2))
    torch.manual_seed(5)
    assert torch.equal(first, fovea.attention(*x, dropout=0.4)) and not torch.equal(first, second)


def test_dropout_is_a_function_of_its_seed():
    x = qkv(torch.float32, n=64)
    draws = [fovea.attention(*x, dropout=0.4, dropout_seed=s) for s in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    # The kept share of 3 * 64 * 64 weights: 0.6, standard deviation 0.0044; five of them.
    ones = torch.zeros(1, H, 64, 64), torch.zeros(1, H, 64, 64), torch.eye(64).expand(1, H, 64, 64)
    kept = fovea.attention(*ones, dropout=0.4, dropout_seed=3) > 0
    assert abs(kept.float().mean().item() - 0.6) < 0.022
    # The reference in double and the kernel in float32 draw the same mask.
    double = fovea.attention(*(t.double() for t in ones), dropout=0.4, dropout_seed=3) > 0
    assert torch.equal(kept, double)


def test_random_pairs_are_drawn_from_seed_layer_and_head():
    q, k, _ = qkv(torch.float64, n=30)
    first = fovea.attention_weights(q, k, "random(4)", seed=1, layer=2) > 0
    assert torch.equal(first, fovea.attention_weights(2 * q, k, "random(4)", seed=1, layer=2) > 0)
    assert (first.sum(-1) == 4).all() and not torch.equal(first[:, 0], first[:, 1])
    for other in ({"seed": 2, "layer": 2}, {"seed": 1, "layer": 3}):
        assert not torch.equal(first, fovea.attention_weights(q, k, "random(4)", **other) > 0)

"""Keys of a packed batch that are named by lists or by ranges: copies that lie side by side give the same."""
import pytest
import torch

import fovea
from test_laws import D, H, close


@pytest.mark.parametrize("kernel", ["", "reference"])
@pytest.mark.parametrize("spec", ["full", "topk(3)", "window(3)|global(1)", "relu", "1*random(2);2*dilated(4,2)"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_keys_by_lists(spec, kernel, dtype, monkeypatch):
    """Rows of one list are copies that lie side by side: caches in pieces, prefixes in common."""
    monkeypatch.setenv("FOVEA_KERNEL", kernel)
    q, k, v = (torch.randn(n, H, D, dtype=dtype) for n in (5, 20, 20))
    tokens = torch.tensor([17, 3, 9, 4, 17, 3, 9, 12, 0, 19])
    ranges = {"q_offsets": torch.tensor([0, 2, 5]), "k_begins": torch.tensor([0, 3]), "k_lengths": torch.tensor([4, 7])}
    out = fovea.attention(q, k, v, spec, causal=True, k_tokens=tokens, **ranges)
    side_by_side = fovea.attention(q, k[tokens], v[tokens], spec, causal=True, **ranges)
    assert torch.equal(out, side_by_side)
    assert torch.equal(fovea.attention_weights(q, k, spec, causal=True, k_tokens=tokens, **ranges),
                       fovea.attention_weights(q, k[tokens], spec, causal=True, **ranges))


@pytest.mark.parametrize("spec", ["full", "topk(3)", "window(3)|global(1)", "relu"])
def test_keys_by_ranges(spec):
    """Rows that share a memory: two queries each over ranges of one list of keys."""
    q, k, v = (torch.randn(n, H, D) for n in (6, 20, 20))
    begins, lengths = torch.tensor([3, 3, 10]), torch.tensor([7, 9, 10])
    out = fovea.attention(q, k, v, spec, causal=True, q_offsets=torch.tensor([0, 2, 4, 6]), k_begins=begins,
                          k_lengths=lengths)
    for b in range(3):
        keys = slice(begins[b], begins[b] + lengths[b])
        alone = fovea.attention(q[2 * b:2 * b + 2], k[keys], v[keys], spec, causal=True)
        close(out[2 * b:2 * b + 2], alone, torch.float32)

"""Caches of layers with a sliding window drop the beginning of a text. Patterns that count places from there, and keys that
are drawn by place, stay what they are without a cache."""
import pytest
import torch

import fovea
import hf
from hf import transformers

SPECS = ["block(5)|global(2)+topk(3)", "bigbird(4)", "3*fixed(4,1);3*blocks(3,1)", "random(3)", "topk(1,keep=block(3))", "window(3)"]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # sums of some dozen products in another order, through three layers


def mistral(spec):
    return hf.model("mistral", fovea.transformers.register(spec))  # its window is shorter than the text


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("spec", SPECS)
def test_steps_are_the_full_pass(spec, side):
    made, ids = mistral(spec), hf.tokens()
    mask = torch.ones_like(ids) if side is None else hf.padding(side)
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    cache = transformers.DynamicCache(config=made.config)
    with torch.no_grad():
        whole = made(ids, attention_mask=mask, position_ids=places, use_cache=False, output_attentions=True)
        begin = 0
        for end in (8, 9, 14, 18, 19, 20, 21):  # prompts, chunks and steps
            part = made(ids[:, begin:end], attention_mask=mask[:, :end], position_ids=places[:, begin:end],
                        past_key_values=cache, output_attentions=True)
            keep = mask[:, begin:end].bool()
            torch.testing.assert_close(part.logits[keep], whole.logits[:, begin:end][keep], **CLOSE)
            for weights, all_weights in zip(part.attentions, whole.attentions):
                seen = all_weights[:, :, begin:end, end - weights.size(-1):end]
                torch.testing.assert_close(weights, seen, **CLOSE)
            begin = end


def test_gradients_behind_a_cache():
    """The last tokens have gradients; an earlier part of the text lies in the cache as a constant."""
    made, ids = mistral(SPECS[0]), hf.tokens()
    gradients = []
    for cache in (transformers.DynamicCache(config=made.config), transformers.DynamicCache()):  # that drops nothing
        made.zero_grad()
        with torch.no_grad():
            made(ids[:, :15], past_key_values=cache)
        made(ids[:, 15:], past_key_values=cache).logits.square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in made.parameters()]))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4 * float(gradients[0].abs().max()))


def test_a_step_copies_no_dropped_keys(monkeypatch):
    """Its memory would grow with the text."""
    from fovea.transformers import _dropped
    rows = []

    def noting(q, k, v, *args, **kwargs):
        rows.append((k.size(0), v.size(0)))
        return fovea.attention(q, k, v, *args, **kwargs)

    monkeypatch.setattr(_dropped, "attention", noting)
    made, ids = mistral("block(5)"), hf.tokens()
    made.generate(ids, max_new_tokens=2, do_sample=False)
    assert rows == [(3 * 7, 3 * 7)] * 3  # rows of the batch, keys of the window; layers

"""ScreenedCache gives the logits of transformers' own cache, to the bit."""
import copy
import pickle

import pytest
import torch

import fovea
import hf
from hf import transformers

pytestmark = hf.newer
OPTIONS = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "return_dict_in_generate": True,
           "output_logits": True}
_LONG = 700


def long_model(kind, spec, **sizes):
    torch.manual_seed(1)
    config = hf.config(kind)
    for name, value in {"max_position_embeddings": 2048, "num_hidden_layers": 2, **sizes}.items():
        setattr(config, name, value)
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=f"fovea:{spec}").eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    return made


class Steps:
    """Counts the steps that read a copy."""
    def __init__(self, monkeypatch):
        from fovea.transformers import _cache
        self.count, step = 0, _cache.step

        def counted(*arguments):
            out = step(*arguments)
            self.count += out is not None
            return out
        monkeypatch.setattr(_cache, "step", counted)


def same_logits(made, ids, cache, **options):
    mine = made.generate(ids, past_key_values=cache, **OPTIONS, **options)
    other = made.generate(ids, past_key_values=transformers.DynamicCache(config=made.config), **OPTIONS, **options)
    assert torch.equal(torch.stack(mine.logits), torch.stack(other.logits))
    assert torch.equal(mine.sequences, other.sequences)


@pytest.mark.parametrize("spec", ["topk(16)", "topk(4)+relu", "topk(16)+entmax(1.5)", "window(32)", "full", "1*topk(4);5*full"])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_same_logits(monkeypatch, spec, rows):
    made, steps = long_model("llama", spec), Steps(monkeypatch)
    same_logits(made, hf.tokens(rows, _LONG), fovea.transformers.ScreenedCache(config=made.config))
    reads = spec in ("topk(16)", "topk(4)+relu")
    assert steps.count == (2 * 11 if reads else 0)


def test_without_config_and_with_room(monkeypatch):
    made, steps = long_model("llama", "topk(16)"), Steps(monkeypatch)
    same_logits(made, hf.tokens(2, _LONG), fovea.transformers.ScreenedCache(room=1024))
    assert steps.count == 2 * 11


def test_padded_rows(monkeypatch):
    made, steps = long_model("llama", "topk(16)"), Steps(monkeypatch)
    mask = torch.ones(3, _LONG, dtype=torch.long)
    mask[0, :100] = mask[2, :1] = 0
    same_logits(made, hf.tokens(3, _LONG), fovea.transformers.ScreenedCache(config=made.config), attention_mask=mask)
    assert steps.count == 2 * 11


def test_beams_and_bfloat16(monkeypatch):
    made, steps = long_model("llama", "topk(16)"), Steps(monkeypatch)
    same_logits(made, hf.tokens(2, _LONG), fovea.transformers.ScreenedCache(config=made.config), num_beams=3)
    assert steps.count > 0
    made = made.bfloat16()
    same_logits(made, hf.tokens(2, _LONG), fovea.transformers.ScreenedCache(config=made.config))


def test_sliding_layers_keep_their_window(monkeypatch):
    made, steps = long_model("mistral", "topk(16)"), Steps(monkeypatch)
    cache = fovea.transformers.ScreenedCache(config=made.config)
    same_logits(made, hf.tokens(2, _LONG), cache)
    assert steps.count == 0
    assert all(layer.keys.size(2) < 16 for layer in cache.layers)


def test_short_texts_keep_no_copy(monkeypatch):
    made, steps = long_model("llama", "topk(16)"), Steps(monkeypatch)
    same_logits(made, hf.tokens(2, 100), fovea.transformers.ScreenedCache(config=made.config))
    assert steps.count == 0


def test_cropped_and_reused():
    """Tokens that a crop removes are replaced by others, in the copy too."""
    made = long_model("llama", "topk(16)")
    caches = [fovea.transformers.ScreenedCache(config=made.config), transformers.DynamicCache(config=made.config)]
    first, second = hf.tokens(2, _LONG), hf.tokens(2, 40, seed=9)
    logits = []
    with torch.no_grad():
        for cache in caches:
            made(first, past_key_values=cache)
            made(first[:, :1], past_key_values=cache)
            cache.crop(-30)
            for place in range(40):
                out = made(second[:, place:place + 1], past_key_values=cache).logits
            cache.reset()
            made(second, past_key_values=cache)
            logits.append((out, made(second[:, :1], past_key_values=cache).logits))
    for mine, other in zip(*logits):
        assert torch.equal(mine, other)


def test_training_does_not_use_the_buffers():
    made = long_model("llama", "topk(16)")
    cache = fovea.transformers.ScreenedCache(config=made.config)
    made(hf.tokens(1, 20), past_key_values=cache)
    made(hf.tokens(1, 1), past_key_values=cache).logits.sum().backward()
    assert all(parameter.grad is not None for parameter in made.parameters())


def test_other_names_of_the_package():
    with pytest.raises(AttributeError, match="no attribute 'ScreenCache'"):
        fovea.transformers.ScreenCache


def test_filled_in_inference_mode_and_read_outside_of_it():
    made, ids = long_model("llama", "topk(16)"), hf.tokens(2, _LONG)
    cache, other = fovea.transformers.ScreenedCache(config=made.config), transformers.DynamicCache(config=made.config)
    with torch.inference_mode():
        made(ids[:, :-3], past_key_values=cache), made(ids[:, :-3], past_key_values=other)
    with torch.no_grad():
        for i in range(_LONG - 3, _LONG):
            step = ids[:, i:i + 1]
            assert torch.equal(made(step, past_key_values=cache).logits, made(step, past_key_values=other).logits)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))], ids=["copy", "pickle"])
def test_copies_grow_by_themselves(monkeypatch, copied):
    """A prompt that several texts begin with is computed once."""
    made, steps, ids = long_model("llama", "topk(16)"), Steps(monkeypatch), hf.tokens(2, _LONG)
    first = fovea.transformers.ScreenedCache(config=made.config)
    with torch.no_grad():
        made(ids[:, :-3], past_key_values=first), made(ids[:, -3:-2], past_key_values=first)
        second, third = copied(first), copied(first)
        expected = made(ids, use_cache=False).logits
        for cache, tokens in ((second, ids), (third, ids.flip(1)), (first, ids)):
            for i in range(_LONG - 2, _LONG):
                logits = made(tokens[:, i:i + 1], past_key_values=cache).logits[:, 0]
                if tokens is ids:
                    torch.testing.assert_close(logits, expected[:, i], rtol=1e-5, atol=1e-5)
    assert steps.count == 2 * 7


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float64], ids=str)
def test_another_default_type(default):
    made, ids = long_model("llama", "topk(16)"), hf.tokens(2, _LONG)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        same_logits(made, ids, fovea.transformers.ScreenedCache(config=made.config))
    finally:
        torch.set_default_dtype(usual)

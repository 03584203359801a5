"""NarrowCache keeps keys and values in bfloat16 or 8 bits: attention over what these stand for, and its memory."""
import copy
import pickle

import pytest
import torch

import fovea
import hf
from hf import transformers
from test_transformers_cache import OPTIONS, long_model

pytestmark = hf.newer
PRECISIONS = ["bfloat16", "int8"]


def rounded(x, precision):
    """The numbers that the precision keeps of each row."""
    if precision == "bfloat16":
        return x.bfloat16().float()
    step = x.abs().amax(-1, keepdim=True) / 127
    return (x / step).round() * step


class RoundedCache(transformers.DynamicCache):
    """transformers' own cache of what a NarrowCache keeps, in float32."""
    def __init__(self, precision, config):
        super().__init__(**({} if config is None else {"config": config}))
        self.precision = precision

    def update(self, key_states, value_states, *args, **kwargs):
        return super().update(*(rounded(x, self.precision) for x in (key_states, value_states)), *args, **kwargs)


class Steps:
    """Counts the steps that read narrow numbers as they lie."""
    def __init__(self, monkeypatch):
        from fovea.transformers._narrow import NarrowLayer
        self.count, attend = 0, NarrowLayer.attend

        def counted(*arguments):
            out = attend(*arguments)
            self.count += out is not None
            return out
        monkeypatch.setattr(NarrowLayer, "attend", counted)


def near(made, ids, precision, **options):
    """An 8-bit unit at a half may go the other way in one of the two, after sums in another order."""
    mine = made.generate(ids, past_key_values=fovea.transformers.NarrowCache(precision, config=made.config), **OPTIONS, **options)
    other = made.generate(ids, past_key_values=RoundedCache(precision, made.config), **OPTIONS, **options)
    logits, wanted = (torch.stack(x.logits) for x in (mine, other))
    assert torch.equal(mine.sequences, other.sequences)
    assert (logits - wanted).abs().max() < 0.02 * wanted.std()
    return mine


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("spec", ["full", "topk(16)", "window(32)", "1*topk(4);5*full"])
def test_logits_of_the_rounded_keys(monkeypatch, precision, spec):
    made, steps = long_model("llama", spec), Steps(monkeypatch)
    near(made, hf.tokens(2, 70), precision)
    assert steps.count == (2 * 11 if spec == "full" else 0)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_padding_and_beams(precision):
    made, mask = long_model("llama", "full"), torch.ones(3, 70, dtype=torch.long)
    mask[1, :30] = 0
    near(made, hf.tokens(3, 70), precision, attention_mask=mask)
    near(made, hf.tokens(2, 70), precision, num_beams=3)


def bart():
    return transformers.BartForConditionalGeneration(transformers.BartConfig(
        vocab_size=97, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=128, pad_token_id=0, decoder_start_token_id=2))


def t5():
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=97, d_model=48, d_kv=8, d_ff=64, num_layers=2, num_heads=6, pad_token_id=0, decoder_start_token_id=0))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("build", [bart, t5])
def test_encoder_decoders(build, precision):
    """Steps of cross-attention read the keys of the encoder from the cache, without an update."""
    torch.manual_seed(1)
    made, ids = build().eval(), hf.tokens()
    fovea.sparsify(made, "full")
    logits = []
    for kind in (fovea.transformers.NarrowCache(precision), RoundedCache(precision, None)):
        other = fovea.transformers.NarrowCache(precision) if not logits else RoundedCache(precision, None)
        cache = transformers.EncoderDecoderCache(kind, other)
        with torch.no_grad():
            logits.append(torch.cat([made(ids, attention_mask=hf.padding("left"), decoder_input_ids=ids[:, i:i + 1],
                                          past_key_values=cache).logits for i in range(8)], 1))
    assert (logits[0] - logits[1]).abs().max() < 0.02 * logits[1].std()


@pytest.mark.parametrize("precision, most", [("bfloat16", 0.02), ("int8", 0.1)])
def test_logits_stay_near_those_of_float32(precision, most):
    made, ids = long_model("llama", "full"), hf.tokens(1, 300)
    with torch.no_grad():
        caches = [fovea.transformers.NarrowCache(precision, config=made.config), transformers.DynamicCache(config=made.config)]
        for cache in caches:
            made(ids[:, :-1], past_key_values=cache)
        narrow, exact = (made(ids[:, -1:], past_key_values=cache).logits for cache in caches)
    assert 0 < (narrow - exact).abs().max() < most * exact.std()


def test_the_bytes_of_a_token():
    made = long_model("llama", "full")
    cache = fovea.transformers.NarrowCache("int8", config=made.config)
    with torch.no_grad():
        made(hf.tokens(1, 64), past_key_values=cache)
    layer = cache.layers[0]
    batch, heads, length, width = layer.keys.shape
    assert sum(part.numel() * part.element_size() for rows in layer._rows for part in rows.parts()) == 2 * heads * length * (width + 4)


def test_models_that_change_the_narrow_keys():
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    function, x = ALL_ATTENTION_FUNCTIONS[fovea.transformers.register("full")], torch.randn(1, 2, 1, 8)
    with pytest.raises(ValueError, match="hands on keys of torch.int8, so it has changed what a NarrowCache gave it"):
        function(torch.nn.Module(), x, x.to(torch.int8), x.to(torch.int8), None, position_bias=torch.zeros(1, 1, 1, 1))


def test_refusals():
    with pytest.raises(ValueError, match="got precision 'int4'; expected one of 'bfloat16', 'int8'"):
        fovea.transformers.NarrowCache("int4")
    made = long_model("llama", "full")
    with pytest.raises(ValueError, match="have no gradients"):
        made(hf.tokens(1, 8), past_key_values=fovea.transformers.NarrowCache("int8"))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_modes_copies_and_default_types(precision):
    """Filled in inference mode, copied, and read on without that mode and with another default type."""
    made, ids = long_model("llama", "full"), hf.tokens(2, 70)
    cache = fovea.transformers.NarrowCache(precision, config=made.config)
    one = fovea.transformers.NarrowCache(precision, config=made.config)
    with torch.inference_mode():
        made(ids[:, :-4], past_key_values=cache)
        cache.reorder_cache(torch.tensor([0, 1]))
        made(ids[:, -4:-3], past_key_values=cache)
    copies = [cache, copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))]
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.no_grad():
            made(ids[:, :-4], past_key_values=one)
            wanted = [made(ids[:, i:i + 1], past_key_values=one).logits for i in range(66, 70)]
            for found in copies:
                for i in range(67, 70):
                    assert torch.equal(made(ids[:, i:i + 1], past_key_values=found).logits, wanted[i - 66])
    finally:
        torch.set_default_dtype(usual)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_value_without_weight_and_a_query_without_keys(precision):
    layer = fovea.transformers._narrow.NarrowLayer(precision)
    k, v = torch.randn(2, 1, 2, 5, 16)
    k[0, 0, 1], v[0, 0, 1] = -1e4, torch.inf
    layer.update(k, v)
    layer.update(*torch.randn(2, 1, 2, 1, 16))
    query, wide = torch.ones(1, 2, 1, 16), layer.wide()
    step = layer.attend(query, "full", None, None)
    assert step is None  # so that the wide numbers are read
    assert fovea.attention(query, *wide, "full").isfinite().all()

    made, ids = long_model("llama", "full"), hf.tokens(2, 6)
    cache = fovea.transformers.NarrowCache(precision, config=made.config)
    mask = torch.ones(2, 6, dtype=torch.long)
    mask[1, 5] = 0
    with torch.no_grad():
        made(ids[:, :5], attention_mask=mask[:, :5], past_key_values=cache)
        assert made(ids[:, 5:], attention_mask=mask, past_key_values=cache).logits.isfinite().all()

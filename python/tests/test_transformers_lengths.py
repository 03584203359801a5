"""Which keys a query may see is never told by lengths that happen to be equal: a mask is of its layer's rows, queries and
keys, and cross-attention is known from its module."""
import copy
import pickle

import pytest
import torch

import fovea
import hf
from fovea.transformers import _cross, _masks
from hf import transformers

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
FULL = fovea.transformers.register("full")


def scaled(made):
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    return made.eval()


@hf.newer
def test_rows_of_a_batch_do_not_read_one_another():
    """BERT that generates without being a decoder makes its mask for one key, and has all keys in its cache."""
    torch.manual_seed(1)
    sizes = {name: value for name, value in hf.SIZES.items() if name != "num_key_value_heads"}
    made = scaled(transformers.BertLMHeadModel(transformers.BertConfig(**sizes, pad_token_id=0)))
    options = {"max_new_tokens": 3, "do_sample": False, "eos_token_id": None, "return_dict_in_generate": True,
               "output_logits": True}
    ids, other = hf.tokens(), hf.tokens()
    other[0] = hf.tokens(1, seed=9)[0]
    hf.switch(made, "eager")
    expected = torch.stack(made.generate(ids, **options).logits)
    for spec in ("full", "topk(500)"):
        fovea.sparsify(made, spec)
        logits, changed = (torch.stack(made.generate(x, **options).logits) for x in (ids, other))
        torch.testing.assert_close(logits, expected, **CLOSE)
        assert torch.equal(logits[:, 1:], changed[:, 1:])


@pytest.mark.parametrize("queries, keys", [(12, 13), (13, 12), (6, 24), (1, 12)])
@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=hf.newer)])
def test_masks_of_other_lengths(causal, queries, keys):
    """Their ranges count the places of all rows, and would reach into others."""
    rules = transformers.masking_utils
    given = {"allow_is_causal_skip": True} if causal else {"allow_is_bidirectional_skip": True}
    mask = _masks.ranges_mask(batch_size=2, q_length=12, kv_length=12, q_offset=0, attention_mask=torch.ones(2, 12).bool(),
                              mask_function=getattr(rules, f"{'causal' if causal else 'bidirectional'}_mask_function"), **given)
    function, module = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[FULL], torch.nn.Module()
    q, k = torch.randn(2, 2, queries, 8), torch.randn(2, 2, keys, 8)
    message = f"is for 12 queries and 12 keys a row, and the layer has {queries} queries and {keys} keys"
    with pytest.raises(ValueError, match=message):
        function(module, q, k, k, mask)
    with pytest.raises(ValueError, match="four dimensions and torch.int64"):
        function(module, torch.randn(3, 2, 12, 8), torch.randn(3, 2, 12, 8), torch.randn(3, 2, 12, 8), mask)
    whole = torch.randn(2, 2, 12, 8)
    assert function(module, whole, whole, whole, mask)[0].shape == (2, 12, 2, 8)


@hf.newer
def test_a_mask_that_is_shorter_than_the_text():
    """transformers takes what is missing for padding, or refuses the call; rows stay apart."""
    made, ids = hf.model("llama"), hf.tokens()
    for length in (15, 27):
        hf.switch(made, "eager")
        with pytest.raises(Exception):
            made(ids, attention_mask=torch.ones(3, length, dtype=torch.long), use_cache=False)
        hf.switch(made, FULL)
        with pytest.raises(ValueError, match=f"is for 21 queries and {length} keys a row, and the layer has 21 queries and 21"):
            made(ids, attention_mask=torch.ones(3, length, dtype=torch.long), use_cache=False)


def seq2seq(family):
    torch.manual_seed(5)
    sizes = {"vocab_size": 97, "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 6,
             "decoder_attention_heads": 6, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 128,
             "dropout": 0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    names = {"Marian": "MarianMTModel"}
    config = getattr(transformers, f"{family}Config")(**sizes)
    return scaled(getattr(transformers, names.get(family, f"{family}ForConditionalGeneration"))(config))


def bert_to_bert():
    torch.manual_seed(5)
    sizes = {**{name: value for name, value in hf.SIZES.items() if name != "num_key_value_heads"}, "num_hidden_layers": 2}
    parts = (transformers.BertConfig(**sizes), transformers.BertConfig(**sizes, is_decoder=True, add_cross_attention=True))
    made = transformers.EncoderDecoderModel(transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*parts))
    made.config.pad_token_id, made.config.decoder_start_token_id = 0, 2
    return scaled(made)


FAMILIES = ["Bart", "Marian", "MBart", "Pegasus", "M2M100", "Blenderbot", "PLBart"]
BUILDS = [pytest.param(lambda family=family: seq2seq(family), id=family) for family in FAMILIES] + [
    pytest.param(bert_to_bert, id="EncoderDecoder", marks=hf.newer)]


@pytest.mark.parametrize("build", BUILDS)
def test_cross_attention_of_equal_lengths(build):
    """The decoder is causal, so its first tokens are the same whether a target is as long as its source or not."""
    made, source, target = build(), hf.tokens(2, 12), hf.tokens(2, 13, seed=6)
    fovea.sparsify(made, "0-1=window(4)")
    with torch.no_grad():
        first, equal, longer = (made(input_ids=source, decoder_input_ids=target[:, :n]).logits[:, :11] for n in (11, 12, 13))
        weights = made(input_ids=source, decoder_input_ids=target[:, :12], output_attentions=True).cross_attentions
    torch.testing.assert_close(equal, first, **CLOSE)
    torch.testing.assert_close(longer, first, **CLOSE)
    assert all((x > 0).all() for x in weights)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("length", [11, 12, 13])
def test_patterns_of_cross_attention_are_refused_at_any_length(build, length):
    made = fovea.sparsify(build(), "window(4)")
    with pytest.raises(ValueError, match=r"cross-attention cannot take 'window\(4\)', which compares positions"):
        made(input_ids=hf.tokens(2, 12), decoder_input_ids=hf.tokens(2, length))


def whisper():
    """Hears 24 frames, which its encoder makes 12 keys of."""
    torch.manual_seed(5)
    config = transformers.WhisperConfig(
        vocab_size=97, num_mel_bins=8, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=12, max_target_positions=64,
        dropout=0, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, suppress_tokens=None,
        begin_suppress_tokens=None)
    return scaled(transformers.WhisperForConditionalGeneration(config))


def frames():
    return torch.randn(2, 8, 24, generator=torch.Generator().manual_seed(3))


def test_cross_attention_to_sound_of_equal_length():
    """The window is for layers of self-attention; whatever the number of tokens, each of them sees all 12 keys."""
    made, target = fovea.sparsify(whisper(), "0-1=window(4)"), hf.tokens(2, 13, seed=6)
    with torch.no_grad():
        first, equal, longer = (made(input_features=frames(), decoder_input_ids=target[:, :n]).logits[:, :11]
                                for n in (11, 12, 13))
        told = made(input_features=frames(), decoder_input_ids=target[:, :12], output_attentions=True)
    torch.testing.assert_close(equal, first, **CLOSE)
    torch.testing.assert_close(longer, first, **CLOSE)
    assert all(x.shape[-1] == 12 and (x > 0).all() for x in told.cross_attentions)
    assert all((x > 0).sum(-1).max() == 4 for x in told.decoder_attentions)


@pytest.mark.parametrize("length", [11, 12, 13])
def test_patterns_of_cross_attention_to_sound_are_refused(length):
    made = fovea.sparsify(whisper(), "window(4)")
    with pytest.raises(ValueError, match=r"cross-attention cannot take 'window\(4\)', which compares positions"):
        made(input_features=frames(), decoder_input_ids=hf.tokens(2, length))


@pytest.mark.parametrize("make", ["register", "sparsify", "deepcopy", "pickle"])
def test_modules_tell_however_the_model_was_made(make):
    made = seq2seq("Bart")
    if make == "register":
        made.config._attn_implementation = fovea.transformers.register("0-1=window(4)")
        made = transformers.AutoModelForSeq2SeqLM.from_config(made.config, attn_implementation=fovea.transformers.register(
            "0-1=window(4)")).eval()
    else:
        fovea.sparsify(made, "0-1=window(4)")
        made(hf.tokens(2, 12), decoder_input_ids=hf.tokens(2, 3))  # the first call takes sparsify's hook away
        made = copy.deepcopy(made) if make == "deepcopy" else made if make == "sparsify" else pickle.loads(pickle.dumps(made))
    weights = made(hf.tokens(2, 12), decoder_input_ids=hf.tokens(2, 12), output_attentions=True)
    assert all((x > 0).all() for x in weights.cross_attentions)
    assert all((x > 0).sum(-1).max() == 4 for x in weights.encoder_attentions)


@hf.newer
def test_compiled_code_knows_cross_attention():
    made, ids, target = fovea.sparsify(seq2seq("Bart"), "0-1=window(4)"), hf.tokens(2, 12), hf.tokens(2, 12, seed=6)
    with torch.no_grad():
        expected = made(ids, decoder_input_ids=target, use_cache=False).logits
        torch._dynamo.reset()
        compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(ids, decoder_input_ids=target, use_cache=False).logits, expected, **CLOSE)


class Sam(torch.nn.Module):
    """Takes queries and keys apart, as in SAM."""

    def forward(self, query, key, value):
        return _cross.known(self, {})


class SamAttention(Sam):
    pass


class PooledAttention(torch.nn.Module):
    def forward(self, hidden_states, height, width):
        return _cross.known(self, {})


class ReaderCrossAttention(torch.nn.Module):
    def forward(self, queries, states):
        return _cross.known(self, {})


def test_what_modules_tell():
    x = torch.randn(1, 2, 3)
    holder = torch.nn.ModuleList([SamAttention(), PooledAttention(), ReaderCrossAttention()])
    assert _cross.known(holder[0], {}) is None  # nobody has looked at it yet
    _cross.watch(holder)
    sam, pooled, reader = holder
    assert sam(x, x, x) is False and sam(query=x, key=x, value=x.clone()) is False
    assert sam(x, x.clone(), x) is True and sam(x, key=x.clone(), value=x) is True
    assert pooled(x, 1, 2) is False and reader(x, x) is True


def test_patterns_need_places():
    """Keys that a module has pooled have other places than its queries."""
    function = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[fovea.transformers.register("window(3)")]
    module, q = PooledAttention(), torch.randn(1, 2, 8, 4)
    module.is_causal = False
    with pytest.raises(ValueError, match="PooledAttention has 8 queries and 4 keys, whose places no mask tells"):
        function(module, q, q[:, :, :4], q[:, :, :4], None)
    with pytest.raises(ValueError, match="SamAttention does not tell whether its keys are of its own text"):
        function(SamAttention(), q, q, q, None, is_causal=False)
    step = function(torch.nn.Module(), q[:, :, :1], q, q, None)[0]  # one query of a causal layer is the last
    expected = torch.nn.functional.scaled_dot_product_attention(q[:, :, :1], q[:, :, -3:], q[:, :, -3:]).transpose(1, 2)
    torch.testing.assert_close(step, expected, **CLOSE)


@hf.newer
@pytest.mark.parametrize("kind", ["llama", "mistral"])
@pytest.mark.parametrize("spec", ["full", "topk(500)", "window(63)"])
def test_bidirectional_models_with_a_cache(kind, spec):
    """Windows of layers that see both sides stay, whatever part of the text a call has."""
    made = hf.model(kind)
    made.config.is_causal = False
    ids, outs = hf.tokens(), []
    for mask in (None, hf.padding("left"), hf.padding("right")):
        keep = torch.ones_like(ids).bool() if mask is None else mask.bool()
        for name in ("eager", fovea.transformers.register(spec)):
            hf.switch(made, name)
            with torch.no_grad():
                cache = transformers.DynamicCache(config=made.config)
                first = made(ids[:, :12], attention_mask=None if mask is None else mask[:, :12], past_key_values=cache).logits
                last = made(ids[:, 12:], attention_mask=mask, past_key_values=cache).logits
            outs.append(torch.cat([first, last], 1)[keep])
        torch.testing.assert_close(outs[-1], outs[-2], **CLOSE)

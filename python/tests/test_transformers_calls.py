"""Calls of the attention function as models make them: layers without numbers, caches, views, both tables of names."""
import pytest
import torch

import fovea
import hf
from hf import transformers

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SDPA = torch.nn.functional.scaled_dot_product_attention


def function_of(spec):
    return transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[fovea.transformers.register(spec)]


def test_both_tables_know_both_spellings(tmp_path):
    hf.model("llama").save_pretrained(tmp_path)
    canonical = fovea.transformers.register("topk( 7 )")
    assert canonical == "fovea:topk(7)"
    for name in (canonical, "fovea:topk( 7 )"):
        assert name in transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS.valid_keys()
        assert name in transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.valid_keys()
        made = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation=name)
        assert made.config._attn_implementation == name
    made = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="fovea:topk(8)")
    assert made.config._attn_implementation == "fovea:topk(8)"  # names that were not registered are read as they come
    with pytest.raises(fovea.SpecError, match="topq"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="fovea:topq(8)")


def test_models_begin_without_memory():
    with torch.device("meta"):
        made = transformers.AutoModelForCausalLM.from_config(
            hf.config("llama"), attn_implementation=fovea.transformers.register("topk(3)"))
    assert made.model.layers[0].self_attn.q_proj.weight.is_meta


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_a_static_cache_selects_among_the_tokens_seen(kind):
    """Its empty places hold zeros, which would win over keys with negative scores."""
    made, ids = hf.model(kind, fovea.transformers.register("topk(3)")), hf.tokens()
    for arguments in ({}, {"attention_mask": hf.padding("left")}):
        expected = made.generate(ids, max_new_tokens=24, do_sample=False, **arguments)
        assert torch.equal(made.generate(ids, max_new_tokens=24, do_sample=False, cache_implementation="static",
                                         **arguments), expected)


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_compiled_steps_with_a_static_cache(kind):
    made, ids = hf.model(kind, fovea.transformers.register("topk(3)")), hf.tokens(2, 12)
    run = torch.compile(made, fullgraph=True, backend="aot_eager", dynamic=False)
    cache = transformers.StaticCache(config=made.config, max_cache_len=24)
    parts = []
    with torch.no_grad():
        for begin, end in ((0, 8), (8, 9), (9, 10), (10, 12)):
            places = torch.arange(begin, end)
            where = {"position_ids": places.expand(2, -1)} if hf.VERSION >= (5, 0) else {"cache_position": places}
            parts.append(run(ids[:, begin:end], past_key_values=cache, use_cache=True, **where).logits)
        torch.testing.assert_close(torch.cat(parts, 1), made(ids).logits, **CLOSE)


def test_views_and_keys_of_one_row():
    """Projections are transposed, not copied; one row of keys may stand for a batch."""
    rows = [torch.randn(3, 9, heads, 8) for heads in (6, 2, 2)]
    q, k, v = (x.transpose(1, 2) for x in rows)
    module = torch.nn.Module()
    out = function_of("full")(module, q, k, v, None)[0]
    torch.testing.assert_close(out, SDPA(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2), **CLOSE)
    k, v = k[:1], v[:1]
    mask = torch.ones(3, 9, dtype=torch.bool)
    mask[0, :4] = False
    keys, values = k.expand(3, -1, -1, -1), v.expand(3, -1, -1, -1)
    for given in (None, mask):
        torch.testing.assert_close(function_of("topk(4)")(module, q, k, v, given)[0],
                                   function_of("topk(4)")(module, q, keys, values, given)[0])


def test_dropout_is_of_training_alone():
    config = hf.config("llama")
    config.attention_dropout = 0.5
    torch.manual_seed(1)
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=fovea.transformers.register("full"))
    ids = hf.tokens()
    with torch.no_grad():
        made.eval()
        expected = made(ids).logits
        assert torch.equal(made(ids).logits, expected)
        made.train()
        assert not torch.allclose(made(ids).logits, expected)


def vit():
    from transformers import ViTConfig, ViTModel
    torch.manual_seed(4)
    sizes = {name: hf.SIZES[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}
    return ViTModel(ViTConfig(**sizes, image_size=24, patch_size=8, hidden_dropout_prob=0.0)).eval(), torch.randn(2, 3, 24, 24)


def bert():
    from transformers import BertConfig, BertModel
    torch.manual_seed(4)
    sizes = {name: value for name, value in hf.SIZES.items() if name != "num_key_value_heads"}
    return BertModel(BertConfig(**sizes, pad_token_id=0)).eval(), hf.tokens()


@pytest.mark.parametrize("build", [pytest.param(bert, marks=hf.newer), vit])
def test_layers_of_encoders_are_numbered(build):
    """Their attention modules have no layer_idx, or not everywhere; sparsify numbers them by their path."""
    made, inputs = build()

    def outputs(spec):
        fovea.sparsify(made, spec)
        with torch.no_grad():
            return made(inputs, output_hidden_states=True).hidden_states

    full, first, last = (outputs(spec) for spec in ("full", "0=topk(1),*=full", "2=topk(1),*=full"))
    for layer in range(4):  # hidden state 0 is the embeddings
        assert torch.allclose(first[layer], full[layer], rtol=1e-4, atol=1e-5) == (layer < 1), layer
        if layer < 3:
            torch.testing.assert_close(last[layer], full[layer])
    assert not torch.allclose(last[3], full[3], rtol=1e-4, atol=1e-5)


@hf.newer
@pytest.mark.parametrize("how", ["sparsify", "name"])
def test_layers_without_layer_idx_draw_keys_of_their_own(how):
    made, images = vit()
    if how == "sparsify":
        fovea.sparsify(made, "random(3)")
    else:
        made = type(made)._from_config(made.config, attn_implementation=fovea.transformers.register("random(3)")).eval()
    first, *others = (weights > 0 for weights in made(images, output_attentions=True).attentions)
    assert all(not torch.equal(first, other) for other in others)


def test_an_encoder_and_a_decoder_share_numbers():
    """Layer 0 of the decoder's self-attention, of its cross-attention and of the encoder all take the spec of 0."""
    from transformers import BartConfig, BartModel
    torch.manual_seed(5)
    made = BartModel(BartConfig(vocab_size=97, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=6,
                                decoder_attention_heads=6, encoder_ffn_dim=64, decoder_ffn_dim=64, dropout=0,
                                max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                decoder_start_token_id=2)).eval()
    ids, target = hf.tokens(), hf.tokens(3, 9, seed=6)
    with torch.no_grad():
        def run(spec):
            fovea.sparsify(made, spec)
            return made(ids, decoder_input_ids=target, output_hidden_states=True)
        full, changed = run("full"), run("0=topk(1),1=full")
    assert not torch.allclose(changed.encoder_hidden_states[1], full.encoder_hidden_states[1])
    assert not torch.allclose(changed.decoder_hidden_states[1], full.decoder_hidden_states[1])

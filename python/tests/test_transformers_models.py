"""Models of transformers: `full` is sdpa, and topk of more keys than there are is `full`."""
import pytest
import torch

import fovea
import hf
from hf import transformers

KINDS = ["llama", "mistral", "qwen", "gpt2"]
# Sums of some dozen products in float32, in another order, through three layers.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize("spec", ["full", "topk(500)"])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_sdpa(kind, spec):
    name = fovea.transformers.register(spec)
    made, ids = hf.model(kind), hf.tokens()
    for arguments in ({}, {"attention_mask": hf.padding("left")}, {"attention_mask": hf.padding("right")}):
        expected, expected_grad = hf.pass_of(made, "sdpa", ids, **arguments)
        logits, grad = hf.pass_of(made, name, ids, **arguments)
        torch.testing.assert_close(logits, expected, **CLOSE)
        torch.testing.assert_close(grad, expected_grad, **CLOSE)


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("kind", KINDS)
def test_generates_as_sdpa(kind, cache):
    made, ids, name = hf.model(kind), hf.tokens(), fovea.transformers.register("full")
    options = {"cache_implementation": cache} if cache else {}
    for arguments in ({}, {"attention_mask": hf.padding("left")}):
        expected = hf.generated(made, "sdpa", ids, **arguments, **options)
        assert torch.equal(hf.generated(made, name, ids, **arguments, **options), expected)


def test_beams_follow_their_parents():
    made, ids, name = hf.model("llama"), hf.tokens(), fovea.transformers.register("topk(500)")
    arguments = {"attention_mask": hf.padding("left"), "num_beams": 3}
    assert torch.equal(hf.generated(made, name, ids, **arguments), hf.generated(made, "sdpa", ids, **arguments))


def test_a_padded_row_is_the_row_alone():
    made = hf.model("mistral", fovea.transformers.register("topk(3)"))
    ids, mask = hf.tokens(), hf.padding("left")
    with torch.no_grad():
        whole = made(ids, attention_mask=mask, position_ids=(mask.cumsum(-1) - 1).clamp(min=0)).logits
        for row in range(2):
            length = int(mask[row].sum())
            torch.testing.assert_close(whole[row, -length:], made(ids[row:row + 1, -length:]).logits[0], **CLOSE)


def test_steps_with_a_cache_are_the_full_pass():
    made, ids = hf.model("mistral", fovea.transformers.register("topk(3)")), hf.tokens(2)
    with torch.no_grad():
        whole = made(ids).logits
        first = made(ids[:, :9], use_cache=True)
        chunk = made(ids[:, 9:15], past_key_values=first.past_key_values, use_cache=True)  # several tokens at once
        last = made(ids[:, 15:16], past_key_values=chunk.past_key_values)
    torch.testing.assert_close(torch.cat([first.logits, chunk.logits, last.logits], 1), whole[:, :16], **CLOSE)


@pytest.mark.skipif(hf.VERSION < (4, 57), reason="packed documents need transformers 4.57")
@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_packed_documents_do_not_see_one_another(kind):
    lengths = [5, 9, 7]
    made, ids = hf.model(kind, fovea.transformers.register("topk(3)")), hf.tokens(1)
    positions = torch.cat([torch.arange(n) for n in lengths])[None]
    with torch.no_grad():
        packed = made(ids, position_ids=positions, use_cache=False).logits[0]
        begin = 0
        for length in lengths:
            alone = made(ids[:, begin:begin + length]).logits[0]
            torch.testing.assert_close(packed[begin:begin + length], alone, **CLOSE)
            begin += length
    ends = torch.tensor([0, *lengths]).cumsum(0)
    given = {"position_ids": positions, "use_cache": False, "cu_seq_lens_q": ends, "max_length_q": 9, "max_length_k": 9}
    made(ids, cu_seq_lens_k=ends, **given)
    with pytest.raises(ValueError, match="cu_seq_lens_k names other documents than the mask"):
        made(ids, cu_seq_lens_k=ends[[0, 1, 3]], **given)


def test_chunks():
    """Llama 4's layers that attend within chunks."""
    from transformers import Llama4TextConfig, Llama4ForCausalLM
    torch.manual_seed(3)
    config = Llama4TextConfig(vocab_size=97, hidden_size=48, intermediate_size=64, intermediate_size_mlp=64,
                              num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
                              attention_chunk_size=6, num_local_experts=1, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    made, ids, name = Llama4ForCausalLM(config).eval(), hf.tokens(), fovea.transformers.register("full")
    for arguments in ({}, {"attention_mask": hf.padding("left")}):
        hf.switch(made, "eager")
        mask = arguments.get("attention_mask", torch.ones_like(ids)).bool()
        with torch.no_grad():
            expected = made(ids, **arguments).logits[mask]
            hf.switch(made, name)
            torch.testing.assert_close(made(ids, **arguments).logits[mask], expected, **CLOSE)


def bert(implementation="sdpa"):
    from transformers import BertConfig, BertForMaskedLM
    torch.manual_seed(4)
    sizes = {k: v for k, v in hf.SIZES.items() if k != "num_key_value_heads"}
    made = BertForMaskedLM(BertConfig(**sizes, pad_token_id=0, hidden_dropout_prob=0, attention_probs_dropout_prob=0))
    return made.eval()


@hf.newer
@pytest.mark.parametrize("spec", ["full", "topk(500)", "window(99)"])
def test_bert(spec):
    made, ids, name = bert(), hf.tokens(), fovea.transformers.register(spec)
    for arguments in ({}, {"attention_mask": hf.padding("right")}):
        expected, expected_grad = hf.pass_of(made, "sdpa", ids, **arguments)
        logits, grad = hf.pass_of(made, name, ids, **arguments)
        torch.testing.assert_close(logits, expected, **CLOSE)
        torch.testing.assert_close(grad, expected_grad, **CLOSE)


@hf.newer
def test_bidirectional_windows():
    """ModernBERT's local layers see both sides."""
    from transformers import ModernBertConfig, ModernBertForMaskedLM
    torch.manual_seed(4)
    config = ModernBertConfig(vocab_size=97, hidden_size=48, intermediate_size=64, num_hidden_layers=4, pad_token_id=0,
                              num_attention_heads=6, local_attention=8, bos_token_id=1, eos_token_id=2, cls_token_id=1,
                              sep_token_id=2)
    made, ids, name = ModernBertForMaskedLM(config).eval(), hf.tokens(), fovea.transformers.register("full")
    for arguments in ({}, {"attention_mask": hf.padding("right")}):
        expected, expected_grad = hf.pass_of(made, "sdpa", ids, **arguments)
        logits, grad = hf.pass_of(made, name, ids, **arguments)
        torch.testing.assert_close(logits, expected, **CLOSE)
        torch.testing.assert_close(grad, expected_grad, **CLOSE)


def test_an_encoder_and_its_decoder():
    """Cross-attention: every query sees the other side's tokens that are no padding."""
    from transformers import BartConfig, BartForConditionalGeneration
    torch.manual_seed(5)
    config = BartConfig(vocab_size=97, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=6,
                        decoder_attention_heads=6, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=128,
                        dropout=0, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2,
                        forced_eos_token_id=None)
    made, ids, name = BartForConditionalGeneration(config).eval(), hf.tokens(), fovea.transformers.register("topk(500)")
    target = hf.tokens(3, 9, seed=6)
    for mask in (hf.padding("left"), hf.padding("right")):
        for arguments in ({"decoder_input_ids": target}, {"decoder_input_ids": hf.tokens(3, hf.LENGTH, 7)}):
            with torch.no_grad():
                hf.switch(made, "sdpa")
                expected = made(ids, attention_mask=mask, **arguments).logits
                hf.switch(made, name)
                torch.testing.assert_close(made(ids, attention_mask=mask, **arguments).logits, expected, **CLOSE)
    hf.switch(made, fovea.transformers.register("0-1=window(4)"))  # of self-attention: the other takes full
    assert made(ids, decoder_input_ids=target).logits.isfinite().all()
    hf.switch(made, fovea.transformers.register("window(4)"))
    with pytest.raises(ValueError, match="cross-attention cannot take 'window"):
        made(ids, decoder_input_ids=target)


def test_layers_have_mechanisms_of_their_own():
    made, ids = hf.model("llama"), hf.tokens()
    outputs = []
    for layer in made.model.layers:
        layer.self_attn.register_forward_hook(lambda module, _, output: outputs.append(output[0].detach()))
    inputs = []
    for layer in made.model.layers:
        layer.self_attn.register_forward_pre_hook(lambda module, args, kwargs: inputs.append(kwargs["hidden_states"]),
                                                  with_kwargs=True)
    hf.switch(made, fovea.transformers.register("0=window(4),1-2=topk(2)"))
    with torch.no_grad():
        made(ids)
    mixed = list(outputs)
    for layer, spec in ((0, "window(4)"), (1, "topk(2)"), (2, "topk(2)")):
        for name in ("window(4)", "topk(2)", "full"):
            outputs.clear(), hf.switch(made, fovea.transformers.register(name))
            attention = made.model.layers[layer].self_attn
            with torch.no_grad():
                embeddings = made.model.rotary_emb(ids[..., None].float(), torch.arange(hf.LENGTH)[None])
                attention(hidden_states=inputs[layer], position_embeddings=embeddings, attention_mask=None)
            same = torch.allclose(outputs[0], mixed[layer], rtol=1e-5, atol=1e-6)
            assert same == (name == spec), (layer, name)


def test_weights_are_exact():
    made, ids, mask = hf.model("mistral", "eager"), hf.tokens(), hf.padding("left")
    with torch.no_grad():
        expected = made(ids, attention_mask=mask, output_attentions=True).attentions
        hf.switch(made, fovea.transformers.register("full"))
        got = made(ids, attention_mask=mask, output_attentions=True)
        assert not any(x is not None for x in made(ids).attentions or ())
    assert len(got.attentions) == 3
    keep = mask.bool()[:, None, :, None]
    for a, b in zip(got.attentions, expected):
        torch.testing.assert_close(a * keep, b * keep, **CLOSE)


def test_gradient_checkpointing_draws_the_same_dropout():
    config = hf.config("llama")
    config.attention_dropout = 0.3
    torch.manual_seed(1)
    name = fovea.transformers.register("topk(4)")
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=name).train()
    ids, grads = hf.tokens(), []
    for checkpointing in (False, True):
        if checkpointing:
            made.gradient_checkpointing_enable()
        torch.manual_seed(9)
        made.zero_grad()
        made(ids, labels=ids, use_cache=False).loss.backward()
        grads.append(torch.cat([p.grad.flatten() for p in made.parameters()]))
    torch.testing.assert_close(grads[0], grads[1])
    torch.manual_seed(10)
    other = made(ids, labels=ids, use_cache=False).loss
    assert not torch.equal(made(ids, labels=ids, use_cache=False).loss, other)  # a new mask at each call


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_compiles_whole(kind):
    made, ids = hf.model(kind, fovea.transformers.register("topk(3)")), hf.tokens()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for arguments in ({}, {"attention_mask": hf.padding("left")}, {"attention_mask": hf.padding("right")}):
            mask = arguments.get("attention_mask", torch.ones_like(ids)).bool()
            expected = made(ids, use_cache=False, **arguments).logits[mask]
            torch.testing.assert_close(compiled(ids, use_cache=False, **arguments).logits[mask], expected, **CLOSE)


@hf.newer
def test_exports():
    """As torch.export traces by default; the program then takes other masks."""
    made, ids = hf.model("mistral", fovea.transformers.register("topk(3)")), hf.tokens()

    class Logits(torch.nn.Module):
        def forward(self, ids, mask):
            return made(ids, attention_mask=mask, use_cache=False).logits

    left, right = hf.padding("left"), hf.padding("right")
    exported = torch.export.export(Logits(), (ids, left)).module()
    with torch.no_grad():
        for mask in (left, right, torch.ones_like(ids)):
            torch.testing.assert_close(exported(ids, mask)[mask.bool()], Logits()(ids, mask)[mask.bool()], **CLOSE)


def test_no_mask_of_all_pairs_is_made():
    seen = []
    name = fovea.transformers.register("window(4)")
    made = hf.model("mistral", name)
    made.model.layers[0].self_attn.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["attention_mask"]), with_kwargs=True)
    ids = hf.tokens(2, 200)
    mask = torch.ones_like(ids)
    mask[0, :50] = 0
    with torch.no_grad():
        made(ids, attention_mask=mask)
    assert seen[0].untyped_storage().nbytes() < 1000


def test_autocast_and_bfloat16():
    made, ids = hf.model("llama", fovea.transformers.register("full")), hf.tokens()
    with torch.no_grad():
        expected = made(ids).logits
        with torch.autocast("cpu", torch.bfloat16):
            lower = made(ids).logits.float()
        assert (lower - expected).abs().mean() < 0.1 * expected.abs().mean()
        assert made.bfloat16()(ids).logits.dtype == torch.bfloat16
        with pytest.raises(ValueError, match="float16 on a CPU is not supported; load the model in bfloat16"):
            made.half()(ids)

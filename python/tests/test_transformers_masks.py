"""Masks that a caller or a model makes: understood exactly, added to the scores, or refused in one line."""
import inspect
import math

import pytest
import torch

import fovea
import hf
from fovea.transformers import _dense, _masks
from hf import transformers

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
FULL, TOPK = fovea.transformers.register("full"), fovea.transformers.register("topk(500)")
LEFT = hf.padding("left")
SEEN = torch.ones(hf.LENGTH, hf.LENGTH, dtype=torch.bool).tril()[None, None] & LEFT.bool()[:, None, None]
AGO = (torch.arange(hf.LENGTH)[:, None] - torch.arange(hf.LENGTH)).abs().float()


def function_of(name):
    return transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[name]


def passes(made, name, mask):
    hf.switch(made, name)
    made.zero_grad()
    ids = hf.tokens()
    logits = made(ids, attention_mask=mask).logits[LEFT.bool()]
    logits.square().mean().backward()
    return logits.detach(), torch.cat([p.grad.flatten() for p in made.parameters() if p.grad is not None])


def other_pairs():
    """Neither causal nor of padding alone."""
    mask = SEEN.clone()
    mask[0, 0, 20, 7], mask[2, 0, 9, 12] = False, True
    return mask


ADDED = {"finfo(float32).min": torch.finfo(torch.float32).min, "finfo(bfloat16).min": torch.finfo(torch.bfloat16).min,
         "finfo(float16).min": torch.finfo(torch.float16).min, "-1e9": -1e9, "-1e4": -1e4}
MASKS = {"bool": SEEN, "other pairs": other_pairs(), "0/1": SEEN.float(),
         **{name: torch.where(SEEN, 0.0, low) for name, low in ADDED.items()},
         "slopes": torch.where(SEEN, -0.5 * AGO, -1e9),
         "slopes of heads": torch.where(SEEN, -AGO * (torch.arange(6) / 6)[:, None, None], torch.finfo(torch.float32).min),
         "pairs of heads": SEEN & (torch.rand(3, 6, hf.LENGTH, hf.LENGTH, generator=torch.Generator().manual_seed(1)) > 0.3)
         | torch.eye(hf.LENGTH, dtype=torch.bool)}


@pytest.mark.parametrize("name", [FULL, TOPK])
@pytest.mark.parametrize("kind", MASKS)
def test_masks_of_four_dimensions_are_as_in_eager(kind, name):
    made, mask = hf.model("llama"), MASKS[kind]
    # eager adds what it is given, so that a bool mask would be ones and zeros
    for_eager = torch.where(mask, 0.0, torch.finfo(torch.float32).min) if mask.dtype == torch.bool else mask
    expected, expected_grad = passes(made, "eager", for_eager)
    logits, grad = passes(made, name, mask)
    torch.testing.assert_close(logits, expected, **CLOSE)
    torch.testing.assert_close(grad, expected_grad, **CLOSE)


def test_minus_infinity_hides():
    """eager itself gives NaN in rows of padding, so all rows are whole here."""
    made, ids = hf.model("llama"), hf.tokens()
    causal = torch.ones(hf.LENGTH, hf.LENGTH, dtype=torch.bool).tril()[None, None]
    with torch.no_grad():
        for mask in (torch.where(causal, 0.0, -math.inf), torch.where(causal, -0.3 * AGO, -math.inf)):
            hf.switch(made, "eager")
            expected = made(ids, attention_mask=mask.expand(3, -1, -1, -1)).logits
            hf.switch(made, FULL)
            torch.testing.assert_close(made(ids, attention_mask=mask.expand(3, -1, -1, -1)).logits, expected, **CLOSE)


def test_causal_masks_become_ranges():
    """So that long texts need no numbers for each pair."""
    q, k = torch.randn(3, 6, hf.LENGTH, 8), torch.randn(3, 2, hf.LENGTH, 8)
    for mask in (SEEN & LEFT.bool()[:, None, :, None], torch.where(LEFT.bool()[:, None, None], 0.0, -math.inf)):
        assert isinstance(_dense.read_mask(mask, q, k, True), _masks.Ranges)
    assert isinstance(_dense.read_mask(other_pairs(), q, k, True), _dense.Dense)
    late = torch.where(LEFT.bool()[:, None, None], 0.0, -1e4)  # a bias of one number a key
    assert _dense.read_mask(late, q, k, True).bias is not None


def test_learned_biases_get_their_gradient():
    """Biases that start at zero, which hide nothing and add nothing yet, get it too."""
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 6)
    for start in (torch.zeros(1, 4, 5, 7), torch.randn(2, 1, 5, 7), torch.randn(1, 1, 1, 7)):
        ours, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
        module = torch.nn.Module()
        out = function_of(FULL)(module, q, k, v, ours)[0]
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, theirs, enable_gqa=True).transpose(1, 2)
        torch.testing.assert_close(out, expected, **CLOSE)
        out.square().sum().backward(), expected.square().sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_biases_select_and_are_not_rounded_by_autocast():
    """A key is selected by its score with the bias; half precision would take 256 and 257 for equals."""
    q, k = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 3, 4)
    v, bias = torch.eye(3)[None, None], torch.tensor([256.0, 257.0, 1.0]).view(1, 1, 1, 3)
    with torch.autocast("cpu", torch.bfloat16):
        out, weights = function_of(fovea.transformers.register("topk(1)"))(torch.nn.Module(), q, k, v, bias,
                                                                           output_attentions=True)
    assert out.flatten().tolist() == [0, 1, 0] == weights.flatten().tolist()


@pytest.mark.parametrize("mask, message", [
    (SEEN.long(), "is of four dimensions and torch.int64; expected bool"),
    (SEEN.to(torch.uint8), "is of four dimensions and torch.uint8; expected bool"),
    (torch.where(SEEN, math.nan, 0.0), "holds NaN or infinity"),
    (torch.where(SEEN, math.inf, 0.0), "holds NaN or infinity"),
    (SEEN.expand(3, 2, -1, -1), r"has shape \[3, 2, 21, 21\]; expected \[3, 21\]"),
    (SEEN[:, :, :, :-1], r"has shape \[3, 1, 21, 20\]; expected \[3, 21\]"),
    pytest.param(torch.nn.functional.pad(SEEN, (0, 1)), r"has shape \[3, 1, 21, 22\]; expected \[3, 21\]", marks=hf.newer),
    (SEEN[:2], r"has shape \[2, 1, 21, 21\]; expected \[3, 21\]")])
def test_masks_that_are_neither(mask, message):
    made = hf.model("llama", FULL)
    with pytest.raises(ValueError, match=message) as error:
        made(hf.tokens(), attention_mask=mask)
    assert "\n" not in str(error.value)


def test_masks_of_two_dimensions_hold_zeros_and_ones():
    x = torch.randn(2, 2, 4, 8)
    with pytest.raises(ValueError, match="holds other numbers than 0 and 1"):
        function_of(FULL)(torch.nn.Module(), x, x, x, torch.tensor([[0.0, 0, 0, 0], [-1e9, 0, 0, 0]]))
    holes = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]])
    seen = holes.bool()[:, None, None] & torch.ones(4, 4, dtype=torch.bool).tril()
    torch.testing.assert_close(function_of(FULL)(torch.nn.Module(), x, x, x, holes)[0], torch.nn.functional
                               .scaled_dot_product_attention(x, x, x, seen).transpose(1, 2), **CLOSE)


def test_patterns_go_with_ranges_alone():
    made = hf.model("llama", fovea.transformers.register("window(4)"))
    made(hf.tokens(), attention_mask=SEEN & LEFT.bool()[:, None, :, None])
    holes = LEFT.clone()
    holes[2, 7] = 0
    for mask in (other_pairs(), MASKS["slopes"], holes):
        with pytest.raises(NotImplementedError, match=r"'window\(4\)' goes with masks that are causal or of padding"):
            made(hf.tokens(), attention_mask=mask)
    made = fovea.sparsify(hf.model("llama"), "dsa(4)")
    with pytest.raises(NotImplementedError, match=r"'dsa\(4\)' goes with masks that are causal or of padding"):
        made(hf.tokens(), attention_mask=other_pairs())


def test_compiled_code_knows_masks_too():
    made, ids = hf.model("llama", FULL), hf.tokens()
    torch._dynamo.reset()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for mask in (other_pairs(), MASKS["slopes of heads"]):
            torch.testing.assert_close(compiled(ids, attention_mask=mask, use_cache=False).logits[LEFT.bool()],
                                       made(ids, attention_mask=mask, use_cache=False).logits[LEFT.bool()], **CLOSE)


@pytest.mark.parametrize("name", ["or_mask_function", "and_mask_function"])
def test_rules_of_another_kind_stay_dense(name):
    """Rules that ranges cannot say: a prefix that is seen from both sides, keys that no query sees."""
    config, ids = hf.config("llama"), hf.tokens()
    inputs = {"config": config, "attention_mask": LEFT, "past_key_values": None,
              **({"inputs_embeds": torch.randn(*ids.shape, 48)} if hf.VERSION >= (5, 0) else
                 {"input_embeds": torch.randn(*ids.shape, 48), "cache_position": torch.arange(hf.LENGTH)})}
    made = {}
    for implementation in ("sdpa", FULL):
        config._attn_implementation = implementation
        made[implementation] = transformers.masking_utils.create_causal_mask(
            **inputs, **{name: lambda batch, head, query, key: key % 5 < 4})
    assert torch.equal(made[FULL], made["sdpa"])


@hf.newer
@pytest.mark.parametrize("sliding", [False, True])
def test_image_tokens_that_see_each_other(sliding):
    config, ids = hf.config("mistral"), hf.tokens()
    blocks = torch.full(ids.shape, -1)
    blocks[:, 6:11], blocks[1, 14:19] = 0, 1
    create = getattr(transformers.masking_utils, "create_sliding_window_causal_mask" if sliding else "create_causal_mask")
    if "block_sequence_ids" not in inspect.signature(create).parameters:
        pytest.skip("this transformers says blocks otherwise")
    made = {}
    for implementation in ("sdpa", FULL):
        config._attn_implementation = implementation
        made[implementation] = create(config=config, inputs_embeds=torch.randn(*ids.shape, 48), attention_mask=LEFT,
                                      past_key_values=None, block_sequence_ids=blocks)
    assert torch.equal(made[FULL], made["sdpa"]) and made[FULL][2, 0, 6, 10]


def holes(length=hf.LENGTH):
    """As a prefix of virtual tokens before texts that are padded on the left, and a hole in the middle."""
    mask = torch.ones(3, length, dtype=torch.long)
    mask[0, 3:8] = 0
    mask[1, 12] = 0
    return mask


def llama4():
    torch.manual_seed(3)
    config = transformers.Llama4TextConfig(
        vocab_size=97, hidden_size=48, intermediate_size=64, intermediate_size_mlp=64, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, head_dim=8, attention_chunk_size=6, num_local_experts=1,
        layer_types=["chunked_attention"] * 2, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return transformers.Llama4ForCausalLM(config).eval()


@pytest.mark.parametrize("build", [lambda: hf.model("llama"), lambda: hf.model("mistral"), llama4])
def test_padding_between_tokens(build):
    """Text and windows and chunks go on behind the hole, as in eager."""
    made, ids, mask = build(), hf.tokens(), holes()
    with torch.no_grad():
        hf.switch(made, "eager")
        expected = made(ids, attention_mask=mask).logits[mask.bool()]
        for name in (FULL, TOPK):
            hf.switch(made, name)
            torch.testing.assert_close(made(ids, attention_mask=mask).logits[mask.bool()], expected, **CLOSE)


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_a_prefix_in_the_cache_before_padding(kind):
    """Prefix tuning makes such masks of texts that are padded on the left."""
    made, ids = hf.model(kind), hf.tokens()
    mask = torch.cat([torch.ones(3, 3, dtype=torch.long), LEFT], 1)
    outs = []
    with torch.no_grad():
        for name in ("eager", FULL):
            hf.switch(made, name)
            cache = transformers.DynamicCache()
            made(hf.tokens(3, 3, seed=8), past_key_values=cache, use_cache=True)
            first = made(ids, attention_mask=mask, past_key_values=cache, use_cache=True).logits[LEFT.bool()]
            longer = torch.cat([mask, torch.ones(3, 1, dtype=torch.long)], 1)
            outs.append((first, made(ids[:, :1], attention_mask=longer, past_key_values=cache, use_cache=True).logits))
    for ours, theirs in zip(outs[1], outs[0]):
        torch.testing.assert_close(ours, theirs, **CLOSE)


def test_tokens_behind_padding_of_their_own_row():
    """Generation from rows that are padded on the right: its first token was made from padding."""
    made = hf.model("llama", FULL)
    with pytest.raises(ValueError, match="padding between a row's tokens and the ones that continue it; pad on the left"):
        made.generate(hf.tokens(), attention_mask=hf.padding("right"), max_new_tokens=3, do_sample=False)


@hf.newer
def test_models_that_compute_with_their_mask():
    """Doge adds learned numbers to its mask, so it gets one of pairs, and the sum is added."""
    torch.manual_seed(4)
    made = transformers.DogeForCausalLM(transformers.DogeConfig(**{**hf.SIZES, "keep_window_size": 9}, **hf.ENDS)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1).add_(0.1 if parameter.dim() == 1 else 0)
    ids = hf.tokens()
    for arguments in ({}, {"attention_mask": LEFT}):
        expected, expected_grad = hf.pass_of(made, "eager", ids, **arguments)
        logits, grad = hf.pass_of(made, FULL, ids, **arguments)
        torch.testing.assert_close(logits, expected, **CLOSE)
        torch.testing.assert_close(grad, expected_grad, **CLOSE)
        assert torch.equal(hf.generated(made, FULL, ids, **arguments), hf.generated(made, "eager", ids, **arguments))


@hf.newer
@pytest.mark.parametrize("own", [True, False])
def test_biases_that_a_model_adds_to_its_mask(own):
    """BEiT adds its position biases to its mask, in each layer or once for all."""
    torch.manual_seed(4)
    sizes = {name: hf.SIZES[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}
    made = transformers.BeitModel(transformers.BeitConfig(
        **sizes, image_size=24, patch_size=8, hidden_dropout_prob=0.0, use_relative_position_bias=own,
        use_shared_relative_position_bias=not own)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.3)
    outs = []
    for name in ("eager", FULL, TOPK):
        hf.switch(made, name)
        made.zero_grad()
        states = made(torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(5))).last_hidden_state
        states.square().mean().backward()
        outs.append((states.detach(), torch.cat([p.grad.flatten() for p in made.parameters() if p.grad is not None])))
    for ours in outs[1:]:
        for a, b in zip(ours, outs[0]):
            torch.testing.assert_close(a, b, **CLOSE)
    hf.switch(made, fovea.transformers.register("window(4)"))
    with pytest.raises(NotImplementedError, match=r"'window\(4\)' goes with masks that are causal or of padding"):
        made(torch.zeros(2, 3, 24, 24))


@hf.newer
@pytest.mark.parametrize("family", ["T5", "UMT5"])
def test_position_biases_are_added(family):
    torch.manual_seed(4)
    config = getattr(transformers, f"{family}Config")(vocab_size=97, d_model=48, d_kv=8, d_ff=64, num_layers=2, num_heads=6,
                                                      dropout_rate=0.0, decoder_start_token_id=0)
    made = getattr(transformers, f"{family}ForConditionalGeneration")(config).eval()
    for mask in (None, hf.padding("right"), hf.padding("left")):
        outs = []
        for name in ("eager", FULL, TOPK):
            hf.switch(made, name)
            made.zero_grad()
            logits = made(input_ids=hf.tokens(), attention_mask=mask, decoder_input_ids=hf.tokens(3, 9, seed=6)).logits
            logits.square().mean().backward()
            outs.append((logits.detach(), torch.cat([p.grad.flatten() for p in made.parameters() if p.grad is not None])))
        for ours in outs[1:]:
            for a, b in zip(ours, outs[0]):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(b.abs().max()))
    hf.switch(made, fovea.transformers.register("0=window(4),*=topk(4)"))
    with pytest.raises(NotImplementedError, match=r"'window\(4\)' goes with masks that are causal .*, or a bias"):
        made(input_ids=hf.tokens(), decoder_input_ids=hf.tokens())


@hf.newer
def test_images_inside_a_text():
    """Gemma 3: the tokens of an image see each other, in layers with and without a window."""
    torch.manual_seed(4)
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "image_size": 32,
              "patch_size": 8}
    text = {**hf.SIZES, "head_dim": 8, "sliding_window": 6, "num_hidden_layers": 2, "bos_token_id": 1, "eos_token_id": 2,
            "layer_types": ["sliding_attention", "full_attention"]}
    made = transformers.Gemma3ForConditionalGeneration(transformers.Gemma3Config(
        text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=96, boi_token_index=95,
        eoi_token_index=94)).eval()
    ids = hf.tokens(2).clamp(max=90)
    ids[0, 3:7], ids[1, 9:13] = 96, 96
    given = {"input_ids": ids, "pixel_values": torch.randn(2, 3, 32, 32), "token_type_ids": (ids == 96).long(),
             "attention_mask": hf.padding("left", rows=2, length=hf.LENGTH).roll(1, 0)}
    outs = []
    for name in ("eager", FULL, TOPK):
        hf.switch(made, name)
        made.zero_grad()
        logits = made(**given).logits[given["attention_mask"].bool()]
        logits.square().mean().backward()
        outs.append((logits.detach(), torch.cat([p.grad.flatten() for p in made.parameters() if p.grad is not None])))
    for ours in outs[1:]:
        torch.testing.assert_close(ours[0], outs[0][0], **CLOSE)
        torch.testing.assert_close(ours[1], outs[0][1], rtol=1e-4, atol=1e-5 * float(outs[0][1].abs().max()))

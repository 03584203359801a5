"""Soft caps of scores in transformers' models: Gemma 2 and what hands on `softcap`."""
import pytest
import torch
import transformers

import fovea
import fovea.transformers
import hf
from fovea.transformers import _attention, _names

pytestmark = pytest.mark.skipif(hf.VERSION < (5, 0), reason="transformers 4 has another interface for this model")
FULL = fovea.transformers.register("full")
ALL = fovea.transformers.register("topk(99)")


def model(implementation, cap=0.7):
    """Weights whose scores are about twice the cap, or less."""
    config = transformers.Gemma2Config(**hf.SIZES, head_dim=8, sliding_window=6, attn_logit_softcapping=cap, query_pre_attn_scalar=4,
                                       **hf.ENDS)
    torch.manual_seed(3)
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation)
    with torch.no_grad():
        for layer in made.model.layers:
            layer.self_attn.q_proj.weight.normal_(std=0.15)
            layer.self_attn.k_proj.weight.normal_(std=0.15)
    return made.eval()


def test_the_cap_bends_these_scores():
    """Else the tests below would pass without it."""
    tokens = hf.tokens()
    capped, uncapped = (model(FULL, cap)(tokens).logits for cap in (0.7, None))
    assert (capped - uncapped).abs().max() > 1e-2 * capped.abs().max()


@pytest.mark.parametrize("padded", ["", "left", "right"])
@pytest.mark.parametrize("name", [FULL, ALL])
def test_gemma_2_is_eager(name, padded):
    """Outputs, and gradients of all weights, with windows in every second layer and padding."""
    results = [hf.outputs_and_gradients(model(implementation), padded) for implementation in ("eager", name)]
    for right, got in zip(*results, strict=True):
        assert (got - right).abs().max() <= 2e-5 * right.abs().max()


def test_gemma_2_generates():
    tokens = hf.tokens()
    texts = [model(name).generate(tokens, max_new_tokens=12, do_sample=False, attention_mask=torch.ones_like(tokens))
             for name in ("eager", FULL, ALL)]
    assert texts[0].tolist() == texts[1].tolist() == texts[2].tolist()


def test_gemma_2_hides_pairs_and_tells_weights():
    tokens = hf.tokens()
    n = tokens.size(1)
    hidden = torch.zeros(n, n).masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), torch.finfo(torch.float32).min)
    hidden[-1, 2] = torch.finfo(torch.float32).min
    results = [model(name)(tokens, attention_mask=hidden.expand(tokens.size(0), 1, n, n), output_attentions=True)
               for name in ("eager", FULL)]
    for right, got in zip(results[0].attentions, results[1].attentions, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(results[1].logits, results[0].logits, rtol=1e-4, atol=1e-5)


def call(spec, **options):
    function = _attention.function(_names.parse(spec))
    torch.manual_seed(0)
    x = [torch.randn(1, 2, 4, 8) for _ in range(3)]
    return function(torch.nn.Module(), *x, options.pop("mask", None), **options), x


def test_a_cap_beside_sinks():
    """The sink's score is not capped."""
    sinks = torch.tensor([2.0, -1.0])
    (out, _), x = call("full", softcap=0.8, s_aux=sinks)
    scores = 0.8 * torch.tanh(x[0] @ x[1].transpose(2, 3) * 8**-0.5 / 0.8)
    scores = scores.masked_fill(~torch.ones(4, 4, dtype=torch.bool).tril(), -torch.inf)
    weights = torch.cat([scores, sinks.view(1, 2, 1, 1).expand(1, 2, 4, 1)], -1).softmax(-1)[..., :-1]
    torch.testing.assert_close(out, (weights @ x[2]).transpose(1, 2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec, options, error, says", [
    ("softcap(3)", {"softcap": 50.0}, ValueError, "the model caps its scores, softcap\\(50.0\\), and so does 'softcap\\(3\\)'; choose a spec"),
    ("full", {"softcap": 0.0}, ValueError, "the model caps its scores: .*c must be between"),
    ("full", {"softcap": torch.ones(1)}, TypeError, "passes a softcap of type Tensor; expected a number"),
    ("dsa(4)", {"softcap": 50.0}, NotImplementedError, "'dsa\\(4\\)' beside a soft cap of the scores, which Module passes, is not"),
    ("full", {"softcap": 50.0, "mask": torch.randn(1, 1, 4, 4)}, NotImplementedError,
     "'softcap\\(50\\)' caps scores before a mask or a position bias adds to them")])
def test_refusals(spec, options, error, says):
    with pytest.raises(error, match=says):
        call(spec, **options)

"""Attention sinks of transformers' models: gpt-oss and what hands on s_aux."""
import pytest
import torch
import transformers

import fovea
import fovea.transformers
import hf

pytestmark = pytest.mark.skipif(hf.VERSION < (5, 0), reason="transformers 4 has another interface for this model")
FULL = fovea.transformers.register("full")


def model(implementation, **more):
    config = transformers.GptOssConfig(**{**hf.SIZES, **more}, head_dim=8, num_local_experts=2, num_experts_per_tok=1,
                                       sliding_window=6, **hf.ENDS)
    torch.manual_seed(3)
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation)
    for layer in made.model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks)
    return made.eval()


@pytest.mark.parametrize("padded", ["", "left", "right"])
@pytest.mark.parametrize("name", [FULL, fovea.transformers.register("topk(99)")])
def test_gpt_oss_is_eager(name, padded):
    """Outputs, and gradients of all weights, with windows in every second layer and padding."""
    results = []
    for implementation in ("eager", name):
        made = model(implementation)
        results.append(hf.outputs_and_gradients(made, padded))
        assert all(layer.self_attn.sinks.grad.abs().min() > 0 for layer in made.model.layers)
    for right, got in zip(*results, strict=True):
        assert (got - right).abs().max() <= 2e-5 * right.abs().max()


def test_gpt_oss_generates():
    tokens = hf.tokens()
    texts = [model(name).generate(tokens, max_new_tokens=12, do_sample=False, attention_mask=torch.ones_like(tokens))
             for name in ("eager", FULL, fovea.transformers.register("topk(99)"))]
    assert texts[0].tolist() == texts[1].tolist() == texts[2].tolist()


@pytest.mark.parametrize("by_query", [False, True])
@pytest.mark.parametrize("lengths", [None, [5, 3]])
@pytest.mark.parametrize("causal", [False, True])
def test_a_sink_takes_part_in_no_selection(by_query, lengths, causal):
    """topk(2) beside a number for each head, or for each query and head, with padding on the right: outputs, weights and
    the sinks' gradients."""
    x = [torch.randn(2, 2, 5, 8) for _ in range(3)]
    sinks = torch.randn(2, 2, 5, 1) if by_query else torch.tensor([2.0, -1.0])
    sinks.requires_grad_()
    mask = None if lengths is None else torch.arange(5) < torch.tensor(lengths)[:, None]
    valid = torch.ones(2, 5, dtype=torch.bool) if mask is None else mask
    function = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[fovea.transformers.register("topk(2)")]
    out, weights = function(torch.nn.Module(), *x, mask, s_aux=sinks, is_causal=causal, output_attentions=True)
    scores = (x[0] @ x[1].transpose(-1, -2) / 8**0.5).masked_fill(~valid[:, None, None], -torch.inf)
    scores = scores.masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf) if causal else scores
    scores = scores.masked_fill(scores < scores.topk(2).values[..., -1:], -torch.inf)
    column = sinks if by_query else sinks.view(1, 2, 1, 1).expand(2, 2, 5, 1)
    beside = torch.cat((scores, column), -1).softmax(-1)[..., :-1]
    right = (beside @ x[2]).transpose(1, 2)
    torch.testing.assert_close(out[valid], right[valid])
    rows = valid[:, None, :, None]
    torch.testing.assert_close(weights * rows, beside * rows)
    of_out, of_right = (torch.autograd.grad(t[valid].square().sum(), sinks)[0] for t in (out, right))
    torch.testing.assert_close(of_out, of_right)


def test_patterns_beside_sinks_behind_a_dropped_beginning():
    """The windows' caches drop the beginning; block(4) still counts from there."""
    tokens, name = hf.tokens(rows=2), fovea.transformers.register("block(4)|global(2)")
    made = model(name)
    with torch.no_grad():
        cached = made.generate(tokens, max_new_tokens=10, do_sample=False, attention_mask=torch.ones_like(tokens))
        whole = made(cached).logits.argmax(-1)
    assert torch.equal(cached[:, tokens.size(1):], whole[:, tokens.size(1) - 1:-1])

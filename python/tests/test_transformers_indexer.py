"""Loaded models whose layers choose their keys by an indexer: fovea.sparsify(model, "dsa(k)")."""
import json

import pytest
import torch

import fovea
import hf
from fovea.transformers import _chosen

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
KINDS = ["llama", "qwen", "gpt2"]


def sparse(kind="llama", spec="dsa(5)", **sizes):
    return fovea.sparsify(hf.model(kind), spec, **sizes).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_enough_keys_are_full_attention(kind):
    made, ids = hf.model(kind), hf.tokens()
    for arguments in ({}, {"attention_mask": hf.padding("left")}, {"attention_mask": hf.padding("right")}):
        expected, expected_grad = hf.pass_of(hf.model(kind), "sdpa", ids, **arguments)
        fovea.sparsify(made, "dsa(100)")
        logits, grad = hf.pass_of(made, "fovea:dsa(100)", ids, **arguments)
        torch.testing.assert_close(logits, expected, **CLOSE)
        torch.testing.assert_close(grad, expected_grad, **CLOSE)


def test_attention_is_over_the_chosen_keys_alone():
    """Against a dense mask, with grouped heads, missing keys and a query without any."""
    torch.manual_seed(3)
    query, key, value = torch.randn(2, 6, 9, 8), torch.randn(2, 2, 12, 8), torch.randn(2, 2, 12, 5)
    indices = torch.stack([torch.randperm(12)[:4] for _ in range(18)]).view(2, 9, 4)
    indices[0, 1, 2] = -1
    mask = torch.zeros(2, 1, 9, 13, dtype=torch.bool).scatter_(3, indices.where(indices >= 0, 12)[:, None], True)[..., :-1]
    x = [t.double().requires_grad_() for t in (query, key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(*x, attn_mask=mask, scale=0.3, enable_gqa=True)
    ours = _chosen.attention_over(*x, indices, 0.3, 0).transpose(1, 2)
    torch.testing.assert_close(ours, expected)
    for a, b in zip(torch.autograd.grad(ours.square().sum(), x), torch.autograd.grad(expected.square().sum(), x)):
        torch.testing.assert_close(a, b)
    indices[1, 3] = -1
    assert (_chosen.attention_over(*x, indices, 0.3, 0)[1, 3] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_steps_with_a_cache_are_the_full_pass(kind):
    made, ids = sparse(kind), hf.tokens(2)
    with torch.no_grad():
        whole = made(ids).logits
        first = made(ids[:, :9], use_cache=True)
        chunk = made(ids[:, 9:15], past_key_values=first.past_key_values, use_cache=True)
        last = made(ids[:, 15:16], past_key_values=chunk.past_key_values)
    torch.testing.assert_close(torch.cat([first.logits, chunk.logits, last.logits], 1), whole[:, :16], **CLOSE)


def test_a_padded_row_is_the_row_alone():
    made, ids, mask = sparse(), hf.tokens(), hf.padding("left")
    with torch.no_grad():
        whole = made(ids, attention_mask=mask, position_ids=(mask.cumsum(-1) - 1).clamp(min=0)).logits
        for row in range(2):
            length = int(mask[row].sum())
            torch.testing.assert_close(whole[row, -length:], made(ids[row:row + 1, -length:]).logits[0], **CLOSE)


def test_static_cache_generates_the_same():
    made, ids = sparse(), hf.tokens()
    plain = hf.generated(made, "fovea:dsa(5)", ids)
    assert torch.equal(hf.generated(made, "fovea:dsa(5)", ids, cache_implementation="static"), plain)


def test_wide_indexers_begin_with_the_products_of_the_attention():
    """Room for all key heads, one indexer head a head: a score is the sum of the positive ones of the attention's."""
    made = sparse(index_heads=6, index_width=16)
    layer = made.model.layers[0].self_attn
    query, key = torch.randn(1, 6, 7, 8), torch.randn(1, 2, 7, 8)
    q, k, weights = layer.fovea_indexer(query, key)
    scores = (torch.einsum("bshd,btd->bsht", q, k).relu() * weights[..., None]).sum(2)
    expected = torch.matmul(query, key.repeat_interleave(3, 1).transpose(2, 3)).relu().sum(1) * 8 ** -0.5
    torch.testing.assert_close(scores, expected, **CLOSE)


def test_backward_teaches_the_indexers_alone_their_loss():
    made, ids = sparse(), hf.tokens()
    indexed = dict(fovea.transformers.indexers(made))
    assert sorted(indexed) == [f"model.layers.{i}.self_attn" for i in range(3)]

    def gradients():
        made.zero_grad()
        made(ids, labels=ids).loss.backward()
        return {name: p.grad for name, p in made.named_parameters()}

    without = gradients()  # in evaluation
    made.train()
    with_loss = gradients()
    for name, grad in with_loss.items():
        if "fovea_indexer" in name:
            assert without[name] is None and grad.abs().sum() > 0
        else:
            torch.testing.assert_close(grad, without[name])
    assert all(module.loss > 0 for module in indexed.values())


def test_labels_may_be_given_by_position():
    made, ids = sparse().train(), hf.tokens()

    def gradients(*args, **kwargs):
        made.zero_grad()
        made(ids, *args, num_items_in_batch=7, **kwargs).loss.backward()
        return [p.grad for name, p in made.named_parameters() if "indexer" in name]

    for by_place, by_name in zip(gradients(None, None, None, None, ids), gradients(labels=ids)):
        assert by_name.any() and torch.equal(by_place, by_name)


def test_training_lowers_the_loss_of_the_indexers():
    made, ids = sparse().train(), hf.tokens()
    for name, parameter in made.named_parameters():
        parameter.requires_grad_("fovea_indexer" in name)
    optimizer = torch.optim.Adam([p for p in made.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        made(ids, labels=ids).loss.backward()
        optimizer.step()
        losses.append(float(sum(module.loss for module in fovea.transformers.indexers(made).values())))
    assert losses[-1] < 0.5 * losses[0]


def test_gradient_checkpointing_is_the_same():
    made, ids = sparse().train(), hf.tokens()
    made(ids, labels=ids).loss.backward()
    expected = {name: p.grad.clone() for name, p in made.named_parameters()}
    made.zero_grad()
    made.gradient_checkpointing_enable({"use_reentrant": False})
    made(ids, labels=ids).loss.backward()
    for name, parameter in made.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name])


def test_compiles_whole():
    made, ids = sparse(), hf.tokens()
    with torch.no_grad():
        expected = made(ids).logits
        torch._dynamo.reset()
        compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(ids).logits, expected, **CLOSE)


def test_training_compiles_whole():
    made, ids = sparse().train(), hf.tokens()
    made(ids, labels=ids).loss.backward()
    expected = {name: p.grad.clone() for name, p in made.named_parameters()}
    made.zero_grad()
    torch._dynamo.reset()
    torch.compile(made, fullgraph=True, backend="aot_eager")(ids, labels=ids).loss.backward()
    for name, parameter in made.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name])


def test_weights_are_exact():
    made, ids = sparse(), hf.tokens()
    with torch.no_grad():
        weights = made(ids, output_attentions=True).attentions
    assert [list(w.shape) for w in weights] == [[3, 6, 21, 21]] * 3
    assert (weights[1] > 0).sum(-1).max() == 5
    torch.testing.assert_close(weights[1].sum(-1), torch.ones(3, 6, 21))


def test_saved_models_keep_their_indexers(tmp_path):
    made, ids = sparse("llama", "0=full,*=dsa(5)", index_heads=2, index_width=24), hf.tokens()
    with torch.no_grad():
        for parameter in made.model.layers[1].self_attn.fovea_indexer.parameters():
            parameter.normal_()
        expected = made(ids).logits
    made.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["fovea_attention"] == "0=full,*=dsa(5)"
    assert stored["fovea_indexer"] == {"heads": 2, "width": 24, "candidates": 4}
    again = hf.transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert sorted(fovea.transformers.indexers(again)) == ["model.layers.1.self_attn", "model.layers.2.self_attn"]
    with torch.no_grad():
        assert torch.equal(again(ids).logits, expected)


def test_swapping_and_sweeping_keep_what_was_learned():
    made, ids = sparse(), hf.tokens()
    with torch.no_grad():
        for module in fovea.transformers.indexers(made).values():
            module.key.weight.normal_()
        learned = made.model.layers[0].self_attn.fovea_indexer.key.weight.clone()
        losses = fovea.sweep(made, {"input_ids": ids}, ["sdpa", "dsa(100)", "dsa(2)", "topk(3)"])
    assert abs(losses["sdpa"] - losses["dsa(100)"]) < 1e-4 < abs(losses["sdpa"] - losses["dsa(2)"])
    fovea.sparsify(made, "dsa(7)")
    assert torch.equal(made.model.layers[0].self_attn.fovea_indexer.key.weight, learned)
    fovea.sparsify(made, "topk(3)")
    assert not fovea.transformers.indexers(made) and not hasattr(made.config, "fovea_indexer")
    fovea.sweep(made, {"input_ids": ids}, ["dsa(2)"])
    assert not fovea.transformers.indexers(made) and made.config._attn_implementation == "fovea:topk(3)"


@pytest.mark.parametrize("spec, sizes, message", [
    ("dsa(0)", {}, r"got 'dsa\(0\)'; expected dsa\(k\) with a whole number k of 1 or more"),
    ("dsa(x)", {}, "expected dsa"),
    ("dsa(5)", {"index_heads": 4}, "got index_heads 4; expected a divisor of the model's 6 heads"),
    ("dsa(5)", {"index_width": 0}, "got index_width 0; expected a whole number of 1 or more"),
    ("topk(5)", {"index_width": 8}, r"'topk\(5\)' has no indexer; leave out index_heads"),
])
def test_bad_input(spec, sizes, message):
    with pytest.raises(ValueError, match=message):
        fovea.sparsify(hf.model("llama"), spec, **sizes)


def test_encoder_decoders_are_refused():
    config = hf.transformers.BartConfig(vocab_size=97, d_model=48, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=64,
                                        decoder_ffn_dim=64, encoder_attention_heads=6, decoder_attention_heads=6)
    made = hf.transformers.AutoModelForSeq2SeqLM.from_config(config)
    with pytest.raises(ValueError, match="has an encoder and a decoder; dsa.k. is for models of one stack"):
        fovea.sparsify(made, "dsa(5)")
    assert made.config._attn_implementation == "sdpa"


def test_register_asks_for_sparsify():
    with pytest.raises(ValueError, match=r"'dsa\(5\)' needs indexers, which a loaded model gets from fovea.sparsify"):
        fovea.transformers.register("dsa(5)")


def test_windowed_layers_are_refused():
    with pytest.raises(NotImplementedError, match=r"'dsa\(5\)' on a layer with a sliding window is not supported; give layer 0 "):
        sparse("mistral")(hf.tokens())
    with pytest.raises(ValueError, match=r"'blocktopk\(4,2\)' on a layer with a sliding window is not supported"):
        sparse("mistral", "blocktopk(4,2)")(hf.tokens())

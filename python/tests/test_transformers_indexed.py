"""Models of transformers that choose their keys by a learned indexer: `full` is eager, over the listed keys alone."""
import pytest
import torch

import fovea
import hf

pytestmark = hf.newer
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def deepseek(layers=2, family="DeepseekV32", folder="deepseek_v32"):
    """DeepSeek-V3.2's shape: latent keys, v narrower than q and k, 6 keys a query."""
    pytest.importorskip(f"transformers.models.{folder}")
    import transformers
    torch.manual_seed(5)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=97, hidden_size=48, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
        n_shared_experts=1, first_k_dense_replace=layers, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=8,
        qk_rope_head_dim=8, v_head_dim=8, index_n_heads=2, index_head_dim=16, index_topk=6, **hf.ENDS)
    return scaled(getattr(transformers, f"{family}ForCausalLM")(config))


def glm():
    return deepseek(2, "GlmMoeDsa", "glm_moe_dsa")


def axk2():
    return deepseek(2, "AXK2", "axk2")


def dots3():
    pytest.importorskip("transformers.models.dots3_note")
    from transformers.models.dots3_note import modeling_dots3_note as m
    torch.manual_seed(7)
    config = m.Dots3NoteTextConfig(
        vocab_size=97, hidden_size=48, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
        shared_experts_intermediate_size=32, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8,
        v_head_dim=8, head_dim=16, index_n_heads=2, index_head_dim=16, index_topk=6, max_position_embeddings=64,
        mlp_layer_types=["dense", "dense"], layer_types=["indexed_attention"] * 2, **hf.ENDS)
    return scaled(m.Dots3NoteTextModel(config))


def minimax():
    """MiniMax M3's text model: blocks of 4 keys for each head of keys, two blocks a query."""
    pytest.importorskip("transformers.models.minimax_m3_vl")
    from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as m
    torch.manual_seed(6)
    config = m.MiniMaxM3VLTextConfig(
        vocab_size=97, hidden_size=48, intermediate_size=32, dense_intermediate_size=64, shared_intermediate_size=32,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_local_experts=2,
        num_experts_per_tok=1, index_n_heads=2, index_head_dim=16, index_block_size=4, index_topk_blocks=2,
        index_local_blocks=1, layer_types=["full_attention", "minimax_m3_sparse"], mlp_layer_types=["dense", "dense"],
        max_position_embeddings=64, **hf.ENDS)
    return scaled(m.MiniMaxM3VLTextModel(config))


def scaled(made):
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    return made.eval()


def output(made, ids, **arguments):
    result = made(ids, **arguments)
    return result.logits if "logits" in result else result.last_hidden_state


@pytest.fixture
def stable(monkeypatch):
    """Makes the model's own indexer take the earlier key of equal scores, zeros above all, not any."""
    def topk(scores, k, dim=-1, **_):
        values, indices = torch.sort(scores, dim=dim, descending=True, stable=True)
        return torch.return_types.topk((values.narrow(dim, 0, k), indices.narrow(dim, 0, k)))

    monkeypatch.setattr(torch.Tensor, "topk", topk)


def passes(made, implementation, ids, **arguments):
    made.set_attn_implementation(implementation)
    made.zero_grad()
    mask = arguments.get("attention_mask", torch.ones_like(ids)).bool()
    out = output(made, ids, **arguments)[mask]
    out.square().mean().backward()
    return out.detach(), torch.cat([p.grad.flatten() for p in made.parameters() if p.grad is not None])


@pytest.mark.parametrize("spec", ["full", "topk(500)"])
@pytest.mark.parametrize("make, sides", [(deepseek, ("", "left", "right")), (glm, ("", "left", "right")),
                                         (axk2, ("", "left")), (dots3, ("", "left")), (minimax, ("", "right"))])
@pytest.mark.usefixtures("stable")
def test_equals_eager(make, sides, spec):
    made, ids, name = make(), hf.tokens(), fovea.transformers.register(spec)
    for side in sides:
        arguments = {"attention_mask": hf.padding(side)} if side else {}
        expected, expected_grad = passes(made, "eager", ids, **arguments)
        out, grad = passes(made, name, ids, **arguments)
        torch.testing.assert_close(out, expected, **CLOSE)
        torch.testing.assert_close(grad, expected_grad, rtol=1e-4, atol=1e-4 * float(expected_grad.abs().max()))


@pytest.mark.parametrize("side", ["", "left"])
@pytest.mark.usefixtures("stable")
def test_queries_that_see_later_keys_equal_eager(side):
    made, ids, name = deepseek(), hf.tokens(), fovea.transformers.register("full")
    made.config.is_causal = False
    arguments = {"attention_mask": hf.padding(side)} if side else {}
    expected, expected_grad = passes(made, "eager", ids, **arguments)
    out, grad = passes(made, name, ids, **arguments)
    torch.testing.assert_close(out, expected, **CLOSE)
    torch.testing.assert_close(grad, expected_grad, rtol=1e-4, atol=1e-4 * float(expected_grad.abs().max()))


@pytest.mark.parametrize("make", [deepseek, glm, axk2, dots3])
def test_the_models_indexer_reads_ranges(make):
    made, ids, seen = make(), hf.tokens(), []
    indexers = [module for path, module in made.named_modules() if path.endswith("self_attn.indexer")]
    for indexer in indexers:
        indexer.register_forward_pre_hook(lambda _, given: seen.append(given[3]))
    made.set_attn_implementation(fovea.transformers.register("full"))
    made(ids)
    assert len(seen) == 2 and all(mask.dtype == torch.int64 and mask[0].numel() < ids.size(1) for mask in seen)


def test_selects_among_the_listed_keys():
    made, ids = deepseek(1), hf.tokens()
    made.set_attn_implementation(fovea.transformers.register("topk(2)"))
    weights = made(ids, output_attentions=True).attentions[0]
    assert (weights > 0).sum(-1).max() == 2
    made.set_attn_implementation(fovea.transformers.register("full"))
    listed = made(ids, output_attentions=True).attentions[0] > 0
    assert listed.sum(-1).max() == 6 and not (weights[~listed] > 0).any()


@pytest.mark.parametrize("side", ["", "left"])
@pytest.mark.usefixtures("stable")
def test_generates_as_eager(side):
    made, ids, name = deepseek(), hf.tokens(), fovea.transformers.register("full")
    arguments = {"attention_mask": hf.padding(side)} if side else {}
    assert torch.equal(hf.generated(made, name, ids, **arguments), hf.generated(made, "eager", ids, **arguments))


def test_steps_with_blocks_are_the_full_pass():
    made, ids = minimax(), hf.tokens(2)
    made.set_attn_implementation(fovea.transformers.register("full"))
    with torch.no_grad():
        whole = output(made, ids)
        first = made(ids[:, :9], use_cache=True)
        last = output(made, ids[:, 9:10], past_key_values=first.past_key_values)
    torch.testing.assert_close(last, whole[:, 9:10], **CLOSE)


def test_what_does_not_go_with_an_indexer():
    made, ids = deepseek(1), hf.tokens()
    made.set_attn_implementation(fovea.transformers.register("window(4)"))
    with pytest.raises(ValueError, match="the model's indexer chooses the keys of this layer; give it a spec without a pattern"):
        made(ids)
    made = minimax()
    made.set_attn_implementation(fovea.transformers.register("full"))
    with pytest.raises(ValueError, match="counts blocks from a row's first place; pad the texts on the right"):
        made(ids, attention_mask=hf.padding("left"))


@pytest.mark.parametrize("make", [deepseek, minimax])
def test_compiles_into_one_graph(make):
    made, ids = make(), hf.tokens()
    made.set_attn_implementation(fovea.transformers.register("full"))
    torch._dynamo.reset()
    with torch.no_grad():
        run = torch.compile(lambda ids: output(made, ids, use_cache=False), fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(run(ids), output(made, ids, use_cache=False))


def test_compiled_code_serves_all_lengths():
    made, ids, graphs = deepseek(), hf.tokens(), []
    made.set_attn_implementation(fovea.transformers.register("full"))
    torch._dynamo.reset()

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    with torch.no_grad():
        run = torch.compile(lambda ids: output(made, ids, use_cache=False), fullgraph=True, dynamic=True, backend=backend)
        for length in (21, 17, 12, 9, 5):
            text = ids[:, :length].contiguous()
            torch.testing.assert_close(run(text), output(made, text, use_cache=False))
    assert len(graphs) <= 2  # the first length's assumptions may fail once

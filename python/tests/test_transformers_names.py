"""fovea.transformers: names, masks, refusals, what is stored, and the comparison of mechanisms."""
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fovea
import hf
from fovea.transformers import _masks
from fovea.transformers._names import parse, within
from hf import transformers


def test_importing_fovea_leaves_transformers_and_the_compiler_alone():
    """Each takes as long to import as torch itself."""
    code = ("import sys, torch; there = set(sys.modules); import fovea; new = set(sys.modules) - there; "
            "assert not new & {'transformers', 'torch._dynamo', 'sympy'}; print(fovea.transformers.parse('topk(2)').name)")
    here = Path(__file__).resolve().parent.parent
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(here)!r}); {code}"],
                          capture_output=True, text=True)
    assert done.stdout.strip() == "fovea:topk(2)", done.stderr


def test_names_are_canonical():
    assert fovea.transformers.register(" topk( 32 ) ") == "fovea:topk(32)"
    assert fovea.transformers.register("fovea:topk(32)") == "fovea:topk(32)"
    assert parse("0-3=window(512),*=topk(64)").name == "fovea:0-3=window(512),*=topk(64)"
    assert parse("5=topk(2,keep=window(2)) , 0=relu").name == "fovea:0=relu,5=topk(2,keep=window(2)),*=full"
    layers = parse("0-3=window(512),5=relu,*=topk(64)")
    assert [layers.spec(i) for i in (0, 3, 4, 5, 6)] == ["window(512)"] * 2 + ["topk(64)", "relu", "topk(64)"]


@pytest.mark.parametrize("text, message", [
    ("topc(3)", "did you mean|unknown"),
    ("1=full,full", "'full' names no layers"),
    ("a=full", "got layers 'a'; expected a number, a range such as 0-3, or \\*"),
    ("0-3=full,2=relu", "layers '2' .* are empty or named twice"),
    ("3-1=full", "are empty or named twice"),
    ("*=full,*=relu", "twice"),
    ("entmax(learned)", "learns alpha, and models of transformers have no such parameter"),
    ("rela-g", "learns gate"),
    ("topk(8)+scaled", "learns the scale of queries"),
    ("4*sigmoid;4*full", "training sets the bias of sigmoid"),
    ("4*span(64,8);4*full", "learns span"),
    ("routed(4,8)", "learns centroids"),
    ("dsa(4)+topk(2)", r"dsa\(k\) stands alone, without stages and head groups"),
    ("2*dsa(4);2*full", "stands alone"),
    ("2*full;2*clause(1)", "attends within clauses of a text, which models of transformers do not know"),
])
def test_bad_names(text, message):
    with pytest.raises(ValueError, match=message):
        fovea.transformers.register(text)


def test_a_window_around_a_spec():
    inside = {"full": "window(5)", "topk(8)": "window(5)+topk(8)", "relu": "window(5)+relu",
              "window(4)|global(1)+topk(2)": "(window(4)|global(1))&window(5)+topk(2)",
              "2*window(3);4*topk(4)": "2*window(3)&window(5);4*window(5)+topk(4)"}
    for spec, expected in inside.items():
        assert fovea.parse(within(fovea.parse(spec), "window(5)")) == fovea.parse(expected)


def pairs(ranges, batch, q_length, k_length):
    """The pairs that the ranges let meet, [B, N_q, N_k], and whether each sequence keeps within its row."""
    allowed = torch.zeros(batch, q_length, k_length, dtype=torch.bool)
    q, k = ranges.queries.tolist(), ranges.keys.tolist()
    for q0, q1, k0, k1 in zip(q, q[1:], k, k[1:]):
        if q0 == q1 or k0 == k1:
            continue
        row, begin = divmod(k0, k_length)
        assert q0 // q_length == row == (k1 - 1) // k_length == (q1 - 1) // q_length
        for i in range(q0, q1):
            last = begin + (k1 - k0) - (q1 - i)  # queries are the last of their keys
            seen = range(max(begin, last - ranges.window + 1) if ranges.window else begin, last + 1)
            allowed[row, i % q_length, list(seen)] = True
    return allowed


@pytest.mark.parametrize("q_length, q_offset, buffer", [(12, 0, 12), (12, 0, 20), (5, 7, 12), (1, 11, 12), (3, 6, 16)])
@pytest.mark.parametrize("side", ["none", "left"])
def test_ranges_are_the_mask(q_length, q_offset, buffer, side):
    """Against the dense mask of the same rules, for prompts, chunks, steps and static caches."""
    seen = q_offset + q_length
    mask = torch.ones(2, seen, dtype=torch.bool)
    if side == "left":
        mask[0, :4] = False
    for window in (None, 3):
        masks = transformers.masking_utils
        rule = masks.sliding_window_causal_mask_function(window) if window else masks.causal_mask_function
        made = _masks.ranges_mask(batch_size=2, q_length=q_length, kv_length=buffer, q_offset=q_offset, attention_mask=mask,
                           mask_function=rule, local_size=window, allow_is_causal_skip=True)
        ranges = _masks.Ranges.decode(made, q_length, buffer)
        i = torch.arange(q_length)[:, None] + q_offset
        j = torch.arange(buffer)[None]
        expected = (j <= i) & (j > i - window if window else j >= 0)
        valid = torch.nn.functional.pad(mask, (0, buffer - seen))
        expected = expected & valid[:, None, :] & valid[:, q_offset:seen, None]
        assert torch.equal(pairs(ranges, 2, q_length, buffer), expected), window


def test_prepared_masks_may_come_again():
    rule = transformers.masking_utils.sliding_window_causal_mask_function(3)
    made = _masks.ranges_mask(batch_size=2, q_length=4, kv_length=4, q_offset=0, mask_function=rule, local_size=3)
    assert made.shape[:2] == (3, 4) and made.stride()[:2] == (0, 0) and made.untyped_storage().nbytes() < 300
    config = hf.config("mistral")
    config._attn_implementation = fovea.transformers.register("full")
    again = transformers.masking_utils.create_sliding_window_causal_mask(
        config=config, attention_mask=made, past_key_values=None, position_ids=None,
        **({"inputs_embeds": torch.randn(2, 4, 48)} if hf.VERSION >= (5, 0) else
           {"input_embeds": torch.randn(2, 4, 48), "cache_position": torch.arange(4)}))
    assert again is made


@pytest.mark.parametrize("name, what", [
    ("cache", "paged caches"), ("head_mask", "head masks")])
def test_arguments_that_change_attention_are_refused(name, what):
    function = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[fovea.transformers.register("full")]
    x = torch.randn(1, 2, 4, 8)
    with pytest.raises(NotImplementedError, match=f"passes {name}, and .*{what}.* are not supported; load the model with"):
        function(torch.nn.Module(), x, x, x, None, **{name: torch.ones(1)})
    out, weights = function(torch.nn.Module(), x, x, x, None, **{name: None}, position_ids=torch.arange(4))
    assert out.shape == (1, 4, 2, 8) and out.is_contiguous() and weights is None


def test_without_a_mask():
    """None is causal for several queries of causal modules, and all keys otherwise."""
    function = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[fovea.transformers.register("full")]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 6)
    causal, both = torch.nn.Module(), torch.nn.Module()
    both.is_causal = False
    all_keys = sdpa(q, k, v, enable_gqa=True).transpose(1, 2)
    buffer = sdpa(q, k[:, :, :5], v[:, :, :5], enable_gqa=True, is_causal=True).transpose(1, 2)
    for module, arguments, expected in ((causal, {}, buffer), (both, {}, all_keys), (causal, {"is_causal": False}, all_keys)):
        torch.testing.assert_close(function(module, q, k, v, None, **arguments)[0], expected, rtol=1e-5, atol=1e-6)
    step = function(causal, q[:, :, :1], k, v, None)[0]
    torch.testing.assert_close(step, sdpa(q[:, :, :1], k, v, enable_gqa=True).transpose(1, 2), rtol=1e-5, atol=1e-6)
    windowed = function(causal, q[:, :, :1], k, v, None, sliding_window=3)[0]
    torch.testing.assert_close(windowed, sdpa(q[:, :, :1], k[:, :, -3:], v[:, :, -3:], enable_gqa=True).transpose(1, 2),
                               rtol=1e-5, atol=1e-6)


def test_a_row_of_padding_alone_is_zero():
    function = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[fovea.transformers.register("topk(2)")]
    x = torch.randn(2, 2, 4, 8)
    mask = torch.tensor([[True] * 4, [False] * 4])
    out, _ = function(torch.nn.Module(), x, x, x, mask)
    assert (out[1] == 0).all() and out[0].isfinite().all()


@pytest.mark.parametrize("kind", ["XLNet", "Bloom"])
def test_models_with_an_attention_of_their_own_are_refused(kind):
    config = getattr(transformers, f"{kind}Config")()
    config.n_layer = 1
    with pytest.raises(ValueError, match=f"{kind}.* has an attention of its own and never calls 'fovea:full'"):
        with torch.device("meta"):
            getattr(transformers, f"{kind}Model")._from_config(
                config, attn_implementation=fovea.transformers.register("full"))


def test_calls_that_do_not_come_are_noticed():
    made = fovea.sparsify(hf.model("llama"), "topk(3)")
    for layer in made.model.layers:
        layer.self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
    with pytest.raises(RuntimeError, match=r"accepted 'fovea:topk\(3\)' and did not call it"):
        made(hf.tokens())


def test_sparsify_is_stored_and_restored(tmp_path):
    made, ids = hf.model("llama"), hf.tokens()
    assert fovea.sparsify(made, "0=window(4),*=topk(3)") is made
    with torch.no_grad():
        expected = made(ids).logits
    made.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["fovea_attention"] == "0=window(4),*=topk(3)"
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert again.config._attn_implementation == "fovea:0=window(4),*=topk(3)"
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, expected)
    with pytest.warns(UserWarning, match="config.json names the attention 'fovea:0=window.*loading it with 'sdpa'"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="sdpa")
    with pytest.raises(ValueError, match="names layers 0-3, and the model has 0 to 2"):
        fovea.sparsify(made, "0-3=full")


def test_sweep_compares_and_leaves_the_model():
    made, ids, mask = hf.model("llama"), hf.tokens(), hf.padding("left")
    made.train()
    made.model.layers[0].eval()  # frozen
    modes = [module.training for module in made.modules()]
    losses = fovea.sweep(made, {"input_ids": ids, "attention_mask": mask}, ["sdpa", "full", "topk(500)", "topk(1)"])
    assert losses["full"] == pytest.approx(losses["sdpa"], abs=1e-5) == pytest.approx(losses["topk(500)"], abs=1e-5)
    assert abs(losses["topk(1)"] - losses["sdpa"]) > 1e-4
    assert modes == [module.training for module in made.modules()] and made.config._attn_implementation == "sdpa" and not hasattr(made.config, "fovea_attention")


def test_layers_without_numbers():
    name = fovea.transformers.register("0=topk(1),*=full")
    function = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[name]
    x = torch.randn(1, 2, 4, 8)
    with pytest.raises(ValueError, match="names layers, and Module has no layer_idx; call fovea.sparsify"):
        function(torch.nn.Module(), x, x, x, None)

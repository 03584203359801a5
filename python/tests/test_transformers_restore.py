"""A model that was trained with a mechanism loads with it, however it was made, stored and loaded, or says that it does
not."""
import copy
import io
import json
import os
import pickle
import subprocess
import sys

import fovea
import pytest
import torch

import hf

transformers = hf.transformers
SPEC, NAME = "topk(4)", "fovea:topk(4)"


def loaded(folder, **arguments):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **arguments).eval()


def stored(folder):
    return json.loads((folder / "config.json").read_text())


def started(folder, code, *arguments):
    """A process that finds what this one finds."""
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=folder,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


@pytest.mark.parametrize("imports, expected", [
    ("import fovea\nfrom transformers import AutoModelForCausalLM", NAME),
    ("from transformers import AutoModelForCausalLM\nimport fovea", NAME),
    ("import transformers\nimport fovea\nfrom transformers import AutoModelForCausalLM", NAME),
    pytest.param("from transformers import AutoModelForCausalLM", "ValueError", marks=pytest.mark.skipif(
        hf.VERSION < (5, 0), reason="transformers 4 does not read the name in config.json"))])
def test_any_order_of_imports(tmp_path, imports, expected):
    fovea.sparsify(hf.model("llama"), SPEC).save_pretrained(tmp_path)
    code = f"{imports}\nprint(AutoModelForCausalLM.from_pretrained({str(tmp_path)!r}).config._attn_implementation)"
    told = started(tmp_path, code)
    assert told.stdout.strip() == expected or f"{expected}: " in told.stderr and NAME in told.stderr


def test_models_that_were_made_with_a_name_are_stored_with_it(tmp_path):
    made = hf.model("llama", fovea.transformers.register(SPEC))
    made.save_pretrained(tmp_path)
    assert stored(tmp_path)["fovea_attention"] == SPEC
    again, ids = loaded(tmp_path), hf.tokens()
    assert again.config._attn_implementation == NAME
    torch.testing.assert_close(again(ids).logits, made(ids).logits)


def test_a_checkpoint_names_what_the_model_computes_at_last(tmp_path):
    made = fovea.sparsify(hf.model("llama"), SPEC)
    made.set_attn_implementation("sdpa")
    made.save_pretrained(tmp_path)
    assert "fovea_attention" not in stored(tmp_path) and "attn_implementation" not in stored(tmp_path)
    assert loaded(tmp_path).config._attn_implementation == "sdpa"


def test_checkpoints_with_the_first_key_alone_are_read(tmp_path):
    fovea.sparsify(hf.model("llama"), SPEC).save_pretrained(tmp_path)
    values = stored(tmp_path)
    assert values.pop("attn_implementation") == NAME
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert loaded(tmp_path).config._attn_implementation == NAME


def vision_and_text():
    vision = transformers.CLIPVisionConfig(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                                           image_size=16, patch_size=8)
    config = transformers.LlavaConfig(vision_config=vision, text_config=hf.config("llama"), image_token_index=96)
    torch.manual_seed(1)
    return transformers.LlavaForConditionalGeneration(config).eval()


@pytest.mark.parametrize("names, expected", [
    (NAME, [NAME, NAME, NAME]), ({"": "sdpa", "text_config": NAME, "vision_config": "sdpa"}, ["sdpa", NAME, "sdpa"])])
def test_parts_of_a_model_keep_their_mechanism(tmp_path, names, expected):
    made = vision_and_text()
    fovea.transformers.register(SPEC)
    made.set_attn_implementation(names)

    def of(model):
        return [c._attn_implementation for c in (model.config, model.config.text_config, model.config.vision_config)]

    if of(made)[2] == NAME:  # the first key alone reached the whole in earlier checkpoints
        made.save_pretrained(tmp_path / "first")
        values = json.loads((tmp_path / "first" / "config.json").read_text())
        for part in (values, values["text_config"], values["vision_config"]):
            part.pop("attn_implementation", None)
        for part in (values["text_config"], values["vision_config"]):
            part.pop("fovea_attention")
        (tmp_path / "first" / "config.json").write_text(json.dumps(values))
        assert of(transformers.LlavaForConditionalGeneration.from_pretrained(tmp_path / "first")) == expected
    made.save_pretrained(tmp_path)
    again = transformers.LlavaForConditionalGeneration.from_pretrained(tmp_path).eval()
    assert of(made) == of(again) == expected
    ids = hf.tokens()
    torch.testing.assert_close(again(ids).logits, made(ids).logits)


@pytest.mark.parametrize("spec", [SPEC, "dsa(4)"])
def test_models_are_copied_and_pickled_before_their_first_call(spec):
    made, ids = fovea.sparsify(hf.model("llama"), spec), hf.tokens()
    copied = copy.deepcopy(made)
    buffer = io.BytesIO()
    torch.save(made, buffer)
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=False)
    pickled = pickle.loads(pickle.dumps(made))
    expected = made(ids).logits
    for model in (copied, saved, pickled):
        torch.testing.assert_close(model(ids).logits, expected)
        assert not model._forward_hooks and model.__dict__.get("forward") is not made.__dict__.get("forward", made)


def test_a_copy_notices_calls_that_do_not_come():
    made = fovea.sparsify(hf.model("llama"), SPEC)
    made(hf.tokens())  # the copies look at their own calls
    fovea.sparsify(made, SPEC)
    copied = pickle.loads(pickle.dumps(made))
    for layer in copied.model.layers:
        layer.self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
    with pytest.raises(RuntimeError, match=r"accepted 'fovea:topk\(4\)' and did not call it"):
        copied(hf.tokens())


def test_other_processes_load_pickled_models(tmp_path):
    made, ids = fovea.sparsify(hf.model("llama"), SPEC), hf.tokens()
    expected = made(ids, attention_mask=hf.padding("left")).logits
    torch.save((made, ids, hf.padding("left")), tmp_path / "model")
    code = ("import sys, fovea, transformers, torch\n"
            "model, ids, mask = torch.load(sys.argv[1], weights_only=False)\n"
            "torch.save(model(ids, attention_mask=mask).logits, sys.argv[1])")
    told = started(tmp_path, code, str(tmp_path / "model"))
    assert told.returncode == 0, told.stderr
    torch.testing.assert_close(torch.load(tmp_path / "model"), expected)


def test_compiles_whole_before_the_first_call():
    made, ids = fovea.sparsify(hf.model("llama"), SPEC), hf.tokens()
    torch._dynamo.reset()
    with torch.no_grad():
        logits = torch.compile(made, fullgraph=True, backend="eager")(ids).logits
        torch.testing.assert_close(logits, made(ids).logits)

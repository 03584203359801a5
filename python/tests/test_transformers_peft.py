"""Adapters of PEFT around models with a mechanism."""
import json

import fovea
import pytest
import torch

import hf

peft = pytest.importorskip("peft", reason="peft is missing: pip install peft")
LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM", "init_lora_weights": False}


def adapted(base, **settings):
    torch.manual_seed(3)
    return peft.get_peft_model(base, peft.LoraConfig(**{**LORA, **settings})).eval()


def test_sparsify_and_sweep_take_the_model_inside():
    ids = hf.tokens()
    before = adapted(fovea.sparsify(hf.model("llama"), "topk(4)"))
    after = adapted(hf.model("llama"))
    assert fovea.sparsify(after, "topk(4)") is after
    assert torch.equal(before(ids).logits, after(ids).logits)
    losses = fovea.sweep(after, {"input_ids": ids}, ["sdpa", "topk(4)"])
    assert losses["sdpa"] != losses["topk(4)"] and after.config._attn_implementation == "fovea:topk(4)"


def test_an_adapter_brings_its_mechanism_along(tmp_path):
    base, ids = hf.model("llama"), hf.tokens()
    base.save_pretrained(tmp_path / "base")
    made = adapted(fovea.sparsify(hf.transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base"), "topk(4)"))
    made.save_pretrained(tmp_path / "adapter")
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["fovea_attention"] == "topk(4)"
    expected = made(ids).logits
    ways = [peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter"),
            peft.PeftModel.from_pretrained(hf.model("llama"), tmp_path / "adapter"),
            hf.transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "adapter")]
    second = adapted(hf.model("llama"))
    second.load_adapter(tmp_path / "adapter", "second")
    second.set_adapter("second")
    for again in (*ways, second):
        torch.testing.assert_close(again.eval()(ids).logits, expected)
    merged = ways[1].merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    assert hf.transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").config._attn_implementation == "fovea:topk(4)"


def test_swapping_later_is_what_the_adapter_remembers(tmp_path):
    made = adapted(fovea.sparsify(hf.model("llama"), "topk(4)"))
    fovea.sparsify(made, "0=full,*=topk(2)").save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"trained with the attention 'fovea:0=full,\*=topk\(2\)', and the model has 'fovea:topk"):
        peft.PeftModel.from_pretrained(fovea.sparsify(hf.model("llama"), "topk(4)"), tmp_path)


def test_indexers_are_saved_with_the_adapter(tmp_path):
    sizes, ids = {"index_heads": 2, "index_width": 16}, hf.tokens()
    made = adapted(fovea.sparsify(hf.model("llama"), "dsa(4)", **sizes), modules_to_save=["fovea_indexer"]).train()
    made(ids, labels=ids).loss.backward()
    own = [p for name, p in made.named_parameters() if "fovea_indexer" in name and p.requires_grad]
    assert own and all(p.grad is not None for p in own)
    with torch.no_grad():
        for parameter in own:
            parameter.add_(torch.randn_like(parameter))
    made.eval().save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(hf.model("llama"), tmp_path).eval()
    torch.testing.assert_close(again(ids).logits, made(ids).logits)


def test_frozen_indexers_get_no_gradient():
    made, ids = adapted(fovea.sparsify(hf.model("llama"), "dsa(4)", index_heads=2, index_width=16)).train(), hf.tokens()
    made(ids, labels=ids).loss.backward()
    assert {name.split(".")[-3] for name, p in made.named_parameters() if p.grad is not None} == {"lora_A", "lora_B"}

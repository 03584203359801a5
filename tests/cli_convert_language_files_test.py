#!/usr/bin/env python3
"""Files of language models of the kinds of Llama, Mistral, Qwen2, Qwen3 and Gemma: those of torch, shards and old names, and the
configurations and damage that are refused."""
import json
import shutil
import unittest

from bert_commands import lacks
from fovea_program import Refusals, checked
from language_folders import PROMPT, ROWS, TEXT, F, Folder, converted, copied, same_bytes, scores_of
from llama_folder import log_probs, random_model, scaled

try:
    import torch
except ImportError:
    torch = None


@lacks("torch", "transformers", "tokenizers", "safetensors")
class Files(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.folders = {name: Folder(name) for name in ("gemma2", "gemma3", "llama", "qwen2", "tied")}

    def test_files_of_torch(self):
        """pytorch_model.bin of today's torch and of that before 1.6, in parts, with parameters, and with tensors that share memory."""
        made = self.folders["tied"]
        state = made.model.state_dict()
        parameters = type(state)((name, torch.nn.Parameter(tensor)) for name, tensor in state.items())
        odd = {name: tensor.t().contiguous().t() if tensor.dim() == 2 else tensor for name, tensor in state.items()}

        def of(name, save):
            folder = copied(self.folders["tied"], f"torch-{name}", model__safetensors=None)
            save(folder)
            same_bytes(self, made.converted, converted(folder, f"torch-{name}"))

        of("zip", lambda folder: torch.save(state, folder / "pytorch_model.bin"))
        of("old", lambda folder: torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False))
        of("parameters", lambda folder: torch.save(parameters, folder / "pytorch_model.bin"))
        of("protocol", lambda folder: torch.save(state, folder / "pytorch_model.bin", pickle_protocol=4))
        of("strides", lambda folder: torch.save(odd, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False))

        def in_parts(folder):
            places = {name: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, name in enumerate(state)}
            for file in set(places.values()):
                torch.save({name: tensor for name, tensor in state.items() if places[name] == file}, folder / file)
            (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))

        of("parts", in_parts)
        for dtype in (torch.bfloat16, torch.float16):
            folder = copied(self.folders["tied"], "torch-narrow", model__safetensors=None)
            torch.save({name: tensor.to(dtype) for name, tensor in state.items()}, folder / "pytorch_model.bin")
            own = converted(folder, f"torch-{dtype}".removeprefix("torch."))
            checked("convert", "--to", "huggingface", own, "--output", F / f"back-{dtype}", "--precision", str(dtype).removeprefix("torch."))
            from safetensors.torch import load_file
            for name, tensor in load_file(F / f"back-{dtype}/model.safetensors").items():
                self.assertTrue(torch.equal(tensor, state[name].to(dtype)), name)

    def test_hostile_files_of_torch(self):
        made = self.folders["tied"]
        state = made.model.state_dict()
        witness = F / "witness"

        class Attack:
            def __init__(self, function, *arguments):
                self.call = (function, arguments)

            def __reduce__(self):
                return self.call

        def refused(what, says, write):
            folder = copied(self.folders["tied"], "hostile", model__safetensors=None)
            write(folder / "pytorch_model.bin")
            self.refused("convert", "--from", "huggingface", folder, "--output", F / "never", says=["pytorch_model.bin", says])
            self.assertFalse((F / "never").exists(), what)
            self.assertFalse(witness.exists(), what)

        import os
        for old in (True, False):
            for name, attack in (("posix.system", Attack(os.system, f"touch {witness}")),
                                 ("builtins.eval", Attack(eval, f"open({str(witness)!r}, 'w')")),
                                 ("builtins.getattr", Attack(getattr, int, "bit_length"))):
                refused(name, "is not a class of tensors", lambda path: torch.save(
                    {**state, "x": attack}, path, _use_new_zipfile_serialization=not old))
            refused("set", "is not a class of tensors", lambda path: torch.save({"x": {1, 2}}, path, _use_new_zipfile_serialization=not old))
            refused("nested", "'state_dict' is not a tensor", lambda path: torch.save(
                {"state_dict": dict(state)}, path, _use_new_zipfile_serialization=not old))
            refused("a list", "is not a dictionary", lambda path: torch.save(
                list(state.values()), path, _use_new_zipfile_serialization=not old))
        refused("text", "is not a file of torch.save()", lambda path: path.write_bytes(b"hello"))
        refused("empty", "is not a file of torch.save()", lambda path: path.write_bytes(b""))
        import io
        import zipfile

        def packed(path):
            whole = io.BytesIO()
            torch.save(dict(state), whole)
            with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
                for member in source.namelist():
                    target.writestr(member, source.read(member))

        refused("packed", "is compressed", packed)
        whole = F / "whole.bin"
        for old in (False, True):
            torch.save(dict(state), whole, _use_new_zipfile_serialization=not old)
            data = whole.read_bytes()
            for size in (5, 100, len(data) // 2, len(data) - 1):
                refused(f"cut to {size}", "", lambda path: path.write_bytes(data[:size]))

    def test_types_and_shards(self):
        """bfloat16 and float16 are read exactly and written back as the same bytes; several files are one model."""
        import transformers
        made = self.folders["llama"]
        for dtype in ("bfloat16", "float16"):
            folder = F / f"{dtype}-folder"
            shutil.copytree(made.folder, folder)
            (folder / "model.safetensors").unlink()
            model = random_model("llama", ROWS).to(getattr(torch, dtype))
            model.save_pretrained(folder, max_shard_size="40KB")
            self.assertTrue((folder / "model.safetensors.index.json").exists())
            own = converted(folder, dtype)
            wide = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
            expected = log_probs(wide, made.ids(TEXT[:300]))
            self.assertLess(max(abs(a - b) for a, b in zip(scores_of(own, TEXT[:300]), expected)), 1e-4)
            checked("convert", "--to", "huggingface", own, "--output", F / f"{dtype}-back", "--precision", dtype)
            same_bytes(self, folder, F / f"{dtype}-back")

    def test_names_that_files_have(self):
        """safetensors' save_model keeps one name of a tied table; LlamaModel's names lack "model."; old files hold frequencies."""
        from safetensors.torch import load_file, save_file
        for kind in ("llama", "tied"):
            tensors = load_file(self.folders[kind].folder / "model.safetensors")
            changes = {"frequencies": {**tensors, "model.rotary_emb.inv_freq": torch.ones(4)},
                       "short": {name.removeprefix("model."): tensor for name, tensor in tensors.items()}}
            if kind == "tied":
                changes["head"] = {("lm_head.weight" if "embed_tokens" in name else name): tensor for name, tensor in tensors.items()
                                   if name != "lm_head.weight"}
            for change, changed in changes.items():
                folder = F / f"{kind}-{change}"
                shutil.copytree(self.folders[kind].folder, folder)
                save_file(changed, folder / "model.safetensors", {"format": "pt"})
                same_bytes(self, self.folders[kind].converted, converted(folder, f"{kind}-{change}-model"))

    def test_old_names_of_the_configuration(self):
        made = self.folders["llama"]
        folder = F / "old-folder"
        shutil.copytree(made.folder, folder)
        config = json.loads((folder / "config.json").read_text())
        config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
        config["rope_scaling"] = None
        (folder / "config.json").write_text(json.dumps(config))
        self.assertEqual(scores_of(converted(folder, "old"), PROMPT), scores_of(made.converted, PROMPT))

    def test_old_names_of_gemma_3(self):
        """transformers 4 writes a number in place of layer_types, and the bases beside scaling of full attention alone."""
        made = self.folders["gemma3"]
        folder = F / "old-gemma3-folder"
        shutil.copytree(made.folder, folder)
        config = json.loads((folder / "config.json").read_text())
        rope = config.pop("rope_parameters")
        self.assertEqual(config.pop("layer_types"), [*["sliding_attention"] * 5, "full_attention", "sliding_attention"])
        config.update(rope_theta=rope["full_attention"].pop("rope_theta"), rope_scaling=rope["full_attention"],
                      rope_local_base_freq=rope["sliding_attention"]["rope_theta"])
        for pattern in ({}, {"sliding_window_pattern": 6}, {"_sliding_window_pattern": 6}):
            (folder / "config.json").write_text(json.dumps({**config, **pattern}))
            old = converted(folder, "old-gemma3")
            self.assertEqual((old / "config.yml").read_text(), (made.converted / "config.yml").read_text())
            shutil.rmtree(old)

    def test_what_no_family_has(self):
        (F / "few.txt").write_text("ab " * 200)
        def refused(says, *options):
            shutil.rmtree(F / "own", ignore_errors=True)
            checked("train", "--task", "language", "--model", F / "own", "--vocabs", self.folders["gemma3"].folder, "--train-sets",
                    F / "few.txt", "--after-batches", 1, "--mini-batch", 1, "--segment-length", 32, "--dim-emb", 16,
                    "--transformer-heads", 2, "--dec-depth", 2, "--transformer-dim-ffn", 16, "--transformer-biases", "none",
                    "--embedding-scale", "one", "--cpu-threads", 1, *options)
            self.refused("convert", "--to", "huggingface", F / "own", "--output", F / "never", says=says)

        refused("has --transformer-norm post; Llama, Mistral, Qwen2, Qwen3, Gemma, Gemma2, Gemma3 have pre or sandwich",
                "--transformer-norm", "post")
        refused("has --norm-gain plain; Gemma2, Gemma3 have zero-centered", "--transformer-norm", "sandwich")
        refused("has windows in some layers; Llama, Mistral have none or in all layers", "--attention-layers", "decoder.1=window(3)")
        refused("several windows, 3 and 4", "--attention-layers", "decoder.1=window(3)", "decoder.2=window(4)")
        refused("other positions in layer 2", "--positions-layers", "decoder.2=rotary(500)")
        refused("other positions in layer 1", "--positions-layers", "decoder.1=none")
        refused("has soft caps of scores or logits; Llama has none", "--logit-softcap", 30)
        refused("has soft caps of scores or logits; Llama has none", "--attention", "softcap(50)")
        refused("other soft caps of scores in layer 2", "--attention-layers", "decoder.2=softcap(50)")
        refused("--attention-scalar 3; the families", "--attention-scalar", 3)
        refused("--transformer-positions alibi", "--transformer-positions", "alibi")
        refused("--transformer-ffn-activation gelu-tanh", "--transformer-ffn-activation", "gelu-tanh")

    def refused_change(self, field, value, says, name="llama"):
        folder = F / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folders[name].folder, folder)
        config = json.loads((folder / "config.json").read_text())
        config[field] = value
        (folder / "config.json").write_text(json.dumps(config))
        self.refused("convert", "--from", "huggingface", folder, "--output", F / "never", says=says)
        self.assertFalse((F / "never").exists())

    def test_refused_configurations(self):
        self.refused_change("model_type", "mixtral", "model_type: got 'mixtral'; expected llama or mistral or qwen2 or qwen3")
        self.refused_change("model_type", "gemma3", "'gemma3', a model of texts and images")
        self.refused_change("rope_scaling", {"rope_type": "llama3", "factor": 8.0}, "rope_scaling: low_freq_factor is missing")
        self.refused_change("rope_scaling", {"type": "linear"}, "rope_scaling: factor is missing")
        self.refused_change("rope_scaling", {"type": "dynamic", "factor": 2.0},
                            "rope_scaling: got the type 'dynamic'; expected default, linear, llama3 or yarn")
        self.refused_change("rope_parameters", scaled("llama3", low_freq_factor=4.0), "expected low below high")
        self.refused_change("rope_parameters", scaled("yarn", factor=0.5), "the scaling of positions")
        self.refused_change("rope_parameters", scaled("yarn", attention_factor=0), "the attention_factor 0")
        self.refused_change("head_dim", 16, ["self_attn.q_proj.weight", "[64, 32]"])
        self.refused_change("head_dim", 7, "rotary turns pairs of numbers, and each head has 7")
        self.refused_change("attention_bias", True, "attention_bias")
        self.refused_change("mlp_bias", True, "mlp_bias")
        self.refused_change("hidden_act", "relu", "hidden_act: got 'relu'; expected silu or gelu or gelu_pytorch_tanh")
        self.refused_change("hidden_activation", "relu", "hidden_activation: got 'relu'", "gemma3")
        self.refused_change("attn_logit_softcapping", 50.0, "attn_logit_softcapping: got 50.0; expected none: soft caps are read from Gemma 2", "gemma3")
        for field in ("attn_logit_softcapping", "final_logit_softcapping"):
            self.refused_change(field, 0, [f"{field}: got 0; expected a number from 0.01 to 1", ", or null"], "gemma2")
            self.refused_change(field, "x", f"{field}: got", "gemma2")
        self.refused_change("use_bidirectional_attention", True, "a token sees no later ones", "gemma3")
        self.refused_change("layer_types", ["full_attention"] * 6, "for each of 7 layers", "gemma3")
        self.refused_change("layer_types", ["full_attention", "sliding_attention", "full_attention"], "layers of several kinds")
        self.refused_change("sliding_window", None, "sliding_window", "gemma3")
        self.refused_change("query_pre_attn_scalar", "x", "query_pre_attn_scalar: got", "gemma3")
        self.refused_change("rope_parameters", {"rope_type": "default"}, "expected objects full_attention and sliding_attention", "gemma3")
        self.refused_change("rope_parameters", {"sliding_attention": {"rope_type": "dynamic"}},
                            "rope_parameters: sliding_attention: got the type 'dynamic'", "gemma3")
        self.refused_change("rope_scaling", 3, "rope_scaling: got 3; expected an object", "gemma3")
        self.refused_change("final_logit_softcapping", 30.0, "final_logit_softcapping")
        self.refused_change("num_local_experts", 8, "num_local_experts")
        self.refused_change("use_sliding_window", True, "use_sliding_window", "qwen2")
        self.refused_change("num_key_value_heads", 3, "--transformer-heads 4 is not a multiple")
        self.refused_change("hidden_size", 36, "has the shape")
        self.refused_change("intermediate_size", 40, ["mlp.gate_proj.weight", "[40, 32]"])
        self.refused_change("num_hidden_layers", 4, "model.layers.3")
        self.refused_change("num_hidden_layers", 2, "does not have, the first 'model.layers.2")
        self.refused_change("vocab_size", 400, "vocab_size: got 400, but the tokeniser has")
        self.refused_change("vocab_size", "x", "vocab_size: got \"x\"")

    def test_damaged_files(self):
        made = self.folders["llama"]

        def refused_file(name, data, says):
            folder = F / "damaged"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(made.folder, folder)
            if data is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(data)
            self.refused("convert", "--from", "huggingface", folder, "--output", F / "never", says=says)
            self.assertFalse((F / "never").exists())

        weights = (made.folder / "model.safetensors").read_bytes()
        for size in (0, 7, 100, len(weights) - 1):
            refused_file("model.safetensors", weights[:size], "model.safetensors")
        refused_file("model.safetensors", None, "model.safetensors")
        refused_file("config.json", b"{", "config.json: is not a JSON object")
        refused_file("config.json", None, "config.json")
        refused_file("tokenizer.json", None, "no tokenizer.json and no tokenizer.model")
        refused_file("tokenizer.json", b"[]", "tokenizer.json: is not a JSON object")
        refused_file("tokenizer_config.json", None, "no tokenizer_config.json")
        refused_file("tokenizer_config.json", b"{}", "eos_token is missing")

    def test_an_adapter_is_named(self):
        folder = F / "adapter"
        folder.mkdir()
        (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base", "peft_type": "LORA"}))
        (folder / "adapter_model.safetensors").write_bytes(b"")
        for form in ("huggingface", "bert"):
            self.refused("convert", "--from", form, folder, "--output", F / "never",
                         says=["is an adapter of PEFT's for 'org/base'", "merge_and_unload()"])

    def test_damaged_shards(self):
        made = self.folders["llama"]
        folder = F / "shards"
        shutil.copytree(made.folder, folder)
        (folder / "model.safetensors").unlink()
        made.model.save_pretrained(folder, max_shard_size="40KB")
        index = folder / "model.safetensors.index.json"
        whole = json.loads(index.read_text())
        name = "model.norm.weight"
        for change, says in (({name: "../x"}, "expected the name of a file in the same folder"), ({name: 3}, "got 3"),
                             ({name: "none.safetensors"}, "none.safetensors"), ({"more": whole["weight_map"][name]}, "'more'")):
            index.write_text(json.dumps({**whole, "weight_map": {**whole["weight_map"], **change}}))
            self.refused("convert", "--from", "huggingface", folder, "--output", F / "never", says=says)
        index.write_text("{}")
        self.refused("convert", "--from", "huggingface", folder, "--output", F / "never", says="weight_map is missing")
        self.assertFalse((F / "never").exists())


if __name__ == "__main__":
    unittest.main()

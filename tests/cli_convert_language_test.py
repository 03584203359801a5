#!/usr/bin/env python3
"""Language models of Llama's, Mistral's and Qwen2's kinds. Their folders are made here, with random weights; the libraries
`transformers` and `tokenizers` are the reference."""
import json
import pathlib
import random
import shutil
import tempfile
import unittest

from bert_commands import lacks
from fovea_program import Refusals, checked
from llama_folder import begin_of, log_probs, random_model, telling_model, told_tokens, tokenizer, write_tokenizer

try:
    import torch
except ImportError:
    torch = None

F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs/convert.md").read_text() + (ROOT / "docs/language.md").read_text()
ROWS = 500
PROMPT = "A converted model is an ordinary checkpoint: it scores, trains on"


def scores_of(model, text, *options):
    """Log-probabilities of each unit of a text."""
    (F / "text.txt").write_text(text)
    return [float(line) for line in checked("score", "--model", model, "--train-sets", F / "text.txt", "--level", "unit",
                                            "--cpu-threads", 1, "--quiet", *options).stdout.split()]


def converted(folder, name):
    checked("convert", "--from", "huggingface", folder, "--output", F / name)
    return F / name


def same_bytes(test, first, second):
    """Whether two folders hold the same tensors, whatever their files are called."""
    from safetensors.torch import load_file
    def tensors(folder):
        return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}
    one, two = tensors(first), tensors(second)
    test.assertEqual(sorted(one), sorted(two))
    for name, tensor in one.items():
        test.assertEqual(tensor.dtype, two[name].dtype, name)
        test.assertTrue(torch.equal(tensor, two[name]), name)


class Folder:
    """A model's folder and what Fovea makes of it."""

    def __init__(self, kind, name, **changes):
        self.tokens = "qwen2" if kind == "qwen2" else "llama"
        self.tokenizer = tokenizer(self.tokens, TEXT.splitlines(keepends=True), ROWS - 10)
        self.begin = begin_of(self.tokens, self.tokenizer)
        self.model = random_model(kind, ROWS, **changes)
        self.folder = F / f"{name}-folder"
        self.model.save_pretrained(self.folder)
        write_tokenizer(self.folder, self.tokens, self.tokenizer)
        self.converted = converted(self.folder, name)

    def ids(self, text):
        return [self.begin, *self.tokenizer.encode(text, add_special_tokens=False).ids]


KINDS = {"llama": ("llama", {}), "tied": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 4}),
         "mistral": ("mistral", {"rms_norm_eps": 1e-6}), "qwen2": ("qwen2", {"num_key_value_heads": 1})}


@lacks("torch", "transformers", "tokenizers", "safetensors")
class LanguageModels(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.folders = {name: Folder(kind, name, **changes) for name, (kind, changes) in KINDS.items()}

    def test_probabilities_are_transformers(self):
        text = TEXT[:700]
        for name, made in self.folders.items():
            expected = log_probs(made.model, made.ids(text))
            got = scores_of(made.converted, text)
            self.assertEqual(len(got), len(expected), name)
            # float32, and six digits in print.
            self.assertLess(max(abs(a - b) for a, b in zip(got, expected)), 1e-4, name)

    def test_lines_are_sums_of_their_units(self):
        made = self.folders["qwen2"]
        text = "one two\n\n\nthree\n  four <|im_start|>\nlast"
        units = scores_of(made.converted, text)
        lines = scores_of(made.converted, text, "--level", "line")
        self.assertEqual(len(lines), 6)
        self.assertAlmostEqual(sum(lines), sum(units), delta=1e-4)

    def test_most_likely_continuations_are_transformers(self):
        for name, made in self.folders.items():
            ids = made.ids(PROMPT)
            with torch.no_grad():
                whole = made.model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=40, pad_token_id=0,
                                            eos_token_id=made.tokenizer.token_to_id("<|end_of_text|>" if made.tokens == "llama" else "<|endoftext|>"))
            expected = whole[0].tolist()[len(ids):]
            if expected[-1] in (made.begin, made.tokenizer.token_to_id("<|end_of_text|>")):
                expected.pop()
            (F / "prompt").write_text(PROMPT)
            got = checked("generate", "--model", made.converted, "--prompt", PROMPT, "--temperature", 0, "--max-length", 40,
                          "--cpu-threads", 1, "--quiet").stdout
            text = made.tokenizer.decode(expected, skip_special_tokens=False)
            self.assertEqual(got.removeprefix(PROMPT).rstrip("\n"), text.rstrip("\n"), name)

    def test_there_and_back(self):
        import transformers
        for name, made in self.folders.items():
            checked("convert", "--to", "huggingface", made.converted, "--output", F / f"{name}-back")
            same_bytes(self, made.folder, F / f"{name}-back")
            again = transformers.AutoModelForCausalLM.from_pretrained(F / f"{name}-back").eval()
            self.assertIs(type(again), type(made.model))
            self.assertEqual(again.config.bos_token_id, made.begin, "not transformers' default")
            ids = torch.tensor([made.ids(PROMPT)])
            with torch.no_grad():
                self.assertTrue(torch.equal(again(ids).logits, made.model(ids).logits), name)
            loaded = transformers.AutoTokenizer.from_pretrained(F / f"{name}-back")
            self.assertEqual(loaded(PROMPT)["input_ids"], made.tokenizer.encode(PROMPT).ids)

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

    def test_it_learns_on_with_another_mechanism(self):
        made = self.folders["qwen2"]
        sparse = scores_of(made.converted, TEXT[:300], "--attention", "topk(2)")
        self.assertNotEqual(sparse, scores_of(made.converted, TEXT[:300]))
        (F / "train.txt").write_text(TEXT)
        log = checked("train", "--task", "language", "--model", F / "run", "--pretrained-model", made.converted, "--config",
                      made.converted / "config.yml", "--vocabs", made.folder, "--train-sets", F / "train.txt", "--attention",
                      "topk(8)", "--segment-length", 64, "--mini-batch", 8, "--after-batches", 30, "--learn-rate", 0.003,
                      "--lr-warmup", 1, "--cpu-threads", 1).stderr
        self.assertNotIn("compute something else", log)
        self.assertGreater(sum(scores_of(F / "run", TEXT[:2000])), sum(scores_of(made.converted, TEXT[:2000])))
        self.refused("convert", "--to", "huggingface", F / "run", "--output", F / "never", says="the attention 4*topk(8)")
        table = checked("analyze", "--model", made.converted, "--train-sets", F / "train.txt", "--sweep", "full", "topk(8)", "topk(1)",
                        "--cpu-threads", 1, "--quiet").stdout
        self.assertIn("topk(1)", table)
        checked("train", "--task", "language", "--model", F / "full", "--pretrained-model", made.converted, "--config",
                made.converted / "config.yml", "--vocabs", made.folder, "--train-sets", F / "train.txt", "--segment-length", 64,
                "--mini-batch", 8, "--after-batches", 2, "--cpu-threads", 1)
        checked("convert", "--to", "huggingface", F / "full", "--output", F / "full-back")
        import transformers
        again = transformers.AutoModelForCausalLM.from_pretrained(F / "full-back").eval()
        expected = log_probs(again, made.ids(PROMPT))
        self.assertLess(max(abs(a - b) for a, b in zip(scores_of(F / "full", PROMPT), expected)), 1e-4)

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
        self.refused_change("model_type", "mixtral", "model_type: got 'mixtral'; expected llama or mistral or qwen2")
        self.refused_change("rope_scaling", {"rope_type": "llama3", "factor": 8.0}, "rope_scaling: got the type 'llama3'")
        self.refused_change("rope_parameters", {"rope_type": "yarn", "rope_theta": 1e4}, "rope_parameters: got the type 'yarn'")
        self.refused_change("head_dim", 16, "head_dim: got 16; expected hidden_size / num_attention_heads, 32 / 4")
        self.refused_change("attention_bias", True, "attention_bias")
        self.refused_change("mlp_bias", True, "mlp_bias")
        self.refused_change("hidden_act", "gelu", "hidden_act: got 'gelu'")
        self.refused_change("final_logit_softcapping", 30.0, "final_logit_softcapping")
        self.refused_change("num_local_experts", 8, "num_local_experts")
        self.refused_change("use_sliding_window", True, "use_sliding_window", "qwen2")
        self.refused_change("num_key_value_heads", 3, "--transformer-heads 4 is not a multiple")
        self.refused_change("hidden_size", 36, "head_dim")
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


@lacks("torch", "transformers", "tokenizers")
class Tokens(Refusals):
    """A model whose log-probabilities tell which tokens it was given."""

    def told(self, kind, text, size=ROWS):
        made = tokenizer(kind, TEXT.splitlines(keepends=True), size)
        folder = F / f"telling-{kind}"
        shutil.rmtree(folder, ignore_errors=True)
        telling_model(size).save_pretrained(folder)
        write_tokenizer(folder, kind, made)
        return made, told_tokens(scores_of(converted(folder, f"told-{kind}"), text, "--mini-batch", 64), size)

    def test_tokens_are_the_librarys(self):
        draw = random.Random(1)
        alphabets = ["abcdefghij ETAOIN'", " \t\n\r\v\f", "0123456789.,:;!?", "\u00e4\u00f6\u00fc\u00df\u0301\u0308\u1e9b\u0323",
                     "\u4f60\u597d\u3002\uff0c\u3000", "\uac00\u1100\u1161\u11a8", "\U0001f600\u200d\u2764\ufe0f\U0001f468",
                     "\u0627\u0644\u0645\u0631\u064e", "\u0915\u094d\u0937\u093f", "\u00a0\u2009\u2028\u0085", "'sS'tT're'VE'll\u017f"]
        lines = []
        for _ in range(1500):
            chosen = draw.choices(alphabets, k=draw.randint(1, 3))
            lines.append("".join(draw.choice(draw.choice(chosen)) for _ in range(draw.randint(0, 40))))
        for _ in range(500):
            points = (draw.randrange(1, 0x3000) for _ in range(draw.randint(1, 20)))
            lines.append("".join(chr(point) for point in points))
        text = TEXT + "\n".join(lines) + "<|endoftext|> <|eot_id|>x<|im_start|>\n"
        for kind in ("llama", "qwen2", "gpt2"):
            made, told = self.told(kind, text)
            expected = made.encode(text, add_special_tokens=False).ids
            self.assertEqual(told, expected, kind)

    def test_files_that_are_not_whole(self):
        self.refused("train", "--task", "language", "--model", F / "never", "--train-sets", ROOT / "README.md", "--vocabs", F,
                     says="no tokenizer.json and no tokenizer.model")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Language models of the kinds of Llama, Mistral, Qwen2, Qwen3 and Gemma. Their folders are made here, with random weights; the libraries
`transformers` and `tokenizers` are the reference."""
import json
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

from bert_commands import lacks
from fovea_program import Refusals, checked
from llama_folder import (begin_of, ends_of, fallback_tokenizer, log_probs, random_model, scaled, telling_model, text_of_pieces,
                          told_tokens, tokenizer, write_tokenizer)

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
        self.tokens = "qwen2" if kind.startswith("qwen") else "gemma" if kind.startswith("gemma") else "llama"
        self.tokenizer = tokenizer(self.tokens, TEXT.splitlines(keepends=True), ROWS - 10)
        self.begin = begin_of(self.tokens, self.tokenizer)
        self.model = random_model(kind, ROWS, **changes)
        self.folder = F / f"{name}-folder"
        self.model.save_pretrained(self.folder)
        write_tokenizer(self.folder, self.tokens, self.tokenizer)
        self.converted = converted(self.folder, name)

    def ids(self, text):
        return [self.begin, *self.tokenizer.encode(text, add_special_tokens=False).ids]

    def text(self, ids):
        """The text that Fovea writes of tokens. The token that begins a text has none of its own."""
        ids = [token for token in ids if token != self.begin]
        if self.tokens != "gemma":
            return self.tokenizer.decode(ids, skip_special_tokens=False)
        return text_of_pieces([self.tokenizer.id_to_token(token) or "" for token in ids])


# Each kind by its name here: its name in docs/convert.md, or none, the class of its model, and what differs from the usual one.
KINDS = {
    "llama": ("Llama, Llama 2, Llama 3", "llama", {}),
    "tied": ("", "llama", {"tie_word_embeddings": True, "num_key_value_heads": 4}),
    "llama3": ("Llama 3.1 to 3.3", "llama", {"rope_parameters": scaled("llama3")}),
    "linear": ("linear scaling of positions", "llama", {"rope_parameters": scaled("linear")}),
    "yarn": ("YaRN", "qwen2", {"rope_parameters": scaled("yarn")}),
    "yarn-more": ("", "llama", {"rope_parameters": scaled("yarn", beta_fast=16.0, beta_slow=2.0, truncate=False, mscale=0.7,
                                                           mscale_all_dim=1.3)}),
    "mistral": ("Mistral with a window", "mistral", {"rms_norm_eps": 1e-6}),
    "mistral-full": ("Mistral without a window", "mistral", {"sliding_window": None}),
    "wide": ("Mistral Nemo", "mistral", {"head_dim": 12, "sliding_window": None}),
    "narrow": ("", "llama", {"head_dim": 6, "num_key_value_heads": 1}),
    "qwen2": ("Qwen2, Qwen2.5", "qwen2", {"num_key_value_heads": 1}),
    "qwen3": ("Qwen3", "qwen3", {"head_dim": 16}),
    "qwen3-tied": ("", "qwen3", {"head_dim": 8, "tie_word_embeddings": True}),
    "gemma": ("Gemma", "gemma", {}),
    "gemma2": ("Gemma 2", "gemma2", {}),
    "gemma2-low": ("", "gemma2", {
        "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.5, "head_dim": 8, "query_pre_attn_scalar": 8, "tie_word_embeddings": False,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "rope_parameters": scaled("linear")}),
    "gemma2-uncapped": ("", "gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
    "gemma2-sliding": ("", "gemma2", {"layer_types": ["sliding_attention"] * 2, "num_hidden_layers": 2, "final_logit_softcapping": None}),
    "gemma3": ("Gemma 3", "gemma3_text", {}),
    "gemma3-kinds": ("", "gemma3_text", {
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "num_hidden_layers": 3, "head_dim": 6,
        "query_pre_attn_scalar": 6, "tie_word_embeddings": False, "num_key_value_heads": 1, "hidden_activation": "gelu",
        "rope_parameters": {"full_attention": scaled("yarn"), "sliding_attention": scaled("llama3")}}),
    "gemma3-sliding": ("", "gemma3_text", {"layer_types": ["sliding_attention"] * 2, "num_hidden_layers": 2}),
}


def options_of(model):
    """The options of `fovea train` that tell a kind, as the checkpoint's config.yml has them."""
    usual = {"attention": "full", "attention-layers": "[]", "positions-layers": "[]", "transformer-biases": "none",
             "transformer-dim-head": "0", "attention-scalar": "0", "transformer-norm": "pre", "transformer-norm-qk": "none",
             "norm-gain": "plain", "transformer-ffn-activation": "swiglu", "embedding-scale": "one", "logit-softcap": "0"}
    lines = (model / "config.yml").read_text().replace('"', "").splitlines()
    config = dict(line.split(": ", 1) for line in lines if ": " in line)
    named = [f"`--{name} {config[name].strip('[]').replace(', ', ' ')}`" for name in ("transformer-positions", *usual)
             if config[name] != usual.get(name)]
    return ", ".join(named)


def table_of_kinds(folders):
    """The table of docs/convert.md; `--table` prints it."""
    rows = [f"| {title} | `{kind}` | {options_of(folders[name].converted)} |" for name, (title, kind, _) in KINDS.items() if title]
    return "\n".join(["| kind | `model_type` | in Fovea |", "|---|---|---|", *rows])


@lacks("torch", "transformers", "tokenizers", "safetensors")
class LanguageModels(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.folders = {name: Folder(kind, name, **changes) for name, (_, kind, changes) in KINDS.items()}

    def test_probabilities_are_transformers(self):
        text = TEXT[:700]
        for name, made in self.folders.items():
            expected = log_probs(made.model, made.ids(text))
            got = scores_of(made.converted, text)
            self.assertEqual(len(got), len(expected), name)
            # float32 of hundreds of products, and six digits in print.
            self.assertLess(max(abs(a - b) for a, b in zip(got, expected)), 3e-5, name)

    def test_the_page_has_the_table_of_kinds(self):
        self.assertIn(table_of_kinds(self.folders), (ROOT / "docs/convert.md").read_text(),
                      "make the table again: cli_convert_language_test.py --table")

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
                                            eos_token_id=ends_of(made.tokens, made.tokenizer))
            expected = whole[0].tolist()[len(ids):]
            if expected[-1] in ends_of(made.tokens, made.tokenizer):
                expected.pop()
            (F / "prompt").write_text(PROMPT)
            got = checked("generate", "--model", made.converted, "--prompt", PROMPT, "--temperature", 0, "--max-length", 40,
                          "--cpu-threads", 1, "--quiet").stdout
            text = made.text(expected)
            self.assertEqual(got.removeprefix(PROMPT).rstrip("\n"), text.rstrip("\n"), name)

    def copied(self, kind, name, **files):
        """A folder like that of a kind, with other files by their names, where "__" is a point; None removes one."""
        folder = F / f"{name}-folder"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folders[kind].folder, folder)
        for file, content in files.items():
            path = folder / file.replace("__", ".")
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_text(json.dumps(content))
        return folder

    def greedy(self, model):
        output = checked("generate", "--model", model, "--prompt", PROMPT, "--temperature", 0, "--max-length", 40, "--cpu-threads", 1,
                         "--quiet").stdout
        return output.removeprefix(PROMPT).rstrip("\n")

    def test_every_end_token_ends_a_text(self):
        import transformers
        made = self.folders["llama"]
        ids = torch.tensor([made.ids(PROMPT)])
        with torch.no_grad():
            free = made.model.generate(ids, do_sample=False, max_new_tokens=40, pad_token_id=0)[0].tolist()[ids.shape[1]:]
        usual = made.tokenizer.token_to_id("<|end_of_text|>")
        second = next(token for place, token in enumerate(free) if place >= 5 and token not in free[:place])
        self.assertIn(made.tokenizer.decode(free[:free.index(second) + 3]), self.greedy(made.converted))
        config = json.loads((made.folder / "config.json").read_text())
        ends = [usual, second, made.tokenizer.token_to_id("<|eot_id|>")]
        folders = {"generation": self.copied("llama", "generation", generation_config__json={"eos_token_id": ends, "max_length": 9}),
                   "list": self.copied("llama", "list", generation_config__json=None, config__json={**config, "eos_token_id": ends}),
                   "one": self.copied("llama", "one", generation_config__json={"eos_token_id": second})}
        for name, folder in folders.items():
            own = converted(folder, f"ends-{name}")
            self.assertEqual(self.greedy(own), made.tokenizer.decode(free[:free.index(second)]).rstrip("\n"), name)
            checked("convert", "--to", "huggingface", own, "--output", F / f"ends-{name}-back")
            back = transformers.AutoModelForCausalLM.from_pretrained(F / f"ends-{name}-back").eval()
            with torch.no_grad():
                again = back.generate(ids, do_sample=False, max_new_tokens=40, pad_token_id=0)[0].tolist()[ids.shape[1]:]
            self.assertEqual(again, free[:free.index(second) + 1], name)
            if (folder / "generation_config.json").exists():
                self.assertEqual((folder / "generation_config.json").read_bytes(),
                                 (F / f"ends-{name}-back/generation_config.json").read_bytes())
            self.assertEqual(set(json.loads((F / f"ends-{name}-back/config.json").read_text())["eos_token_id"]), {usual, second, *(
                ends if name != "one" else [])})
        for wrong, says in ((-1, "eos_token_id"), ("</s>", "eos_token_id"), (1 << 20, "expected a token of the tokeniser")):
            self.refused("convert", "--from", "huggingface", self.copied("llama", "bad-end", generation_config__json={"eos_token_id": wrong}),
                         "--output", F / "never", says=says)

    def test_files_of_torch(self):
        """pytorch_model.bin of today's torch and of that before 1.6, in parts, with parameters, and with tensors that share memory."""
        made = self.folders["tied"]
        state = made.model.state_dict()
        parameters = type(state)((name, torch.nn.Parameter(tensor)) for name, tensor in state.items())
        odd = {name: tensor.t().contiguous().t() if tensor.dim() == 2 else tensor for name, tensor in state.items()}

        def of(name, save):
            folder = self.copied("tied", f"torch-{name}", model__safetensors=None)
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
            folder = self.copied("tied", "torch-narrow", model__safetensors=None)
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
            folder = self.copied("tied", "hostile", model__safetensors=None)
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

    def test_there_and_back(self):
        import transformers
        for name, made in self.folders.items():
            checked("convert", "--to", "huggingface", made.converted, "--output", F / f"{name}-back")
            same_bytes(self, made.folder, F / f"{name}-back")
            again = transformers.AutoModelForCausalLM.from_pretrained(F / f"{name}-back").eval()
            # Without its window, Mistral's is the computation of Llama.
            self.assertIs(type(again), transformers.LlamaForCausalLM if name in ("wide", "mistral-full") else type(made.model))
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

    def test_soft_caps_learn_on(self):
        """Trained, resumed and written back: transformers computes what Fovea trained."""
        import transformers
        made = self.folders["gemma2-low"]
        (F / "train.txt").write_text(TEXT)
        options = ["train", "--task", "language", "--model", F / "capped", "--pretrained-model", made.converted, "--config",
                   made.converted / "config.yml", "--vocabs", made.folder, "--train-sets", F / "train.txt", "--segment-length", 64,
                   "--mini-batch", 8, "--learn-rate", 0.003, "--lr-warmup", 1, "--cpu-threads", 1]
        log = checked(*options, "--after-batches", 6).stderr
        self.assertNotIn("compute something else", log)
        checked(*options, "--after-batches", 12)
        self.assertGreater(sum(scores_of(F / "capped", TEXT[:2000])), sum(scores_of(made.converted, TEXT[:2000])))
        checked("convert", "--to", "huggingface", F / "capped", "--output", F / "capped-back")
        again = transformers.AutoModelForCausalLM.from_pretrained(F / "capped-back").eval()
        self.assertEqual((again.config.attn_logit_softcapping, again.config.final_logit_softcapping), (1.5, 2.5))
        expected = log_probs(again, made.ids(PROMPT))
        self.assertLess(max(abs(a - b) for a, b in zip(scores_of(F / "capped", PROMPT), expected)), 3e-5)
        log = checked(*[str(option).replace("capped", "uncapped") for option in options], "--after-batches", 1, "--logit-softcap", 0).stderr
        self.assertRegex(log, "compute something else here: .*logit-softcap")

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

    @staticmethod
    def awkward_text():
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
        return TEXT + "\n".join(lines) + "<|endoftext|> <|eot_id|>x<|im_start|>\n"

    def test_tokens_are_the_librarys(self):
        text = self.awkward_text()
        for kind in ("llama", "qwen2", "gpt2"):
            made, told = self.told(kind, text)
            expected = made.encode(text, add_special_tokens=False).ids
            self.assertEqual(told, expected, kind)

    def test_characters_with_byte_fallback(self):
        """tokenizer.json alone as Llama 2 and Mistral have it, by transformers 4 and 5; and there and back."""
        import transformers
        text = " <s> a<|im_start|>b <|im_end|>\n c<tool>d <tool> </s>" + self.awkward_text() + "  \u2581 x\u2581"
        for name, options in {"old": {"legacy": True}, "first": {}, "always": {"scheme": "always"}, "never": {"scheme": "never"}}.items():
            made = fallback_tokenizer(TEXT.splitlines(), ROWS - 10, **options)
            folder = F / f"telling-{name}"
            telling_model(ROWS).save_pretrained(folder)
            made.save(str(folder / "tokenizer.json"))
            (folder / "tokenizer_config.json").write_text(json.dumps(
                {"tokenizer_class": "TokenizersBackend", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))
            (folder / "special_tokens_map.json").write_text('{"bos_token": "<s>"}\n')
            (folder / "chat_template.jinja").write_text("{{ 1 }}\n")
            own = converted(folder, f"told-{name}")
            for part in (text, text[:40], "x", " x", "\n"):
                # Most texts are read in many parts, the short ones whole.
                told = told_tokens(scores_of(own, part, "--mini-batch", 64), ROWS)
                self.assertEqual(told, made.encode(part, add_special_tokens=False).ids, (name, part[:20]))
            checked("convert", "--to", "huggingface", own, "--output", F / f"{name}-back")
            for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
                         "generation_config.json"):
                self.assertEqual((folder / file).read_bytes(), (F / f"{name}-back" / file).read_bytes(), file)
            again = transformers.AutoTokenizer.from_pretrained(F / f"{name}-back")
            self.assertEqual(again(text)["input_ids"], made.encode(text).ids)
            self.assertEqual(again(text)["input_ids"][0], 1, "<s>")

    def test_what_byte_fallback_has_not(self):
        made = json.loads(fallback_tokenizer(TEXT.splitlines(), ROWS - 10, legacy=True).to_str())
        folder = F / "odd-tokens"
        telling_model(ROWS).save_pretrained(folder)
        (folder / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')

        def refused(says, **change):
            (folder / "tokenizer.json").write_text(json.dumps({**made, **change}))
            self.refused("convert", "--from", "huggingface", folder, "--output", F / "never", says=["tokenizer.json", says])

        refused("expected Prepend and Replace", normalizer={"type": "Lowercase"})
        refused("one that writes U+2581", normalizer={"type": "Prepend", "prepend": "\u2581"})
        refused("pre_tokenizer: got the type 'Metaspace' behind a normalizer", pre_tokenizer={"type": "Metaspace", "replacement": "\u2581"})
        refused("pre_tokenizer: got the type 'none'", normalizer=None)
        refused("expected first, always or never", normalizer=None,
                pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "x"})
        refused("expected U+2581", normalizer=None, pre_tokenizer={"type": "Metaspace", "replacement": "_"})
        refused("decoder: got the type 'BPEDecoder'", decoder={"type": "BPEDecoder"})
        refused("ignore_merges", model={**made["model"], "ignore_merges": True})
        vocabulary = dict(made["model"]["vocab"])
        vocabulary["x" * 9] = vocabulary.pop("<0x41>")
        refused("no token for the byte 65", model={**made["model"], "vocab": vocabulary})
        refused("got the type 'Unigram'", model={"type": "Unigram", "vocab": []})

    def test_files_that_are_not_whole(self):
        self.refused("train", "--task", "language", "--model", F / "never", "--train-sets", ROOT / "README.md", "--vocabs", F,
                     says="no tokenizer.json and no tokenizer.model")


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        print(table_of_kinds({name: Folder(kind, name, **changes) for name, (_, kind, changes) in KINDS.items()}))
    else:
        unittest.main()

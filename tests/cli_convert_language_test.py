#!/usr/bin/env python3
"""Language models of the kinds of Llama, Mistral, Qwen2, Qwen3 and Gemma: probabilities, texts and tokens, and learning on. The libraries
`transformers` and `tokenizers` are the reference."""
import json
import random
import shutil
import sys
import unittest

from bert_commands import lacks
from fovea_program import Refusals, checked
from language_folders import KINDS, PROMPT, ROOT, ROWS, TEXT, F, Folder, converted, copied, same_bytes, scores_of
from llama_folder import ends_of, fallback_tokenizer, log_probs, telling_model, told_tokens, tokenizer, write_tokenizer

try:
    import torch
except ImportError:
    torch = None


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
        cls.folders = {name: Folder(name) for name in KINDS}

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
        folders = {"generation": copied(self.folders["llama"], "generation", generation_config__json={"eos_token_id": ends, "max_length": 9}),
                   "list": copied(self.folders["llama"], "list", generation_config__json=None, config__json={**config, "eos_token_id": ends}),
                   "one": copied(self.folders["llama"], "one", generation_config__json={"eos_token_id": second})}
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
            self.refused("convert", "--from", "huggingface", copied(self.folders["llama"], "bad-end", generation_config__json={"eos_token_id": wrong}),
                         "--output", F / "never", says=says)

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
        print(table_of_kinds({name: Folder(name) for name in KINDS}))
    else:
        unittest.main()

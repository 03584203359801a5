#!/usr/bin/env python3
"""Chats with language models through `fovea serve`: the templates of folders, and the kept states of earlier turns. The library
`transformers` is the reference."""
import importlib.util
import json
import pathlib
import shutil
import tempfile
import unittest

from bert_commands import lacks
from chat_templates import FORMS, conversations
from fovea_program import Refusals, checked
from llama_folder import fallback_tokenizer, random_model, text_of_pieces, tokenizer, write_tokenizer
from served_program import Served

F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs/convert.md").read_text() + (ROOT / "docs/language.md").read_text()
ROWS = 600
KINDS = {"ChatML": ("qwen2", "qwen3"), "Llama 3": ("llama", "llama"), "Mistral": ("fallback", "mistral"), "Gemma": ("gemma", "gemma3_text")}


def folder_of(form, template, where="jinja"):
    """A folder with random weights, whose template lies in a file of its own or in tokenizer_config.json."""
    tokens, kind = KINDS[form]
    folder = F / f"{form}-{where}".replace(" ", "-")
    lines = TEXT.splitlines(keepends=True)
    made = fallback_tokenizer(lines, ROWS - 20) if tokens == "fallback" else tokenizer(tokens, lines, ROWS - 20)
    random_model(kind, ROWS, **({"head_dim": 16} if kind == "qwen3" else {})).save_pretrained(folder)
    write_tokenizer(folder, tokens, made)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    if tokens == "fallback":
        config.update(bos_token="<s>", eos_token="</s>", tokenizer_class="TokenizersBackend")
    if where == "jinja":
        (folder / "chat_template.jinja").write_text(template)
    else:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@lacks("torch", "transformers", "tokenizers", "jinja2")
class Chats(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.folders = {form: folder_of(form, template, where) for (form, template), where in
                       zip(FORMS.items(), ("jinja", "jinja", "config", "config"))}
        models = []
        for form, folder in cls.folders.items():
            name = form.replace(" ", "-")
            checked("convert", "--from", "huggingface", folder, "--output", F / f"{name}-model")
            models.append(f"{name}={F / f'{name}-model'}")
        plain = F / "plain"
        shutil.copytree(cls.folders["Llama 3"], plain)
        (plain / "chat_template.jinja").unlink()
        checked("convert", "--from", "huggingface", plain, "--output", F / "plain-model")
        shutil.copytree(plain, F / "other")
        (F / "other/chat_template.jinja").write_text("{% macro x() %}{% endmacro %}")
        checked("convert", "--from", "huggingface", F / "other", "--output", F / "other-model")
        cls.options = ("--model", *models, f"plain={F / 'plain-model'}", f"other={F / 'other-model'}", "--quiet")
        cls.server = Served(*cls.options)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass

    def ok(self, path, body, server=None):
        status, answer, _ = (server or self.server).post(path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def test_prompts_are_transformers(self):
        import transformers
        for form, folder in self.folders.items():
            reference = transformers.AutoTokenizer.from_pretrained(folder)
            for messages in conversations(30):
                for asks in (True, False):
                    text = reference.apply_chat_template(messages, tokenize=False, add_generation_prompt=asks)
                    expected = reference(text, add_special_tokens=False)["input_ids"]
                    got = self.ok("/tokenize", {"model": form.replace(" ", "-"), "messages": messages, "add_generation_prompt": asks})
                    self.assertEqual(got["tokens"], expected, (form, messages))

    def test_answers_are_transformers(self):
        import torch
        import transformers
        for form, folder in self.folders.items():
            name = form.replace(" ", "-")
            messages = conversations(1, seed=2)[0]
            model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
            reference = transformers.AutoTokenizer.from_pretrained(folder)
            ids = torch.tensor([self.ok("/tokenize", {"model": name, "messages": messages})["tokens"]])
            ends = model.generation_config.eos_token_id or [reference.eos_token_id]
            with torch.no_grad():
                made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12, pad_token_id=0,
                                      eos_token_id=ends)[0, ids.shape[1]:].tolist()
            answer = self.ok("/v1/chat/completions", {"model": name, "messages": messages, "temperature": 0, "max_tokens": 12})
            choice, usage = answer["choices"][0], answer["usage"]
            ended = made[-1] in ends
            own = made[:-1] if ended else made
            text = text_of_pieces(reference.convert_ids_to_tokens(own)) if form in ("Mistral", "Gemma") else reference.decode(own)
            self.assertEqual(choice["message"]["content"].split(), text.split(), form)
            self.assertEqual(choice["finish_reason"], "stop" if ended else "length")
            self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"]), (ids.shape[1], len(made) - ended))

    def test_a_template_that_is_not_known(self):
        def refused(says, **body):
            status, answer, _ = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], **body})
            self.assertEqual(status, 400, answer)
            self.assertIn(says, answer["error"]["message"])

        advice = "write the text of the conversation yourself, and send it to /v1/completions"
        refused(advice, model="plain")
        refused("'plain' has no chat template", model="plain")
        refused("has the block 'macro', which is not read", model="other")
        refused(advice, model="other")
        refused("the roles must alternate", model="Mistral", messages=[{"role": "assistant", "content": "x"}])
        refused("expected objects with role", model="Llama-3", messages=[{"content": "x"}])
        refused("content is missing", model="Llama-3", messages=[{"role": "user"}])
        refused("messages is missing", model="Llama-3", messages=[])
        refused("tools: got", model="Llama-3", tools=[{"x": 1}])
        refused("logprobs: got", model="Llama-3", logprobs=True)
        refused("max_tokens: got 0", model="Llama-3", max_tokens=0)

    def turns(self, server, name, count):
        """A conversation; each turn's answer, and the tokens of its prompt that were kept."""
        messages, results = [{"role": "system", "content": TEXT[:400]}], []
        for turn in range(count):
            messages.append({"role": "user", "content": TEXT[400 * turn + 1000:400 * turn + 1400]})
            answer = self.ok("/v1/chat/completions", {"model": name, "messages": messages, "max_tokens": 20, "seed": turn}, server)
            content = answer["choices"][0]["message"]["content"]
            results.append((content, answer["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]))
            messages.append({"role": "assistant", "content": content})
        return results

    def test_earlier_turns_are_kept(self):
        with Served(*self.options, "--prefix-cache", 0) as without:
            for name in ("Llama-3", "ChatML", "Mistral"):
                kept, computed = self.turns(self.server, name, 5), self.turns(without, name, 5)
                self.assertEqual([turn[:2] for turn in kept], [turn[:2] for turn in computed])
                self.assertEqual([turn[2] for turn in computed], [0] * 5)
                if name == "Mistral":
                    continue  # its template moves the system's message to the last turn, so that turns do not begin alike
                for before, turn in zip(kept, kept[1:]):
                    # All whole pieces of the prompt before.
                    self.assertGreaterEqual(turn[2], before[1] // 256 * 256, name)
                self.assertGreater(kept[-1][2], 256)

    def test_room_for_kept_states_is_bounded(self):
        with Served(*self.options, "--prefix-cache", 1) as small:
            again = self.turns(small, "Llama-3", 5)
        self.assertEqual([turn[0] for turn in again], [turn[0] for turn in self.turns(self.server, "Llama-3", 5)])

    def test_streams(self):
        body = {"model": "Llama-3", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "seed": 3, "n": 2}
        whole = self.ok("/v1/chat/completions", body)
        stream = self.ok("/v1/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
        lines = [line.removeprefix("data: ") for line in stream.splitlines() if line]
        self.assertEqual(lines[-1], "[DONE]")
        events = [json.loads(line) for line in lines[:-1]]
        texts = ["", ""]
        for event in events:
            self.assertEqual(event["object"], "chat.completion.chunk")
            for choice in event["choices"]:
                texts[choice["index"]] += choice["delta"].get("content") or ""
        self.assertEqual(texts, [choice["message"]["content"] for choice in whole["choices"]])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])

    @unittest.skipIf(importlib.util.find_spec("openai") is None, "needs the Python package openai")
    def test_the_client(self):
        import openai
        client = openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="none")
        messages = []
        for turn in range(5):
            messages.append({"role": "user", "content": f"question {turn}"})
            answer = client.chat.completions.create(model="Llama-3", messages=messages, max_completion_tokens=10, temperature=0)
            self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        parts = client.chat.completions.create(model="Llama-3", messages=messages[:-1], max_completion_tokens=10, temperature=0, stream=True)
        self.assertEqual("".join(part.choices[0].delta.content or "" for part in parts), messages[-1]["content"])


if __name__ == "__main__":
    unittest.main()

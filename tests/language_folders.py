"""Folders of language models with random weights, of the kinds of Llama, Mistral, Qwen2, Qwen3 and Gemma, that Fovea has converted."""
import json
import pathlib
import shutil
import tempfile
import unittest

from fovea_program import checked
from llama_folder import begin_of, random_model, scaled, text_of_pieces, tokenizer, write_tokenizer

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
    """The folder of one of the KINDS, and what Fovea makes of it."""

    def __init__(self, name):
        _, kind, changes = KINDS[name]
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


def copied(made, name, **files):
    """A folder like that of a Folder, with other files by their names, where "__" is a point; None removes one."""
    folder = F / f"{name}-folder"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made.folder, folder)
    for file, content in files.items():
        path = folder / file.replace("__", ".")
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_text(json.dumps(content))
    return folder


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

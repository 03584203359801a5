"""Small random models of Hugging Face's transformers, for the tests of fovea.transformers."""
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install transformers")
VERSION = tuple(int(part) for part in transformers.__version__.split(".")[:2])
newer = pytest.mark.skipif(VERSION < (5, 0), reason="transformers 4 has another interface for this model")

VOCABULARY, LENGTH = 97, 21
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3,
         "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 256}
ENDS = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}


def config(kind):
    from transformers import GPT2Config, LlamaConfig, MistralConfig, Qwen2Config
    if kind == "llama":
        return LlamaConfig(**SIZES, **ENDS)
    if kind == "mistral":
        return MistralConfig(**SIZES, **ENDS, sliding_window=7)
    if kind == "qwen":
        return Qwen2Config(**SIZES, **ENDS)
    return GPT2Config(vocab_size=VOCABULARY, n_embd=48, n_layer=3, n_head=6, n_positions=256, attn_pdrop=0, resid_pdrop=0,
                      embd_pdrop=0, **ENDS)


def model(kind, implementation="sdpa", seed=1):
    torch.manual_seed(seed)
    made = transformers.AutoModelForCausalLM.from_config(config(kind), attn_implementation=implementation).eval()
    with torch.no_grad():  # or all tokens would get nearly the same logits
        for parameter in made.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    return made


def tokens(rows=3, length=LENGTH, seed=2):
    return torch.randint(3, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def padding(side, rows=3, length=LENGTH):
    """Rows of different lengths, the last one whole."""
    mask = torch.ones(rows, length, dtype=torch.long)
    for row in range(rows - 1):
        if side == "left":
            mask[row, :5 + 4 * row] = 0
        else:
            mask[row, length - 5 - 4 * row:] = 0
    return mask


def switch(made, implementation):
    """transformers 4 logs that a model has no other attention, and keeps its own."""
    made.set_attn_implementation(implementation)
    assert made.config._attn_implementation == implementation


def pass_of(made, implementation, ids, **arguments):
    """Logits of the tokens that are no padding, and the gradient of all parameters."""
    switch(made, implementation)
    made.zero_grad()
    logits = made(ids, **arguments).logits
    mask = arguments.get("attention_mask")
    keep = torch.ones_like(ids).bool() if mask is None else mask.bool()
    chosen = logits.log_softmax(-1).gather(-1, ids[..., None])[keep]
    (chosen.sum() / keep.sum()).backward()
    return logits[keep].detach(), torch.cat([p.grad.flatten() for p in made.parameters() if p.grad is not None])


def outputs_and_gradients(made, padded=""):
    """Logits, and the gradient of each parameter; padded: three tokens of the first row on the "left" or "right"."""
    ids, mask = tokens(), None
    if padded:
        mask = torch.ones_like(ids)
        mask[0, slice(3) if padded == "left" else slice(-3, None)] = 0
    logits = made(ids, attention_mask=mask).logits
    if mask is not None:
        logits = logits * mask[..., None]
    logits.square().mean().backward()
    return [logits.detach(), *(p.grad for p in made.parameters() if p.grad is not None)]


def generated(made, implementation, ids, **arguments):
    switch(made, implementation)
    return made.generate(ids, max_new_tokens=64, do_sample=False, **arguments)

"""A model of Hugging Face's transformers with Fovea's mechanisms against the same model with sdpa: time of the whole
model. huggingface_attention.py measures its attention alone, huggingface_memory.py memory."""
import timing
import torch

SPECS = ("topk(32)", "window(256)")
WINDOW = 256
PADDED = 0.125  # of one of two rows is padding
# From this number of tokens on, fine-tuning keeps the inputs of layers alone and computes each layer again in its
# backward pass, on both sides: the activations of 32,768 tokens take 14 GB in float32.
CHECKPOINTED = 16384
MOST_DENSE = 16384  # tokens, where sdpa makes an n x n mask


def model(layers, dtype=torch.float32, **options):
    """Random weights: what is measured does not depend on them, except how often the keys that topk keeps repeat."""
    from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig

    sizes = dict(vocab_size=4096, hidden_size=512, intermediate_size=2048, num_hidden_layers=layers, num_attention_heads=8,
                 num_key_value_heads=2, max_position_embeddings=65536, attention_dropout=0.0)
    torch.manual_seed(1)
    config = MistralConfig(**sizes, **options) if options else LlamaConfig(**sizes)
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").to(dtype)


def registered(name):
    import fovea

    return name if name == "sdpa" else fovea.transformers.register(name)


def batch(rows, n, padded=False):
    ids = torch.randint(0, 4096, (rows, n), generator=torch.Generator().manual_seed(n))
    if not padded:
        return ids, None
    mask = torch.ones_like(ids)
    mask[0, :int(PADDED * n)] = 0
    return ids, mask


def prefill(made, name, ids, mask):
    def run():
        made.set_attn_implementation(name)
        made.eval()
        with torch.no_grad():
            made(ids, attention_mask=mask, use_cache=False, logits_to_keep=1)

    return run


def tuning(made, name, ids, mask):
    """Forward and backward of a loss over all tokens."""
    def run():
        made.set_attn_implementation(name)
        made.train()
        made.zero_grad()
        made(ids, attention_mask=mask, labels=ids, use_cache=False).loss.backward()

    return run


STEPS = {"prefill": prefill, "fine-tuning": tuning}


def fitted(made, n):
    """The model, which recomputes its layers where sequences are long."""
    if n >= CHECKPOINTED:
        made.gradient_checkpointing_enable({"use_reentrant": False})
    else:
        made.gradient_checkpointing_disable()
    return made


def in_turns(given, sides):
    return timing.in_turns(sides, given.seconds, given.repetitions, given.once_above)


def type_of(name):
    return getattr(torch, name)


def compare(given, made, n, columns, specs, inputs):
    """Rows of a model's two steps: each of the specs against sdpa, all in turns."""
    for step, work in STEPS.items():
        times = in_turns(given, {name: work(fitted(made, n), registered(name), *inputs) for name in ("sdpa", *specs)})
        for spec in specs:
            yield {"tokens": n, **columns, "step": step, "mechanism": spec, **timing.compared(times[spec], times["sdpa"])}


def model_rows(given):
    for dtype in given.types:
        made = model(given.layers, type_of(dtype))
        for n in given.lengths:
            yield from compare(given, made, n, {"type": dtype}, SPECS, batch(1, n))


def window_rows(given):
    """A model with a sliding window, for which sdpa makes an n x n mask."""
    for dtype in given.types:
        made = model(given.layers, type_of(dtype), sliding_window=WINDOW)
        for n in given.lengths:
            if n <= MOST_DENSE:
                yield from compare(given, made, n, {"type": dtype, "window": WINDOW}, ("full", "topk(32)"), batch(1, n))


def padded_rows(given):
    """Two rows, of which one has padding on the left, against the same two without: each mechanism against itself."""
    for dtype in given.types:
        made = model(given.layers, type_of(dtype))
        for n in given.lengths:
            for step, work in STEPS.items():
                for name in ("sdpa", *SPECS) if n <= MOST_DENSE else SPECS:
                    sides = {padded: work(fitted(made, n), registered(name), *batch(2, n, padded)) for padded in (True, False)}
                    times = in_turns(given, sides)
                    row = timing.compared(times[True], times[False])
                    yield {"tokens": n, "type": dtype, "step": step, "mechanism": name, "ms": row["ms"],
                           "unpadded ms": row["peer ms"], "of the unpadded": 1 / row["times faster"],
                           "spread %": row["spread %"]}

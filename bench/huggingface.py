"""A model of Hugging Face's transformers with Fovea's mechanisms against the same model with sdpa."""
import timing
import torch

SPECS = ("topk(32)", "window(256)")
PADDED = 0.125  # of a row of the padded batch is padding


def model(implementation, **options):
    """Random weights: what is measured does not depend on them, except how often the keys that topk keeps repeat."""
    from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig

    sizes = dict(vocab_size=4096, hidden_size=512, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=8,
                 num_key_value_heads=2, max_position_embeddings=65536)
    torch.manual_seed(1)
    config = MistralConfig(**sizes, **options) if options else LlamaConfig(**sizes)
    return AutoModelForCausalLM.from_config(config, attn_implementation=implementation)


def prefill(made, ids, mask):
    def run():
        with torch.no_grad():
            made(ids, attention_mask=mask, use_cache=False, logits_to_keep=1)

    return run


def tuning(made, ids, mask):
    """Forward and backward of a loss over all tokens."""
    def run():
        made.zero_grad()
        made(ids, attention_mask=mask, labels=ids, use_cache=False).loss.backward()

    return run


def candidates(sides, n, padded, work):
    """{name: function} of the models of `sides`, {name: (implementation, options)}."""
    import fovea

    ids = torch.randint(0, 4096, (1, n), generator=torch.Generator().manual_seed(n))
    mask = torch.ones_like(ids)
    if padded:
        mask[:, :int(PADDED * n)] = 0
    made = {}
    for name, (implementation, options) in sides.items():
        if implementation != "sdpa":
            implementation = fovea.transformers.register(implementation)
        made[name] = work(model(implementation, **options), ids, mask if padded else None)
    return made


def rows(lengths, seconds):
    """The whole model, both sides in turns. The last rows are a model with a sliding window, and a batch with padding
    on the left, where sdpa makes an n x n mask."""
    table = []
    window = {"sliding_window": 256}
    cases = [("", False, {"sdpa": ("sdpa", {}), **{spec: (spec, {}) for spec in SPECS}}),
             ("sliding_window=256", False, {"sdpa": ("sdpa", window), "full": ("full", window)}),
             ("padded", True, {"sdpa": ("sdpa", {}), "topk(32)": ("topk(32)", {})})]
    for n in lengths:
        for label, padded, sides in cases:
            for step, work in (("prefill", prefill), ("fine-tuning", tuning)):
                times = timing.in_turns(candidates(sides, n, padded, work), seconds, least=3)
                for name in sides:
                    if name != "sdpa":
                        table.append({"tokens": n, "model": label or "plain", "step": step, "mechanism": name,
                                      **timing.compared(times[name], times["sdpa"])})
    return table

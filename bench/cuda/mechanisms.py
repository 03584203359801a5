"""Every mechanism of the library's own list, and every input of a call, on a device beside the CPU: outputs and gradients."""
import os

import torch

import fovea
import specs

# The difference allowed, relative to the norm: sums in another order of what both sides read rounded. The gradients of
# the steepest mechanisms multiply the rounding of float32, 6e-8, by more than a hundred on CPUs already.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 2e-2}
B, H, N, D = 2, 6, 40, 16


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64, device="cpu").to(dtype)


def by_lists(**options):
    """A case whose lists of keys lie behind no query: 5 of the keys up to it, or 2 blocks of 8."""
    places = torch.stack([torch.randperm(N)[:5] for _ in range(B * N)]).view(B, N, 5)
    listed = places.masked_fill(places > torch.arange(N)[:, None], -1)
    blocks = torch.stack([torch.randperm(N // 8)[:2] for _ in range(B * 3 * N)]).view(B, 3, N, 2)
    of_blocks = blocks.masked_fill(blocks > torch.arange(N)[:, None] // 8, -1)
    return {"indices": listed} if options["by"] == "key" else {"block_indices": of_blocks, "block_size": 8}


# Inputs of a call: the name, heads of k and v, and its arguments as a function of the type.
INPUTS = {
    "padded": (H, lambda _: {"k_lengths": torch.tensor([N, 7]), "q_lengths": torch.tensor([N, 7])}),
    "dropout": (H, lambda _: {"dropout": 0.2, "dropout_seed": 3}),
    "fewer heads of keys": (3, lambda _: {"enable_gqa": True}),
    "term by head": (H, lambda dtype: {"offset_bias": drawn(H, 9, dtype=dtype), "offset_first": -6}),
    "term by query": (H, lambda dtype: {"offset_bias": drawn(B, H, N, 9, dtype=dtype), "offset_first": -6}),
    "term of products": (H, lambda dtype: {"offset_queries": drawn(B, H, N, D, dtype=dtype),
                                           "offset_rows": drawn(9, H, D, dtype=dtype), "offset_rows_first": -6}),
    "term of values": (H, lambda dtype: {"offset_values": drawn(9, H, D, dtype=dtype), "offset_values_first": -6}),
    "lists of keys": (3, lambda _: {"enable_gqa": True, **by_lists(by="key")}),
    "lists of blocks": (3, lambda _: {"enable_gqa": True, **by_lists(by="block")})}
INPUT_SPECS = ("full", "topk(4)", "window(5)", "entmax(1.5)", "relu")
ON_THE_CPU = {"k_lengths", "q_lengths"}  # wherever q lies


class Reference:
    """Within it, calls on a device run through the reference, forward and backward; `others` compares other kernels."""

    def __enter__(self):
        self.named = os.environ.get("FOVEA_KERNEL")
        os.environ["FOVEA_KERNEL"] = "reference"

    def __exit__(self, *_):
        del os.environ["FOVEA_KERNEL"]
        if self.named is not None:
            os.environ["FOVEA_KERNEL"] = self.named


def moved(tensor, name, device):
    """A leaf of its own on the device."""
    there = tensor.detach().to("cpu" if name in ON_THE_CPU else device, copy=True)
    return there.requires_grad_(there.is_floating_point())


def computed(device, x, given, along):
    """[output, gradient of each floating-point input]."""
    there = {name: moved(value, name, device) if isinstance(value, torch.Tensor) else value
             for name, value in {**x, **given}.items()}
    out = fovea.attention(**there)
    leaves = [value for value in there.values() if isinstance(value, torch.Tensor) and value.is_floating_point()]
    return [out, *torch.autograd.grad(out, leaves, along.to(device), allow_unused=True)]


def difference(got, want):
    """The greatest norm of a difference, relative to that of what the CPU computes; NaN never passes."""
    if want is None or got is None:
        return 0.0 if got is want else float("nan")
    got, want = got.detach().double().cpu(), want.detach().double()
    return float((got - want).norm() / want.norm().clamp(min=1e-12))


def compared(spec, dtype, causal, device, given=None, kv_heads=H):
    """(difference of the outputs, greatest difference of a gradient)."""
    torch.manual_seed(N)
    q, k, v, along = (drawn(B, heads, N, D, dtype=dtype) for heads in (H, kv_heads, kv_heads, H))
    given = given(dtype) if given else {}
    x = {"q": q, "k": k, "v": v, **specs.extras(spec, H, D, dtype)}
    given = {"spec": spec, "causal": causal, **given}
    want = computed("cpu", x, given, along)
    with Reference():
        got = computed(device, x, given, along)
    assert got[0].device.type == torch.device(device).type
    output, *gradients = (difference(a, b) for a, b in zip(got, want))
    return output, max(gradients, key=lambda value: float("inf") if value != value else value)


def row_of(dtype, name, what, causal, found):
    worst = max(found, key=lambda value: float("inf") if value != value else value)
    return {"type": str(dtype).removeprefix("torch."), "mechanism": name, "input": what, "causal": causal,
            "output": found[0], "gradients": found[1], "agrees": "yes" if worst <= TOLERANCE[dtype] else "NO"}


def for_three_heads(spec):
    """Specs of three heads, for six."""
    groups = (group.partition("*") for group in spec.split(";"))
    return ";".join(f"{2 * int(count)}*{rest}" for count, _, rest in groups) if ";" in spec else spec


def rows(device, quick=False):
    """One for each mechanism, type and kind of call."""
    every = specs.ALL[::8] if quick else specs.ALL + specs.RANDOM
    for dtype in list(TOLERANCE)[:1 if quick else None]:
        for spec in map(for_three_heads, every):
            for causal in (False, True):
                yield row_of(dtype, spec, "", causal, compared(spec, dtype, causal, device))
        for what, (kv_heads, given) in INPUTS.items():
            for spec in INPUT_SPECS[:2 if quick else None]:
                causal = what.startswith("lists")
                yield row_of(dtype, spec, what, causal, compared(spec, dtype, causal, device, given, kv_heads))

"""The kernels of other libraries that the package asks on CUDA, beside the reference in double: outputs and gradients. The
package's own trial compares two mechanisms at one size; these are more patterns, sizes, and shared heads of keys."""
import importlib.util

import torch

from fovea import _device_kernels as kernels
from mechanisms import difference

SPECS = {"flex": ("full", "window(40)", "window(40)|global(3)", "block(32)", "dilated(8,2)", "strided(5)", "random(7)",
                  "2*window(20);2*strided(3)"),
         "adasplash": ("sparsemax", "entmax(1.5)", "entmax(1.3)")}
SHAPES = ((2, 4, 4, 150, 16), (1, 4, 2, 256, 64), (1, 4, 4, 1024, 64))  # B, H, H_kv, n, D

BLANK = dict.fromkeys(("output", "dq", "dk", "dv"), "")


def made(shape, dtype):
    batch, heads, kv_heads, n, width = shape
    generator = torch.Generator().manual_seed(n)
    return [torch.randn(batch, h, n, width, generator=generator, dtype=torch.float64, device="cpu").to(dtype)
            for h in (heads, kv_heads, kv_heads, heads)]


def compared(kernel, spec, shape, dtype, causal, given):
    """{what: difference}, or why the kernel refuses the call."""
    kind = "causal" if causal else "self"
    backward = given.device == "cuda"  # FlexAttention has none on a CPU
    *x, along = made(shape, dtype)
    exact = [t.double().requires_grad_(backward) for t in x]
    there = [t.to(given.torch_device).requires_grad_(backward) for t in x]
    call = kernels.Call(*there, spec, kind, None, (0, 0), ())
    reason = kernel.refusal(call)
    if reason:
        return reason
    want = [torch.ops.fovea.attention(*exact, spec, kind=kind, enable_gqa=shape[1] != shape[2])]
    got = [kernel.run(call)]
    if backward:
        want += torch.autograd.grad(want[0], exact, along.double())
        got += torch.autograd.grad(got[0], there, along.to(given.torch_device))
    return {what: difference(a, b) for what, a, b in zip(("output", "dq", "dk", "dv"), got, want)}


def tried(kernel, dtype, given):
    """Returns the verdict of the package's own trial, as a value of the column `agrees`; an empty text if the kernel may be used."""
    if kernel.name == "adasplash" and importlib.util.find_spec("adasplash") is None:
        return "not compared: the package adasplash is not installed"
    if given.device == "cpu":
        return ""
    reason = kernels.trial(kernel, given.torch_device, dtype)
    return f"NO: {reason}" if "differs" in reason else reason


def rows(given):
    """One for each kernel, type, mechanism and shape."""
    for kernel in kernels.KERNELS:
        for dtype in list(kernels.TOLERANCE)[:1 if given.quick else None]:
            why = tried(kernel, dtype, given)
            if why:
                yield {"kernel": kernel.name, "type": str(dtype).removeprefix("torch."), "mechanism": "", "shape": "", **BLANK,
                       "agrees": why}
                continue
            for shape in SHAPES[:1 if given.quick else None]:
                for spec in SPECS[kernel.name][:3 if given.quick else None]:
                    for causal in (False, True):
                        yield row(kernel, dtype, shape, spec, causal, given)


def row(kernel, dtype, shape, spec, causal, given):
    batch, heads, kv_heads, n, width = shape
    start = {"kernel": kernel.name, "type": str(dtype).removeprefix("torch."),
             "mechanism": spec + (", causal" if causal else ""), "shape": f"{batch} x {heads}/{kv_heads} x {n} x {width}"}
    found = compared(kernel, spec, shape, dtype, causal, given)
    if isinstance(found, str):
        return start | BLANK | {"agrees": f"refused: {found}"}
    agrees = all(value <= kernels.TOLERANCE[dtype] for value in found.values())  # NaN never passes
    return start | BLANK | found | {"agrees": "yes" if agrees else "NO"}

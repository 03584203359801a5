#!/usr/bin/env python3
"""The Python package on a GPU, or on the stand-in for one (stand_in.cc), which LD_PRELOAD loads: values and gradients are
the CPU's, and kernels that cannot run there are refused with a reason."""
import os
import sys

try:
    import torch
except ImportError:
    print("this Python has no torch")
    sys.exit(77)

STAND_IN = "stand_in_device" in os.environ.get("LD_PRELOAD", "")
if STAND_IN:  # this torch has no CUDA to start
    torch.cuda._lazy_init = lambda: None
    torch.version.cuda = "0"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import fovea  # noqa: E402

SPECS = ("full", "window(8)", "window(4)|global(2)", "random(3)", "topk(4)", "sparsemax", "entmax(1.5)", "relu", "rela-g",
         "2*window(3);2*topk(2)")


def compared(spec, causal, dtype, tolerance, **options):
    parts = {"gate": torch.randn(4 * 16, dtype=dtype)} if "gate" in fovea.parameters(spec) else {}
    x = [torch.randn(2, 4, 40, 16, dtype=dtype, requires_grad=True) for _ in range(3)]
    there = [t.detach().to("cuda").requires_grad_() for t in x]
    want = fovea.attention(*x, spec, causal=causal, **parts, **options)
    got = fovea.attention(*there, spec, causal=causal, **{name: t.to("cuda") for name, t in parts.items()}, **options)
    along = torch.randn_like(want)
    wants = [want, *torch.autograd.grad(want, x, along)]
    gots = [got, *torch.autograd.grad(got, there, along.to("cuda"))]
    for a, b in zip(gots, wants):
        assert a.is_cuda, spec
        difference = (a.detach().cpu().double() - b.detach().double()).norm() / b.detach().double().norm()
        assert difference <= tolerance, (spec, causal, dtype, float(difference))


for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 2e-5), (torch.bfloat16, 2e-2)):
    for spec in SPECS:
        for causal in (False, True):
            compared(spec, causal, dtype, tolerance)
    compared("topk(4)", True, dtype, tolerance, dropout=0.2, dropout_seed=3)
layer, there = fovea.Attention(64, 4, "rela-g"), fovea.Attention(64, 4, "rela-g", device="cuda")
there.load_state_dict(layer.state_dict())
x = torch.randn(2, 20, 64)
assert (there(x.to("cuda")).cpu() - layer(x)).abs().max() < 1e-5
q = torch.randn(2, 4, 40, 16).to("cuda")
walk = fovea.explain(q, q, q, "window(8)").splitlines()
# FlexAttention needs a compiler for a GPU.
assert not STAND_IN or walk[0].startswith("flex: does not run here: ") and walk[-1] == "-> reference", walk
assert walk[-1] in ("-> flex", "-> reference"), walk
try:
    fovea.attention(q, q, q, "window(")
except fovea.SpecError:
    pass
else:
    raise AssertionError("a spec that does not parse was taken")

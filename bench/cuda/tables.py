"""Times and memory of attention on a device, beside PyTorch's own attention in the same type and run."""
import os

import torch

import fovea
import peers
from attention import PASSES, ours, require_equal
from inputs import normal
from timing import compared, in_turns
from waiting import peak_mib, wait

SPECS = ("topk(32)", "window(256)", "sparsemax", "entmax(1.5)", "relu", "full")


PATTERNS = ("block(256)", "dilated(256,2)", "random(32)")


def kernels(given):
    """The kernel of each mechanism and type, and why not those before it in the list."""
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        for spec in (*SPECS, *PATTERNS):
            *refused, last = fovea.explain(*inputs(1024, 64, dtype, given.torch_device), spec, causal=True).splitlines()
            yield {"type": str(dtype).removeprefix("torch."), "mechanism": spec, "runs": last.removeprefix("-> "),
                   "the list": "; ".join(refused)}


def inputs(n, head_dim, dtype, device):
    return [x.to(device, dtype) for x in normal(n, head_dim=head_dim)]


def waited(run, given):
    """The time of a call ends when the device is idle."""

    def to_the_end():
        run()
        wait(given)

    return to_the_end


def measured(candidates, given):
    """{name: function} -> {name: Timing}, without those whose memory does not suffice, and the names of these."""
    fit, out = {}, []
    for name, run in candidates.items():
        try:
            run()
            fit[name] = waited(run, given)
        except torch.OutOfMemoryError:
            out.append(name)
            torch.cuda.empty_cache()
    return in_turns(fit, given.seconds), out


def times(given, dtype):
    """Against scaled_dot_product_attention; a row for each length, head_dim, pass and mechanism."""
    for n in given.sizes:
        for head_dim in given.head_dims:
            for causal in (False, True):
                for which, make in PASSES.items():
                    made = inputs(n, head_dim, dtype, given.torch_device)
                    candidates = {"sdpa": make(peers.sdpa(causal), made)}
                    candidates |= {spec: make(ours(spec, causal), made) for spec in SPECS}
                    found, out = measured(candidates, given)
                    for spec in SPECS:
                        row = {"n": n, "head_dim": head_dim, "causal": causal, "pass": which, "mechanism": spec}
                        blank = dict.fromkeys(("ms", "peer ms", "times faster", "spread %"), "out of memory")
                        yield row | (blank if spec in out else compared(found[spec], found["sdpa"]))


def flex(given, dtype):
    """Patterns against compiled FlexAttention, forward."""
    for n in given.sizes:
        for causal in (False, True):
            for spec in ("window(256)", "block(256)", "dilated(256,2)"):
                made = inputs(n, given.head_dims[0], dtype, given.torch_device)
                peer = peers.flex(peers.flex_pairs(spec, causal), causal, n, 128, given.torch_device)
                require_equal(ours(spec, causal), peer, made, f"{spec} against FlexAttention", most=1e-2)
                found, _ = measured({"": PASSES["forward"](ours(spec, causal), made),
                                     "flex": PASSES["forward"](peer, made)}, given)
                yield {"n": n, "causal": causal, "mechanism": spec, **compared(found[""], found["flex"])}


def memory(given, dtype):
    """MiB beyond the inputs, forward and backward, at the greatest length."""
    n, head_dim = max(given.sizes), given.head_dims[0]
    for name, function in {"sdpa": peers.sdpa(True), **{spec: ours(spec, True) for spec in SPECS}}.items():
        yield {"n": n, "mechanism": name, "MiB": mib_of(lambda length, function=function: PASSES["both"](
            function, inputs(length, head_dim, dtype, given.torch_device)), n, given)}


def mib_of(make, n, given):
    try:
        return peak_mib(make, n, given)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return "out of memory"


REFERENCE_SPECS = ("topk(32)", "window(256)", "sparsemax", "entmax(1.5)", "rela-g")
# The peak allowed, in units of FOVEA_REFERENCE_MIB: a block of scores, its sorted values, their places in int64, and what
# sorting needs.
MOST_BUDGETS = 5


def reference_memory(given):
    """MiB that the reference takes beyond the inputs, causal, 1 head of 64, forward and backward. All scores of 32,768
    tokens would take 4 GiB in float32."""
    os.environ["FOVEA_KERNEL"] = "reference"
    most = MOST_BUDGETS * float(os.environ.get("FOVEA_REFERENCE_MIB", 256))
    for dtype in (torch.float32,) if given.quick else (torch.float32, torch.float64, torch.bfloat16):
        for n in (512,) if given.quick else (8192, 32768):
            for spec in REFERENCE_SPECS[:2 if given.quick else None]:
                mib = mib_of(lambda length, spec=spec, dtype=dtype: one_head(spec, length, dtype, given), n, given)
                fits = not isinstance(mib, str) and mib <= most
                yield {"type": str(dtype).removeprefix("torch."), "n": n, "mechanism": spec, "MiB": mib,
                       "all scores, MiB": n * n * dtype.itemsize / 2**20, "agrees": "yes" if fits else "NO"}


def one_head(spec, n, dtype, given):
    made = [x.to(given.torch_device, dtype) for x in normal(n, heads=1)]
    function = ours(spec, True) if spec != "rela-g" else rectified(given, dtype)
    return PASSES["both"](function, made)


def rectified(given, dtype):
    weights = {name: torch.ones(64, dtype=dtype, device=given.torch_device) for name in fovea.parameters("rela-g")}
    return lambda q, k, v: fovea.attention(q, k, v, "rela-g", causal=True, **weights)

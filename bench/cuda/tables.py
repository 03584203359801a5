"""Times and memory of attention on a device, beside PyTorch's own attention in the same type and run."""
import torch

import fovea
import peers
from attention import PASSES, ours, require_equal
from inputs import normal
from timing import compared, in_turns

SPECS = ("topk(32)", "window(256)", "sparsemax", "entmax(1.5)", "relu", "full")


PATTERNS = ("block(256)", "dilated(256,2)", "random(32)")


def kernels(given):
    """The kernel of each mechanism and type, and why not those before it in the list."""
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        for spec in (*SPECS, *PATTERNS):
            *refused, last = fovea.explain(*inputs(1024, 64, dtype, given.device), spec, causal=True).splitlines()
            yield {"type": str(dtype).removeprefix("torch."), "mechanism": spec, "runs": last.removeprefix("-> "),
                   "the list": "; ".join(refused)}


def inputs(n, head_dim, dtype, device):
    return [x.to(device, dtype) for x in normal(n, head_dim=head_dim)]


def waited(run, device):
    """A GPU computes behind the call; its time ends when it is idle."""
    if device != "cuda":
        return run

    def to_the_end():
        run()
        torch.cuda.synchronize()

    return to_the_end


def measured(candidates, device, seconds):
    """{name: function} -> {name: Timing}, without those whose memory does not suffice, and the names of these."""
    fit, out = {}, []
    for name, run in candidates.items():
        try:
            run()
            fit[name] = waited(run, device)
        except torch.OutOfMemoryError:
            out.append(name)
            torch.cuda.empty_cache()
    return in_turns(fit, seconds), out


def times(given, dtype):
    """Against scaled_dot_product_attention; a row for each length, head_dim, pass and mechanism."""
    for n in given.sizes:
        for head_dim in given.head_dims:
            for causal in (False, True):
                for which, make in PASSES.items():
                    made = inputs(n, head_dim, dtype, given.device)
                    candidates = {"sdpa": make(peers.sdpa(causal), made)}
                    candidates |= {spec: make(ours(spec, causal), made) for spec in SPECS}
                    found, out = measured(candidates, given.device, given.seconds)
                    for spec in SPECS:
                        row = {"n": n, "head_dim": head_dim, "causal": causal, "pass": which, "mechanism": spec}
                        blank = dict.fromkeys(("ms", "peer ms", "times faster", "spread %"), "out of memory")
                        yield row | (blank if spec in out else compared(found[spec], found["sdpa"]))


def flex(given, dtype):
    """Patterns against compiled FlexAttention, forward."""
    for n in given.sizes:
        for causal in (False, True):
            for spec in ("window(256)", "block(256)", "dilated(256,2)"):
                made = inputs(n, given.head_dims[0], dtype, given.device)
                peer = peers.flex(peers.flex_pairs(spec, causal), causal, n, 128, given.device)
                require_equal(ours(spec, causal), peer, made, f"{spec} against FlexAttention", most=1e-2)
                found, _ = measured({"": PASSES["forward"](ours(spec, causal), made),
                                     "flex": PASSES["forward"](peer, made)}, given.device, given.seconds)
                yield {"n": n, "causal": causal, "mechanism": spec, **compared(found[""], found["flex"])}


def peak_mib(run):
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def memory(given, dtype):
    """MiB beyond the inputs, forward and backward, at the greatest length."""
    n, head_dim = max(given.sizes), given.head_dims[0]
    made = inputs(n, head_dim, dtype, given.device)
    for name, function in {"sdpa": peers.sdpa(True), **{spec: ours(spec, True) for spec in SPECS}}.items():
        try:
            mib = peak_mib(PASSES["both"](function, made))
        except torch.OutOfMemoryError:
            mib = "out of memory"
            torch.cuda.empty_cache()
        yield {"n": n, "mechanism": name, "MiB": mib}


def described(device):
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return f"## {name}, PyTorch {torch.__version__}, {fovea._library.find()}\n"

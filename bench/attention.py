"""Attention against its peers."""
import functools
import pathlib
import subprocess
import sys

import torch

import fovea
import inputs as made
import peers
from roof_share import least_seconds
from timing import compared, in_turns

SPECS = ["topk(32)", "window(256)", "sparsemax", "entmax(1.5)", "relu", "blocktopk(64,16)", "full"]
# Further specs, which only the part `kernels` measures.
MORE_SPECS = ["block(256)", "dilated(256,2)", "window(256)+topk(8)", "entmax(1.3)", "gelu", "rela-g"]


def forward(function, inputs):
    def run():
        with torch.no_grad():
            return function(*inputs)

    return run


def forward_backward(function, inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    grad = torch.randn_like(inputs[0])

    def run():
        torch.autograd.grad(function(*leaves), leaves, grad)

    return run


PASSES = {"forward": forward, "both": forward_backward}


def ours(spec, causal):
    def run(q, k, v):
        return fovea.attention(q, k, v, spec, causal=causal, **parameters(spec, q.size(1) * q.size(3)))

    return run


@functools.cache
def parameters(spec, width):
    return {name: torch.ones(width) for name in fovea.parameters(spec) if name in ("gain", "gate", "bias")}


def kernel_of(program, spec, inputs, causal, which):
    """The name behind the arrow of `fovea kernels --explain`, which FOVEA_KERNEL precedes where it is set."""
    q = inputs[0]
    command = [program, "kernels", "--explain", spec, "--kind", "causal" if causal else "self", "--dtype",
               str(q.dtype).removeprefix("torch."), "--heads", q.size(1), "--head-dim", q.size(3), "--length", q.size(2)]
    command += ["--backward"] if which == "both" else []
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return next(line for line in done.stdout.splitlines() if "-> " in line).partition("-> ")[2]


def against_sdpa(sizes, given, roof, inputs_of, specs=SPECS):
    rows = []
    program = given.build.resolve() / "bin" / "fovea"
    for n in sizes:
        for causal in (False, True):
            for which, make in PASSES.items():
                inputs = inputs_of(n)
                candidates = {"sdpa": make(peers.sdpa(causal), inputs)}
                candidates |= {spec: make(ours(spec, causal), inputs) for spec in specs}
                times = in_turns(candidates, given.seconds)
                for spec in specs:
                    kernel = kernel_of(program, spec, inputs, causal, which)
                    least, bound = least_seconds(spec, inputs, causal, which, kernel, roof)
                    rows.append({"n": n, "causal": causal, "pass": which, "mechanism": spec, "kernel": kernel,
                                 **compared(times[spec], times["sdpa"]), "share of roof": least / times[spec].seconds,
                                 "most of it": bound})
    return rows


def require_equal(function, other, inputs, what, most=1e-3):
    """Rounding moves a selection now and then, where two scores are all but equal: the whole is compared. most: of the
    norm; a bfloat16 is off by up to 4e-3 of itself."""
    with torch.no_grad():
        a, b = function(*inputs).float(), other(*inputs).float()
    difference = ((a - b).norm() / b.norm()).item()
    if not difference < most:
        raise ValueError(f"{what}: the peer computes something else: its output differs by {difference:.1e} of its norm")


def compare(pairs, seconds, inputs_of=made.normal, **columns):
    """pairs: (n, mechanism, peer's name, pass, our function, {variant: the peer's function}), of which the fastest
    counts; columns: the same in every row."""
    rows = []
    for n, spec, peer, which, function, others in pairs:
        inputs = inputs_of(n)
        for name, other in others.items():
            require_equal(function, other, inputs, f"{spec} against {peer} {name}".rstrip())
        candidates = {"": function} | {f"peer {name}": other for name, other in others.items()}
        times = in_turns({name: PASSES[which](run, inputs) for name, run in candidates.items()}, seconds)
        mine = times.pop("")
        best = min(times, key=lambda name: times[name].seconds)
        rows.append({"n": n, "mechanism": spec, "peer": f"{peer}{best.removeprefix('peer').rstrip()}", "pass": which,
                     **columns, **compared(mine, times[best])})
    return rows


def against_others(quick, seconds, malloc):
    pairs = []
    for n in (1024,) if quick else (1024, 4096):
        pairs += [(n, "topk(32)", "topk, masked_fill, softmax", which, ours("topk(32)", False), {"": peers.topk(32)})
                  for which in PASSES]
    for spec in ("sparsemax", "entmax(1.5)", "entmax(1.3)") if peers.has_entmax() else ():
        for option, others in peers.entmax_package(spec).items():
            pairs += [(1024, spec, f"entmax package{option}", which, ours(spec, False), others) for which in PASSES]
    return compare(pairs, seconds, malloc=malloc)


def against_flex(quick, seconds):
    pairs = []
    for n in (2048,) if quick else (2048, 8192):
        for causal in (False, True):
            for spec in ("window(256)", "block(256)", "dilated(256,2)"):
                name = "compiled FlexAttention" + (", causal," if causal else ",")
                others = {f"tiles of {tile}": peers.flex(peers.flex_pairs(spec, causal), causal, n, tile)
                          for tile in (64, 128)}
                pairs.append((n, spec, name, "forward", ours(spec, causal), others))
    return compare(pairs, seconds)


# Who holds n x n matrices is measured at lengths where they fit.
MEMORY_PEERS = {"topk(32) in PyTorch": peers.topk(32), "SDPA": peers.sdpa(False)}


def peak_mib(name, n, threads):
    """Peak memory beyond the inputs, in a process of its own."""
    script = pathlib.Path(__file__).with_name("attention_memory.py")
    command = [sys.executable, str(script), name, str(n), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def memory(n, peer_n, threads):
    """Peak memory beyond the inputs, each in a process of its own."""
    rows = []
    for name, size in [*((name, n) for name in (*SPECS, "SDPA")),
                       *((name, peer_n) for name in ("topk(32)", "full", *MEMORY_PEERS))]:
        mib = peak_mib(name, size, threads)
        rows.append({"mechanism": name, "n": size, "MiB beyond the inputs": mib, "KiB a query and head": mib * 1024 / size / made.HEADS})
    return rows

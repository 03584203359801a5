"""Peak resident memory of one forward and backward pass beyond its inputs: attention_memory.py MECHANISM N THREADS."""
import pathlib
import re
import sys

import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "python")]
import attention  # noqa: E402
import distances  # noqa: E402
import inputs  # noqa: E402
import routing  # noqa: E402


def status_mib(name):
    return int(re.search(rf"{name}:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024


def forget_peak():
    """The highest resident memory becomes the present one: importing PyTorch alone takes more than a short pass."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def peak_of(step, n):
    """MiB that step(n)() takes beyond what stands before it; `step` makes a function to run at a length."""
    step(64)()  # what loading and thread pools take
    run = step(n)
    forget_peak()
    before = status_mib("VmRSS")
    run()
    return status_mib("VmHWM") - before


def pass_of(name, n):
    """A forward and backward pass at n tokens: of a peer, of a mechanism, of "MECHANISM causal with TERM" or of
    routed(c,w)."""
    if name.startswith("routed("):
        return routing.training_pass(routing.ours(name), routing.inputs_of(n, *routing.sizes_of(name)))
    mechanism, _, term = name.partition(" causal with ")
    if term:
        return distances.training_pass(distances.ours(mechanism, term), distances.inputs_of(n, term))
    return attention.forward_backward(attention.MEMORY_PEERS.get(name) or attention.ours(name, False), inputs.normal(n))


def main():
    name, n, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    print(peak_of(lambda length: pass_of(name, length), n))


if __name__ == "__main__":
    main()

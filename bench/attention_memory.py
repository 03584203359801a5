"""Peak resident memory of one forward and backward pass beyond its inputs: attention_memory.py MECHANISM N THREADS."""
import pathlib
import re
import sys

import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "python")]
import attention  # noqa: E402
import inputs  # noqa: E402


def status_mib(name):
    return int(re.search(rf"{name}:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024


def forget_peak():
    """The highest resident memory becomes the present one: importing PyTorch alone takes more than a short pass."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def main():
    name, n, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    function = attention.MEMORY_PEERS.get(name) or attention.ours(name, False)
    attention.forward_backward(function, inputs.normal(64))()  # what loading and thread pools take
    run = attention.forward_backward(function, inputs.normal(n))
    forget_peak()
    before = status_mib("VmRSS")
    run()
    print(status_mib("VmHWM") - before)


if __name__ == "__main__":
    main()

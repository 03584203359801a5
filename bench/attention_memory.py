"""Peak resident memory of one forward and backward pass beyond its inputs: attention_memory.py MECHANISM N."""
import pathlib
import resource
import sys

import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "python")]
import attention  # noqa: E402
import peers  # noqa: E402


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    name, n = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(2)
    function = peers.topk(32, False) if name.endswith("PyTorch") else attention.ours(name, False)
    attention.forward_backward(function, attention.normal_inputs(64))()  # what loading and thread pools take
    run = attention.forward_backward(function, attention.normal_inputs(n))
    before = peak_mib()
    run()
    print(peak_mib() - before)


if __name__ == "__main__":
    main()

"""Waiting for a device, and the most memory that a call takes on it."""
import torch

from attention_memory import peak_of


def wait(given):
    """A GPU computes behind the program; it is idle when this returns."""
    if given.device == "cuda" and not given.stand_in:
        torch.cuda.synchronize()


def peak_mib(make, n, given):
    """MiB that make(n)() takes beyond the inputs that make() has drawn: by PyTorch's allocator on a GPU, else by the
    resident memory of this process."""
    if given.device == "cpu" or given.stand_in:
        return peak_of(make, n)
    run = make(n)
    run()  # loads what the products and sorts need
    wait(given)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    wait(given)
    return (torch.cuda.max_memory_allocated() - before) / 2**20

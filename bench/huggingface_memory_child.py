"""Peak resident memory beyond what stands before it: huggingface_memory_child.py WHAT N TYPE MECHANISM PASS LAYERS THREADS.

WHAT: model, a step of the whole model; attention, grouped or repeated, attention alone. huggingface_memory.py runs each in a
process of its own.
"""
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]

import huggingface  # noqa: E402
import huggingface_attention  # noqa: E402
from attention import PASSES  # noqa: E402
from attention_memory import peak_of  # noqa: E402


def steps(what, dtype, mechanism, which, layers):
    """n -> a function to run."""
    if what == "model":
        made = huggingface.model(layers, dtype)
        name = huggingface.registered(mechanism)
        return lambda n: huggingface.STEPS[which](huggingface.fitted(made, n), name, *huggingface.batch(1, n))
    functions = {"attention": huggingface_attention.as_called, "grouped": huggingface_attention.grouped,
                 "repeated": huggingface_attention.repeated}
    return lambda n: PASSES[which](functions[what](mechanism), huggingface_attention.inputs_of(n, dtype))


def main():
    what, n, dtype, mechanism, which, layers, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    print(peak_of(steps(what, getattr(torch, dtype), mechanism, which, int(layers)), int(n)))


if __name__ == "__main__":
    main()

"""Peak resident memory beyond what stands before it: huggingface_memory.py WHAT N TYPE MECHANISM PASS LAYERS THREADS.

WHAT: model, a step of the whole model; grouped or repeated, attention alone; each in a process of its own.
"""
import pathlib
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]


def peak(given, what, n, dtype, mechanism, which):
    """MiB, of another process."""
    command = [sys.executable, __file__, what, n, dtype, mechanism, which, given.layers, given.threads]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def memory_rows(given):
    """A step of fine-tuning at the greatest length: the weights' gradients and the activations, which are the same for
    all, and what attention adds."""
    n = max(given.lengths)
    for dtype in given.types:
        for name in ("sdpa", "topk(32)", "window(256)", "full"):
            yield {"tokens": n, "type": dtype, "mechanism": name,
                   **{f"{step}, MiB": peak(given, "model", n, dtype, name, step) for step in ("prefill", "fine-tuning")},
                   "attention forward, MiB": peak(given, "attention", n, dtype, name, "forward"),
                   "and backward, MiB": peak(given, "attention", n, dtype, name, "both")}


def steps(what, dtype, mechanism, which, layers):
    """n -> a function to run."""
    import huggingface
    import huggingface_attention as attention
    from attention import PASSES

    if what == "model":
        made = huggingface.model(layers, dtype)
        name = huggingface.registered(mechanism)
        return lambda n: huggingface.STEPS[which](huggingface.fitted(made, n), name, *huggingface.batch(1, n))
    functions = {"attention": attention.as_called, "grouped": attention.grouped, "repeated": attention.repeated}
    return lambda n: PASSES[which](functions[what](mechanism), attention.inputs_of(n, dtype))


def main():
    from attention_memory import peak_of

    what, n, dtype, mechanism, which, layers, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    print(peak_of(steps(what, getattr(torch, dtype), mechanism, which, int(layers)), int(n)))


if __name__ == "__main__":
    main()

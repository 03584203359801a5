"""Peak resident memory of a step, and of attention alone."""
import pathlib
import subprocess
import sys

CHILD = pathlib.Path(__file__).with_name("huggingface_memory_child.py")


def peak(given, what, n, dtype, mechanism, which):
    """MiB, of another process."""
    command = [sys.executable, CHILD, what, n, dtype, mechanism, which, given.layers, given.threads]
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

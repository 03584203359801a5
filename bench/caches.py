"""Steps of decoding over long caches: topk(32) with the 8-bit copy of the keys and without, full attention over keys and
values in float32, bfloat16 and 8 bits, window(256) and blocks, against PyTorch's dense attention over the same cache in
float32; and the memory that a key and a head take.

Prints a row of the table as JSON on each line. bench/run.py runs it as a program of its own, because such steps are in the
library of the Python package, and the other parts use that of C++ programs. It runs alone, too: python3 bench/caches.py.
"""
import argparse
import json
import math
import sys

import torch
import torch.nn.functional as F

import clone  # noqa: F401
import fovea
from timing import compared, in_turns

HEADS, WIDTH = 8, 64
LENGTHS, QUICK_LENGTHS = (2048, 8192, 32768), (2048, 8192)
STREAMS = (1, 64)
NARROW = ("bfloat16", "int8")  # of full attention's keys and values
OTHERS = ("window(256)", "blocks(64,3)")  # their steps read a part of the cache


def available_memory():
    """In bytes, as Linux estimates it."""
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return math.inf


class Steps:
    """One layer's cache [B, H, n, D] and queries for a step of each stream."""

    def __init__(self, streams, length):
        torch.manual_seed(1)
        shape = streams, HEADS, length, WIDTH
        self.keys, self.values = (torch.empty(shape).normal_() for _ in "kv")
        self.query = torch.randn(streams, HEADS, 1, WIDTH)
        from fovea.transformers._cache import ScreenedLayer
        self.layer = ScreenedLayer()
        self.layer.lazy_initialization(self.keys)
        # The layer's buffers are these very tensors.
        self.layer._buffers = self.layer.keys, self.layer.values = self.keys, self.values
        self.copy = self.layer.copy_of_keys()
        self.rows = tuple(self._rows(x) for x in (self.keys, self.values))
        tokens = torch.arange(streams)
        self.layout = {"q_offsets": torch.arange(streams + 1), "k_begins": tokens * HEADS * length,
                       "k_lengths": torch.full((streams,), length), "causal": True}

    @staticmethod
    def _rows(x):
        streams, heads, length, width = x.shape
        return x.as_strided((((streams - 1) * heads + 1) * length, heads, width), (width, length * width, 1))

    def plain(self, spec):
        return fovea.attention(self.query[:, :, 0], *self.rows, spec, **self.layout)

    def with_copy(self, spec):
        query = self.query[:, :, 0]
        out = torch.empty_like(query)
        torch.ops.fovea.kernel_screened_step(query, *self.rows, spec, self.layout["k_begins"], self.layout["k_lengths"],
                                             *self.copy.tokens(), self.copy.extents, WIDTH ** -0.5, out)
        return out

    def narrow(self, precision):
        """A function that computes a step of full attention over this cache in the precision."""
        from fovea.transformers._narrow import NarrowLayer
        layer = NarrowLayer(precision)
        layer.lazy_initialization(self.keys)
        layer._make_room(self.keys, 0)
        for rows, all_tokens in zip(layer._rows, (self.keys, self.values)):
            rows.write(all_tokens, 0)
        layer._show(self.keys.size(2))
        query = self.query
        return lambda: layer.attend(query, "full", None, None)

    def dense(self):
        return F.scaled_dot_product_attention(self.query, self.keys, self.values)

    def eager(self):
        return (self.query @ self.keys.transpose(-1, -2) * WIDTH ** -0.5).softmax(-1) @ self.values

    def bytes_of_key(self):
        """Bytes of a key and its value, and of the copy, for one head."""
        return 2 * WIDTH * 4, self.copy.rows.size(3) + self.copy.steps.element_size()


def check_narrow(steps, narrow):
    """Steps over narrow numbers are near to those over float32: of normal keys, 8 bits keep two digits."""
    exact = steps.plain("full")
    for (precision, step), most in zip(narrow.items(), (0.02, 0.05)):
        difference = ((step()[:, 0] - exact).norm() / exact.norm()).item()
        if not difference < most:
            raise ValueError(f"full over keys and values in {precision} differs by {difference:.1e} of its norm; expected {most} at most")


def narrow_columns(steps, seconds):
    """Times of full attention over float32 and narrower numbers, which may not fit into memory beside them."""
    columns = {f"full {precision} ms": math.nan for precision in ("float32", *NARROW)}
    if 1.5 * steps.keys.numel() * 4 > 0.7 * available_memory():
        return columns
    narrow = {precision: steps.narrow(precision) for precision in NARROW}
    check_narrow(steps, narrow)
    times = in_turns({"float32": lambda: steps.plain("full"), **narrow}, seconds)
    return {f"full {precision} ms": 1e3 * time.seconds for precision, time in times.items()}


@torch.inference_mode()
def row_of(streams, length, seconds):
    steps = Steps(streams, length)
    if not torch.equal(steps.with_copy("topk(32)"), steps.plain("topk(32)")):
        raise ValueError(f"topk(32) over {length} keys gives other bits with the copy of the keys")
    times = in_turns({"copy": lambda: steps.with_copy("topk(32)"), "plain": lambda: steps.plain("topk(32)"),
                      "sdpa": steps.dense, "eager": steps.eager,
                      **{spec: lambda spec=spec: steps.plain(spec) for spec in OTHERS}}, seconds)
    peer = min(("sdpa", "eager"), key=lambda name: times[name].seconds)
    kept, more = steps.bytes_of_key()
    return {"streams": streams, "keys": length, **compared(times["copy"], times[peer]),
            "without the copy ms": 1e3 * times["plain"].seconds,
            "times faster by the copy": times["plain"].seconds / times["copy"].seconds,
            **narrow_columns(steps, seconds),
            **{f"{spec} ms": 1e3 * times[spec].seconds for spec in OTHERS},
            "bytes a key": f"{kept} + {more}; bfloat16 {4 * WIDTH}, int8 {2 * WIDTH + 8}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a comparison at least")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for streams in STREAMS:
        for length in QUICK_LENGTHS if given.quick else LENGTHS:
            need = 3 * streams * length * HEADS * WIDTH * 4
            if need > 0.7 * available_memory():
                print(f"bench: caches: {streams} streams of {length} keys need {need / 2**30:.0f} GiB; left out",
                      file=sys.stderr)
                continue
            print(json.dumps(row_of(streams, length, given.seconds)), flush=True)


if __name__ == "__main__":
    main()

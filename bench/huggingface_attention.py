"""The attention of such a model alone: 8 heads of queries and 2 of keys, 64 wide, causal."""
import torch
import torch.nn.functional as F

import fovea
import huggingface
import timing
from attention import MORE_SPECS, PASSES
from attention import SPECS as ALL_SPECS
from huggingface import SPECS, in_turns, registered, type_of

HEADS, KEY_HEADS, HEAD_DIM = 8, 2, 64
LEAST, MOST = 32, 8192  # tokens, between which mechanisms overtake sdpa
HALVINGS = 3            # of the last step between two lengths


class Layer(torch.nn.Module):
    """What attention functions read of the module that calls them."""
    is_causal, num_key_value_groups, layer_idx = True, HEADS // KEY_HEADS, 0


def inputs_of(n, dtype):
    """As a model's projections leave them: [1, heads, n, 64], views of tokens."""
    random = torch.Generator().manual_seed(n)
    return [torch.randn(1, n, heads, HEAD_DIM, generator=random).to(dtype).transpose(1, 2)
            for heads in (HEADS, KEY_HEADS, KEY_HEADS)]


def as_called(name):
    """The function of an implementation, as transformers' models call it."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    function, layer = ALL_ATTENTION_FUNCTIONS[registered(name)], Layer()
    return lambda q, k, v: function(layer, q, k, v, None, dropout=0.0, scaling=HEAD_DIM**-0.5)[0].transpose(1, 2)


def attention_rows(given):
    for dtype in given.types:
        for n in given.lengths:
            inputs = inputs_of(n, type_of(dtype))
            for which, make in PASSES.items():
                times = in_turns(given, {name: make(as_called(name), inputs) for name in ("sdpa", *SPECS)})
                for spec in SPECS:
                    yield {"tokens": n, "type": dtype, "pass": which, "mechanism": spec,
                           **timing.compared(times[spec], times["sdpa"])}


def parameters(spec):
    return {name: torch.ones(HEADS * HEAD_DIM) for name in fovea.parameters(spec) if name in ("gain", "gate", "bias")}


def grouped(spec, dtype=torch.float32):
    more = {name: value.to(dtype) for name, value in parameters(spec).items()}
    return lambda q, k, v: fovea.attention(q, k, v, spec, causal=True, enable_gqa=True, **more)


def repeated(spec):
    def run(q, k, v):
        return fovea.attention(q, *(x.repeat_interleave(HEADS // KEY_HEADS, 1) for x in (k, v)), spec, causal=True)

    return run


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def grouped_rows(given):
    """Grouped queries against heads of keys and values that are repeated first."""
    from huggingface_memory import peak

    for dtype in given.types:
        for n in given.lengths:
            for spec in (*SPECS, "full"):
                inputs = inputs_of(n, type_of(dtype))
                for which, make in PASSES.items():
                    times = in_turns(given, {"grouped": make(grouped(spec), inputs), "repeated": make(repeated(spec), inputs)})
                    row = timing.compared(times["grouped"], times["repeated"])
                    yield {"tokens": n, "type": dtype, "pass": which, "mechanism": spec, "ms": row["ms"],
                           "repeated ms": row["peer ms"], "times faster": row["times faster"], "spread %": row["spread %"],
                           **{f"{kind}MiB": peak(given, kind.strip() or "grouped", n, dtype, spec, which)
                              for kind in ("", "repeated ")}}


class Crossover:
    """Forward and backward of mechanisms against dense sdpa, at more and more lengths."""

    def __init__(self, given, dtype):
        self.given, self.dtype = given, dtype
        self.ratios = {spec: {} for spec in dict.fromkeys([*ALL_SPECS, *MORE_SPECS])}  # {spec: {n: times faster}}

    def measure(self, n, specs):
        inputs = inputs_of(n, self.dtype)
        both = PASSES["both"]
        sides = {"sdpa": both(sdpa, inputs), **{spec: both(grouped(spec, self.dtype), inputs) for spec in specs}}
        times = timing.in_turns(sides, self.given.seconds / 4)
        for spec in specs:
            self.ratios[spec][n] = times["sdpa"].seconds / times[spec].seconds

    def first_win(self, spec):
        """The shortest length from which on all that were measured win; None if there is none."""
        lengths = sorted(self.ratios[spec])
        losses = [n for n in lengths if self.ratios[spec][n] < 1]
        return next((n for n in lengths if not losses or n > losses[-1]), None)

    def last_loss(self, spec):
        return max((n for n, ratio in self.ratios[spec].items() if ratio < 1), default=None)

    def run(self):
        lengths = [LEAST << step for step in range((MOST // LEAST).bit_length())]
        for n in [n for n in lengths if n <= max(self.given.lengths)]:
            self.measure(n, self.ratios)
        for spec in self.ratios:
            for _ in range(HALVINGS):
                win, loss = self.first_win(spec), self.last_loss(spec)
                if win is None or loss is None or win - loss <= 8:
                    break
                self.measure((win + loss) // 2 // 8 * 8 or 8, [spec])
        return self.ratios


def crossover_rows(given, curves):
    """A row for each mechanism; fills curves, {title: {spec: [(n, times faster)]}}."""
    for dtype in given.types:
        crossover = Crossover(given, type_of(dtype))
        ratios = crossover.run()
        curves[dtype] = {spec: sorted(points.items()) for spec, points in ratios.items()}
        for spec, points in ratios.items():
            first, last = crossover.first_win(spec), max(points)
            yield {"type": dtype, "mechanism": spec, "faster from": first if first else f"not up to {last}",
                   "times faster there": points[first] if first else points[last],
                   "longest": last, "times faster at the longest": points[last]}

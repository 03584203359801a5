"""The attention of such a model alone: 8 heads of queries and 2 of keys, 64 wide, causal."""
import torch
import torch.nn.functional as F

import fovea
import huggingface
import timing
from attention import MORE_SPECS, PASSES
from attention import SPECS as ALL_SPECS
from crossover import Crossover
from huggingface import SPECS, in_turns, registered, type_of
from huggingface_memory import peak

HEADS, KEY_HEADS, HEAD_DIM = 8, 2, 64


class Layer(torch.nn.Module):
    """The members that attention functions read from the module that calls them."""
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


def ratios_of(given, dtype):
    """(n, specs) -> {spec: times faster than dense sdpa, forward and backward}."""
    def measure(n, specs):
        inputs, both = inputs_of(n, dtype), PASSES["both"]
        sides = {"sdpa": both(sdpa, inputs), **{spec: both(grouped(spec, dtype), inputs) for spec in specs}}
        times = timing.in_turns(sides, given.seconds / 4)
        return {spec: times["sdpa"].seconds / times[spec].seconds for spec in specs}

    return measure


def crossover_rows(given, curves):
    """A row for each mechanism; fills curves, {title: {spec: [(n, times faster)]}}."""
    specs = list(dict.fromkeys([*ALL_SPECS, *MORE_SPECS]))
    for dtype in given.types:
        found = Crossover(specs, ratios_of(given, type_of(dtype)), max(given.lengths)).run()
        curves[dtype] = {spec: sorted(points.items()) for spec, points in found.ratios.items()}
        for spec, points in found.ratios.items():
            first, last = found.first_win(spec), max(points)
            yield {"type": dtype, "mechanism": spec, "faster from": first or f"not up to {last}",
                   "times faster there": points[first or last], "longest": last, "times faster at the longest": points[last]}

"""Specs to test, out of the library's own list of names: a new pattern, transform or norm is tested without an edit."""
import os
import random

import pytest
import torch

import fovea
from fovea._functional import properties

NAMES = fovea.spec_names()
DEVICE = os.environ.get("FOVEA_TEST_DEVICE", "cpu")  # of the inputs and parameters below
# Guarantees of the kernels for CPUs, which the reference does not give.
CPU_KERNELS = pytest.mark.skipif(DEVICE != "cpu", reason="only the kernels for CPUs guarantee this")
STAND_IN = "stand_in_device" in os.environ.get("LD_PRELOAD", "")  # for a GPU: tests/device/stand_in.cc
AUTOCAST = pytest.mark.skipif(STAND_IN, reason="PyTorch's autocast asks for a real GPU")


def argument(field, place, rng=None):
    """A value that makes sense for a dozen keys: by its place, or drawn."""
    if not field.step:
        return f"{field.least + 0.3 * min(1, field.greatest - field.least):g}"
    value = field.least + (rng.randrange(5) if rng else max(3 - 2 * place, 0))
    return str(-(-value // field.step) * field.step)


def with_arguments(name, rng=None):
    """The name with arguments, drawn until the library takes them together."""
    if not name.fields:
        return name.name
    for _ in range(1000):
        text = f"{name.name}({','.join(argument(field, place, rng) for place, field in enumerate(name.fields))})"
        try:
            return fovea.parse(text) and text
        except fovea.SpecError:
            rng = rng or random.Random(0)
    raise AssertionError(f"no arguments found for {name}")


def named(part):
    """Every name of one part with arguments."""
    return [with_arguments(name) for name in NAMES if name.part == part]


PATTERNS = named("pattern")
# The stages of the function; a gate and a scale are stages of a layer.
STAGES = [s for s in named("stage") if not {"gate", "head_scale"} & set(properties(s))]
NORMS = [s for s in STAGES if "norm" in properties(s)]
TRANSFORMS = [s for s in STAGES if not {"norm", "selection", "softcap"} & set(properties(s))]
POINTWISE = [s for s in TRANSFORMS if "pointwise" in properties(s)]
# Names alone, and what composes them.
ALL = PATTERNS + STAGES + named("alias") + [
    "topk(2,keep=window(2))", "topk(2,keep=global(1)|random(2))", "window(6)+topk(2)", "strided(2)+topk(2)+relu",
    "sink", "topk(3)+sink", "entmax(1.5)", "entmax(3)", "entmax(learned)", "local(3)&global(1)+entmax(3)", "topk(3)+sparsemax",
    "block(4)|global(1)&random(3)", "window(4)+softcap(0.8)+topk(2)+sink", "softcap(2)+relu", "2*softcap(0.5);1*sparsemax",
    "2*window(3);1*topk(2)", "1*relu+rmsnorm;2*gelu+rmsnorm",
    "topk(4)+entmax(1.5)+gated-rmsnorm"]


def for_cross(spec):
    return "positional" not in properties(spec)


def random_pairs(rng, depth=2):
    """A random tree of patterns."""
    if depth == 0 or rng.random() < 0.3:
        return with_arguments(rng.choice([n for n in NAMES if n.part == "pattern"]), rng)
    parts = [random_pairs(rng, depth - 1) for _ in range(rng.randint(2, 3))]
    return "(" + rng.choice("|&").join(parts) + ")"


def random_spec(rng):
    stages = []
    if rng.random() < 0.5:
        keep = f",keep={random_pairs(rng, 1)}" if rng.random() < 0.4 else ""
        stages.append(f"topk({rng.randint(1, 6)}{keep})")
    stages.append(rng.choice([*TRANSFORMS, "entmax(1.5)", "entmax(1.7)"]))
    if rng.random() < 0.25:
        stages.append("softcap(0.7)")
    rng.shuffle(stages)
    return "+".join([random_pairs(rng), *stages])


RANDOM = [random_spec(random.Random(i)) for i in range(25)]


def randn(*shape, requires_grad=False, **options):
    """torch.randn's numbers on a CPU, on the device of the tests."""
    return torch.randn(*shape, device="cpu", **options).to(DEVICE).requires_grad_(requires_grad)


def inputs(*shape, dtype=torch.float64, count=3, requires_grad=False):
    return [randn(*shape, dtype=dtype, requires_grad=requires_grad) for _ in range(count)]


def extras(spec, heads, head_size, dtype=torch.float64, requires_grad=False):
    """The parameters that the spec needs."""
    made = {}
    for name in fovea.parameters(spec):
        value = (torch.linspace(1.2, 1.8, heads, dtype=dtype) if name in ("alpha", "sinks")
                 else torch.linspace(-1, 1.5, heads * head_size, dtype=dtype))
        made[name] = value.to(DEVICE).requires_grad_(requires_grad)
    return made

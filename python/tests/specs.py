"""Specs to test, out of the library's own list of names: a new pattern, transform or norm is tested without an edit."""
import random

import torch

import fovea

# An argument list as spec_names() prints it, and values that make sense for a dozen keys.
ARGUMENTS = {"": "", "k": "(4)", "k,r": "(3,2)", "b": "(3)", "g": "(2)", "w": "(3)", "s": "(2)", "b,c": "(4,1)",
             "alpha": "(1.3)", "slope": "(0.1)", "k[,keep=PAIRS]": "(3)"}


def named(part):
    """Every name of one part with arguments; an argument list unknown here fails, so that it gets values."""
    return [n.name + ARGUMENTS[n.arguments] for n in fovea.spec_names() if n.part == part]


PATTERNS = named("pattern")
STAGES = named("stage")
# Names alone, and what composes them.
ALL = PATTERNS + STAGES + named("alias") + [
    "topk(2,keep=window(2))", "topk(2,keep=global(1)|random(2))", "window(6)+topk(2)", "strided(2)+topk(2)+relu",
    "entmax(1.5)", "entmax(3)", "entmax(learned)", "local(3)&global(1)+entmax(3)", "topk(3)+sparsemax",
    "block(4)|global(1)&random(3)",
    "2*window(3);1*topk(2)", "1*relu+rmsnorm;2*gelu+rmsnorm",
    "topk(4)+entmax(1.5)+gated-rmsnorm"]
NOT_CROSS = [p for p in PATTERNS if not p.startswith(("full", "random"))]


def for_cross(spec):
    return not any(p.split("(")[0] in spec.replace("bigbird", "window").replace("oow", "window") for p in NOT_CROSS)


def random_pairs(rng, depth=2):
    """A random tree of patterns."""
    if depth == 0 or rng.random() < 0.3:
        name = rng.choice([n for n in fovea.spec_names() if n.part == "pattern"])
        arguments = [str(rng.randint(1, 5)) for _ in name.arguments.split(",")] if name.arguments else []
        if name.name == "fixed":
            arguments = sorted(arguments, key=int, reverse=True)  # c of a block of b
        return f"{name.name}({','.join(arguments)})" if arguments else name.name
    parts = [random_pairs(rng, depth - 1) for _ in range(rng.randint(2, 3))]
    return "(" + rng.choice("|&").join(parts) + ")"


def random_spec(rng):
    stages = []
    if rng.random() < 0.5:
        keep = f",keep={random_pairs(rng, 1)}" if rng.random() < 0.4 else ""
        stages.append(f"topk({rng.randint(1, 6)}{keep})")
    transforms = ["softmax", "sparsemax", "entmax(1.5)", "entmax(1.7)", "relu", "gelu", "leaky-relu(0.2)"]
    stages.append(rng.choice(transforms))
    rng.shuffle(stages)
    return "+".join([random_pairs(rng), *stages])


RANDOM = [random_spec(random.Random(i)) for i in range(25)]


def inputs(*shape, dtype=torch.float64, count=3, requires_grad=False):
    return [torch.randn(*shape, dtype=dtype).requires_grad_(requires_grad) for _ in range(count)]


def extras(spec, heads, head_size, dtype=torch.float64, requires_grad=False):
    """The parameters that the spec needs."""
    made = {}
    for name in fovea.parameters(spec):
        value = (torch.linspace(1.2, 1.8, heads, dtype=dtype) if name == "alpha"
                 else torch.linspace(-1, 1.5, heads * head_size, dtype=dtype))
        made[name] = value.requires_grad_(requires_grad)
    return made

"""Second derivatives where they are zero, within autocast, and under what traces operators."""
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import fovea
import specs

H, D = 3, 4


def penalty(x, spec="full", **options):
    """The squared norm of first derivatives."""
    first = torch.autograd.grad(fovea.attention(*x, spec, **options).square().sum(), x, create_graph=True)
    return sum(g.square().sum() for g in first)


@pytest.mark.parametrize("queries,keys,options", [
    ((1, H, 4, D), (1, H, 0, D), {"cross": True}),
    ((2, H, 4, D), (2, H, 3, D), {"cross": True, "k_lengths": torch.tensor([0, 0])}),
    ((0, H, 4, D), (0, H, 4, D), {}),
    ((0, H, D), (0, H, D), {}),
    ((4, H, D), (3, H, D), {"cross": True, "q_offsets": torch.tensor([0, 4, 4]), "k_offsets": torch.tensor([0, 0, 3])}),
], ids=["no-keys", "all-padding", "no-sequences", "no-tokens", "packed"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_of_no_pairs_are_zero(queries, keys, options, dtype):
    x = [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in (queries, keys, keys)]
    out = fovea.attention(*x, **options)
    grad_out = torch.ones_like(out, requires_grad=True)
    first = torch.autograd.grad(out, x, grad_out, create_graph=True)
    for inputs, grads in ((x, first), ((grad_out, *x), torch.autograd.grad(sum(g.sum() for g in first), (grad_out, *x)))):
        for a, grad in zip(inputs, grads):
            assert torch.equal(grad, torch.zeros_like(a))


@pytest.mark.parametrize("spec", ["topk(8)", "relu+rmsnorm"])
def test_within_autocast_are_those_outside(spec):
    x = specs.inputs(1, H, 40, 16, dtype=torch.float32, requires_grad=True)

    def second(inside):
        loss = penalty(x, spec)
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            return torch.autograd.grad(loss, x)

    assert all(torch.equal(a, b) for a, b in zip(second(True), second(False)))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_refuse_to_be_traced(mode):
    def second(*x):
        x = [t.detach().requires_grad_() for t in x]
        return torch.autograd.grad(penalty(x, "window(3)"), x)

    x = specs.inputs(1, H, 6, D)
    with pytest.raises(RuntimeError, match="attention: second derivatives cannot be traced"):
        make_fx(second, tracing_mode=mode)(*x)
    assert all(g.isfinite().all() for g in second(*x))

"""Second derivatives: right, where they are zero, within autocast, and under what traces operators."""
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import fovea
import specs
from test_given_indices import Drawn
from test_operator import cases, with_dropout

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
    x = [specs.randn(*shape, dtype=dtype, requires_grad=True) for shape in (queries, keys, keys)]
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


@pytest.mark.parametrize("spec,kind", list(cases()))
def test_gradgradcheck(spec, kind):
    # Differences of first derivatives err as those of values do in test_gradcheck, times what a derivative adds: some 10.
    run, x = with_dropout(spec, kind)
    assert torch.autograd.gradgradcheck(run, x, eps=1e-6, atol=1e-5, rtol=1e-4, fast_mode=True)


def penalty_gradients(x, more, spec, offsets):
    """The gradients of the squared norm of first derivatives, packed."""
    out = fovea.attention(*x, spec, causal=True, q_offsets=offsets, **more)
    first = torch.autograd.grad(out.sin().sum(), (*x, *more.values()), create_graph=True)
    return torch.autograd.grad(sum(g.square().sum() for g in first), (*x, *more.values()))


@pytest.mark.parametrize("spec", ["full", "topk(3)", "entmax(1.5)", "entmax(learned)", "sink", "softcap(0.7)+topk(3)", "rela-g", "gelu+layernorm"])
def test_second_derivatives_of_kernels_are_those_in_double(spec):
    wide = specs.inputs(9, H, D)
    more = specs.extras(spec, H, D)
    offsets = torch.tensor([0, 5, 9])

    def gradients(dtype):
        def made(t):
            return t.to(dtype).requires_grad_()
        return penalty_gradients([made(t) for t in wide], {name: made(t) for name, t in more.items()}, spec, offsets)

    for got, expected in zip(gradients(torch.float32), gradients(torch.float64)):
        # Some hundred float32 operations one after the other, on values of the size of the greatest.
        bound = 100 * torch.finfo(torch.float32).eps * expected.abs().max().item()
        torch.testing.assert_close(got.double(), expected, atol=bound, rtol=0)


def test_hooks_of_outputs_see_gradients_in_second_derivatives():
    q, k, v = specs.inputs(1, H, 5, D, requires_grad=True)
    out = fovea.attention(q, k, v, "topk(3)+relu+rmsnorm")
    seen = []
    out.register_hook(lambda g: seen.append(g.shape))
    first, = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    first.square().sum().backward()
    assert seen == [out.shape] * 2


def test_derivatives_of_one_tensor_in_three_places():
    x = specs.randn(1, H, 5, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: fovea.attention(x, x, x, "topk(3)", causal=True), (x,), fast_mode=True)

    def second(x):
        first, = torch.autograd.grad(fovea.attention(x, x, x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x, create_graph=True)[0]

    assert torch.autograd.gradcheck(second, (x,), fast_mode=True)  # of the third order


def test_of_given_pairs():
    d = Drawn(7, 7, True, False, torch.float64, count=4)
    run = lambda *x: fovea.attention(*x, **d.options)
    assert torch.autograd.gradcheck(run, d.x, fast_mode=True) and torch.autograd.gradgradcheck(run, d.x, fast_mode=True)

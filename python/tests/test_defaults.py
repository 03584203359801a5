"""PyTorch's default type is that of new tensors without one; kernels read and write memory of fixed types."""
import contextlib

import pytest
import torch

import fovea
import specs

OTHERS = pytest.mark.parametrize("default", [torch.float64, torch.bfloat16], ids=str)


@contextlib.contextmanager
def default_type(dtype):
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


def in_both(compute, default):
    """Checks that compute() returns the same with the usual default type and with the other one."""
    torch.manual_seed(20)
    usual = compute()
    torch.manual_seed(20)
    with default_type(default):
        other = compute()
    for a, b in zip(usual, other):
        assert a.dtype == b.dtype and torch.equal(a, b)


def inputs(*shape, count=3, dtype=torch.float32):
    return [torch.randn(shape, dtype=dtype).requires_grad_() for _ in range(count)]


@OTHERS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("spec", specs.ALL)
def test_outputs_and_gradients(spec, dtype, default):
    def compute():
        x = inputs(2, 3, 12, 8, dtype=dtype)
        extras = specs.extras(spec, 3, 8, torch.float32 if dtype == torch.bfloat16 else dtype, requires_grad=True)
        out = fovea.attention(*x, spec, causal=True, dropout=0.1, dropout_seed=3, **extras)
        return (out, *torch.autograd.grad(out.square().sum(), [*x, *extras.values()]))

    in_both(compute, default)


@OTHERS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_gradients_of_terms_by_distance(dtype, default):
    term = torch.float64 if dtype == torch.float64 else torch.float32

    def compute():
        x, (queries,) = inputs(2, 4, 9, 8, dtype=dtype), inputs(2, 4, 9, 8, count=1, dtype=dtype)
        rows, values = inputs(5, 4, 8, count=2, dtype=dtype)
        by_head, = inputs(4, 7, count=1, dtype=term)
        out = fovea.attention(*x, "topk(4)", causal=True, offset_bias=by_head, offset_first=-6, offset_queries=queries,
                              offset_rows=rows, offset_rows_first=-4, offset_values=values, offset_values_first=-4)
        return (out, *torch.autograd.grad(out.square().sum(), [*x, queries, rows, values, by_head]))

    in_both(compute, default)


@OTHERS
def test_the_indexer(default):
    def compute():
        (q, k, weights) = *inputs(1, 33, 4, 16, count=1), *inputs(1, 33, 16, count=1), *inputs(1, 33, 4, count=1)
        queries, keys = torch.randn(1, 4, 33, 8, dtype=torch.float32), torch.randn(1, 2, 33, 8, dtype=torch.float32)
        indices = fovea.index_topk(q, k, weights, 5)
        target = fovea.index_target(queries, keys, indices)
        loss = fovea.index_loss(q, k, weights, indices, target)
        return indices, target, loss, *torch.autograd.grad(loss, (q, k, weights))

    in_both(compute, default)


@OTHERS
def test_the_least_alpha(default):
    x = inputs(1, 1, 5, 8)
    with default_type(default), pytest.raises(RuntimeError, match="alpha of head 0 is 1; expected"):
        fovea.attention(*x, "entmax(learned)", alpha=torch.tensor([1.0], dtype=torch.float32))

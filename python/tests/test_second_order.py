"""Second derivatives where they are zero."""
import pytest
import torch

import fovea

H, D = 3, 4


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

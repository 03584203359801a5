"""The derivatives of fovea::attention_forward and fovea::attention_backward."""
import os

import torch

from . import _ask, _reference_groups
from ._call import TERMS, Call, filled, from_token_rows
from ._checks import check_kernel
from ._second import is_traced, refuse_tangents, second_order, wants_gradient

_below_autograd = torch._C._AutoDispatchBelowAutograd
_DIFFERENTIABLE = 4 + len(TERMS)  # q, k, v, alpha and the terms


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, alpha, by_head, by_query, queries, rows, offsets, layout, spec, kind, scale, dropout, stream,
                dropout_seed):
        terms = [by_head, by_query, queries, rows]
        # Kernels leave something for backward, and they are the CPU's alone.
        training = q.device.type == "cpu"
        with _below_autograd():
            out, stats, kept, sums = torch.ops.fovea.attention_forward(
                q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, training)
        ctx.save_for_backward(q, k, v, alpha, *terms, out, stats, kept, sums, *layout)
        ctx.rest = offsets, spec, kind, scale, dropout, stream, dropout_seed
        ctx.kernel = os.environ.get("FOVEA_KERNEL", "")
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(stats, kept)
        return out, stats, kept, sums

    @staticmethod
    def backward(ctx, grad_out, _stats, _kept, grad_sums):
        nothing = [None] * 16
        if grad_out is None and grad_sums is None:
            return *nothing,
        q, k, v, alpha, *saved = ctx.saved_tensors
        terms, (out, stats, kept, sums), layout = saved[:4], saved[4:8], saved[8:]
        check_kernel(ctx.kernel)
        offsets, spec, kind, scale, dropout, stream, dropout_seed = ctx.rest
        grad_out = torch.zeros_like(out) if grad_out is None else grad_out
        wanted = sum(1 << i for i, x in enumerate(terms) if x is not None and x.requires_grad)
        *grads, grad_terms = torch.ops.fovea.attention_backward(
            grad_out, grad_sums, q, k, v, out, stats, kept, sums, alpha, terms, offsets, wanted, list(layout), spec, kind,
            scale, dropout, stream, dropout_seed)
        nothing[:3] = grads[:3]
        nothing[3] = None if alpha is None else grads[3]
        for i in range(len(TERMS)):
            nothing[4 + i] = grad_terms[i] if wanted >> i & 1 else None
        return *nothing,


def forward(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, needs_backward):
    all_terms = [*terms, *[None] * (len(TERMS) - len(terms))]
    inputs = (q, k, v, alpha, *all_terms)
    refuse_tangents(inputs)
    if not wants_gradient(inputs) or len(all_terms) > len(TERMS):
        with _below_autograd():
            return torch.ops.fovea.attention_forward(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout,
                                                     stream, dropout_seed, needs_backward)
    return _Attention.apply(*inputs, list(offsets), list(layout), spec, kind, scale, dropout, list(stream), dropout_seed)


class _AttentionBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, grad_out, q, k, v, alpha, by_head, by_query, queries, rows, left, offsets, wanted, layout, spec, kind,
                scale, dropout, stream, dropout_seed):
        terms = [by_head, by_query, queries, rows]
        with _below_autograd():
            *grads, grad_terms = torch.ops.fovea.attention_backward(
                grad_out, None, q, k, v, *left, alpha, terms, offsets, wanted, layout, spec, kind, scale, dropout, stream,
                dropout_seed)
        ctx.save_for_backward(grad_out, q, k, v, alpha, *terms, *layout)
        ctx.rest = offsets, spec, kind, scale, dropout, stream, dropout_seed
        ctx.set_materialize_grads(False)
        return *grads, *grad_terms

    @staticmethod
    def backward(ctx, *cotangents):
        if is_traced():
            raise RuntimeError("attention: second derivatives cannot be traced; take them outside make_fx and fake tensors")
        grad_out, *inputs = ctx.saved_tensors
        inputs, layout = inputs[:_DIFFERENTIABLE], inputs[_DIFFERENTIABLE:]
        offsets, spec, kind, scale, dropout, stream, dropout_seed = ctx.rest

        def composed(x):
            call = Call(*x[:4], x[4:], offsets[:4], list(layout), spec, kind, scale, dropout, stream, dropout_seed)
            return from_token_rows(_reference_groups.forward(call)[0], x[0])

        results = second_order(composed, grad_out, inputs, cotangents)
        return *results, *[None] * 10


def backward(grad_out, grad_sums, q, k, v, out, stats, kept, sums, alpha, terms, offsets, wanted, layout, spec, kind, scale,
             dropout, stream, dropout_seed):
    inputs = (q, k, v, alpha, *filled(terms, [None] * len(TERMS)))
    if not wants_gradient((*inputs, grad_out, grad_sums)):
        with _below_autograd():
            return torch.ops.fovea.attention_backward(grad_out, grad_sums, q, k, v, out, stats, kept, sums, alpha, terms,
                                                      offsets, wanted, layout, spec, kind, scale, dropout, stream,
                                                      dropout_seed)
    if grad_sums is not None:
        _ask.refuse("second", "attention with offset_values")
    *grads, a, b, c, d = _AttentionBackward.apply(grad_out, *inputs, (out, stats, kept, sums), list(offsets), wanted,
                                                  list(layout), spec, kind, scale, dropout, list(stream), dropout_seed)
    return *grads, [a, b, c, d]

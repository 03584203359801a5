"""fovea::attention_forward and fovea::attention_backward: head groups of a layer, by kernels of the library if they take
the call, otherwise by the reference; and their sizes alone, for what stands in for tensors."""
import torch

from . import _reference_groups
from ._call import TERMS, Call, from_token_rows, rows_like, token_rows
from ._checks import term_type

_LARGE = 1 << 20  # bytes


def recycled(rows):
    """A tensor for a result of kernels in place of an uninitialised one: large ones lie in memory that the library uses
    again."""
    if rows.nbytes < _LARGE:
        return rows
    return torch.ops.fovea.kernel_room(rows, list(rows.shape), list(rows.stride()))


def _for_kernels(q, k, v, alpha, *rest):
    return q, k, v, alpha if alpha is None or not alpha.is_floating_point() else alpha.float(), *rest


def checked(*arguments):
    """The call, which the library has checked."""
    torch.ops.fovea.kernel_saved(*_for_kernels(*arguments))
    return Call(*arguments)


def _has_room(*tensors):
    """Whether results of kernels have the sizes of these tensors."""
    return tensors[0].device.type == "cpu" and all(x.dim() in (3, 4) for x in tensors)


def forward(q, k, v, *arguments):
    *arguments, training = arguments
    out = recycled(_empty_like_rows(q)) if _has_room(q) else None
    taken, _, stats, kept, sums = torch.ops.fovea.kernel_forward(*_for_kernels(q, k, v, *arguments), training, out)
    call = Call(q, k, v, *arguments)
    if not taken:
        # In a region of autocast torch's products would narrow the types.
        with torch.autocast(q.device.type, enabled=False):
            out, sums = _reference_groups.forward(call)
        out, sums = from_token_rows(out, q), None if sums is None else from_token_rows(sums, q)
    if stats is None or q.device.type != "cpu":
        stats, kept = _room(call, (0, 0))
    return out, stats, kept, q.new_empty(0, dtype=term_type(q)) if sums is None else sums


def _wanted(bits):
    return [bool(bits >> i & 1) for i in range(len(TERMS))]


def backward(grad_out, grad_sums, q, k, v, out, stats, kept, sums, alpha, terms, offsets, wanted, *rest):
    x, arguments = (q, k, v), (alpha, terms, offsets, *rest)
    grads = [recycled(_gradient_like(t)) for t in x] if _has_room(*x) else []
    taken, _, _, _, grad_alpha, *grad_terms = torch.ops.fovea.kernel_backward(
        *_for_kernels(*x, *arguments), grad_out, grad_sums, out, stats, kept, sums if any(offsets[4:]) else None, wanted,
        grads)
    if not taken:
        with torch.autocast(q.device.type, enabled=False):
            *grads, grad_alpha, grad_terms = _reference_groups.backward(Call(*x, *arguments), grad_out, grad_sums,
                                                                        _wanted(wanted))
        grads = [from_token_rows(grad, t) for grad, t in zip(grads, x)]
        grad_terms = [t if t is None or i in (0, 3) else from_token_rows(t, q) for i, t in enumerate(grad_terms)]
    elif grad_terms[3] is not None:
        rows = terms[3]
        of_rows = grad_terms[3].sum(1, keepdim=True) if rows.size(1) == 1 else grad_terms[3]
        grad_terms[3] = of_rows.to(rows.dtype)
    grad_alpha = q.new_empty(0) if alpha is None else grad_alpha.to(alpha.dtype)
    return *grads, grad_alpha, [q.new_empty(0) if t is None else t for t in grad_terms]


# Sizes alone.

def _empty_like_rows(like, width=None, dtype=None):
    """The sizes and strides of a result: tokens follow one another."""
    width = like.size(-1) if width is None else width
    if like.dim() == 3:
        return like.new_empty(like.size(0), like.size(1), width, dtype=dtype)
    return like.new_empty(like.size(0), like.size(2), like.size(1), width, dtype=dtype).transpose(1, 2)


def _gradient_like(x):
    """The sizes and strides of a gradient: those of x if they lead from token to token and leave no gaps, else tokens
    follow one another."""
    if x.size(-1) > 1 and x.stride(-1) != 1:
        return _empty_like_rows(x)
    if x.dim() == 4 and x.size(0) > 1 and x.size(2) > 1 and x.stride(0) != x.size(2) * x.stride(2):
        return _empty_like_rows(x)
    rows = token_rows(x)  # a view
    return from_token_rows(rows_like(rows), x)


def _room(call, size):
    tokens = call.q.size(0) if call.packed else call.q.size(0) * call.q.size(2)
    floats, ints = size
    return (call.q.new_empty(tokens, floats, dtype=torch.float32), call.q.new_empty(tokens, ints, dtype=torch.int32))


def fake_forward(q, k, v, *arguments):
    *arguments, training = arguments
    call = Call(q, k, v, *arguments)
    size = call.saved_size()  # asked also where nothing is left: the library then checks the call
    sums = q.new_empty(0, dtype=term_type(q))
    if call.value_offsets:
        sums = _empty_like_rows(q, call.value_offsets, term_type(q))
    return _empty_like_rows(q), *_room(call, size if training else (0, 0)), sums


def fake_backward(grad_out, grad_sums, q, k, v, out, stats, kept, sums, alpha, terms, offsets, wanted, *rest):
    call = Call(q, k, v, alpha, terms, offsets, *rest)
    given = [call.by_head, call.by_query, call.queries, call.rows]
    makers = [lambda x: x.new_empty(x.shape), _empty_like_rows, _gradient_like, lambda x: x.new_empty(x.shape)]
    grad_terms = [make(x) if wants and x is not None else q.new_empty(0)
                  for wants, x, make in zip(_wanted(wanted), given, makers)]
    return (*map(_gradient_like, (q, k, v)), q.new_empty(0) if alpha is None else alpha.new_empty(alpha.shape), grad_terms)

"""fovea::attention_forward and fovea::attention_backward: one mechanism on some heads, by a kernel of the library if one
takes the call, otherwise by the reference; and their sizes alone, for what stands in for tensors."""
import torch

from . import _reference
from ._checks import check_saved, check_sums, fail, term_type
from ._problem import Call, from_token_rows, recycled, rows_like, token_rows

_BY_KERNELS = (torch.float32, torch.bfloat16, torch.float64)  # float64 is refused, aloud where FOVEA_KERNEL names one


def _sums_buffer(call, like):
    """[0], or uninitialised rows for the weights by offset."""
    if not call.value_offsets:
        return like.new_empty(0, dtype=call.sums_type())
    tokens = like.size(0) if call.packed else like.size(0) * like.size(2)
    return like.new_empty(tokens, like.size(1), call.value_offsets, dtype=call.sums_type())


def _laid_out(sums, like):
    return sums if sums.dim() == 1 else from_token_rows(sums, like)


def _room(call):
    tokens = call.q.size(0) if call.packed else call.q.size(0) * call.q.size(2)
    floats, ints = call.saved_size
    return (call.q.new_empty(tokens, call.q.size(1), floats, dtype=torch.float32),
            call.q.new_empty(tokens, call.q.size(1), ints, dtype=torch.int32))


def _float_alpha(call):
    return None if call.alpha is None else call.alpha.float().contiguous()


def _kernel_terms(call):
    def plain(x):
        return x if x is None or x.stride(-1) == 1 else x.contiguous()

    return [None if call.by_head is None else call.by_head.contiguous(),
            *(None if x is None else plain(token_rows(x)) for x in (call.by_query, call.queries)), plain(call.rows)]


def _shared(call, q, k, v, alpha, terms):
    """The arguments that both kernels take."""
    return (q, k, v, alpha, terms, call.vectors, call.sorted_lists(), call.spec, call.kind, call.scale, call.dropout,
            call.numbers(), call.stream())


def _asks_kernels(q):
    return q.device.type == "cpu" and q.dtype in _BY_KERNELS


def forward(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, needs_backward):
    call = Call(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, needs_backward)
    call.check_values()
    stats, kept = _room(call)
    if _asks_kernels(q):
        rows = token_rows(q), token_rows(k), token_rows(v)
        out, sums = recycled(q.new_empty(rows[0].shape)), _sums_buffer(call, q)
        if torch.ops.fovea.kernel_forward(*_shared(call, *rows, _float_alpha(call), _kernel_terms(call)), out, stats, kept,
                                          sums):
            return from_token_rows(out, q), stats, kept, _laid_out(sums, q)
    # In a region of autocast torch's products would narrow the types.
    with torch.autocast(q.device.type, enabled=False):
        out, sums = _reference.forward(call)
    return from_token_rows(out, q), stats, kept, _laid_out(_sums_buffer(call, q) if sums is None else sums, q)


def _wanted(bits):
    return [bool(bits >> i & 1) for i in range(4)]


def _by_kernel(call, grad_out, grad_sums, out, stats, kept, sums, wanted):
    """The gradients by tokens as _reference.backward() gives them; None if no kernel takes the call."""
    q, k, v = (token_rows(x) for x in (call.q, call.k, call.v))
    alpha, terms = _float_alpha(call), _kernel_terms(call)
    grads = [recycled(rows_like(x)) for x in (q, k, v)]
    grad_alpha = None if alpha is None else torch.zeros_like(alpha)
    by_head, by_query, queries, rows = (x if wants else None for wants, x in zip(wanted, terms))
    grad_terms = [None if by_head is None else torch.zeros_like(by_head),
                  None if by_query is None else q.new_empty(by_query.shape, dtype=torch.float32),
                  None if queries is None else rows_like(queries),
                  None if rows is None else q.new_zeros(rows.size(0), q.size(1), q.size(2), dtype=torch.float32)]
    given_sums = None if grad_sums is None else token_rows(grad_sums)
    sums = token_rows(sums) if call.value_offsets else sums
    if not torch.ops.fovea.kernel_backward(*_shared(call, q, k, v, alpha, terms), token_rows(grad_out), given_sums,
                                           token_rows(out), stats, kept, sums, *grads, grad_alpha, grad_terms):
        return None
    if grad_terms[3] is not None:
        of_rows = grad_terms[3].sum(1, keepdim=True) if rows.size(1) == 1 else grad_terms[3]
        grad_terms[3] = of_rows.to(rows.dtype)
    return *grads, None if alpha is None else grad_alpha.to(call.alpha.dtype), grad_terms


def backward(grad_out, grad_sums, q, k, v, out, stats, kept, sums, alpha, terms, offsets, wanted, layout, spec, kind, scale,
             dropout, stream, dropout_seed):
    call = Call(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, True)
    if call.vectors[2] is not None:
        fail("no gradients with k_begins; give k_offsets")
    call.check_values()
    check_saved(q, grad_out, out, stats, kept, call.saved_size)
    check_sums(grad_sums, q, sums, call.value_offsets)
    found = None
    if _asks_kernels(q):
        found = _by_kernel(call, grad_out, grad_sums, out, stats, kept, sums, _wanted(wanted))
    if found is None:
        with torch.autocast(q.device.type, enabled=False):
            found = _reference.backward(call, grad_out, grad_sums, _wanted(wanted))
    grad_q, grad_k, grad_v, grad_alpha, grad_terms = found
    none = [q.new_empty(0) for _ in range(5)]
    laid_out = [x if x is None or i in (0, 3) else from_token_rows(x, q) for i, x in enumerate(grad_terms)]
    return (from_token_rows(grad_q, q), from_token_rows(grad_k, k), from_token_rows(grad_v, v),
            none[4] if grad_alpha is None else grad_alpha, [none[i] if x is None else x for i, x in enumerate(laid_out)])


# Sizes alone.

def _empty_like_rows(like, width=None, dtype=None):
    """The sizes and strides of a result: tokens follow one another."""
    width = like.size(-1) if width is None else width
    if like.dim() == 3:
        return like.new_empty(like.size(0), like.size(1), width, dtype=dtype)
    return like.new_empty(like.size(0), like.size(2), like.size(1), width, dtype=dtype).transpose(1, 2)


def fake_forward(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, needs_backward):
    call = Call(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, needs_backward)
    sums = q.new_empty(0, dtype=term_type(q))
    if call.value_offsets:
        sums = _empty_like_rows(q, call.value_offsets, term_type(q))
    return _empty_like_rows(q), *_room(call), sums


def fake_backward(grad_out, grad_sums, q, k, v, out, stats, kept, sums, alpha, terms, offsets, wanted, layout, spec, kind,
                  scale, dropout, stream, dropout_seed):
    call = Call(q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, True)

    def gradient(x):
        return from_token_rows(rows_like(token_rows(x)), x)

    given = [call.by_head, call.by_query, call.queries, call.rows]
    makers = [lambda x: x.new_empty(x.shape), _empty_like_rows, gradient, lambda x: x.new_empty(x.shape)]
    grad_terms = [make(x) if wants and x is not None else q.new_empty(0)
                  for wants, x, make in zip(_wanted(wanted), given, makers)]
    return (gradient(q), gradient(k), gradient(v), q.new_empty(0) if alpha is None else alpha.new_empty(alpha.shape),
            grad_terms)

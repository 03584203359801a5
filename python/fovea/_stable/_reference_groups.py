"""The reference of head groups: of each by itself, from views of the tensors of all."""
import torch

from . import _reference
from ._call import token_rows


def forward(call):
    """As _reference.forward(), the heads of the groups side by side."""
    outs, sums = zip(*(_reference.forward(part) for _, part in call.groups()))
    if len(outs) == 1:
        return outs[0], sums[0]
    return torch.cat(outs, 1), None if sums[0] is None else torch.cat(sums, 1)


def backward(call, grad_out, grad_sums, wanted):
    """As _reference.backward(), the gradients of the groups side by side, and added up where groups share a tensor."""
    groups = list(call.groups())
    if len(groups) == 1:
        return _reference.backward(groups[0][1], grad_out, grad_sums, wanted)
    total, all_terms = None, [call.by_head, call.by_query, call.queries, call.rows]
    for place, part in groups:
        def own(x):
            return None if x is None else x.narrow(1, place.first, place.heads)

        *grads, terms = _reference.backward(part, own(grad_out), own(grad_sums), wanted)
        if total is None:
            total = [_zeros_of_heads(x, grad) for x, grad in zip((call.q, call.k, call.v), grads)]
            total += [None if call.alpha is None else torch.zeros_like(call.alpha)]
            total += [torch.zeros_like(x if i in (0, 3) else token_rows(x)) if wants and x is not None else None
                      for i, (x, wants) in enumerate(zip(all_terms, wanted))]
        key = place.first_key
        _add_part(total[0], grads[0], 1, place.first)
        _add_part(total[1], grads[1], 1, key), _add_part(total[2], grads[2], 1, key)
        _add_part(total[3], grads[3], 0, place.first)
        by_head, by_query, queries, rows = total[4:]
        if by_head is not None:
            by_head = by_head.narrow(1, place.by_head_begin, terms[0].size(1))
        if rows is not None:
            rows = rows.narrow(0, place.rows_begin, terms[3].size(0))
        for whole, grad, dim in zip((by_head, by_query, queries, rows), terms, (0, 1, 1, 1)):
            _add_part(whole, grad, dim, place.first)
    return *total[:4], total[4:]


def _zeros_of_heads(x, grad):
    return grad.new_zeros(grad.size(0), x.size(1), grad.size(2))


def _add_part(whole, grad, dim, first):
    """Adds a group's gradient to that of all heads, or of what heads share."""
    if whole is not None and grad is not None:
        whole.narrow(dim, first if whole.size(dim) != grad.size(dim) else 0, grad.size(dim)).add_(grad)

"""fovea::index_topk, fovea::index_target and fovea::index_loss_kernel, which fovea/_indexer.py calls."""
import math

import torch

from . import _ask
from ._checks import check_scale, in_library
from ._norm import fits_kernels

_BLOCK = 1 << 24     # scores of all heads that are computed together
_GATHERED = 1 << 22  # numbers of keys that are gathered together
_ROW_STEP = 16       # of the kernels' rows


def check(name, *tensors, counts=()):
    """Has the library check the call of an operator, whose tensors are in the order of its schema."""
    in_library(lambda given: torch.ops.fovea.kernel_check_index(name, given, counts), tensors)


def fake_topk(q, k, weights, k_best, causal=True, *, q_offsets=None, k_offsets=None):
    check("index_topk", q, k, weights, q_offsets, k_offsets, counts=[k_best])
    return q.new_empty((*q.shape[:-2], k_best), dtype=torch.int32)


def topk(q, k, weights, k_best, causal=True, *, q_offsets=None, k_offsets=None):
    out = fake_topk(q, k, weights, k_best, q_offsets=q_offsets, k_offsets=k_offsets)
    sizes = [0, q.size(0), q.size(1), k.size(1)] if q.dim() == 4 else [1, 1, q.size(0), k.size(0)]
    sequences = torch.ops.fovea.kernel_sequences([q_offsets, k_offsets], sizes)
    if q.dim() == 4:
        q, k, weights = (x.flatten(0, 1) for x in (q, k, weights))
    rows = out.view(-1, k_best)
    if fits_kernels(q, k):
        torch.ops.fovea.kernel_index_topk(q.contiguous(), k.contiguous(), weights.float().contiguous(), sequences, causal,
                                          rows)
        return out
    rows.fill_(-1)
    for q_begin, q_length, k_begin, k_length in sequences.tolist():
        keys = k[k_begin:k_begin + k_length]
        step = max(1, _BLOCK // max(1, k_length * q.size(1)))
        for first in range(0, q_length if k_length else 0, step):
            block = slice(q_begin + first, q_begin + min(first + step, q_length))
            limit = first + 1 + k_length - q_length if causal else None
            rows[block] = _best(_scores(q[block], keys, weights[block], limit), k_best)
    return out


def _scores(q, k, weights, limit):
    """[N, keys]; -infinity where a query does not see the key, and nowhere else. The first query sees `limit` keys."""
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    with torch.autocast(q.device.type, enabled=False):
        dots = (q.to(kind) @ k.to(kind).T).relu()
    infinity = float("inf")
    scores = (dots * weights.to(kind)[:, :, None]).sum(1).nan_to_num(infinity, infinity, torch.finfo(kind).min)
    if limit is None:
        return scores
    limits = torch.arange(limit, limit + q.size(0), device=q.device)
    return scores.masked_fill(torch.arange(k.size(0), device=q.device) >= limits[:, None], -infinity)


def _best(scores, k_best):
    """The best columns of each row, ascending, -1 behind them."""
    most, none = min(k_best, scores.size(1)), scores.size(1)
    values, columns = torch.sort(scores, stable=True, dim=1, descending=True)
    best = columns[:, :most].masked_fill(values[:, :most] == -float("inf"), none).sort(1).values
    return torch.nn.functional.pad(best.masked_fill(best == none, -1), (0, k_best - most), value=-1).int()


def _rows(x):
    """float32, padded with zeros to the kernels' width."""
    return torch.nn.functional.pad(x.float(), (0, -x.size(-1) % _ROW_STEP)).contiguous()


def _check_range(indices, keys, name):
    if indices.numel():
        low, high = (int(x) for x in indices.aminmax())
        if low < -1 or high >= keys:
            _ask.refuse("indices", name, str(low), str(high), str(keys))


def fake_target(q, k, indices, scale=None):
    check("index_target", q, k, indices)
    return q.new_empty(indices.shape, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)


def target(q, k, indices, scale=None):
    out = fake_target(q, k, indices)
    check_scale(scale, "index_target")
    _check_range(indices, k.size(2), "index_target")
    scale = 1 / math.sqrt(q.size(3)) if scale is None else scale
    if fits_kernels(q, k):
        torch.ops.fovea.kernel_index_target(_rows(q.transpose(1, 2)), _rows(k), indices.contiguous(), scale, out)
        return out
    queries, count = q.size(2), indices.size(2)
    if k.size(2) == 0 or count == 0:
        return out.zero_()
    step = max(1, _GATHERED // max(1, count * (k.size(1) * q.size(3) + q.size(1))))
    with torch.autocast(q.device.type, enabled=False):
        for b in range(q.size(0)):
            own, keys = q[b].to(out.dtype), k[b].to(out.dtype)
            for first in range(0, queries, step):
                block = slice(first, min(first + step, queries))
                out[b, block] = _target_block(own[:, block], keys, indices[b, block], scale)
    return out


def _target_block(q, k, indices, scale):
    heads, queries, width = k.size(0), q.size(1), q.size(2)
    missing, chosen = indices < 0, indices.clamp_min(0).flatten().long()
    keys = k.index_select(1, chosen).view(heads, queries, indices.size(1), width)
    grouped = q.reshape(heads, -1, queries, width).transpose(1, 2)
    scores = grouped @ keys.transpose(2, 3) * scale  # [H_kv, N, H / H_kv, n]
    weights = scores.masked_fill(missing[:, None], -float("inf")).softmax(-1)
    return weights.mean((0, 2)).masked_fill(missing, 0)


def check_loss(q, k, weights, indices, target, name="index_loss"):
    check(name, q, k, weights, indices, target)
    _check_range(indices, k.size(1), "index_loss")


def loss_kernel(q, k, weights, indices, target, gradients):
    check_loss(q, k, weights, indices, target, "index_loss_kernel")
    given = _rows(q), _rows(k), weights.float().contiguous()
    grads = [torch.empty_like(x) for x in given] if gradients else [None] * 3
    loss, queries = torch.ops.fovea.kernel_index_loss(*given, indices.int().contiguous(), target.float().contiguous(), *grads)
    sums = given[2].new_tensor(loss), given[2].new_tensor(float(queries))
    if not gradients:
        return *sums, *(x.new_empty(0) for x in (q, k, weights))
    of_q, of_k = (grad[..., :x.size(-1)].to(x.dtype).contiguous() for grad, x in zip(grads, (q, k)))
    return *sums, of_q, of_k, grads[2].to(weights.dtype)

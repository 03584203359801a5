"""The indexer of DeepSeek sparse attention (DeepSeek-V3.2): which keys a query attends to, and the loss that teaches it.

Small heads score every key: score[s, t] = sum over heads h of weights[s, h] relu(q[s, h] . k[t]). Shapes: B sequences,
S queries, T keys, H heads and D of the indexer."""
import operator
from typing import SupportsIndex

import torch
from torch import Tensor

from ._functional import _check_type
from ._stable import _ask
from ._stable._index import check_loss

_CHUNK = 1 << 21  # numbers of gathered keys and their products that are held at once


def index_topk(q: Tensor, k: Tensor, weights: Tensor, k_best: int, causal: bool = True, *,
               q_offsets: Tensor | None = None, k_offsets: Tensor | None = None) -> Tensor:
    """The k_best keys of each query with the greatest scores. Exact, without scores of all pairs in memory; works in
    torch.compile. Not differentiable: index_loss() teaches the indexer.

    Args:
        q (Tensor): [B, S, H, D], or packed without padding [T_q, H, D].
        k (Tensor): [B, T, D], or packed [T_k, D]; shared by the heads, of q's type.
        weights (Tensor): [B, S, H], or packed [T_q, H]; of q's type or float32.
        k_best (int): how many keys, 1 or more.
        causal (bool): a query sees no key after itself. Query i stands at key position i + T - S.
        q_offsets, k_offsets (Tensor, optional): packed: [B + 1] int64 on the CPU, where sequences begin and end;
            k_offsets default to q_offsets, both to a single sequence.
    Returns:
        Tensor: int32 [B, S, k_best], or packed [T_q, k_best], counted from the first key of the query's sequence.
            Ascending; -1 behind them where a query sees fewer keys. Of equal scores the earlier key is taken, and NaN
            counts as infinity.
    Raises:
        TypeError, RuntimeError: an argument does not fit; the message names it.
    """
    if not torch.compiler.is_compiling():
        for name, value in {"q": q, "k": k, "weights": weights}.items():
            _check_type(f"index_topk: {name}", value, Tensor, "a tensor")
        _check_type("index_topk: k_best", k_best, SupportsIndex, "a whole number")
        k_best = operator.index(k_best)
    return torch.ops.fovea.index_topk(q, k, weights, k_best, bool(causal), q_offsets=q_offsets, k_offsets=k_offsets)


def index_loss(q: Tensor, k: Tensor, weights: Tensor, indices: Tensor, target: Tensor, *,
               reduction: str = "mean") -> Tensor:
    """The KL divergence from `target`, a distribution over the keys of `indices`, to the softmax of the indexer's scores
    of these keys. Differentiable in q, k and weights; memory for the gradients and one block of queries; works in
    torch.compile. First derivatives only.

    Args:
        q, k, weights (Tensor): [B, S, H, D], [B, T, D] and [B, S, H], as of index_topk().
        indices (Tensor): [B, S, n] int32 or int64, keys of each query, -1 for none. No key stands in a row twice.
        target (Tensor): [B, S, n], 0 or more, such as index_target(). Each row is divided by its sum. No gradient flows to it.
        reduction (str): "mean" over the queries, or "sum". Queries without a key or with a target of zeros do not count.
    Returns:
        Tensor: float32 without dimensions (float64 if q is).
    Raises:
        TypeError, ValueError, RuntimeError: an argument does not fit; the message names it.
    """
    if not torch.compiler.is_compiling():
        for name, value in {"q": q, "k": k, "weights": weights, "indices": indices, "target": target}.items():
            _check_type(f"index_loss: {name}", value, Tensor, "a tensor")
        if reduction not in ("mean", "sum"):
            raise ValueError(f"index_loss: got reduction {reduction!r}; expected 'mean' or 'sum'")
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, weights))
    loss, counted, *_ = torch.ops.fovea.index_loss_sums(q, k, weights, indices, target.detach(), wanted)
    return loss / counted.clamp(min=1) if reduction == "mean" else loss


def index_target(q: Tensor, k: Tensor, indices: Tensor, scale: float | None = None) -> Tensor:
    """The target of index_loss(): what softmax attention over the chosen keys gives to each of them, averaged over its
    heads. A constant to derivatives; works in torch.compile.

    Args:
        q (Tensor): [B, H, S, D], the queries of the attention that the indexer feeds.
        k (Tensor): [B, H_kv, T, D], its keys; head h reads key head h // (H // H_kv).
        indices (Tensor): [B, S, n] int32, keys of each query, -1 for none.
        scale (float, optional): of q . k; default 1 / sqrt(D).
    Returns:
        Tensor: [B, S, n], float32 (float64 if q is); 0 where indices are -1.
    """
    if not torch.compiler.is_compiling():
        for name, value in {"q": q, "k": k, "indices": indices}.items():
            _check_type(f"index_target: {name}", value, Tensor, "a tensor")
    return torch.ops.fovea.index_target(q, k, indices, scale)


def blocks_of(queries, numbers):
    """Slices of so many queries that a block of them, each of `numbers` numbers, stays small."""
    step = max(1, _CHUNK // max(1, numbers))
    return (slice(first, min(first + step, queries)) for first in range(0, queries, step))


def _block_loss(q, k, weights, indices, target):
    """For some queries of one sequence: the loss, how many queries count, and the inputs of gradients."""
    missing = indices < 0
    chosen = k[indices.clamp(min=0).flatten()].view(*indices.shape, -1)      # [N, n, D]
    positive = torch.matmul(q, chosen.transpose(1, 2)).relu_()               # [N, H, n]
    scores = torch.matmul(weights[:, None], positive)[:, 0].masked_fill_(missing, float("-inf"))
    wanted = target.masked_fill(missing, 0)
    total = wanted.sum(1, keepdim=True)
    counts = total > 0
    wanted = wanted / torch.where(counts, total, 1)
    least = torch.finfo(scores.dtype).min  # rows without a key stay finite
    log_weights = torch.log_softmax(scores.clamp(min=least), 1)
    loss = (torch.xlogy(wanted, wanted) - wanted * log_weights.masked_fill(missing, 0)).sum()
    grad = (log_weights.exp() - wanted).masked_fill_(missing | ~counts, 0)   # of the scores
    return loss, counts.sum(), chosen, positive, grad


@torch.library.custom_op("fovea::index_loss_sums", mutates_args=())
def _loss_sums(q: Tensor, k: Tensor, weights: Tensor, indices: Tensor, target: Tensor,
               gradients: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The loss summed over queries, how many count, and the gradients of the sum: of size 0 if they are not wanted.
    They are computed at once, as their inputs, the gathered keys, are not kept."""
    if q.device.type == "cpu" and q.dtype in (torch.float32, torch.bfloat16):
        return torch.ops.fovea.index_loss_kernel(q, k, weights, indices, target, gradients)
    check_loss(q, k, weights, indices, target)
    # In a region of autocast torch's products would narrow the types.
    with torch.autocast(q.device.type, enabled=False):
        return _sums_in_blocks(q, k, weights, indices, target, gradients)


def _sums_in_blocks(q, k, weights, indices, target, gradients):
    """_loss_sums() by torch's operators."""
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    loss, counted = q.new_zeros((), dtype=kind), q.new_zeros((), dtype=kind)
    grad_q, grad_k, grad_weights = (torch.zeros_like(x, dtype=kind, memory_format=torch.contiguous_format)
                                    if gradients else x.new_zeros(0) for x in (q, k, weights))
    chosen_keys = indices.size(2)
    for b in range(q.size(0) if k.size(1) and chosen_keys else 0):
        keys = k[b].to(kind)
        for block in blocks_of(q.size(1), chosen_keys * (q.size(3) + 2 * q.size(2))):
            x, w, index = q[b, block].to(kind), weights[b, block].to(kind), indices[b, block].long()
            part, count, chosen, positive, grad = _block_loss(x, keys, w, index, target[b, block].to(kind))
            loss += part
            counted += count
            if not gradients:
                continue
            grad_weights[b, block] = torch.matmul(positive, grad[:, :, None])[:, :, 0]
            grad_dots = (positive > 0) * (w[:, :, None] * grad[:, None])     # [N, H, n]
            grad_q[b, block] = torch.matmul(grad_dots, chosen)
            grad_k[b].index_add_(0, index.clamp(min=0).flatten(), torch.matmul(grad_dots.transpose(1, 2), x).flatten(0, 1))
    if gradients:
        grad_q, grad_k, grad_weights = grad_q.to(q.dtype), grad_k.to(k.dtype), grad_weights.to(weights.dtype)
    return loss, counted, grad_q, grad_k, grad_weights


@_loss_sums.register_fake
def _(q, k, weights, indices, target, gradients):
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    sums = q.new_empty((), dtype=kind), q.new_empty((), dtype=kind)
    return *sums, *(x.new_empty(x.shape if gradients else 0) for x in (q, k, weights))


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*output[2:])
    ctx.mark_non_differentiable(*output[1:])


def _loss_backward(ctx, grad_loss, *_):
    if torch.is_grad_enabled():  # the gradients that were kept are constants to autograd
        _ask.refuse("second", "index_loss")
    return *(g * grad_loss.to(g.dtype) for g in ctx.saved_tensors), None, None, None


_loss_sums.register_autograd(_loss_backward, setup_context=_keep)

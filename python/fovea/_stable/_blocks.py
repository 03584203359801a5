"""fovea::block_topk, which fovea/_blocks.py calls."""
import torch

from ._index import check
from ._norm import fits_kernels

_SCORES = 1 << 22  # that are computed together


def _check(q, k, block_size, k_best, q_offsets, k_offsets, lengths, k_begins, k_lengths):
    """Ranges of keys and their lengths come with calls of attention, which have been checked."""
    if k_begins is not None or k_lengths is not None:
        q_offsets = k_offsets = lengths = None
    check("block_topk", q, k, q_offsets, k_offsets, lengths, counts=[block_size, k_best])


def fake_topk(q, k, block_size, k_best, *, causal=True, bounds=False, q_offsets=None, k_offsets=None, lengths=None,
              k_begins=None, k_tokens=None, k_lengths=None):
    _check(q, k, block_size, k_best, q_offsets, k_offsets, lengths, k_begins, k_lengths)
    return q.new_empty((*q.shape[:-1], torch.library.get_ctx().new_dynamic_size()), dtype=torch.int32)


def topk(q, k, block_size, k_best, *, causal=True, bounds=False, q_offsets=None, k_offsets=None, lengths=None,
         k_begins=None, k_tokens=None, k_lengths=None):
    _check(q, k, block_size, k_best, q_offsets, k_offsets, lengths, k_begins, k_lengths)
    dense = q.dim() == 4
    sizes = [0, q.size(0), q.size(2), k.size(2)] if dense else [1, 1, q.size(0), k.size(0)]
    layout = [q_offsets, k_offsets, k_begins, k_tokens, lengths, lengths if k_lengths is None else k_lengths]
    sequences = torch.ops.fovea.kernel_sequences(layout, sizes)
    rows, keys = ((x.transpose(1, 2).flatten(0, 1) if dense else x) for x in (q, k))
    if k_tokens is not None:  # in the order in which sequences count them
        keys = keys.index_select(0, k_tokens.to(keys.device))
    if fits_kernels(q, k):
        choice = [block_size, k_best, int(bounds), int(causal)]
        lists = torch.ops.fovea.kernel_block_topk(rows.contiguous(), keys.contiguous(), sequences, choice)
    else:
        lists = _composed(rows, keys, sequences.tolist(), block_size, k_best, causal, bounds)
    return lists.view(q.size(0), q.size(2), *lists.shape[1:]).transpose(1, 2) if dense else lists


def _summaries(keys, block_size):
    """Means, greatest and least keys of the blocks of one sequence: [H_kv, blocks, D]."""
    parts = [(part.mean(0), part.amax(0), part.amin(0)) for part in keys.split(block_size)]
    return (torch.stack(x, 1) for x in zip(*parts))


def _composed(q, k, sequences, block_size, k_best, causal, bounds):
    """block_topk() of packed tensors by torch's operators."""
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    share, found = q.size(1) // k.size(1), []
    with torch.autocast(q.device.type, enabled=False):
        for q_begin, q_length, k_begin, k_length in sequences:
            if not q_length or not k_length:
                continue
            mean, high, low = (x.repeat_interleave(share, 0)
                               for x in _summaries(k[k_begin:k_begin + k_length].to(kind), block_size))
            step = max(1, _SCORES // (q.size(1) * mean.size(1)))
            for first in range(0, q_length, step):
                x = q[q_begin + first:q_begin + min(first + step, q_length)].to(kind).transpose(0, 1)  # [H, N, D]
                scores = (x.clamp(min=0) @ high.mT + x.clamp(max=0) @ low.mT) if bounds else x @ mean.mT
                places = torch.arange(first, first + x.size(1), device=q.device) + k_length - q_length
                found.append((q_begin + first, _chosen(scores, places, block_size, k_best, causal)))
    count = max((int(mask.sum(-1).max()) for _, mask in found), default=0)
    out = q.new_full((*q.shape[:2], count), -1, dtype=torch.int32)
    for first, mask in found:
        none = mask.size(-1)
        blocks = torch.where(mask, torch.arange(none, device=q.device), none).sort(-1).values[..., :count]
        out[first:first + mask.size(1), :, :blocks.size(-1)] = blocks.masked_fill(blocks == none, -1).transpose(0, 1).int()
    return out


def _chosen(scores, places, block_size, k_best, causal):
    """The blocks of queries that stand at `places`: bool like scores, [H, N, blocks]."""
    blocks = torch.arange(scores.size(-1), device=scores.device)
    own = places.div(block_size, rounding_mode="floor")[:, None]
    is_own = (blocks == own) & (places >= 0)[:, None]
    others = ((blocks < own) if causal else (blocks != own)) & (places >= 0)[:, None]
    infinity, least = float("inf"), torch.finfo(scores.dtype).min
    scores = scores.nan_to_num(infinity, infinity, least).clamp(min=least).masked_fill(~others, -infinity)
    if k_best == 1:
        return is_own.expand_as(scores)
    bound = scores.topk(min(k_best - 1, scores.size(-1)), -1).values[..., -1:]
    return (others & (scores >= bound)) | is_own

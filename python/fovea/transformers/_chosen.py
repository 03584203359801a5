"""Attention over the keys that an indexer chooses, as the attention function of a layer."""
import torch

from .._functional import attention
from .._indexer import index_loss, index_target, index_topk
from ._indexer import NAME


def attention_over(query, key, value, indices, scale, dropout):
    """Attention of [B, H, S, D] over the keys [B, H_kv, T, D] that `indices` [B, S, n] names, -1 for none: [B, S, H, D_v].
    A query without a key gets zeros."""
    out = attention(query, key, value, "full", indices=indices, scale=scale, dropout=dropout,
                    enable_gqa=key.size(1) != query.size(1))
    return out.transpose(1, 2).contiguous()


def _probabilities(query, key, indices, scale):
    """The probabilities of the queries [H, N, D] of one sequence: [H_kv, N, H / H_kv, n]."""
    chosen = key[:, indices.clamp(min=0).long().flatten()].unflatten(1, indices.shape)
    groups = query.unflatten(0, (key.size(0), -1)).transpose(1, 2)           # [H_kv, N, H / H_kv, D]
    scores = torch.matmul(groups, chosen.transpose(2, 3))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32)) * scale
    missing = (indices < 0)[None, :, None]
    weights = scores.masked_fill(missing, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(missing, 0)


def choose(parts, count, ranges, causal):
    """The keys that an indexer chooses in a batch, [B, S, count], as places in their row; -1 for none."""
    q, k, weights = (x.detach() for x in parts)
    if ranges is None:
        return index_topk(q, k, weights, count, causal)
    queries, keys = (ranges.queries if causal else ranges.every), ranges.keys
    found = index_topk(q.flatten(0, 1), k.flatten(0, 1), weights.flatten(0, 1), count, causal, q_offsets=queries,
                       k_offsets=keys).unflatten(0, q.shape[:2])
    begins = torch.repeat_interleave(keys[:-1] % k.size(1), queries.diff(), output_size=q.size(0) * q.size(1))
    begins = begins.to(found).view(q.size(0), q.size(1), 1)
    return torch.where(found < 0, found, found + begins)


def chosen_attention(module, query, key, value, count, *, ranges, causal, scale, dropout):
    """(output [B, S, H, D_v], the indices that it is over) of a layer with an indexer. During a call of the model in
    training, the indexer's loss waits at the indexer for the model's."""
    indexer = getattr(module, NAME, None)
    if indexer is None:
        raise ValueError(f"fovea: {type(module).__name__} has no indexer; call fovea.sparsify(model, 'dsa({count})')")
    scale = query.size(-1) ** -0.5 if scale is None else scale
    parts = indexer(query, key)
    indices = choose(parts, count, ranges, causal)
    out = attention_over(query, key, value, indices, scale, dropout)
    # Outside of such a call too: gradient checkpointing computes all that it did in the first pass once more.
    if module.training and torch.is_grad_enabled() and parts[0].requires_grad:
        wide = choose(parts, count * indexer.candidates, ranges, causal)
        loss = index_loss(*parts, wide, index_target(query, key, wide, scale))
        if not torch.compiler.is_compiling():
            indexer.loss = loss.detach()
        if indexer.collects:
            indexer.pending = loss if indexer.pending is None else indexer.pending + loss
    return out, indices


def dense_weights(query, key, indices, scale):
    """The weights as [B, H, S, T], for callers that ask for them."""
    batch, heads, queries, _ = query.shape
    out = query.new_zeros(batch, heads, queries, key.size(2) + 1)             # the last column takes those of -1
    for b in range(batch):
        weights = _probabilities(query[b], key[b], indices[b], scale).to(out.dtype).transpose(1, 2).flatten(0, 1)
        places = torch.where(indices[b] < 0, key.size(2), indices[b]).long()
        out[b].scatter_(2, places.expand(heads, -1, -1), weights)
    return out[..., :-1]

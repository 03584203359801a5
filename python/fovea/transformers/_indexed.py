"""Keys that a model's own learned indexer chose: transformers hands them to every implementation but eager and sdpa, as
`indices` [B, N_q, k] of keys for all heads (DeepSeek-V3.2 and others), or `block_indices` [B, H_kv, N_q, k] (MiniMax M3).
"""
import torch

from .._functional import attention, attention_weights
from ._dense import Dense, allowed_pairs
from ._masks import is_encoded
from ._names import has_pattern
from ._own_indexers import takes_ranges


def with_indices(qkv, mask, indices, resolved, options, wants_weights, config=None):
    """Returns what an attention function does, for attention to the keys of `indices` that the mask allows.

    Args:
        mask (Tensor, optional): [B, 1, N_q, N_k], bool or added to scores; none is causal. Ranges, which the model's
            indexer has read already, leave every key of `indices`.
        resolved (tuple): a spec and its properties.
    """
    (query, key, value), (spec, has) = qkv, resolved
    heads, q_length, k_length = query.size(1), query.size(2), key.size(2)
    if has_pattern(has):
        raise ValueError(f"fovea: '{spec}' goes by places, and the model's indexer chooses the keys of this layer; give "
                         "it a spec without a pattern, such as full or topk(32)")
    if is_encoded(mask, query.size(0)):
        if not takes_ranges(config):
            raise NotImplementedError("fovea: the model passes indices of keys without a mask of its pairs; load it with "
                                      "attn_implementation='sdpa'")
    else:
        entries = indices.long()
        if mask is None:
            last = torch.arange(k_length - q_length, k_length, device=entries.device)[:, None]
            allowed = entries <= last
        else:
            allowed = allowed_pairs(mask, query, k_length).gather(-1, entries.clamp(min=0))
        # If a query sees fewer keys than its list has places, the rest of the list holds any other keys.
        indices = entries.where(allowed, -1).to(torch.int32)
    options = {**options, "indices": indices, "enable_gqa": key.size(1) != heads}
    out = attention(query, key, value, spec, **options).transpose(1, 2)
    options.pop("dropout")
    weights = attention_weights(query, key, spec, **options) if wants_weights else None
    return out.contiguous(), weights


def listed_blocks(module, block_indices, ranges, k_length):
    """Options of `attention` for the blocks: of [B, H, N, D], or of the ranges' tokens."""
    options = {"block_indices": block_indices, "block_size": module.config.index_block_size}
    if ranges is None:
        return options
    queries, keys = ranges.queries, ranges.keys
    reads = (queries.diff() > 0) & (keys.diff() > 0)
    message = "fovea: an indexer counts blocks from a row's first place; pad the texts on the right"
    shifted = (reads & (keys[:-1] % k_length != 0)).any()
    if torch.compiler.is_compiling():
        torch._assert_async(~shifted, message)
    elif bool(shifted):
        raise ValueError(message)
    entries = block_indices.transpose(1, 2).flatten(0, 1)
    # Queries that are padding see no key, whatever their list names.
    sees = torch.repeat_interleave(reads, queries.diff(), output_size=entries.size(0)).to(entries.device)
    options["block_indices"] = entries.where(sees[:, None, None], -1)
    return options


def within_blocks(module, dense, block_indices, query, key):
    """The Dense of a mask, limited to the blocks that an indexer chose."""
    size, heads = module.config.index_block_size, query.size(1)
    blocks = -(-key.size(2) // size)
    chosen = torch.zeros(*block_indices.shape[:3], blocks + 1, dtype=torch.bool, device=key.device)  # the last for -1
    chosen.scatter_(3, block_indices.long().where(block_indices >= 0, blocks), True)
    pairs = chosen[..., :blocks].repeat_interleave(size, 3)[..., :key.size(2)]
    if dense.allowed is not None:
        pairs = pairs if dense.allowed.size(1) == 1 else pairs.repeat_interleave(heads // pairs.size(1), 1)
        pairs = pairs & dense.allowed
    return Dense(pairs, dense.bias)

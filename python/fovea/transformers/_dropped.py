"""Layers with a sliding window whose cache has dropped the beginning of the text. Patterns such as block(b) and global(g) count
places from there, so the dropped keys are counted too; none of them is read, because all lie outside of the window."""
import re

import torch

from .._functional import attention, attention_weights

_FROM_START = re.compile(r"\b(?:block|blocks|fixed|global|random)\(")  # other patterns compare distances alone
_CPU = {"dtype": torch.int64, "device": "cpu"}


def dropped_keys(padding, valid, kv_offset):
    """How many tokens of each row's text a cache has dropped, [B]; None if no row lacks any.

    Args:
        padding (Tensor, optional): [B, N] bool of all tokens so far, False for padding.
        valid (Tensor): [B, N_k] bool, the keys in the cache that are no padding.
        kv_offset (int or Tensor): the place of the first of these keys among all tokens.
    """
    if not isinstance(kv_offset, torch.Tensor) and kv_offset == 0:
        return None
    if padding is None:
        count = valid.new_zeros(valid.size(0), dtype=torch.int64) + kv_offset
    else:
        count = (padding & (torch.arange(padding.size(1), device=padding.device) < kv_offset)).sum(1)
    count = torch.where(valid[:, 0], count, 0).cpu()
    return count if torch.compiler.is_compiling() or bool(count.any()) else None


def needs_dropped(spec, ranges):
    """Whether places are to be counted from tokens that the cache has dropped."""
    if ranges is None or ranges.cut is None or not _FROM_START.search(spec):
        return False
    if torch.compiler.is_compiling():
        torch._assert_async((ranges.cut == 0).all(), f"fovea: '{spec}' counts places from the beginning of a text, which the "
                                                     "cache has dropped; do not compile the model, or pass "
                                                     "past_key_values=DynamicCache(), which keeps all of it")
        return False
    return True


def _sequences(ranges, k_length):
    """(begin, end, how many tokens are dropped) of the keys of each sequence."""
    keys, cut = ranges.keys.tolist(), ranges.cut.tolist()
    return [(begin, end, cut[begin // k_length] if begin < end and begin % k_length == 0 else 0)
            for begin, end in zip(keys, keys[1:])]


def _tokens(x):
    return x.transpose(1, 2).flatten(0, 1)


def attention_after_dropped(qkv, spec, ranges, options):
    """[B N_q, H, D_v]; any of a row's keys stands for its dropped ones."""
    k_length, rows, offsets = qkv[1].size(2), [], [0]
    for begin, end, dropped in _sequences(ranges, k_length):
        rows += [torch.full((dropped,), begin, **_CPU), torch.arange(begin, end, **_CPU)]
        offsets.append(offsets[-1] + dropped + end - begin)
    rows, offsets = torch.cat(rows), torch.tensor(offsets, **_CPU)
    q, k, v = map(_tokens, qkv)
    inputs = (*qkv, options.get("sinks"), options.get("offset_bias"))
    learns = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    if learns or k.size(-1) != v.size(-1):
        k, v = (x.index_select(0, rows.to(x.device)) for x in (k, v))
        return attention(q, k, v, spec, q_offsets=ranges.queries, k_offsets=offsets, **options)
    return attention(q, k, v, spec, q_offsets=ranges.queries, k_begins=offsets[:-1], k_lengths=offsets.diff(), k_tokens=rows,
                     **options)


def weights_after_dropped(query, key, spec, ranges, options):
    """[B, H, N_q, N_k]."""
    batch, heads, q_length, _ = query.shape
    by_query = {} if options.get("offset_bias") is None else {"offset_bias": options["offset_bias"]}
    k_length, q, k = key.size(2), _tokens(query), _tokens(key)
    out = query.new_zeros(batch, heads, q_length, k_length)
    queries = ranges.queries.tolist()
    for (q0, q1), (k0, k1, dropped) in zip(zip(queries, queries[1:]), _sequences(ranges, k_length)):
        if q0 < q1 and k0 < k1:
            keys = torch.cat([k[k0:k0 + 1].expand(dropped, -1, -1), k[k0:k1]])
            b, row, column = q0 // q_length, q0 % q_length, k0 % k_length
            found = attention_weights(q[q0:q1], keys, spec,
                                      **{**options, **{name: x[q0:q1] for name, x in by_query.items()}})[0]
            out[b, :, row:row + q1 - q0, column:column + k1 - k0] = found[..., dropped:]
    return out

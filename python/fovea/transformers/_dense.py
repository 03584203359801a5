"""Dense masks, of all pairs: what they say, and attention under those that are no list of ranges. Exact, but slower, and of
O(n^2) memory: hidden pairs become lists of the visible keys, and biases become coordinates of longer queries and keys."""
import sys
from dataclasses import dataclass

import torch

from .._functional import attention, attention_weights, properties
from ._imports import constant_result
from ._masks import Ranges, is_encoded, ranges_of


@constant_result
def _cuts():
    """Whether models cut masks that are longer than their keys: in transformers 4."""
    return getattr(sys.modules.get("transformers"), "__version__", "5").startswith("4.")


@dataclass
class Dense:
    """Which pairs may meet, bool, and what is added to their scores; either may be None. Both [B or 1, H or 1, N_q or 1,
    N_k or 1]."""
    allowed: torch.Tensor | None
    bias: torch.Tensor | None

    def with_bias(self, bias):
        allowed = self.allowed if self.allowed is None or self.allowed.dim() == 4 else self.allowed[None, None]
        return Dense(allowed, bias if self.bias is None else self.bias + bias)


def _check_shape(mask, query, k_length):
    batch, heads, q_length, _ = query.shape
    wanted = (batch, heads, q_length, k_length)
    if mask.dim() == 4 and all(size in (1, most) for size, most in zip(mask.shape, wanted)):
        return
    raise ValueError(f"fovea: the attention mask has shape {list(mask.shape)}; expected [{batch}, {k_length}], or "
                     f"[{batch}, 1, {q_length}, {k_length}] of all pairs, where {heads} may stand for 1")


def _check_values(bias):
    """NaN and infinity would make NaN of whole rows."""
    message = "fovea: the attention mask holds NaN or infinity; expected numbers to add to scores, or -inf for hidden pairs"
    finite = (bias < torch.inf).all()
    if torch.compiler.is_compiling():
        torch._assert_async(finite, message)
    elif not bool(finite):
        raise ValueError(message)


def dense_of(mask, query, k_length):
    """The Dense of a mask of four dimensions: bool, True for visible pairs, or added to scores, where the least number of
    the mask's or the query's type and -inf hide a pair."""
    if mask.dim() == 4 and mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(f"fovea: the attention mask is of four dimensions and {mask.dtype}; expected bool, True for visible "
                         "pairs, a floating type, which is added to scores, or what create_causal_mask made for "
                         f"{query.size(0)} rows")
    if mask.dim() == 4 and _cuts():
        mask = mask[..., :k_length]
    _check_shape(mask, query, k_length)
    if mask.dtype == torch.bool:
        return Dense(mask, None)
    least = {torch.finfo(mask.dtype).min, torch.finfo(query.dtype).min}
    hidden = mask == -torch.inf
    for value in least:
        hidden = hidden | (mask == value)
    bias = mask.masked_fill(hidden, 0)
    _check_values(bias)
    # Zeros that are learned are a bias that has just begun.
    adds = mask.requires_grad or torch.compiler.is_compiling() or bool((bias != 0).any())
    return Dense(~hidden, bias if adds else None)


def _ranges(dense, query, k_length):
    """The Ranges of a mask without biases, None if it has none."""
    allowed = dense.allowed
    if dense.bias is not None or allowed.size(1) != 1 or torch.compiler.is_compiling():
        return None
    batch, _, q_length, _ = query.shape
    allowed = allowed[:, 0].expand(batch, q_length, k_length)
    valid = allowed.any(1)
    rising = (valid[:, 1:] & ~valid[:, :-1]).sum(1) + valid[:, 0]
    if bool((rising > 1).any()):
        return None
    if torch.equal(valid[:, None, :].expand_as(allowed), allowed):
        return ranges_of(valid, None, q_length, 0, False)
    first = k_length - q_length
    if first < 0:
        return None
    earlier = torch.ones(q_length, k_length, dtype=torch.bool, device=allowed.device).tril(first)
    # A query whose own place is hidden gets zeros from ranges.
    expected = valid[:, None, :] & earlier & valid[:, first:, None]
    return ranges_of(valid, None, q_length, first, True) if torch.equal(expected, allowed) else None


def _of_rows(mask, query, k_length, causal):
    """The Ranges of a mask [B, N_k] of the keys that are no padding."""
    if mask.dtype != torch.bool:
        message = f"fovea: the attention mask is of two dimensions and holds other numbers than 0 and 1 ({mask.dtype})"
        fits = ((mask == 0) | (mask == 1)).all()
        if torch.compiler.is_compiling():
            torch._assert_async(fits, message)
        elif not bool(fits):
            raise ValueError(message + "; expected 1 for tokens and 0 for padding")
    valid = mask.to(torch.bool)
    first = k_length - query.size(2) if causal else 0
    if first < 0:
        raise ValueError(f"fovea: the attention mask is for {k_length} keys, and the layer is causal and has {query.size(2)} "
                         "queries; expected at least as many keys")
    rising = (valid[:, 1:] & ~valid[:, :-1]).sum(1) + valid[:, 0]
    if not torch.compiler.is_compiling() and bool((rising > 1).any()):
        places = torch.arange(k_length, device=mask.device)
        earlier = places <= places[first:, None] if causal else True
        return Dense((valid[:, None, :] & earlier)[:, None], None)
    return ranges_of(valid, None, query.size(2), first, causal)


def _read_ranges(mask, query, k_length):
    """Reads a mask of Ranges.encode. Ranges over a single key a row stand for all keys, as masks of pairs that
    broadcast."""
    batch, q_length = query.size(0), query.size(2)
    if torch.compiler.is_compiling():
        return Ranges.decode(mask, q_length, k_length)
    try:
        return Ranges.decode(mask, q_length, k_length)
    except ValueError:
        if Ranges.lengths(mask) != (batch * q_length, batch):
            raise
    rows = mask[0, 0]
    seen = torch.repeat_interleave(rows[1].diff() > 0, rows[0 if Ranges.is_causal(mask) else 2].diff())
    dense = Dense(seen.view(batch, 1, q_length, 1).to(query.device), None)
    return _ranges(dense, query, k_length) or dense


def read_mask(mask, query, key, causal):
    """Reads a layer's attention mask: Ranges, Dense, or None without a mask.

    Raises:
        ValueError: the mask is of other lengths than the layer's queries and keys, or of another type.
    """
    if mask is None:
        return None
    if not isinstance(mask, torch.Tensor):
        raise ValueError(f"fovea: the attention mask is of type {type(mask).__name__}; expected a tensor")
    batch, k_length = query.size(0), key.size(2)
    if is_encoded(mask, batch):
        return _read_ranges(mask, query, k_length)
    if mask.dim() == 2 and mask.shape == (batch, k_length):
        return _of_rows(mask, query, k_length, causal)
    dense = dense_of(mask, query, k_length)
    return _ranges(dense, query, k_length) or dense


def _pairs(ranges, query, k_length):
    """The pairs that Ranges let meet, [B, 1, N_q, N_k] bool."""
    batch, q_length = query.size(0), query.size(2)
    by_place = ranges.causal or ranges.window
    q_offsets, k_offsets = (ranges.queries if by_place else ranges.every).cpu(), ranges.keys.cpu()
    sequences = torch.arange(q_offsets.numel() - 1, device="cpu")
    of_query = torch.repeat_interleave(sequences, q_offsets.diff(), output_size=batch * q_length)
    of_key = torch.repeat_interleave(sequences, k_offsets.diff(), output_size=batch * k_length)
    allowed = of_query.view(batch, q_length, 1) == of_key.view(batch, 1, k_length)
    if by_place:
        last = k_offsets.diff() - q_offsets.diff()  # a sequence's first query stands at this key of it
        query_place = torch.arange(batch * q_length, device="cpu") + (last - q_offsets[:-1])[of_query]
        key_place = torch.arange(batch * k_length, device="cpu") - k_offsets[:-1][of_key]
        ahead = key_place.view(batch, 1, k_length) - query_place.view(batch, q_length, 1)
        if ranges.causal:
            allowed &= ahead <= 0
        if ranges.window:
            allowed &= ahead > -ranges.window if ranges.causal else ahead.abs() <= ranges.window
    return allowed[:, None].to(query.device)


def with_position_bias(mask, bias, query, key, causal):
    """The Dense of what a layer's mask says and a bias of all pairs, which is added to the scores."""
    k_length = key.size(2)
    _check_shape(bias, query, k_length)
    _check_values(bias)
    if mask is None and causal and query.size(2) > 1:
        places = torch.arange(k_length, device=query.device)
        return Dense(places <= places[:query.size(2), None], None).with_bias(bias)
    if mask is None:
        return Dense(None, bias)
    if isinstance(mask, Ranges):
        mask = Dense(_pairs(mask, query, k_length), None)
    return mask.with_bias(bias)


def allowed_pairs(mask, query, k_length):
    """[B, N_q, N_k] bool of a dense mask that only hides pairs, the same under all heads."""
    dense = dense_of(mask, query, k_length)
    if dense.allowed.size(1) != 1 or dense.bias is not None and bool((dense.bias != 0).any()):
        raise NotImplementedError("fovea: the model's indexer chooses the keys of this layer, and its attention mask differs "
                                  "by head or adds to scores; load the model with attn_implementation='eager'")
    return dense.allowed[:, 0].expand(query.size(0), query.size(2), k_length)


def _with_bias(query, key, bias, scale):
    """Queries and keys whose products are the scaled scores plus the bias, in float32 or wider."""
    scale = query.size(-1) ** -0.5 if scale is None else scale
    kind = torch.promote_types(torch.promote_types(query.dtype, bias.dtype), torch.float32)
    query, key, bias = query.to(kind) * scale, key.to(kind), bias.to(kind)
    k_length = key.size(2)
    if bias.size(1) == 1 and bias.size(2) == 1:  # one number a key
        ones = query.new_ones(*query.shape[:3], 1)
        per_key = bias.transpose(2, 3).expand(key.size(0), key.size(1), k_length, 1)
        return torch.cat([query, ones], -1), torch.cat([key, per_key], -1)
    units = torch.eye(k_length, dtype=kind, device=key.device).expand(*key.shape[:2], -1, -1)
    return torch.cat([query, bias.expand(*query.shape[:3], k_length)], -1), torch.cat([key, units], -1)


def _lists(allowed, query, key):
    """Options of fovea.attention for the visible keys."""
    batch, q_length = query.size(0), query.size(2)
    places = torch.arange(key.size(2), dtype=torch.int32, device=key.device)
    if allowed.size(1) == 1:
        return {"indices": places.where(allowed[:, 0], -1).expand(batch, q_length, -1)}
    return {"block_indices": places.where(allowed, -1).expand(batch, -1, q_length, -1), "block_size": 1}


@constant_result  # texts are read when a graph is made
def _is_capped(spec):
    return "softcap" in properties(spec)


def dense_attention(qkv, dense, spec, options, wants_weights):
    """(output [B, N_q, H, D_v], weights) of attention under a dense mask.

    Args:
        options (dict): scale, dropout and the like of fovea.attention.
    """
    query, key, value = qkv
    options, kind = dict(options), query.dtype
    if dense.allowed is not None:
        if dense.allowed.size(1) not in (1, key.size(1)):
            share = query.size(1) // key.size(1)
            key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
        options |= _lists(dense.allowed, query, key)
    if dense.bias is not None:
        if _is_capped(spec):
            raise NotImplementedError(f"fovea: '{spec}' caps scores before a mask or a position bias adds to them, which is not "
                                      "supported; pass a mask that only hides pairs, or load the model with "
                                      "attn_implementation='eager'")
        query, key = _with_bias(query, key, dense.bias, options.get("scale"))
        value = value.to(query.dtype)
        options["scale"] = 1.0
    options["enable_gqa"] = key.size(1) != query.size(1)
    # Autocast would round the biases to half precision.
    with torch.autocast(query.device.type, enabled=dense.bias is None and torch.is_autocast_enabled(query.device.type)):
        out = attention(query, key, value, spec, **options).transpose(1, 2)
        options.pop("dropout", None)
        weights = attention_weights(query, key, spec, **options).to(kind) if wants_weights else None
    return out.to(out.dtype if dense.bias is None else kind).contiguous(), weights

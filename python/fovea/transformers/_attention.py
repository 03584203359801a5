"""The attention function that transformers calls: fn(module, query, key, value, mask, **kwargs) -> (output, weights)."""
import sys

import torch

from .._functional import attention, attention_weights, properties
from . import _cross
from ._chosen import chosen_attention, dense_weights
from ._dense import Dense, dense_attention, read_mask, with_position_bias
from ._dropped import attention_after_dropped, needs_dropped, weights_after_dropped
from ._imports import constant_result
from ._indexed import listed_blocks, with_indices, within_blocks
from ._names import chosen_keys, has_pattern, with_stages, within

# Arguments that change what attention computes, and what they are.
_REFUSED = {"head_mask": "head masks", "cache": "paged caches"}

calls = 0  # of the function, in this process; models that accept a name and never call it are found by it


def _count():
    global calls
    calls += 1


@constant_result  # texts are read when a graph is made
def _resolved(spec, window, stages):
    """The spec within a window of so many keys (0: none), with the stages of the model, and its properties."""
    spec = within(spec, f"window({window})") if window else spec
    spec = with_stages(spec, stages) if stages else spec
    return spec, properties(spec)


def _sinks_of(module, query, kwargs):
    """The stage of the attention sinks that the model passes, and their options of fovea.attention; "" without sinks. A
    sink c of each query is the sink 0 beside scores that are all less by c."""
    sinks = kwargs.get("s_aux") if kwargs.get("s_aux") is not None else kwargs.get("sinks")
    if sinks is None:
        return "", {}
    if sinks.shape == query.shape[1:2]:
        return "sink", {"sinks": sinks}
    if sinks.shape == (*query.shape[:3], 1):
        return "sink(0)", {"offset_bias": -sinks.to(torch.promote_types(sinks.dtype, torch.float32))}
    raise ValueError(f"fovea: {type(module).__name__} passes attention sinks of shape {list(sinks.shape)}; expected "
                     f"[{query.size(1)}], one a head, or {[*query.shape[:3], 1]}, one a query")


def _stages_of(module, query, kwargs):
    """The stages that the model adds to a spec, a tuple of texts: a soft cap of the scores, and sinks with their options."""
    sink, of_sinks = _sinks_of(module, query, kwargs)
    cap = kwargs.get("softcap")
    if cap is not None and not isinstance(cap, (int, float)):
        raise TypeError(f"fovea: {type(module).__name__} passes a softcap of type {type(cap).__name__}; expected a number")
    return tuple(stage for stage in ("" if cap is None else f"softcap({cap})", sink) if stage), of_sinks


def _by_tokens(options):
    """The options for packed queries."""
    bias = options.get("offset_bias")
    return options if bias is None else {**options, "offset_bias": _tokens(bias)}


def _layer(module, mechanism):
    if not mechanism.by_layer:
        return 0
    layer = getattr(module, "fovea_layer", getattr(module, "layer_idx", None))
    if layer is None:
        raise ValueError(f"fovea: '{mechanism.name}' names layers, and {type(module).__name__} has no layer_idx; "
                         "call fovea.sparsify(model, ...), which numbers them")
    return layer


def _wants_weights(kwargs):
    if kwargs.get("output_attentions"):
        return True
    capturing = sys.modules.get("transformers.utils.output_capturing")
    collector = capturing._active_collector.get() if capturing else None
    return collector is not None and any("attentions" in key for key in collector)


def _tokens(x):
    """[B, H, N, D] as rows [B N, H, D], a view where the strides allow one."""
    return x.transpose(1, 2).flatten(0, 1)


def _check(module, query, key, kwargs):
    for name, what in _REFUSED.items():
        if kwargs.get(name) is not None:
            raise NotImplementedError(f"fovea: {type(module).__name__} passes {name}, and {what} are not supported; load "
                                      "the model with attn_implementation='eager'")
    if not key.is_floating_point() and _narrow_layer(key) is None:
        raise ValueError(f"fovea: {type(module).__name__} hands on keys of {key.dtype}, so it has changed what a NarrowCache gave it; "
                         "use DynamicCache")
    if query.dtype == torch.float16 and query.device.type == "cpu":
        raise ValueError("fovea: float16 on a CPU is not supported; load the model in bfloat16 or float32")


def _key_rows(x):
    """The rows of [B, H, N, D] where they are, and how many rows lie between two batch rows: for calls without
    gradients, so that a cache is not copied at each step."""
    batch, heads, length, width = x.shape
    token = x.stride(2)
    if batch == 1 or token == 0 or x.stride(0) % token:
        return _tokens(x), length
    step = x.stride(0) // token
    return x.as_strided(((batch - 1) * step + length, heads, width), (token, x.stride(1), x.stride(3))), step


def _by_ranges(query, key, value, spec, ranges, aligned, options):
    q_offsets = ranges.queries if aligned else ranges.every
    batch, length = key.size(0), key.size(2)
    options, inputs = _by_tokens(options), (query, key, value, options.get("sinks"), options.get("offset_bias"))
    grads = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    if grads or torch.compiler.is_compiling() or batch == 1 or key.shape[-1] != value.shape[-1]:
        return attention(_tokens(query), _tokens(key), _tokens(value), spec, q_offsets=q_offsets, k_offsets=ranges.keys,
                         **options)
    (k, step), (v, v_step) = _key_rows(key), _key_rows(value)
    if step != v_step:
        (k, step), v = (_tokens(key), length), _tokens(value)
    begins, ends = ranges.keys[:-1], ranges.keys[1:]
    rows = (begins // length).clamp(max=batch - 1)
    return attention(_tokens(query), k, v, spec, q_offsets=q_offsets, k_begins=begins + rows * (step - length),
                     k_lengths=ends - begins, **options)


def _narrow_layer(key):
    """The layer of a NarrowCache whose numbers these keys are, not yet what they stand for; None of other keys."""
    found = getattr(key, "_fovea_layer", None)
    layer = None if found is None else found()
    return layer if hasattr(layer, "attend") else None


def _step(query, key, value, spec, ranges, aligned, scale):
    """The output of a step over a cache of this package, whose module is loaded if there is one; None of other calls."""
    if not hasattr(key, "_fovea_layer") or torch.compiler.is_compiling():
        return None
    if torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)):
        return None
    batch, length, narrow = key.size(0), key.size(2), _narrow_layer(key)

    def step(places):
        if narrow is not None:
            return narrow.attend(query, spec, places, scale)
        return sys.modules[f"{__package__}._cache"].step(query, key, value, spec, places, scale)

    if ranges is None:
        return step(None)
    counts = (ranges.queries if aligned else ranges.every).diff()
    has = counts > 0
    if int(has.sum()) != batch or int(counts.max()) != 1:
        return None
    begins, lengths = ranges.keys[:-1][has] - torch.arange(batch, device="cpu") * length, ranges.keys.diff()[has]
    if bool(((begins < 0) | (begins + lengths > length)).any()):
        return None
    return step((begins, lengths))


def _check_documents(ranges, given):
    """Documents that a caller names beside the mask are those of the mask."""
    if given is None or torch.compiler.is_compiling() or ranges is None and given.numel() == 2:
        return
    if ranges is not None and not isinstance(ranges, Dense) and torch.equal(ranges.keys.unique(), given.to("cpu", torch.int64)):
        return
    raise ValueError("fovea: cu_seq_lens_k names other documents than the mask; pass position_ids that restart with each "
                     "document, and no attention_mask and no cache")


def _weights(query, key, spec, ranges, aligned, options):
    """[B, H, N_q, N_k]; sequence by sequence, as rows of a batch may hold several."""
    batch, heads, q_length, _ = query.shape
    k_length = key.size(2)
    out = query.new_zeros(batch, heads, q_length, k_length)
    q, k, options = _tokens(query), _tokens(key), _by_tokens(options)
    by_query = {name: options[name] for name in ("block_indices", "offset_bias") if options.get(name) is not None}
    q_offsets, k_offsets = (ranges.queries if aligned else ranges.every).tolist(), ranges.keys.tolist()
    for (q0, q1), (k0, k1) in zip(zip(q_offsets, q_offsets[1:]), zip(k_offsets, k_offsets[1:])):
        if q0 < q1 and k0 < k1:
            b, row, column = q0 // q_length, q0 % q_length, k0 % k_length
            options = {**options, **{name: x[q0:q1] for name, x in by_query.items()}}
            out[b, :, row:row + q1 - q0, column:column + k1 - k0] = attention_weights(q[q0:q1], k[k0:k1], spec, **options)[0]
    return out


def _own_number(module, has):
    """Options of random(k), which draws by layer."""
    if "seed" not in has:
        return {}
    layer = getattr(module, "layer_idx", None)
    return {"layer": getattr(module, "fovea_layer", 0) if layer is None else layer}


def _without_mask(key, value, q_length, causal, sliding_window):
    """(key, value, window) that the queries see: as in sdpa, a static cache is filled from its begin, and one query sees
    all keys."""
    if causal and q_length > 1 and key.size(2) > q_length:
        key, value = key[:, :, :q_length], value[:, :, :q_length]
    window = 0 if not sliding_window else sliding_window if causal else sliding_window - 1
    if q_length == 1 and key.size(2) > 1 and window:
        key, value, window = key[:, :, -sliding_window:], value[:, :, -sliding_window:], 0
    return key, value, window


def _refuse_dense(module, spec):
    raise NotImplementedError(f"fovea: '{spec}' goes with masks that are causal or of padding at a row's ends, and the one of "
                              f"{type(module).__name__} is another, or a bias; choose a spec such as full or topk(32)")


def _check_places(module, spec, cross, lengths, has_places):
    """Refuses a pattern where the places of queries and keys are not known to be of one text."""
    q_length, k_length = lengths
    if cross is None:
        raise ValueError(f"fovea: '{spec}' compares positions, and {type(module).__name__} does not tell whether its keys are "
                         "of its own text; give the layer a spec without a pattern")
    if q_length != k_length and not has_places:
        raise ValueError(f"fovea: '{spec}' goes by places, and {type(module).__name__} has {q_length} queries and "
                         f"{k_length} keys, whose places no mask tells; give the layer a spec without a pattern")


def _check_chosen(module, spec, layer, ranges, sliding_window, stages):
    """Refuses dsa(k) where its indexer cannot choose."""
    if stages:
        what = "attention sinks" if stages[-1].startswith("sink") else "a soft cap of the scores"
        raise NotImplementedError(f"fovea: '{spec}' beside {what}, which {type(module).__name__} passes, is not "
                                  "supported; choose a spec such as topk(32)")
    if isinstance(ranges, Dense):
        _refuse_dense(module, spec)
    if sliding_window if ranges is None else ranges.window:
        raise NotImplementedError(f"fovea: '{spec}' on a layer with a sliding window is not supported; give layer "
                                  f"{getattr(module, 'layer_idx', layer)} another spec, such as full, its window")


def _output_and_weights(query, key, value, spec, ranges, aligned, plain, dropout, wants_weights):
    """Attention over all keys, or over the keys that `ranges` gives to each query. `plain` are the options that the weights
    have too; without `wants_weights` they are None."""
    options, (batch, _, q_length, _) = {**plain, "dropout": dropout}, query.shape
    if ranges is None:
        out = attention(query, key, value, spec, **options).transpose(1, 2)
        weights = attention_weights(query, key, spec, **plain) if wants_weights else None
    elif needs_dropped(spec, ranges):
        out = attention_after_dropped((query, key, value), spec, ranges, _by_tokens(options)).unflatten(0, (batch, q_length))
        weights = weights_after_dropped(query, key, spec, ranges, _by_tokens(plain)) if wants_weights else None
    else:
        out = _by_ranges(query, key, value, spec, ranges, aligned, options).unflatten(0, (batch, q_length))
        weights = _weights(query, key, spec, ranges, aligned, plain) if wants_weights else None
    return out.contiguous(), weights


def function(mechanism):
    """The attention function of a Mechanism."""
    def spec_of(layer, window, cross, stages):
        """The spec of a layer and its properties. Cross-attention takes that of the other layers instead of a pattern."""
        spec, has = _resolved(mechanism.spec(layer), window, stages)
        if not cross or "positional" not in has:
            return spec, has
        spec, has = _resolved(mechanism.rest, 0, stages)
        if "positional" in has:
            raise ValueError(f"fovea: cross-attention cannot take '{spec}', which compares positions; give the other "
                             "layers (*) a spec without a pattern")
        return spec, has

    def fovea_attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None,
                        sliding_window=None, **kwargs):
        if not torch.compiler.is_compiling():
            _count()
        _check(module, query, key, kwargs)
        batch, heads, q_length, _ = query.shape
        if key.size(0) != batch and key.size(0) == 1:  # one row of keys for all
            key, value = key.expand(batch, -1, -1, -1), value.expand(batch, -1, -1, -1)
        layer, cross, wants_weights = _layer(module, mechanism), _cross.known(module, kwargs), _wants_weights(kwargs)
        stages, of_sinks = _stages_of(module, query, kwargs)
        narrow, special = _narrow_layer(key), ("indices", "position_bias", "block_indices")
        if narrow is not None and (cross or wants_weights or dropout or sliding_window or stages or
                                   mechanism.spec(layer) != "full" or any(kwargs.get(name) is not None for name in special)):
            key, value = narrow.wide()
        causal = not cross and bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        options = {"scale": scaling, "dropout": dropout, **of_sinks}
        if kwargs.get("indices") is not None:
            spec, has = _resolved(mechanism.spec(layer), 0, stages)
            return with_indices((query, key, value), attention_mask, kwargs["indices"], (spec, has),
                                {**options, **_own_number(module, has)}, wants_weights, getattr(module, "config", None))
        ranges = read_mask(attention_mask, query, key, causal)
        if kwargs.get("position_bias") is not None:
            ranges = with_position_bias(ranges, kwargs["position_bias"], query, key, causal)
        _check_documents(ranges, kwargs.get("cu_seq_lens_k"))
        blocks = kwargs.get("block_indices")
        chosen = chosen_keys(mechanism.spec(layer))
        if chosen is not None:
            _check_chosen(module, mechanism.spec(layer), layer, ranges, sliding_window, stages)
        elif isinstance(ranges, Dense):
            key, value = (key, value) if narrow is None else narrow.wide()
            ranges = ranges if blocks is None else within_blocks(module, ranges, blocks, query, key)
            spec, has = spec_of(layer, 0, cross, stages)
            if has_pattern(has):
                _refuse_dense(module, spec)
            return dense_attention((query, key, value), ranges, spec, {**options, **_own_number(module, has)}, wants_weights)
        if ranges is None:
            key, value, window = _without_mask(key, value, q_length, causal, 0 if cross else sliding_window)
            step, causal = causal and q_length == 1, causal and q_length > 1
        else:
            step, causal, window = False, ranges.causal, ranges.window
        if chosen is not None:
            out, indices = chosen_attention(module, query, key, value, chosen, ranges=ranges, causal=causal, scale=scaling,
                                            dropout=dropout)
            return out, dense_weights(query, key, indices, scaling) if wants_weights else None
        if cross and window:
            raise NotImplementedError(f"fovea: {type(module).__name__} passes a window over another text, which is not "
                                      "supported; load the model with attn_implementation='eager'")
        window = 0 if not window else window if causal else 2 * window + 1
        spec, has = spec_of(layer, window, cross, stages)
        positional = "positional" in has
        causal = causal or step and positional  # one query stands at the last key
        if not causal and (positional or ranges is not None and cross is False and has_pattern(has)):
            _check_places(module, spec, cross, (q_length, key.size(2)), ranges is not None and ranges.placed)
        aligned = causal or positional
        plain = {"causal": causal, "cross": not aligned and ranges is not None and "offset_bias" not in of_sinks,
                 "scale": scaling, **of_sinks, "enable_gqa": key.size(1) != heads, **_own_number(module, has)}
        if blocks is not None:
            plain |= listed_blocks(module, blocks, ranges, key.size(2))
        plainly = not (wants_weights or dropout) and blocks is None and not stages
        screened = _step(query, key, value, spec, ranges, aligned, scaling) if plainly else None
        if screened is not None:
            return screened, None
        key, value = (key, value) if narrow is None else narrow.wide()
        return _output_and_weights(query, key, value, spec, ranges, aligned, plain, dropout, wants_weights)

    return fovea_attention

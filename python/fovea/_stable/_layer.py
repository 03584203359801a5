"""fovea::attention and fovea::attention_weights: a layer's head groups through fovea::attention_forward, routed ones by
_routed, those of blocktopk with the lists of fovea::block_topk, then the norm over their heads."""
import contextlib

import torch

from . import _ask, _core, _norm, _reference, _routed
from ._checks import in_library, sqrt_scale, term_type

_VECTORS = ("q_offsets", "k_offsets", "k_begins", "k_tokens", "q_lengths", "k_lengths")
# In the order of src/fovea/stable/check.cc.
_CHECKED = ("alpha", "sinks", "gain", "gate", "bias", *_VECTORS, "drawn_seed", "offset_bias", "offset_queries", "offset_rows",
            "offset_values", "indices", "block_indices")
_DEFAULTS = {**dict.fromkeys(_CHECKED), "kind": "self", "scale": None, "dropout": 0.0, "seed": 0, "layer": 0,
             "dropout_seed": 0, "offset_first": 0, "offset_rows_first": 0, "offset_values_first": 0, "block_size": 128}


def _check(q, k, v, spec, options, enable_gqa):
    """Refuses what does not go together. The library tells of it, for what is traced by tensors of sizes alone."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.is_nested:
            _ask.refuse("layout", name, "nested")
    tensors = [options[name] for name in _CHECKED]
    records = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in
                                               (q, k, v, options["alpha"], options["sinks"]))
    rest = spec, options["kind"], options["scale"], options["block_size"], bool(enable_gqa), records
    in_library(_check_layer, [q, k, v, *tensors], *rest)


def _check_layer(tensors, *rest):
    q, k, v, *tensors = tensors
    torch.ops.fovea.kernel_check(q, k, v, tensors, *rest)


def fake_counts(query, key, spec, kind, q_lengths, k_lengths, heads, stream):
    return query.new_empty((query.size(0), query.size(1), heads), dtype=torch.float32, device="cpu")


def _inner_sizes(q):
    """torch.compile first sees a call as one operator, in whose result no list's length appears: it then asks where that
    length has gone. While it records the operators below, lists are results themselves."""
    records = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None
    sizes = getattr(getattr(q, "fake_mode", None), "shape_env", None)
    return contextlib.nullcontext() if records or sizes is None else sizes.ignore_fresh_unbacked_symbols()


def _padded(x, width):
    missing = width - x.size(-1)
    return torch.nn.functional.pad(x, (0, missing)) if missing > 0 else x


def _one_width(q, k, v, options):
    """q, k and v of one width: zeros behind q and k leave the scores as they are, and those behind v give zeros. Pads the
    terms of `options` too."""
    width, value_width = q.size(-1), v.size(-1)
    if value_width == width:
        return q, k, v
    wide = max(width, value_width)
    for name in ("offset_queries", "offset_rows", "offset_values"):
        if options[name] is not None:
            options[name] = _padded(options[name], wide)
    return _padded(q, wide), _padded(k, wide), _padded(v, wide)


def share_lengths(q, k, compares, q_lengths, k_lengths):
    """In self-attention, padding among the queries is padding among the keys, so lengths that are given for one of them
    hold for both. Otherwise positions would be counted from the end of the padding."""
    if compares and q.dim() == 4 and (q_lengths is None) != (k_lengths is None) and q.size(2) == k.size(2):
        q_lengths = k_lengths = k_lengths if q_lengths is None else q_lengths
    return q_lengths, k_lengths


def _learned_numbers(layer, alpha, sinks):
    """Returns the numbers that the transforms learn, one for each head. Calls below have them as alpha."""
    if alpha is None or sinks is None:
        return sinks if alpha is None else alpha
    heads = [group.heads for group in layer.groups]
    own = (sinks if _ask.parts(group.spec).transform == "sink" else alpha for group in layer.groups)
    return torch.cat([x.split(heads)[i].to(torch.promote_types(x.dtype, torch.float32)) for i, x in enumerate(own)])


class _LayerCall:
    """The inputs of all heads, of one width, and the calls of the head groups."""

    def __init__(self, q, k, v, layer, enable_gqa, options):
        self.q, self.k, self.v, self.layer, self.options = q, k, v, layer, options
        self.learned = _learned_numbers(layer, options["alpha"], options["sinks"])
        self.share = q.size(1) // k.size(1) if enable_gqa and q.size(1) != k.size(1) else 1
        compares = options["kind"] == "causal" or (options["kind"] == "self" and layer.positional)
        lengths = share_lengths(q, k, compares, options["q_lengths"], options["k_lengths"])
        self.vectors = [x if x is None else x.contiguous() for x in (*(options[name] for name in _VECTORS[:4]), *lengths)]
        self.lists = options["indices"] if options["block_indices"] is None else options["block_indices"]
        self.block = 1 if options["block_indices"] is None else options["block_size"]
        bias = options["offset_bias"]
        by_head = bias is not None and bias.dim() == 2
        kind = term_type(q)
        self.terms = [None if x is None else x.to(dtype) for x, dtype in
                      ((bias if by_head else None, kind), (None if by_head else bias, kind),
                       (options["offset_queries"], q.dtype), (options["offset_rows"], q.dtype))]
        first = options["offset_first"]
        self.offsets = [first if by_head else 0, 0 if by_head else first, options["offset_rows_first"],
                        options["offset_values_first"]]

    def calls(self):
        """(run, q, k, v, the further arguments of fovea::attention_forward, offset_values) of the runs of head groups."""
        runs, first = self.layer.runs, 0
        alone = len(runs) == 1
        # Splits once, because the gradient of one split is one concatenation.
        queries = [self.q] if alone else self.q.split([run.heads for run in runs], 1)
        for run, q in zip(runs, queries):
            k, v = (x if alone else self._key_heads(x, first, run.heads) for x in (self.k, self.v))
            yield run, q, k, v, *self._arguments(run, first, q, k)
            first += run.heads

    def _key_heads(self, x, first, count):
        begin = first // self.share
        return x.narrow(1, begin, (first + count - 1) // self.share + 1 - begin)

    def _chosen(self, choice, q, k, first):
        """The lists of blocks of a head group."""
        if q.size(1) % k.size(1) or first % self.share:  # the group begins or ends among heads that share keys
            k = k.index_select(1, (torch.arange(q.size(1), device=k.device) + first % self.share) // self.share)
        q_offsets, k_offsets, k_begins, k_tokens, q_lengths, k_lengths = self.vectors
        with _inner_sizes(q):
            return torch.ops.fovea.block_topk(q, k, choice.block, choice.best, causal=self.options["kind"] == "causal",
                                              bounds=choice.bounds, q_offsets=q_offsets, k_offsets=k_offsets,
                                              lengths=q_lengths, k_begins=k_begins, k_tokens=k_tokens, k_lengths=k_lengths)

    def _arguments(self, run, first, q, k):
        options, heads = self.options, self.q.size(1)

        def own(x, dim):
            return x if x is None or x.size(dim) != heads or run.heads == heads else x.narrow(dim, first, run.heads)

        lists, block = self.lists, self.block
        if run.choice:
            lists, block = self._chosen(run.choice, q, k, first), run.choice.block
        elif lists is not None and lists.dim() == self.q.dim() and run.heads != heads:
            of_keys = lists.size(1) == self.k.size(1)
            lists = self._key_heads(lists, first, run.heads) if of_keys else own(lists, 1)
        # Clusters keep no offsets, so routed heads have no terms.
        terms = [None] * 4 if run.routed else [own(x, dim) for x, dim in zip(self.terms, (0, 1, 1, 1))]
        values = None if run.routed else own(options["offset_values"], 1)
        alpha = own(self.learned, 0) if run.reads_alpha else None
        stream = [options["seed"], options["layer"], first, self.share, 0 if lists is None else block]
        return (alpha, terms, [*self.offsets, 0 if values is None else values.size(0)],
                [*self.vectors, options["drawn_seed"], lists], run.spec, options["kind"], float(options["scale"]),
                float(options["dropout"]), stream, options["dropout_seed"]), values


def _with_values(out, sums, values):
    """out + sums . values."""
    rows = values.to(sums.dtype).transpose(0, 1)  # [H or 1, count, D]
    product = (sums.transpose(0, 1) @ rows).transpose(0, 1) if out.dim() == 3 else sums @ rows
    return out + product.to(out.dtype)


def _concatenated(outputs):
    """Heads lie side by side in memory in both layouts: concatenated this way, the norm and the projection need no copy."""
    if len(outputs) == 1:
        return outputs[0]
    if outputs[0].dim() == 3:
        return torch.cat(outputs, -2)
    return torch.cat([x.transpose(1, 2) for x in outputs], -2).transpose(1, 2)


def attention(q, k, v, spec="full", *, enable_gqa=False, **given):
    options = {**_DEFAULTS, **given}
    _check(q, k, v, spec, options, enable_gqa)
    layer, scale, width, value_width = _ask.layer(spec, int(q.size(1))), options["scale"], q.size(-1), v.size(-1)
    options["scale"] = sqrt_scale(width) if scale is None else scale
    call = _LayerCall(*_one_width(q, k, v, options), layer, enable_gqa, options)
    outputs = []
    for run, *x, arguments, values in call.calls():
        if run.routed:
            outputs.append(_routed.attention(*x, arguments, width, scale))
            continue
        out, _stats, _kept, sums = torch.ops.fovea.attention_forward(*x, *arguments, False)
        outputs.append(out if values is None else _with_values(out, sums, values))
    out = _concatenated(outputs)
    if out.size(-1) != value_width:
        out = out.narrow(-1, 0, value_width)
    return _norm.over_heads(layer.norm, out, options["gain"], options["gate"], options["bias"])


def attention_weights(q, k, spec="full", *, enable_gqa=False, **given):
    options = {**_DEFAULTS, **given}
    with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
        _check(q, k, k, spec, options, enable_gqa)
        scale = options["scale"]
        options["scale"] = sqrt_scale(q.size(-1)) if scale is None else scale
        weights = []
        for run, *x, arguments, _ in _LayerCall(q, k, k, _ask.layer(spec, int(q.size(1))), enable_gqa, options).calls():
            if run.routed:
                weights.append(_routed.weights(*x[:2], arguments, scale))
            else:
                weights += [_reference.weights(own) for _, own in _core.checked(*x, *arguments).groups()]
        return torch.cat(weights, 1) if len(weights) > 1 else weights[0]

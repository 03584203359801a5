"""fovea::attention and fovea::attention_weights: a layer's head groups, each through fovea::attention_forward, then the
norm over their heads."""
import torch

from . import _ask, _norm, _reference, _routed
from ._checks import check_inputs, check_lists, check_options, fail, shape, sqrt_scale, term_type, type_name
from ._problem import Call

_USUAL_BLOCK = 128


def _key_share(q, k, enable_gqa):
    """How many heads of q read one head of k."""
    if not enable_gqa or q.is_nested or k.is_nested or q.dim() < 3 or k.dim() != q.dim() or q.size(1) == k.size(1):
        return 1
    if k.size(1) < 1 or q.size(1) % k.size(1):
        fail(f"q has {q.size(1)} heads and k {k.size(1)}; with enable_gqa expected a number of heads of k that divides that "
             "of q")
    return q.size(1) // k.size(1)


def _padded(x, width):
    missing = width - x.size(-1)
    return torch.nn.functional.pad(x, (0, missing)) if missing > 0 else x


def _one_width(q, k, v, options):
    """q, k and v of one width: zeros behind q and k leave the scores as they are, and those behind v give zeros. Pads the
    terms of `options` too, and fills in the scale of the unpadded width."""
    if any(x.is_nested for x in (q, k, v)) or q.dim() < 3 or v.dim() != k.dim():
        return q, k, v, 0  # check_inputs() refuses these
    width, value_width = q.size(-1), v.size(-1)
    if value_width == width or k.shape[:-1] != v.shape[:-1] or k.size(-1) != width:
        return q, k, v, value_width
    if options["scale"] is None:
        options["scale"] = sqrt_scale(width)
    wide = max(width, value_width)
    for name in ("offset_queries", "offset_rows", "offset_values"):
        if options[name] is not None:
            options[name] = _padded(options[name], wide)
    return _padded(q, wide), _padded(k, wide), _padded(v, wide), value_width


def _pair_lists(indices, block_indices, block_size):
    """The lists and the keys of a block."""
    if indices is not None and block_indices is not None:
        fail("got indices and block_indices; expected one of them, as each names all pairs of a query")
    if block_indices is None and block_size != _USUAL_BLOCK:
        fail(f"got block_size {block_size} without block_indices; leave it out")
    return (indices, 1) if block_indices is None else (block_indices, block_size)


def _check_offset_terms(q, bias, values, value_width):
    if bias is not None and bias.dim() == 2 and bias.size(0) != q.size(1) or bias is not None and bias.dim() < 2:
        fail(f"offset_bias has shape {shape(bias)}; expected [{q.size(1)}, offsets] or q's shape with the offsets in place of "
             f"D, for q of shape {shape(q)}")
    if values is None:
        return
    fits = (values.dim() == 3 and values.size(0) > 0 and values.size(2) == value_width
            and (values.size(1) == 1 or values.size(1) == q.size(1)))
    if not (fits and values.is_floating_point() and values.device == q.device):
        fail(f"offset_values is {type_name(values)} {shape(values)} on {values.device}; expected [offsets, H or 1, D] on "
             f"{q.device} for q of shape {shape(q)}")


class _LayerCall:
    """The checked inputs of all heads, and those of each head group."""

    def __init__(self, q, k, v, spec, share, options):
        self.q, self.k, self.v, self.share, self.options = q, k, v, share, options
        check_inputs(q, k, v, share)
        check_options(q, k, v, options)
        self.layer = _ask.layer(spec, int(q.size(1)))
        for name, reads in self.layer.reads._asdict().items():
            if options.get(name) is not None and not reads:
                fail(f"got {name}, which '{spec}' does not have; leave it out")
        self._share_lengths()
        self.vectors = [None if options[name] is None else options[name].contiguous()
                        for name in ("q_offsets", "k_offsets", "k_begins", "k_tokens", "q_lengths", "k_lengths")]
        if options["scale"] is None:
            options["scale"] = sqrt_scale(q.size(-1))
        self.lists, self.block = _pair_lists(options["indices"], options["block_indices"], options["block_size"])
        if self.lists is not None:
            check_lists(self.lists, self.block, q, k, options["block_indices"] is not None)
        bias = options["offset_bias"]
        by_head = bias is not None and bias.dim() == 2
        self.terms = [bias if by_head else None, None if by_head else bias, options["offset_queries"], options["offset_rows"]]
        self.firsts = [options["offset_first"] if by_head else 0, 0 if by_head else options["offset_first"],
                       options["offset_rows_first"]]
        self._check_routed(spec)

    def _check_routed(self, spec):
        """Checks what heads within clusters cannot read, because the keys there have other places."""
        groups = self.layer.groups
        routed = next((group.spec for group in groups if group.routed), None)
        if routed is None:
            return
        if self.lists is not None:
            fail(f"indices and '{routed}' both choose the keys of a query; leave one of them out")
        terms = [name for name in ("offset_bias", "offset_rows", "offset_values") if self.options[name] is not None]
        if terms and all(group.routed for group in groups):
            fail(f"got {terms[0]}, which '{spec}' does not read, as clusters keep no distances; leave it out")

    def _share_lengths(self):
        """In self-attention, padding among the queries is padding among the keys, so lengths that are given for one of
        them hold for both. Otherwise positions would be counted from the end of the padding."""
        options, q, k = self.options, self.q, self.k
        compares = options["kind"] == "causal" or (options["kind"] == "self" and self.layer.positional)
        one = (options["q_lengths"] is None) != (options["k_lengths"] is None)
        if compares and q.dim() == 4 and one and q.size(2) == k.size(2):
            given = options["k_lengths"] if options["q_lengths"] is None else options["q_lengths"]
            options["q_lengths"] = options["k_lengths"] = given

    def groups(self):
        """Each head group with its inputs, the arguments of fovea::attention_forward, and its offset_values."""
        groups, first = self.layer.groups, 0
        sizes = [group.heads for group in groups]
        alone = len(groups) == 1
        # Splits once, because the gradient of one split is one concatenation.
        queries = [self.q] if alone else self.q.split(sizes, 1)
        # Query heads of two neighbouring groups may share a head of keys, so shared keys are cut group by group.
        apart = alone or self.share == 1
        keys, values = (([x] if alone else x.split(sizes, 1)) if apart else None for x in (self.k, self.v))
        for i, group in enumerate(groups):
            k = keys[i] if apart else self._key_heads(self.k, first, group.heads)
            v = values[i] if apart else self._key_heads(self.v, first, group.heads)
            yield (group, queries[i], k, v, *self._group_arguments(group, first))
            first += group.heads

    def _key_heads(self, x, first, count):
        begin = first // self.share
        return x.narrow(1, begin, (first + count - 1) // self.share + 1 - begin)

    def _group_arguments(self, group, first):
        options = self.options
        terms, firsts, values = self._group_terms(group, first)
        lists = self.lists
        if lists is not None and lists.dim() == self.q.dim():
            lists = self._key_heads(lists, first, group.heads)
        offsets = [*firsts, options["offset_values_first"], 0 if values is None else values.size(0)]
        layout = [*self.vectors, options["drawn_seed"], lists]
        stream = [options["seed"], options["layer"], first, self.share, 0 if lists is None else self.block]
        return (self._alpha(group, first), terms, offsets, layout, group.spec, options["kind"], float(options["scale"]),
                float(options["dropout"]), stream, options["dropout_seed"]), values

    def _alpha(self, group, first):
        if not group.reads_alpha:
            return None
        alpha, heads = self.options["alpha"], self.q.size(1)
        if alpha is None or alpha.dim() != 1 or alpha.size(0) != heads:
            fail(f"{group.spec} needs alpha of shape [{heads}], a value a head; got "
                 f"{'none' if alpha is None else shape(alpha)}")
        return alpha.narrow(0, first, group.heads)

    def _group_terms(self, group, first):
        """The group's terms in the types that the operator takes, where their offsets begin, and offset_values. Clusters
        keep no offsets, so routed heads have no terms."""
        if group.routed:
            return [None] * len(self.terms), [0] * len(self.firsts), None
        heads = self.q.size(1)

        def narrow(x, dim, dtype):
            if x is None:
                return None
            own = x.dim() > dim and x.size(dim) == heads and heads != group.heads
            return (x.narrow(dim, first, group.heads) if own else x).to(dtype)

        kinds = (0, term_type(self.q)), (1, term_type(self.q)), (1, self.q.dtype), (1, self.q.dtype)
        terms = [narrow(x, dim, dtype) for x, (dim, dtype) in zip(self.terms, kinds)]
        values = self.options["offset_values"]
        values = narrow(values, 1, None if values is None else values.dtype)
        firsts = [*self.firsts]
        if group.span:
            for i, dim in ((0, 1), (3, 0)):
                place = 2 if i == 3 else i
                if terms[i] is not None:
                    terms[i], firsts[place] = _cut(terms[i], dim, firsts[place], group.span)
        return terms, firsts, values


def _cut(term, dim, first, span):
    """Cuts a term to the offsets that the keys of an adaptive span can have, so that a short span costs only what it
    sees."""
    count = term.size(dim)
    begin = min(max(-span - first, 0), count - 1)
    end = min(max(-1 - first, 0), count - 1) + 1
    return term.narrow(dim, begin, end - begin), first + begin


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


def attention(q, k, v, spec="full", *, gain=None, gate=None, bias=None, enable_gqa=False, **options):
    options = {**_DEFAULTS, **options, "gain": gain, "gate": gate, "bias": bias}
    share, width, scale = _key_share(q, k, enable_gqa), q.size(-1), options["scale"]
    q, k, v, value_width = _one_width(q, k, v, options)
    call = _LayerCall(q, k, v, spec, share, options)
    _check_offset_terms(q, options["offset_bias"], options["offset_values"], q.size(-1))
    outputs = []
    for group, gq, gk, gv, arguments, values in call.groups():
        if group.routed:
            outputs.append(_routed.attention(gq, gk, gv, arguments, width, scale))
            continue
        out, _stats, _kept, sums = torch.ops.fovea.attention_forward(gq, gk, gv, *arguments, False)
        outputs.append(out if values is None else _with_values(out, sums, values))
    out = _concatenated(outputs)
    if out.size(-1) != value_width:
        out = out.narrow(-1, 0, value_width)
    return _norm.over_heads(call.layer.norm, out, gain, gate, bias)


_DEFAULTS = {"kind": "self", "q_offsets": None, "k_offsets": None, "k_begins": None, "k_tokens": None, "q_lengths": None,
             "k_lengths": None, "alpha": None, "scale": None, "dropout": 0.0, "seed": 0, "layer": 0, "dropout_seed": 0,
             "drawn_seed": None, "offset_bias": None, "offset_first": 0, "offset_queries": None, "offset_rows": None,
             "offset_rows_first": 0, "offset_values": None, "offset_values_first": 0, "indices": None,
             "block_indices": None, "block_size": _USUAL_BLOCK}


def attention_weights(q, k, spec="full", *, enable_gqa=False, **options):
    options = {**_DEFAULTS, **options}
    scale = options["scale"]
    with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
        call = _LayerCall(q, k, k, spec, _key_share(q, k, enable_gqa), options)
        _check_offset_terms(q, options["offset_bias"], None, q.size(-1))
        weights = []
        for group, gq, gk, gv, arguments, _values in call.groups():
            if group.routed:
                weights.append(_routed.weights(gq, gk, arguments, scale))
                continue
            own = Call(gq, gk, gv, *arguments, False)
            own.check_values()
            weights.append(_reference.weights(own))
        return torch.cat(weights, 1) if len(weights) > 1 else weights[0]

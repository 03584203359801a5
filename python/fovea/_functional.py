"""The operators as functions. Shapes: B sequences, H heads, N queries or keys, D head size, T tokens of all sequences."""
import numbers
import operator
import warnings
from collections import namedtuple
from typing import SupportsIndex

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from . import _device_kernels, _foreign, _library

SpecName = namedtuple("SpecName", "part name arguments help fields")
SpecField = namedtuple("SpecField", "name least greatest step keyword")


class SpecError(ValueError):
    """A spec that does not parse: the message names the column, with a caret under it, and the nearest known name."""


def _check_type(name, value, wanted, expected):
    if not isinstance(value, wanted):
        raise TypeError(f"{name} is of type {type(value).__name__}; expected {expected}")


def _told(name, *arguments):
    """The answer of an operator without tensors. Modes that record operators, such as those of torch.export, have no form for
    texts."""
    with _disable_current_modes():
        return getattr(torch.ops.fovea, name)(*arguments)


def parse(spec: str, num_heads: int | None = None) -> str:
    """The canonical text of a spec, equal for equal mechanisms: parse("full + relu+topk(8)") == "topk(8)+relu".

    Args:
        spec (str): a mechanism, or one a group of heads: "4*local(256);4*topk(8)".
        num_heads (int, optional): the heads that it is for.
    Raises:
        SpecError: the text is no spec, or one of another number of heads.
        TypeError, ValueError: an argument is of another type, or num_heads below 1.
    """
    _check_type("spec", spec, str, "a text such as 'topk(8)'")
    if num_heads is not None:
        _check_type("num_heads", num_heads, SupportsIndex, "a whole number")
        num_heads = operator.index(num_heads)
        if not 1 <= num_heads < 2**31:
            raise ValueError(f"num_heads {num_heads} is not in [1, 2^31)")
    try:
        return _told("parse", spec, num_heads)
    except RuntimeError as error:
        raise SpecError(str(error)) from None


def spec_names() -> list[SpecName]:
    """Every name that a spec may use, as (part, name, arguments, help, fields); parts: pattern, span, stage, alias.

    fields are the arguments that have to be given, each a (name, least, greatest, step, keyword): a multiple of step
    from least to greatest, or any number there where step is 0; keyword, if not empty, may stand in its place.
    """
    def field(text):
        name, least, greatest, step, keyword = text.split(":")
        number = int if int(step) else float
        return SpecField(name, number(least), number(greatest), int(step), keyword)

    names = (line.split("\t") for line in _told("spec_names"))
    return [SpecName(*texts, tuple(map(field, fields.split(","))) if fields else ()) for *texts, fields in names]


def parameters(spec: str) -> list[str]:
    """Names of the tensors that a spec needs beside q, k and v: of gain, gate and bias [H * D], alpha and
    sinks [H]."""
    parse(spec)
    return _told("parameters", spec)


def properties(spec: str) -> list[str]:
    """Returns a spec's properties among "positional", "seed", "selection", "pointwise", "norm", "head_scale",
    "input_scale", "open_bias", "gate", "span", "clauses", "centroids", "indexer", "uniform_gain" and "head_gain"."""
    parse(spec)
    return _told("properties", spec)


def _check_numbers(**values):
    """The operator would take a tensor of one element for a number, and learn nothing; of other types its text is the
    whole schema."""
    for name, value in values.items():
        if type(value) is float:
            continue
        if isinstance(value, torch.Tensor):
            raise TypeError(f"attention: {name} is a tensor; expected a number, which is not learned")
        if not torch.compiler.is_compiling():
            _check_type(f"attention: {name}", value, (numbers.Real, torch.SymFloat, torch.SymInt), "a number")


def _check_seeds(**values):
    for name, value in values.items():
        if type(value) is int and -2**63 <= value < 2**63:
            continue
        if isinstance(value, torch.Tensor):
            raise TypeError(f"attention: {name} is a tensor; expected a whole number")
        if torch.compiler.is_compiling():
            continue
        _check_type(f"attention: {name}", value, SupportsIndex, "a whole number")
        if not -2**63 <= operator.index(value) < 2**63:
            raise ValueError(f"attention: {name} {value} is not in [-2^63, 2^63)")


def _are_usual_numbers(scale, dropout, seed, layer):
    """Whether the checks above have nothing to say: they cost a short call a tenth of its time."""
    return (type(dropout) is float and (scale is None or type(scale) is float) and type(seed) is int and type(layer) is int
            and -2**63 <= seed < 2**63 and -2**63 <= layer < 2**63)


def _warn_of_heads_first(q):
    """PyTorch's attention reads three dimensions as [H, N, D]; here they are [T, H, D], a single sequence without offsets.
    More heads than tokens are a sign of the other meaning, whose numbers would be wrong in silence."""
    tokens, heads, width = q.shape
    if 1 < tokens < heads:
        warnings.warn(f"attention: q of shape [{tokens}, {heads}, {width}] is one packed sequence of {tokens} tokens and {heads} "
                      f"heads; if it is [H, N, D] as for scaled_dot_product_attention, call with q[None], k[None] and v[None]; "
                      f"if not, pass q_offsets=torch.tensor([0, {tokens}])", stacklevel=3)


def _check_device(q):
    """Tensors on CUDA of a torch without it are stand-ins, for which torch ends the process."""
    if not isinstance(q, torch.Tensor) or q.device.type != "cuda":
        return
    if torch.version.cuda is None and torch.version.hip is None:
        raise ValueError(f"attention: q is on {q.device}, and this torch has no CUDA; move the tensors to the CPU")


def _call(called, *qkv, spec, tensors, **options):
    _check_device(qkv[0])
    if torch.compiler.is_compiling():
        return called(*qkv, spec=spec, **tensors, **options)
    for name, value in zip("qkv", qkv):
        if value is None:  # would be taken for a tensor of no size
            raise TypeError(f"attention: {name} is None; expected a tensor")
    try:
        return called(*qkv, spec=spec, **tensors, **options)
    except RuntimeError as error:
        if str(error).startswith("attention spec"):
            raise SpecError(str(error)) from None
        # PyTorch's own text for other types is the whole schema.
        _check_type("attention: spec", spec, str, "a text such as 'topk(8)'")
        for name, value in (*zip("qkv", qkv), *tensors.items()):
            if value is not None:
                _check_type(f"attention: {name}", value, torch.Tensor, "a tensor")
        raise


def _kind(causal, cross):
    if causal and cross:
        raise ValueError("attention: causal and cross exclude each other; cross-attention sees every key")
    return "causal" if causal else "cross" if cross else "self"


def attention(q: Tensor, k: Tensor, v: Tensor, spec: str = "full", *, causal: bool = False, cross: bool = False,
              q_lengths: Tensor | None = None, k_lengths: Tensor | None = None, q_offsets: Tensor | None = None,
              k_offsets: Tensor | None = None, k_begins: Tensor | None = None, k_tokens: Tensor | None = None,
              alpha: Tensor | None = None, sinks: Tensor | None = None, gain: Tensor | None = None,
              gate: Tensor | None = None, bias: Tensor | None = None, scale: float | None = None, dropout: float = 0.0, seed: int = 0,
              layer: int = 0, dropout_seed: int | Tensor | None = None, offset_bias: Tensor | None = None,
              offset_first: int = 0, offset_queries: Tensor | None = None, offset_rows: Tensor | None = None,
              offset_rows_first: int = 0, offset_values: Tensor | None = None, offset_values_first: int = 0,
              enable_gqa: bool = False, indices: Tensor | None = None, block_indices: Tensor | None = None,
              block_size: int = 128, **others) -> Tensor:
    """Attention by any mechanism, differentiable in q, k, v, alpha, sinks, gain, gate, bias and the terms by offset; works in
    torch.compile.

    Args:
        q (Tensor): [B, H, N_q, D], or packed without padding [T_q, H, D].
        k, v (Tensor): [B, H, N_k, D], or packed [T_k, H, D]; q's type and device. v may have another D, D_v.
        spec (str): the mechanism, "topk(8)", "window(64)|global(4)", "relu+gated-rmsnorm", "4*local(256);4*full".
        causal (bool): a query sees no key after itself. Query i stands at key position i + N_k - N_q.
        cross (bool): queries and keys are of different texts, so that specs which compare positions are refused.
        q_lengths, k_lengths (Tensor, optional): [B] int64 on the CPU, what of N is no padding; default all of N, but
            where N_q is N_k and positions are compared, causally or by a pattern, one stands for both. k_lengths also
            goes with k_begins.
        q_offsets, k_offsets (Tensor, optional): packed: [B + 1] int64 on the CPU, where sequences begin and end;
            k_offsets default to q_offsets, both to a single sequence.
        k_begins (Tensor, optional): packed: [B] int64 on the CPU; with q_offsets and k_lengths, in place of
            k_offsets, the keys of sequence b are k_begins[b] ... k_begins[b] + k_lengths[b] - 1 and may be shared. No
            gradients.
        k_tokens (Tensor, optional): packed: [N] int64 on the CPU, with k_begins, which are ranges of it then: key j of
            sequence b is row k_tokens[k_begins[b] + j] of k and v. For caches in pieces.
        alpha (Tensor, optional): [H] in [1.0001, 64], for entmax(learned).
        sinks (Tensor, optional): [H], the sinks' scores, for sink.
        gain, gate, bias (Tensor, optional): [H * D_v], for norms; gain is one and bias zero where left out.
        scale (float, optional): of q . k; default 1 / sqrt(D), in routed heads 1.
        dropout (float): rate on the weights; the mask is a function of dropout_seed, head and positions.
        seed, layer (int): random(k) and routed(c,w,random) draw from (seed, layer, head).
        dropout_seed (int or Tensor, optional): of this call, below 2^63, or int64 of no dimension on the CPU; default a
            new one from torch's generator. Steps and layers that pass the same one share a mask.
        offset_bias (Tensor, optional): [H, count], or q's shape with count in place of D: is added to a score by the
            offset o of its key from its query, key position less query position. Offsets offset_first ...
            offset_first + count - 1; any other counts as the nearest of these. For self-attention, here and below.
        offset_queries, offset_rows (Tensor, optional): q's shape and [count, H or 1, D]: scale offset_queries .
            offset_rows[o - offset_rows_first] is added, without memory for all offsets of all queries.
        offset_values (Tensor, optional): [count, H or 1, D_v]: a key's value is v + offset_values[o -
            offset_values_first].
        enable_gqa (bool): k and v may have fewer heads than q, H_kv, a divisor of H: head h reads their head
            h // (H // H_kv). The fast kernels read keys where they are and do not repeat them.
        indices (Tensor, optional): [B, N_q, k], or packed [T_q, k], int32 or int64 on q's device: the keys of its
            sequence that each query attends to, under all heads; in any order, each once, -1 in places left over. A
            pattern of the spec takes the keys that both have; a selection selects among them. Causally no entry may lie
            behind its query.
        block_indices (Tensor, optional): [B, H_kv or H, N_q, k], or packed [T_q, H_kv or H, k]: the same for each head of
            k, or of q, by blocks: block j is keys j * block_size ... j * block_size + block_size - 1. Causally the keys of a block that
            lie behind the query are left out.
        block_size (int): keys of a block; with block_indices.
        others: none; an argument of PyTorch's attention is refused with Fovea's name for it.
    Returns:
        Tensor: q's shape, with D_v in place of D. A row without a candidate is zero.
    Raises:
        SpecError: spec does not parse.
        TypeError, ValueError, RuntimeError: another argument does not fit; the message names it.
    """
    if others:
        _foreign.refuse_in_function(others)
    if q_offsets is None and not torch.compiler.is_compiling() and isinstance(q, torch.Tensor) and q.dim() == 3:
        _warn_of_heads_first(q)
    if not (_are_usual_numbers(scale, dropout, seed, layer) and offset_first == 0 and offset_rows_first == 0
            and offset_values_first == 0 and type(offset_first) is type(offset_rows_first) is type(offset_values_first) is int
            and type(block_size) is int and block_size == 128):
        _check_numbers(scale=1 if scale is None else scale, dropout=dropout)
        _check_seeds(seed=seed, layer=layer, offset_first=offset_first, offset_rows_first=offset_rows_first,
                     offset_values_first=offset_values_first, enable_gqa=bool(enable_gqa), block_size=block_size)
    drawn_seed = None  # not made a number: that would cut a compiled graph in two
    if dropout_seed is None:
        dropout_seed = 0
        if dropout > 0:
            drawn_seed = torch.randint(2**62, (), device="cpu")
    elif isinstance(dropout_seed, torch.Tensor):
        dropout_seed, drawn_seed = 0, dropout_seed
    else:
        _check_seeds(dropout_seed=dropout_seed)
    kind = _kind(causal, cross)
    if (alpha is sinks is gain is gate is bias is offset_bias is offset_queries is offset_rows is offset_values is indices
            is block_indices is None and block_size == 128 and not torch.compiler.is_compiling()
            and _library.plain_attention is not None):
        vectors = q_offsets, k_offsets, k_begins, k_tokens, q_lengths, k_lengths
        streams = seed, layer, dropout_seed, drawn_seed
        out = _library.plain_attention(q, k, v, spec, kind, vectors, scale, dropout, streams, bool(enable_gqa))
        if out is not None:
            return out
    tensors = {"q_offsets": q_offsets, "k_offsets": k_offsets, "k_begins": k_begins, "k_tokens": k_tokens,
               "q_lengths": q_lengths, "k_lengths": k_lengths, "alpha": alpha, "sinks": sinks, "gain": gain, "gate": gate, "bias": bias,
               "offset_bias": offset_bias, "offset_queries": offset_queries, "offset_rows": offset_rows,
               "offset_values": offset_values, "indices": indices, "block_indices": block_indices}
    if not torch.compiler.is_compiling() and isinstance(q, torch.Tensor) and q.is_cuda:
        out = _device_kernels.attention(q, k, v, spec, kind, scale, (seed, layer), tensors, enable_gqa, dropout)
        if out is not None:
            return out
    return _call(torch.ops.fovea.attention, q, k, v, spec=spec, tensors=tensors, kind=kind, scale=scale,
                 dropout=dropout, seed=seed, layer=layer, dropout_seed=dropout_seed, drawn_seed=drawn_seed,
                 offset_first=offset_first, offset_rows_first=offset_rows_first,
                 offset_values_first=offset_values_first, enable_gqa=bool(enable_gqa), block_size=block_size)


def attention_weights(q: Tensor, k: Tensor, spec: str = "full", *, causal: bool = False, cross: bool = False,
                      q_lengths: Tensor | None = None, k_lengths: Tensor | None = None,
                      q_offsets: Tensor | None = None, k_offsets: Tensor | None = None, k_begins: Tensor | None = None,
                      k_tokens: Tensor | None = None, alpha: Tensor | None = None, sinks: Tensor | None = None,
                      scale: float | None = None,
                      seed: int = 0, layer: int = 0, offset_bias: Tensor | None = None, offset_first: int = 0,
                      offset_queries: Tensor | None = None, offset_rows: Tensor | None = None,
                      offset_rows_first: int = 0, enable_gqa: bool = False, indices: Tensor | None = None,
                      block_indices: Tensor | None = None, block_size: int = 128) -> Tensor:
    """The weights that attention() would use, whole: for looking at, constants to every kind of derivative. Arguments
    as there.

    Returns:
        Tensor: [B, H, N_q, N_k] with the greatest lengths, zero outside the selected pairs.
    """
    tensors = {"q_offsets": q_offsets, "k_offsets": k_offsets, "k_begins": k_begins, "k_tokens": k_tokens,
               "q_lengths": q_lengths, "k_lengths": k_lengths, "alpha": alpha, "sinks": sinks, "offset_bias": offset_bias,
               "offset_queries": offset_queries, "offset_rows": offset_rows, "indices": indices,
               "block_indices": block_indices}
    _check_numbers(scale=1 if scale is None else scale)
    _check_seeds(seed=seed, layer=layer, offset_first=offset_first, offset_rows_first=offset_rows_first,
                 block_size=block_size)
    return _call(torch.ops.fovea.attention_weights, q, k, spec=spec, tensors=tensors, kind=_kind(causal, cross),
                 scale=scale, seed=seed, layer=layer, offset_first=offset_first, offset_rows_first=offset_rows_first,
                 enable_gqa=bool(enable_gqa), block_size=block_size)


@torch.library.register_fake("fovea::attention_weights")
def _fake_weights(q, k, spec="full", *, q_offsets=None, k_begins=None, q_lengths=None, k_lengths=None, **_):
    """Sizes for torch.compile; the greatest length is known at run time only."""
    def size(whole, known):
        return whole if known else torch.library.get_ctx().new_dynamic_size()

    if q.dim() == 3:
        single = q_offsets is None
        return q.new_empty(1 if single else q_offsets.size(0) - 1, q.size(1), size(q.size(0), single),
                           size(k.size(0), single and k_begins is None))
    shared = (q_lengths is None) == (k_lengths is None)  # or one may stand for both
    return q.new_empty(q.size(0), q.size(1), size(q.size(2), shared and q_lengths is None),
                       size(k.size(2), shared and k_lengths is None))

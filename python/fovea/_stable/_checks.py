"""The conditions of a call. Each message says what is wrong, what was got and what was expected, in one line."""
import math

import torch

LEAST_ALPHA, GREATEST_ALPHA = 1.0001, 64.0  # closer to 1, alpha - 1 has three digits or less in float32
FLOATING = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_NAMES = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
          torch.int32: "Int", torch.int64: "Long", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
          torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}
MOST_SCALE = torch.finfo(torch.float32).max
MOST_RATE = 1 - 2**-25 - 2**-53  # float32 rounds what is above to 1
SEQUENCE_VECTORS = ("q_offsets", "k_offsets", "k_begins", "k_tokens", "q_lengths", "k_lengths")


def fail(text):
    raise RuntimeError("attention: " + text)


def type_name(x):
    return _NAMES.get(x.dtype) or str(x.dtype).removeprefix("torch.").capitalize()


def shape(x):
    return "[" + ", ".join(str(size) for size in x.shape) + "]"


def layout_name(x):
    return str(x.layout).removeprefix("torch.").replace("sparse_coo", "sparse").title().replace("_", "")


def check_inputs(q, k, v, share=1, skipped=0):
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.layout != torch.strided or x.is_nested:
            fail(f"{name} is {'nested' if x.is_nested else layout_name(x)}; expected a dense tensor, sequences of several "
                 "lengths packed as [T, H, D] with q_offsets")
    dims = q.dim()
    if dims not in (3, 4):
        fail(f"q has shape {shape(q)}; expected [T, H, D] or [B, H, N, D]")
    heads = q.size(1)
    if share > 1:
        heads = 0 if heads == 0 else (heads - 1 + skipped) // share + 1
    if (k.dim() != dims or v.dim() != dims or k.shape != v.shape or k.size(1) != heads or k.size(-1) != q.size(-1)
            or (dims == 4 and k.size(0) != q.size(0))):
        fewer = k.dim() == dims and k.size(1) < q.size(1)
        fail(f"q has shape {shape(q)}, k {shape(k)} and v {shape(v)}; expected equal heads, head sizes and batches, and k "
             f"like v{'; fewer heads of k and v go with enable_gqa' if fewer else ''}")
    if k.dtype != q.dtype or v.dtype != q.dtype or k.device != q.device or v.device != q.device or q.dtype not in FLOATING:
        of = [f"{type_name(x)} on {x.device}" for x in (q, k, v)]
        fail(f"q is {of[0]}, k {of[1]} and v {of[2]}; expected one type (float32, bfloat16, float16 or float64) and one "
             "device")


def check_scale(scale, caller="attention"):
    if scale is not None and not abs(scale) <= MOST_SCALE:  # kernels take it as float32
        raise RuntimeError(f"{caller}: scale is {scale}; expected a finite number of float32, or none for 1 / sqrt(D)")


def check_rate(rate, what="attention: dropout"):
    if not 0 <= rate <= MOST_RATE:
        raise RuntimeError(f"{what} {rate:g} is not in [0, 1)")


def check_options(q, k, v, options):
    """The options of a layer's call: where its tensors lie, and which of them go together."""
    cpu = torch.device("cpu")
    wanted = [(name, q.device) for name in ("alpha", "gain", "gate", "bias")]
    wanted += [(name, cpu) for name in (*SEQUENCE_VECTORS, "drawn_seed")]
    for name, device in wanted:
        x = options.get(name)
        if x is not None and x.device != device and x.device != q.device:
            fail(f"{'dropout_seed' if name == 'drawn_seed' else name} is on {x.device}; expected it on {device}")
    check_scale(options["scale"])
    drawn = options.get("drawn_seed")
    if drawn is not None and (drawn.dim() != 0 or drawn.dtype != torch.int64):
        fail(f"dropout_seed is {type_name(drawn)} of shape {shape(drawn)}; expected int64 of no dimension")
    packed, ranges = q.dim() == 3, options["k_begins"] is not None
    if ranges and (not packed or options["q_offsets"] is None or options["k_lengths"] is None
                   or options["k_offsets"] is not None):
        fail("k_begins are for packed tensors, with q_offsets and k_lengths, in place of k_offsets")
    alpha = options["alpha"]
    if ranges and torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (q, k, v, alpha)):
        fail("k_begins have no gradients; give k_offsets, or call without gradients")
    if packed and (options["q_lengths"] is not None or (options["k_lengths"] is not None and not ranges)):
        fail("got lengths for packed tensors [T, H, D]; give q_offsets and k_offsets")
    if not packed and (options["q_offsets"] is not None or options["k_offsets"] is not None):
        fail("got offsets for dense tensors [B, H, N, D]; give q_lengths and k_lengths")


def check_alpha(alpha, heads):
    if not alpha.is_floating_point():
        fail(f"alpha is {type_name(alpha)}; expected a floating type")
    if alpha.dim() != 1 or alpha.size(0) != heads:
        fail(f"alpha has shape {shape(alpha)}; expected [{heads}], a value a head")
    if alpha.device.type != "cpu":
        return
    least = torch.tensor(LEAST_ALPHA, dtype=torch.float32, device="cpu").item()
    for head, value in enumerate(alpha.float().tolist()):
        if not least <= value <= GREATEST_ALPHA:
            fail(f"alpha of head {head} is {value:g}; expected one in [{LEAST_ALPHA}, {GREATEST_ALPHA:g}]")


def term_type(q):
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def _check_term(x, q, name, expected, dtype, fits):
    if not (fits and x.dtype == dtype and x.device == q.device and x.layout == torch.strided):
        wanted = _NAMES.get(dtype, str(dtype))
        fail(f"{name} is {type_name(x)} {shape(x)} on {x.device}; expected {wanted} {expected} on {q.device} for q of shape "
             f"{shape(q)}")


def _is_by_query(x, q):
    return x.dim() == q.dim() and x.shape[:-1] == q.shape[:-1]


def check_terms(q, by_head, by_query, queries, rows):
    if by_head is not None:
        fits = by_head.dim() == 2 and by_head.size(0) == q.size(1) and by_head.size(1) > 0
        _check_term(by_head, q, "offset_bias by head", "[H, offsets]", term_type(q), fits)
    if by_query is not None:
        fits = _is_by_query(by_query, q) and by_query.size(-1) > 0
        _check_term(by_query, q, "offset_bias by query", "q's shape with the offsets in place of D", term_type(q), fits)
    if (queries is None) != (rows is None):
        fail("offset_queries and offset_rows go together; give both")
    if rows is None:
        return
    _check_term(queries, q, "offset_queries", "q's shape", q.dtype, queries.shape == q.shape)
    fits = (rows.dim() == 3 and rows.size(0) > 0 and rows.size(2) == q.size(-1)
            and (rows.size(1) == 1 or rows.size(1) == q.size(1)))
    _check_term(rows, q, "offset_rows", "[offsets, H or 1, D]", q.dtype, fits)


def check_sums(grad, q, sums, count):
    for x in (grad, sums):
        if count and x is not None:
            fits = _is_by_query(x, q) and x.size(-1) == count
            _check_term(x, q, "sums", "q's shape with the offsets in place of D", term_type(q), fits)


def check_saved(q, grad_out, out, stats, kept, size):
    """Checks the inputs of backward: the gradient of out, and the results of forward, of so many floats and integers a row."""
    for name, x in (("grad_out", grad_out), ("out", out)):
        if x.shape != q.shape or x.dtype != q.dtype or x.device != q.device:
            fail(f"{name} is {type_name(x)} {shape(x)} on {x.device}; expected it as q, {type_name(q)} {shape(q)} on "
                 f"{q.device}")
    if q.device.type != "cpu":  # where no kernel reads the rest, with or without room for it
        return
    tokens = q.size(0) if q.dim() == 3 else q.size(0) * q.size(2)
    for name, x, dtype, each in (("stats", stats, torch.float32, size[0]), ("kept", kept, torch.int32, size[1])):
        if list(x.shape) != [tokens, q.size(1), each] or x.dtype != dtype or x.device != q.device or not x.is_contiguous():
            fail(f"{name} is {type_name(x)} {shape(x)}; expected what forward left, {_NAMES[dtype]} [{tokens}, {q.size(1)}, "
                 f"{each}]")


def check_lists(lists, block, q, k, by_head):
    """Lists of pairs; by_head: each head of k has lists of its own."""
    packed = q.dim() == 3
    if not 1 <= block < 2**31:
        fail(f"block_size is {block}; expected the keys of a block, 1 or more")
    fits = lists.dim() == q.dim() - (0 if by_head else 1) and lists.size(0) == q.size(0)
    fits = fits and not (by_head and lists.size(1) != k.size(1)) and (packed or lists.size(-2) == q.size(2))
    if (fits and lists.dtype in (torch.int32, torch.int64) and lists.device == q.device
            and lists.layout == torch.strided):
        return
    expected = (("[T_q, H_kv, k]" if packed else "[B, H_kv, N_q, k]") + ", a list for each head of k," if by_head else
                ("[T_q, k]" if packed else "[B, N_q, k]") + ", shared by all heads,")
    fail(f"{'block_indices' if by_head else 'indices'} is {type_name(lists)} {shape(lists)} on {lists.device}; expected int32 "
         f"or int64 {expected} on {q.device} for q of shape {shape(q)} and k of shape {shape(k)}")


def sqrt_scale(width):
    return 1 / math.sqrt(width) if width else math.inf

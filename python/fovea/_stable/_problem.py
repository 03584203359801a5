"""One call of fovea::attention_forward: its arguments, checked, and in the form that the library reads."""
import torch

from . import _ask
from ._checks import check_alpha, check_inputs, check_lists, check_rate, check_terms, fail, term_type

# The entries of the operators' lists, and their defaults: a call may leave out the end of a list.
TERMS = ("by_head", "by_query", "queries", "rows")
_OFFSETS = ("by_head_first", "by_query_first", "rows_first", "values_first", "value_offsets")
LAYOUT = ("q_offsets", "k_offsets", "k_begins", "k_tokens", "q_lengths", "k_lengths", "drawn_seed", "lists")
_STREAM = {"seed": 0, "layer": 0, "first_head": 0, "heads_per_key": 1, "block": 0}
_LARGE = 1 << 20  # bytes
_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float64: 2}  # kernels::DType


def _filled(given, size, name, rest):
    if len(given) > size:
        fail(f"the list {name} has {len(given)} entries; expected {size}")
    return [*given, *rest[len(given):]]


def token_rows(x):
    """[T, H, D] of [T, H, D] or [B, H, N, D]: a view wherever the strides allow one."""
    rows = x if x.dim() == 3 else x.transpose(1, 2).reshape(x.size(0) * x.size(2), x.size(1), x.size(3))
    return rows if rows.size(2) < 2 or rows.stride(2) == 1 else rows.contiguous()


def from_token_rows(rows, like):
    """Rows in the layout of `like`; D may differ from its own."""
    if like.dim() == 3:
        return rows
    return rows.view(like.size(0), like.size(2), like.size(1), rows.size(2)).transpose(1, 2)


def recycled(rows):
    """Rows of a kernel's result in place of uninitialised ones: large ones lie in memory that the library uses again."""
    if rows.nbytes < _LARGE:
        return rows
    return torch.ops.fovea.kernel_room(rows, list(rows.shape), list(rows.stride()))


def rows_like(rows, dtype=None):
    """Uninitialised rows for the gradient of rows, with their strides where those leave no gaps."""
    like = torch.empty_like(rows, dtype=dtype)
    return like if like.size(2) < 2 or like.stride(2) == 1 else torch.empty(rows.shape, dtype=like.dtype, device=rows.device)


class Call:
    """The arguments of a call of one head group. Reads sizes alone, which may be symbols."""

    def __init__(self, q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed, training):
        terms = _filled(terms, len(TERMS), "terms", [None] * len(TERMS))
        offsets = _filled(offsets, len(_OFFSETS), "offsets", [0] * len(_OFFSETS))
        layout = _filled(layout, len(LAYOUT), "layout", [None] * len(LAYOUT))
        stream = _filled(stream, len(_STREAM), "stream", [*_STREAM.values()])
        self.q, self.k, self.v, self.alpha, self.spec, self.kind = q, k, v, alpha, spec, kind
        self.scale, self.dropout, self.dropout_seed, self.training = scale, float(dropout), dropout_seed, training
        self.by_head, self.by_query, self.queries, self.rows = terms
        self.by_head_first, self.by_query_first, self.rows_first, self.values_first, self.value_offsets = offsets
        *self.vectors, self.drawn_seed, self.lists = layout
        self.seed, self.layer, self.first_head, share, self.block = stream
        self.share = max(share, 1)
        self.skipped = self.first_head % self.share
        self.packed = q.dim() == 3
        check_inputs(q, k, v, self.share, self.skipped)
        check_rate(self.dropout)
        check_terms(q, *terms)
        if self.lists is not None:
            check_lists(self.lists, self.block, q, k, self.lists.dim() == q.dim())
        self.parts = _ask.parts(spec)
        self.heads, self.width = int(q.size(1)), int(q.size(-1))
        self.fixed = self._fixed_numbers()
        # Asked also where nothing is left: the library then checks spec and kind.
        size = _ask.saved(spec, kind, self.dropout, (*self.fixed, 1, 0, 0))
        self.saved_size = size if training and q.dtype != torch.float16 else (0, 0)

    def _fixed_numbers(self):
        """The numbers of the call, in the order of src/fovea/stable/problem.h, without the sizes."""
        by_head = 0 if self.by_head is None else self.by_head.size(1)
        by_query = 0 if self.by_query is None else self.by_query.size(-1)
        rows = 0 if self.rows is None else self.rows.size(0)
        count, by_key_head = (0, 0) if self.lists is None else (self.lists.size(-1), int(self.lists.dim() == self.q.dim()))
        return (_TYPES.get(self.q.dtype, 0), self.heads, self.width, self.share, self.skipped, int(self.training),
                self.by_head_first if by_head else 0, int(by_head), self.by_query_first if by_query else 0, int(by_query),
                self.rows_first if rows else 0, int(rows), self.values_first if self.value_offsets else 0,
                int(self.value_offsets), 0 if self.lists is None else self.block, int(count), by_key_head, int(self.packed))

    def numbers(self):
        """All numbers of the call."""
        if self.packed:
            return [*self.fixed, 1, self.q.size(0), self.k.size(0)]
        return [*self.fixed, self.q.size(0), self.q.size(2), self.k.size(2)]

    def check_values(self):
        """Checks the values, which real tensors alone have."""
        if self.alpha is not None:
            check_alpha(self.alpha, self.heads)
        elif self.parts.learned:
            fail(f"{self.spec} needs alpha of shape [{self.heads}], a value a head; got none")

    def stream(self):
        seed = self.dropout_seed if self.drawn_seed is None else self.drawn_seed.item()
        return [self.seed, self.layer, self.first_head, int(seed)]

    def sorted_lists(self):
        """The lists as kernels read them, [T_q, 1 or H_kv, count] int32 on the CPU with room behind; None without."""
        if self.lists is None:
            return None
        given = self.lists.cpu()
        if given.size(-1) > 1 and given.stride(-1) != 1:
            given = given.contiguous()
        room = torch.ops.fovea.kernel_lists(given, self.vectors, self.spec, self.kind, self.numbers())
        tokens = self.q.size(0) if self.packed else self.q.size(0) * self.q.size(2)
        heads = self.k.size(1) if self.lists.dim() == self.q.dim() else 1
        return room[:room.numel() - 16].view(tokens, heads, self.lists.size(-1))

    def sums_type(self):
        return term_type(self.q)

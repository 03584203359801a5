"""One call of fovea::attention_forward, head groups that follow one another in a layer, and its parts for the reference.
Reads sizes alone, which may be symbols."""
import collections

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import _ask

# The entries of the operators' lists, and their defaults: a call may leave out the end of a list.
TERMS = ("by_head", "by_query", "queries", "rows")
_OFFSETS = ("by_head_first", "by_query_first", "rows_first", "values_first", "value_offsets")
LAYOUT = ("q_offsets", "k_offsets", "k_begins", "k_tokens", "q_lengths", "k_lengths", "drawn_seed", "lists")
_STREAM = {"seed": 0, "layer": 0, "first_head": 0, "heads_per_key": 1, "block": 0}


def filled(given, rest):
    """The list with its end; the library refuses one that is longer."""
    return [*given, *rest[len(given):]][:len(rest)]


def token_rows(x):
    """[T, H, D] of [T, H, D] or [B, H, N, D]: a view wherever the strides allow one."""
    rows = x if x.dim() == 3 else x.transpose(1, 2).reshape(x.size(0) * x.size(2), x.size(1), x.size(3))
    return rows if rows.size(2) < 2 or rows.stride(2) == 1 else rows.contiguous()


def from_token_rows(rows, like):
    """Rows in the layout of `like`; D may differ from its own."""
    if like.dim() == 3:
        return rows
    return rows.view(like.size(0), like.size(2), like.size(1), rows.size(2)).transpose(1, 2)


def rows_like(rows, dtype=None):
    """Uninitialised rows for the gradient of rows, with their strides where those leave no gaps."""
    like = torch.empty_like(rows, dtype=dtype)
    return like if like.size(2) < 2 or like.stride(2) == 1 else torch.empty(rows.shape, dtype=like.dtype, device=rows.device)


# The place of a head group in the tensors of a call: its heads, those of k and v, and how many offsets it leaves out before
# its own.
Place = collections.namedtuple("Place", "first heads first_key key_heads by_head_begin rows_begin")


class Call:
    """The arguments by their names."""

    def __init__(self, q, k, v, alpha, terms, offsets, layout, spec, kind, scale, dropout, stream, dropout_seed):
        self.q, self.k, self.v, self.alpha, self.spec, self.kind = q, k, v, alpha, spec, kind
        self.scale, self.dropout, self.dropout_seed = scale, float(dropout), dropout_seed
        self.by_head, self.by_query, self.queries, self.rows = filled(terms, [None] * len(TERMS))
        (self.by_head_first, self.by_query_first, self.rows_first, self.values_first,
         self.value_offsets) = filled(offsets, [0] * len(_OFFSETS))
        *self.vectors, self.drawn_seed, self.lists = filled(layout, [None] * len(LAYOUT))
        self.seed, self.layer, self.first_head, share, self.block = filled(stream, [*_STREAM.values()])
        self.share = max(share, 1)
        self.skipped = self.first_head % self.share
        self.packed = q.dim() == 3
        self.heads, self.width = int(q.size(1)), int(q.size(-1))

    @property
    def parts(self):
        """The parts of the mechanism of a single head group."""
        return _ask.parts(self.spec)

    def sizes(self):
        """Packed, batch, queries and keys."""
        if self.packed:
            return [1, 1, self.q.size(0), self.k.size(0)]
        return [0, self.q.size(0), self.q.size(2), self.k.size(2)]

    def stream(self):
        seed = self.dropout_seed if self.drawn_seed is None else self.drawn_seed.item()
        return [self.seed, self.layer, self.first_head, int(seed)]

    def sorted_lists(self):
        """The lists, [T_q, 1, H_kv or H, count] int32 on the CPU; None without."""
        if self.lists is None:
            return None
        heads = self.lists.size(1) if self.lists.dim() == self.q.dim() else 0
        return torch.ops.fovea.kernel_lists(self.lists.cpu(), self.vectors, self.kind, self.sizes(), self.block, heads)

    def saved_size(self):
        """How many floats and integers forward leaves for a token. The library tells it by a call of one token that has
        sizes alone, and checks that call."""
        if self.q.device.type != "cpu" or self.q.dtype == torch.float16:
            return 0, 0

        def sized(x, *sizes):
            return torch.empty([int(size) for size in sizes], dtype=x.dtype, device="meta")

        def token(x):
            """One token of rows."""
            return None if x is None else sized(x, 1, x.size(1), x.size(-1))

        def lists():
            """One token's lists, which may have no heads, with one entry: graphs may not know how many there are."""
            x = self.lists
            return None if x is None else sized(x, 1, 1) if x.dim() < self.q.dim() else sized(x, 1, x.size(1), 1)

        def whole(x):
            return None if x is None else sized(x, *x.shape)

        with _disable_current_modes():
            terms = [whole(self.by_head), token(self.by_query), token(self.queries), whole(self.rows)]
            offsets = [self.by_head_first, self.by_query_first, self.rows_first, self.values_first, int(self.value_offsets)]
            return torch.ops.fovea.kernel_saved(
                token(self.q), token(self.k), token(self.v), whole(self.alpha), terms, offsets,
                [*[None] * (len(LAYOUT) - 1), lists()], self.spec, self.kind, float(self.scale), self.dropout,
                [self.seed, self.layer, self.first_head, self.share, self.block], 0)

    def groups(self):
        """(Place, a Call of its own) of each head group."""
        groups, first = _ask.layer(self.spec, self.heads).groups, 0
        for group in groups:
            yield self._part(group, first)
            first += group.heads

    def _part(self, group, first):
        heads, all_heads = group.heads, self.heads
        first_key = (first + self.skipped) // self.share
        key_heads = (first + self.skipped + heads - 1) // self.share + 1 - first_key if heads else 0

        def own(x, dim):
            """The heads of a tensor that has those of q; others are shared."""
            return x if x is None or x.size(dim) != all_heads or heads == all_heads else x.narrow(dim, first, heads)

        def of_keys(x):
            return x if x.size(1) == key_heads else x.narrow(1, first_key, key_heads)

        by_head, rows = own(self.by_head, 0), own(self.rows, 1)
        by_head_first, rows_first = self.by_head_first, self.rows_first
        by_head_begin = rows_begin = 0
        if group.span and by_head is not None:
            by_head, by_head_begin = _cut(by_head, 1, by_head_first, group.span)
        if group.span and rows is not None:
            rows, rows_begin = _cut(rows, 0, rows_first, group.span)
        lists = self.lists
        if lists is not None and lists.dim() == self.q.dim():
            lists = of_keys(lists) if lists.size(1) == self.k.size(1) else own(lists, 1)
        part = Call(own(self.q, 1), of_keys(self.k), of_keys(self.v), own(self.alpha, 0) if group.reads_alpha else None,
                    [by_head, own(self.by_query, 1), own(self.queries, 1), rows],
                    [by_head_first + by_head_begin, self.by_query_first, rows_first + rows_begin, self.values_first,
                     self.value_offsets], [*self.vectors, self.drawn_seed, lists], group.spec, self.kind, self.scale,
                    self.dropout, [self.seed, self.layer, self.first_head + first, self.share, self.block],
                    self.dropout_seed)
        return Place(first, heads, first_key, key_heads, by_head_begin, rows_begin), part


def _cut(term, dim, first, span):
    """Cuts a term to the offsets that the keys of an adaptive span can have, so that a short span costs only what it
    sees. Returns it and how many offsets lie before."""
    count = term.size(dim)
    begin = min(max(-span - first, 0), count - 1)
    end = min(max(-1 - first, 0), count - 1) + 1
    return term.narrow(dim, begin, end - begin), begin

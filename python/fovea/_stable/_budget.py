"""How much memory the reference may use for one block of scores: FOVEA_REFERENCE_MIB, 256 MiB without it."""
import torch

from . import _ask

_MIB = 1 << 20


def _pair_bytes(call):
    """The greatest number of bytes that forward or backward holds at once for a pair of a query and a key of one head, as
    measured, rounded up, and as much again: allocators keep freed memory of blocks of other sizes."""
    number = 8 if call.q.dtype == torch.float64 else 4
    held = 8 * number
    if call.parts.selection:  # scores are compared in double, with a bound of their rounding
        held = max(held, 60)
    if call.parts.transform == "entmax":  # in double, or by a sorted copy and its sums
        held = max(held, 96)
    if call.parts.transform == "sparsemax":
        held = max(held, 5 * number + 32)
    if call.parts.cap:  # the capped scores, their slopes, and gradients before and behind them
        held += 4 * number
    if call.by_head is not None or call.by_query is not None or call.rows is not None or call.value_offsets:
        held += 24 + 12 * number
    if call.dropout > 0:
        held += 4 * number
    if call.lists is not None:
        held += 32
    return 2 * held


class Budget:
    """The pairs of one block, of all heads. Raises RuntimeError if one query has more."""

    def __init__(self, call):
        self.mib, self.pair_bytes, self.heads = float(_ask.ask("reference_mib")), _pair_bytes(call), max(call.heads, 1)
        self.pairs = int(self.mib * _MIB // self.pair_bytes)

    def queries(self, keys):
        """How many queries of one sequence with `keys` keys a block holds."""
        if self.heads * keys > self.pairs:
            needed = self.heads * keys * self.pair_bytes / _MIB
            _ask.refuse("row", str(keys), str(self.heads), repr(needed), repr(self.mib))
        return self.pairs // (self.heads * keys)

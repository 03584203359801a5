"""Masks of transformers as ranges of tokens: O(n) numbers in place of n x n.

A batch of B rows with N_q queries and N_k keys becomes a list of sequences in tokens [B N_q] and [B N_k]: each run of
keys that belong together (a text without its padding, one of several packed documents, a chunk) with the queries that
stand in it; keys and queries of the padding are sequences of their own, without a partner. `Ranges.encode` puts the list
into one tensor, which models hand on as the attention mask: [B + 1, 1 + window, 2 to 5, sequences + 1] int64. The first
two dimensions have stride 0. The first tells B, and no mask that broadcasts over B rows has its size; the second tells the
window; the third is odd for masks that are not causal, and 4 or 5 where a cache has dropped tokens (_dropped.py). Models
leave masks of four dimensions as they are, so a prepared mask may be handed in again. Masks that are no list of ranges stay
dense (_dense.py).
"""
from dataclasses import dataclass

import torch

from ._dropped import dropped_keys

_KNOWN = {"causal_mask_function", "bidirectional_mask_function", "and_masks", "sliding_window_overlay",
          "sliding_window_bidirectional_overlay", "chunked_overlay", "packed_sequence_mask_function",
          "remap_positions_for_packed_sequence", "padding_mask_function", "add_offsets_to_mask_function"}


@dataclass
class Ranges:
    """Sequences as offsets into the tokens of queries and keys. `every` are the offsets of the queries where each one
    sees all keys of its row; for masks that are not causal. window: 0 for none, else the last `window` keys, or those at
    most `window` places away. placed: the queries are the last of their keys, as a mask of this text says. cut: [B], how many
    tokens before each row's keys its cache has dropped."""
    queries: torch.Tensor
    keys: torch.Tensor
    every: torch.Tensor | None
    window: int = 0
    batch: int = 0
    placed: bool = False
    cut: torch.Tensor | None = None

    @property
    def causal(self):
        return self.every is None

    def encode(self):
        rows = [self.queries, self.keys] + ([] if self.causal else [self.every])
        if self.cut is not None:
            rows += 2 * [torch.nn.functional.pad(self.cut, (0, self.queries.numel() - self.cut.numel()))]
        return torch.stack(rows)[None, None].expand(self.batch + 1, 1 + self.window, len(rows), -1)

    @staticmethod
    def is_causal(mask):
        return mask.size(2) in (2, 4)

    @staticmethod
    def lengths(mask):
        """How many queries and keys an encoded mask is for, in all rows."""
        return tuple(mask[0, 0, :2, -1].tolist())

    @staticmethod
    def decode(mask, q_length, k_length):
        """The ranges for a layer with q_length queries and k_length keys in each row.

        Raises:
            ValueError: the mask is of other lengths, so that its ranges would reach into other rows.
        """
        rows, batch = mask[0, 0], mask.size(0) - 1
        wanted = (batch * q_length, batch * k_length)
        if torch.compiler.is_compiling():
            fits = (rows[0, -1] == wanted[0]) & (rows[1, -1] == wanted[1])
            torch._assert_async(fits, "fovea: the attention mask is of other lengths than the layer's queries and keys")
        elif (given := Ranges.lengths(mask)) != wanted:
            queries, keys = (n // max(batch, 1) for n in given)
            raise ValueError(f"fovea: the attention mask is for {queries} queries and {keys} keys a row, and the layer has "
                             f"{q_length} queries and {k_length} keys; pass a mask of the layer's lengths")
        return Ranges(rows[0], rows[1], None if Ranges.is_causal(mask) else rows[2], mask.size(1) - 1, batch, True,
                      rows[-1, :batch] if mask.size(2) > 3 else None)


def is_encoded(mask, batch):
    """Whether a mask is of Ranges.encode, for a layer of so many rows."""
    return (isinstance(mask, torch.Tensor) and mask.dim() == 4 and mask.dtype == torch.int64 and 2 <= mask.size(2) <= 5
            and mask.size(0) == batch + 1)


def ranges_of(valid, starts, q_length, q_offset, causal, window=0):
    """The Ranges of a mask.

    Args:
        valid (Tensor): [B, N_k] bool, keys that are no padding.
        starts (Tensor, optional): [B, N_k] bool, keys that begin another document or chunk.
        q_offset (int or Tensor): the place of the first query among the keys.
    """
    batch, k_length = valid.shape
    change = torch.ones_like(valid)
    change[:, 1:] = valid[:, 1:] != valid[:, :-1]
    if starts is not None:
        change |= starts
    if torch.compiler.is_compiling():  # sizes may not depend on data: places behind the last one are empty sequences
        places = torch.arange(batch * k_length, device=valid.device)
        begins = torch.where(change.flatten(), places, batch * k_length).sort().values
        if starts is None:
            begins = begins[:min(4 * batch, batch * k_length)]
        flat = torch.cat([valid.flatten(), valid.new_zeros(1)])[begins]
    else:
        begins = change.flatten().nonzero()[:, 0]
        flat = valid.flatten()[begins]
    ends = torch.cat([begins[1:], begins.new_full((1,), batch * k_length)])

    def queries_before(places):
        row = (places // k_length).clamp(max=batch)
        within = (places - row * k_length - q_offset).clamp(min=0, max=q_length)
        return (row * q_length + within).clamp(max=batch * q_length)

    q_begin, q_end = queries_before(begins), queries_before(ends)
    aligned = _interleaved(q_begin, torch.where(flat, q_end, q_begin), batch * q_length)
    keys = _interleaved(begins, ends, batch * k_length)
    if causal:
        return Ranges(aligned, keys, None, window, batch)
    if starts is not None:
        return Ranges(aligned, keys, aligned, window, batch)
    # All queries of the row at its run of keys that are not padding.
    row = (begins // k_length).clamp(max=batch)
    row_end = ((row + 1) * q_length).clamp(max=batch * q_length)
    seen = flat.long().cumsum(0)
    before_row = torch.where(begins % k_length == 0, seen - flat.long(), 0).cummax(0).values
    first, done = flat & (seen - before_row == 1), seen - before_row >= 1
    every_begin = torch.where(done & ~first, row_end, (row * q_length).clamp(max=batch * q_length))
    every_end = torch.where(done, row_end, every_begin)
    every = _interleaved(every_begin, every_end, batch * q_length)
    return Ranges(aligned, keys, every, window, batch)


def _interleaved(begins, middles, end):
    """Offsets of twice the sequences: [begin, middle) with the keys of a run, then the rest, of queries without keys."""
    both = torch.stack([begins, middles], 1).flatten()
    return torch.cat([both, both.new_full((1,), end)]).cpu()


def _is_known(function):
    name = getattr(function, "__qualname__", "").split(".")[0]
    if name not in _KNOWN or not getattr(function, "__module__", "").startswith("transformers."):
        return False
    inner = []
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        inner += [f for f in (value if isinstance(value, (tuple, list)) else (value,)) if callable(f)
                  and not isinstance(f, torch.Tensor)]
    return all(map(_is_known, inner))


def _starts(mask_function, batch, k_length, k_offset, device):
    """The places where a key is hidden from the token behind it: there another document or chunk begins."""
    places = torch.arange(1, k_length, device=device)[None] + k_offset
    rows = torch.arange(batch, device=device)[:, None]
    same = mask_function(rows, torch.zeros_like(rows), places.expand(batch, -1), (places - 1).expand(batch, -1))
    return torch.cat([same.new_zeros(batch, 1), ~same.expand(batch, -1)], 1)


def _assert_causal(mask_function, batch, k_length, k_offset, device):
    """In compiled code, which cannot look at the function: no token sees the next one."""
    places = torch.arange(1, k_length, device=device)[None] + k_offset
    rows = torch.arange(batch, device=device)[:, None]
    later = mask_function(rows, torch.zeros_like(rows), (places - 1).expand(batch, -1), places.expand(batch, -1))
    torch._assert_async(~later.any(), "fovea: the model's mask is another than causal, windowed, chunked or packed; compiled "
                                      "code needs one of these")


def _whole(given):
    """The arguments of transformers' mask functions under which they leave out no mask."""
    return {**given, **{name: False for name in ("allow_is_causal_skip", "allow_is_bidirectional_skip") if name in given}}


def dense_mask(given):
    """The mask [B, 1, N_q, N_k] bool, from what transformers gives mask functions."""
    from transformers.masking_utils import sdpa_mask
    return sdpa_mask(**_whole(given))


def added_mask(given):
    """The mask as numbers to add: 0, or the least of the model's type."""
    from transformers.masking_utils import eager_mask
    return eager_mask(**_whole(given))


def ranges_mask(**given):
    """A mask in the form of Ranges.encode, from what transformers gives mask functions, in the forms of 4.57 and 5.x; a
    dense one if it is no list of ranges."""
    ranges = _ranges_of(**given)
    return dense_mask(given) if ranges is None else ranges.encode()


def _is_read(others, packed, q_offset):
    """Whether the model asks for a mask that is never left out, because it reads the mask itself: Doge adds to it, T5Gemma 2
    joins two. transformers asks the same for packed documents and for static caches, whose offset is a tensor."""
    if others.get("allow_is_bidirectional_skip") is False:
        return True
    if "allow_is_bidirectional_skip" in others or others.get("allow_is_causal_skip") is not False:
        return False
    return not packed and not isinstance(q_offset, torch.Tensor)


def _ranges_of(*, batch_size, kv_length, kv_offset=0, mask_function=None, attention_mask=None, q_length=None,
               q_offset=None, cache_position=None, local_size=None, use_vmap=False, config=None, device=None, **others):
    if cache_position is not None:
        q_length, q_offset = cache_position.shape[0], cache_position[0]
    compiling = torch.compiler.is_compiling()
    plain = getattr(mask_function, "__name__", "") in ("causal_mask_function", "bidirectional_mask_function")
    if use_vmap or not (compiling or mask_function is None or _is_known(mask_function)):
        return None
    causal = "allow_is_bidirectional_skip" not in others
    chunked = local_size is not None and getattr(config, "attention_chunk_size", None) == local_size
    window = 0 if chunked or local_size is None else int(local_size)
    if _is_read(others, not plain and _is_packed(mask_function), q_offset):
        return None
    device = attention_mask.device if attention_mask is not None else (device or "cpu")
    first = q_offset - kv_offset  # the first query's place among the keys
    if compiling and causal and not plain and mask_function is not None:
        _assert_causal(mask_function, batch_size, kv_length, kv_offset, device)
    starts = None if plain or (window and not _is_packed(mask_function)) else _starts(
        mask_function, batch_size, kv_length, kv_offset, device)
    if not causal and (isinstance(first, torch.Tensor) or first + q_length != kv_length) and q_length != kv_length:
        return None  # a static cache, whose queries are not the last of its places
    valid = (torch.arange(kv_length, device=device) < first + q_length)[None].expand(batch_size, -1)
    if not causal:
        valid = torch.ones_like(valid)
    padding = None
    if attention_mask is not None:
        padding = _padding(attention_mask, batch_size, kv_length + kv_offset)
        valid = valid & padding[:, kv_offset:kv_offset + kv_length]
        if not _is_one_range(valid):
            _check_continued(valid, causal, first)
            return None
    ranges = ranges_of(valid, starts, q_length, first, causal, window)
    if causal and window:
        ranges.cut = dropped_keys(padding, valid, kv_offset)
    return ranges


def _check_continued(valid, causal, first):
    """Refuses new tokens right behind padding: the token before them was made from padding, whose queries get zeros here
    and other numbers in eager."""
    first = int(first)
    if not causal or first < 2 or first >= valid.size(1):
        return
    if bool((valid[:, first] & ~valid[:, first - 1] & valid[:, :first - 1].any(1)).any()):
        raise ValueError("fovea: the attention mask has padding between a row's tokens and the ones that continue it; pad on "
                         "the left")


def _padding(mask, batch, length):
    """A mask of two dimensions as [B, length] bool; places that it leaves out are padding, as in transformers."""
    if mask.dim() != 2 or mask.shape[0] not in (1, batch):
        raise ValueError(f"fovea: the attention mask has shape {list(mask.shape)}; expected [{batch}, {length}]")
    return torch.nn.functional.pad(mask.to(torch.bool), (0, max(0, length - mask.shape[-1])))


def _is_packed(function):
    return torch.compiler.is_compiling() or "packed" in _names_in(function)


def _names_in(function):
    names = getattr(function, "__qualname__", "")
    for cell in getattr(function, "__closure__", None) or ():
        value = cell.cell_contents
        for f in value if isinstance(value, (tuple, list)) else (value,):
            if callable(f) and not isinstance(f, torch.Tensor):
                names += " " + _names_in(f)
    return names


def _is_one_range(valid):
    """Whether the keys of each row are one range. Compiled code takes it for granted, and checks it when it runs."""
    rising = (valid[:, 1:] & ~valid[:, :-1]).sum(1) + valid[:, 0]
    if torch.compiler.is_compiling():
        torch._assert_async((rising <= 1).all(), "fovea: the attention mask has padding between a row's tokens; pad on one "
                                                 "side, or do not compile the model")
        return True
    return not bool((rising > 1).any())

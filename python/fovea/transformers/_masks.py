"""Masks of transformers as ranges of tokens: O(n) numbers in place of n x n.

A batch of B rows with N_q queries and N_k keys becomes a list of sequences in tokens [B N_q] and [B N_k]: each run of
keys that belong together (a text without its padding, one of several packed documents, a chunk) with the queries that
stand in it; keys and queries of the padding are sequences of their own, without a partner. `Ranges.encode` puts the list
into one tensor, which models hand on as the attention mask: [1, 1 + window, 2 or 3, sequences + 1] int64. Its second
dimension has stride 0 and tells the window, its third whether the mask is causal. Models leave masks of four dimensions
as they are, so a prepared mask may be handed in again.
"""
from dataclasses import dataclass

import torch

_KNOWN = {"causal_mask_function", "bidirectional_mask_function", "and_masks", "sliding_window_overlay",
          "sliding_window_bidirectional_overlay", "chunked_overlay", "packed_sequence_mask_function",
          "remap_positions_for_packed_sequence", "padding_mask_function", "add_offsets_to_mask_function"}


@dataclass
class Ranges:
    """Sequences as offsets into the tokens of queries and keys. `every` are the offsets of the queries where each one
    sees all keys of its row; for masks that are not causal. window: 0 for none, else the last `window` keys, or those at
    most `window` places away."""
    queries: torch.Tensor
    keys: torch.Tensor
    every: torch.Tensor | None
    window: int = 0

    @property
    def causal(self):
        return self.every is None

    def encode(self):
        rows = [self.queries, self.keys] + ([] if self.causal else [self.every])
        return torch.stack(rows)[None, None].expand(1, 1 + self.window, len(rows), -1)

    @staticmethod
    def decode(mask):
        rows = mask[0, 0]
        return Ranges(rows[0], rows[1], None if mask.size(2) == 2 else rows[2], mask.size(1) - 1)


def is_encoded(mask):
    return isinstance(mask, torch.Tensor) and mask.dim() == 4 and mask.dtype == torch.int64


def ranges_of(valid, starts, q_length, q_offset, causal, window=0):
    """
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
        return Ranges(aligned, keys, None, window)
    if starts is not None:
        return Ranges(aligned, keys, aligned, window)
    # All queries of the row at its run of keys that are no padding.
    row = (begins // k_length).clamp(max=batch)
    row_end = ((row + 1) * q_length).clamp(max=batch * q_length)
    seen = flat.long().cumsum(0)
    before_row = torch.where(begins % k_length == 0, seen - flat.long(), 0).cummax(0).values
    first, done = flat & (seen - before_row == 1), seen - before_row >= 1
    every_begin = torch.where(done & ~first, row_end, (row * q_length).clamp(max=batch * q_length))
    every_end = torch.where(done, row_end, every_begin)
    every = _interleaved(every_begin, every_end, batch * q_length)
    return Ranges(aligned, keys, every, window)


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


def _refuse(reason):
    raise NotImplementedError(f"fovea: {reason}; load the model with attn_implementation='sdpa'")


def _starts(mask_function, batch, k_length, k_offset, device):
    """Where a key is hidden from the token behind it, another document or chunk begins."""
    places = torch.arange(1, k_length, device=device)[None] + k_offset
    rows = torch.arange(batch, device=device)[:, None]
    same = mask_function(rows, torch.zeros_like(rows), places.expand(batch, -1), (places - 1).expand(batch, -1))
    return torch.cat([same.new_zeros(batch, 1), ~same.expand(batch, -1)], 1)


def ranges_mask(*, batch_size, kv_length, kv_offset=0, mask_function=None, attention_mask=None, q_length=None,
                q_offset=None, cache_position=None, local_size=None, use_vmap=False, config=None, device=None, **others):
    """A mask in the form of Ranges.encode, from what transformers gives mask functions, in the forms of 4.57 and 5.x."""
    if cache_position is not None:
        q_length, q_offset = cache_position.shape[0], cache_position[0]
    compiling = torch.compiler.is_compiling()
    plain = getattr(mask_function, "__name__", "") in ("causal_mask_function", "bidirectional_mask_function")
    if use_vmap or not (compiling or mask_function is None or _is_known(mask_function)):
        _refuse("the model's mask is another than causal, windowed, chunked or packed")
    causal = "allow_is_bidirectional_skip" not in others
    chunked = local_size is not None and getattr(config, "attention_chunk_size", None) == local_size
    window = 0 if chunked or local_size is None else int(local_size)
    device = attention_mask.device if attention_mask is not None else (device or "cpu")
    first = q_offset - kv_offset  # the first query's place among the keys
    starts = None if plain or (window and not _is_packed(mask_function)) else _starts(
        mask_function, batch_size, kv_length, kv_offset, device)
    valid = (torch.arange(kv_length, device=device) < first + q_length)[None].expand(batch_size, -1)
    if not causal:
        valid = torch.ones_like(valid)
    if attention_mask is not None:
        if attention_mask.dim() != 2 or attention_mask.shape[0] not in (1, batch_size):
            raise ValueError(f"fovea: the attention mask has shape {list(attention_mask.shape)}; expected "
                             f"[{batch_size}, {kv_length + kv_offset}]")
        padding = attention_mask.to(torch.bool)
        missing = kv_length + kv_offset - padding.shape[-1]
        if missing > 0:
            padding = torch.nn.functional.pad(padding, (0, missing))
        valid = valid & padding[:, kv_offset:kv_offset + kv_length]
        _check_holes(valid, starts)
    return ranges_of(valid, starts, q_length, first, causal, window).encode()


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


def _check_holes(valid, starts):
    """The keys of a row are one range."""
    if starts is not None:
        return
    rising = (valid[:, 1:] & ~valid[:, :-1]).sum(1) + valid[:, 0]
    message = "fovea: the attention mask has padding between a row's tokens; pad on one side"
    if torch.compiler.is_compiling():
        torch._assert_async((rising <= 1).all(), message)
    elif bool((rising > 1).any()):
        raise ValueError(message)


def allowed_pairs(mask, q_length, k_length, batch):
    """[B, N_q, N_k] bool of a mask [B, 1, N_q, N_k], bool or added to scores."""
    if mask.dim() != 4 or mask.size(1) != 1 or mask.size(-1) < k_length or mask.size(-2) not in (1, q_length):
        raise ValueError(f"fovea: the attention mask has shape {list(mask.shape)}; expected [{batch}, {k_length}], "
                         f"or [{batch}, 1, {q_length}, {k_length}] of a causal or padding mask")
    mask = mask[:, 0, :, :k_length]
    allowed = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return allowed.expand(batch, q_length, k_length)


def from_dense(mask, q_length, k_length, batch):
    """Ranges of a mask [B, 1, N_q, N_k] that a caller made, bool or added to scores, if it has any."""
    allowed = allowed_pairs(mask, q_length, k_length, batch)
    valid, rows = allowed.any(1), allowed.any(2, keepdim=True)
    earlier = torch.ones(q_length, k_length, dtype=torch.bool, device=mask.device).tril(k_length - q_length)
    for causal in (False, True):
        expected = valid[:, None, :] & earlier if causal else valid[:, None, :].expand_as(allowed)
        if torch.equal(expected & rows, allowed):
            _check_holes(valid, None)
            return ranges_of(valid, None, q_length, k_length - q_length if causal else 0, causal)
    _refuse("the attention mask is of four dimensions and neither causal nor of padding alone")

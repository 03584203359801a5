"""A cache of keys and values for transformers that keeps an 8-bit copy of the keys beside them. A step of generation with
topk(k) reads the copy and, of the keys themselves, only those that may be selected. Logits are the same to the bit."""
import math
from functools import lru_cache, partial

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from ._buffers import LayerOf, all_keys, buffer, rows_of

_LEAST = 512  # keys of a row, from which on the copy saves more than it costs
_FIRST_ROOM = 64
_EXTENTS = 3  # numbers a head: kernels/attention/cpu/key_screen.h
_TYPES = (torch.float32, torch.bfloat16)


@lru_cache(maxsize=1024)
def _reads_copy(spec):
    """Whether steps with this spec read a copy of the keys."""
    return torch.ops.fovea.reads_key_screen(spec)


class _Copy:
    """The keys [B, H, room, D] of a layer in 8 bits, as far as they are packed."""

    def __init__(self, keys):
        batch, heads, room, width = keys.shape
        self.keys, self.packed = keys, 0
        row = (width + 31) // 32 * 32
        self.rows = buffer((batch, heads, room, row), torch.uint8)
        self.steps = buffer((batch, heads, room), torch.float32)
        self.extents = buffer((heads, _EXTENTS), torch.float32).zero_()
        self.centre = None

    def tokens(self):
        """(rows, steps) by tokens: key i of row b is token b H room + i of every head."""
        batch, heads, room, row = self.rows.shape
        count = ((batch - 1) * heads + 1) * room
        return (self.rows.as_strided((count, heads, row), (row, room * row, 1)),
                self.steps.as_strided((count, heads), (1, room)))

    def pack(self, length):
        """Packs the keys up to `length`."""
        first = self.packed
        if first >= length:
            return
        batch, heads, room, width = self.keys.shape
        new = self.keys[:, :, first:length]
        if self.centre is None:  # near to most keys, and the same for all
            centre = new[:, :, :4096].float().mean((0, 2))
            self.centre = centre.where(centre.isfinite().all(), 0).contiguous()
        places = torch.arange(first, length, device="cpu") + rows_of(batch)[:, None] * (heads * room)
        rows, steps = self.tokens()
        torch.ops.fovea.kernel_pack_keys(new.transpose(1, 2).reshape(-1, heads, width), rows, steps, self.extents, self.centre,
                                         places.flatten(), 0)
        self.packed = length


class ScreenedLayer(DynamicLayer):
    """The keys and values of one layer in buffers that are doubled when they are full: a step copies its own token alone."""

    def __init__(self, room=0):
        super().__init__()
        self._least_room, self._buffers, self._copy = room, None, None

    def lazy_initialization(self, key_states, value_states=None):
        """Versions of transformers differ in the arguments."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys, self.values = (key_states.new_empty(0) for _ in "kv")
        self.is_initialized = True

    def _holds(self):
        """Whether self.keys is the beginning of the buffer: cropping leaves it there, reordering makes another tensor."""
        keys, (kept, _) = self.keys, self._buffers
        return keys.data_ptr() == kept.data_ptr() and keys.shape[:2] == kept.shape[:2] and keys.stride() == kept.stride()

    def _make_room(self, key_states, value_states, first, length):
        if self._buffers is not None and self._buffers[0].size(2) >= length and (first == 0 or self._holds()):
            return
        room = max(self._least_room, _FIRST_ROOM, length if first == 0 else 2 * length)
        old, self._copy = (self.keys, self.values), None
        self._buffers = tuple(buffer((*new.shape[:2], room, new.size(3)), new.dtype) for new in (key_states, value_states))
        if first:
            for kept, of_old in zip(self._buffers, old):
                kept[:, :, :first] = of_old

    def update(self, key_states, value_states, *args, **kwargs):
        learns = torch.is_grad_enabled() and (key_states.requires_grad or value_states.requires_grad)
        if learns or torch.compiler.is_compiling() or key_states.device.type != "cpu":
            self._buffers = self._copy = None
            return super().update(key_states, value_states, *args, **kwargs)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        first = self.get_seq_length()
        length = first + key_states.size(2)
        if first == 0 and self._buffers is not None and self._buffers[0].shape[:2] != key_states.shape[:2]:
            self._buffers = self._copy = None
        self._make_room(key_states, value_states, first, length)
        if self._copy is not None:
            self._copy.packed = min(self._copy.packed, first)
        for kept, new in zip(self._buffers, (key_states, value_states)):
            kept[:, :, first:length] = new
        self.keys, self.values = (kept[:, :, :length] for kept in self._buffers)
        self.keys._fovea_layer = LayerOf(self)  # for step(), which gets this very tensor
        return self.keys, self.values

    def reset(self):
        super().reset()
        self._buffers = self._copy = None

    def copy_of_keys(self):
        """The copy of all keys, None if they are few."""
        length = self.get_seq_length()
        if length < _LEAST or self._buffers is None:
            return None
        if self._copy is None:
            self._copy = _Copy(self._buffers[0])
        self._copy.pack(length)
        return self._copy


class ScreenedCache(DynamicCache):
    """Passed to model.generate(..., past_key_values=cache), for models with attn_implementation="fovea:topk(k)".

    Args:
        config (PreTrainedConfig, optional): of the model; its layers with a sliding window then keep their window alone,
            as transformers keeps them.
        room (int): tokens for which layers have room from the beginning; they grow as it is needed.
    """

    def __init__(self, config=None, room=0):
        super().__init__(**({} if config is None else {"config": config}))
        self.layers = [ScreenedLayer(room) if type(layer) is DynamicLayer else layer for layer in self.layers]
        if config is None:
            self.layer_class_to_replicate = partial(ScreenedLayer, room)


def step(query, key, value, spec, ranges, scale):
    """One query a row over the keys of a ScreenedCache, [B, 1, H, D]; None if the step does not read a copy of the keys.

    Args:
        ranges ((begins, lengths), optional): of each row's keys, begins counted from the row's first; all keys without.
    """
    found = getattr(key, "_fovea_layer", None)
    layer = None if found is None else found()
    batch, heads, length, width = key.shape
    if layer is None or query.size(2) != 1 or query.dtype not in _TYPES or query.dtype != key.dtype or value.shape != key.shape:
        return None
    if not _reads_copy(spec) or layer.keys is not key:
        return None
    copy = layer.copy_of_keys()
    if copy is None:
        return None
    begins, lengths = all_keys(batch, length) if ranges is None else ranges
    begins = begins + rows_of(batch) * key.stride(0) // key.stride(2)
    tokens = ((key.size(0) - 1) * key.stride(0) + length * width) // width
    k, v = (x.as_strided((tokens, heads, width), (width, x.stride(1), 1)) for x in (key, value))
    q = query[:, :, 0].contiguous()
    out = torch.empty_like(q)
    torch.ops.fovea.kernel_screened_step(q, k, v, spec, begins, lengths, *copy.tokens(), copy.extents,
                                         1 / math.sqrt(width) if scale is None else scale, out)
    return out[:, None]

"""A cache of keys and values for transformers in bfloat16 or 8-bit integers. Steps of generation with full attention read
them as they lie; everything else reads the numbers that they stand for."""
import math
from functools import lru_cache, partial

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from ._buffers import LayerOf, all_keys, buffer, rows_of

_PRECISIONS = {"bfloat16": torch.bfloat16, "int8": torch.int8}
_FIRST_ROOM = 64
_MOST_HEAD_DIM = 256


@lru_cache(maxsize=1024)
def _is_plain(spec):
    return torch.ops.fovea.parse(spec, None) == "full"


def _tokens(x):
    """A buffer [B, H, room, ...] by tokens: number i of row b is token b H room + i of every head."""
    batch, heads, room = x.shape[:3]
    count = ((batch - 1) * heads + 1) * room
    if x.dim() == 3:
        return x.as_strided((count, heads), (1, room))
    return x.as_strided((count, heads, x.size(3)), (x.size(3), room * x.size(3), 1))


class _Rows:
    """The keys or the values of a layer: a buffer [B, H, room, D], and for int8 a step for each row of a head."""

    def __init__(self, shape, precision):
        self.data = buffer(shape, _PRECISIONS[precision])
        self.steps = buffer(shape[:3], torch.float32) if precision == "int8" else None

    def parts(self):
        return (self.data,) if self.steps is None else (self.data, self.steps)

    def write(self, new, first):
        """New rows [B, H, T, D] behind the `first` that are there."""
        if self.steps is None:
            self.data[:, :, first : first + new.size(2)] = new
            return
        batch, heads, room, width = self.data.shape
        places = torch.arange(first, first + new.size(2), device="cpu") + rows_of(batch)[:, None] * (heads * room)
        torch.ops.fovea.kernel_pack_narrow(new.transpose(1, 2).reshape(-1, heads, width), _tokens(self.data),
                                           _tokens(self.steps), places.flatten())

    def widened(self, length, dtype):
        data = self.data[:, :, :length]
        return data.to(dtype) if self.steps is None else (data * self.steps[:, :, :length, None]).to(dtype)


class NarrowLayer(DynamicLayer):
    """The keys and values of one layer. self.keys and self.values are the narrow numbers of the tokens so far."""

    def __init__(self, precision, room=0):
        super().__init__()
        self._precision, self._least_room, self._rows, self._wide = precision, room, None, None

    def lazy_initialization(self, key_states, value_states=None):
        """Versions of transformers differ in the arguments."""
        self.dtype, self.device, self._wide = key_states.dtype, key_states.device, key_states.dtype
        self.keys, self.values = (buffer(0, _PRECISIONS[self._precision]) for _ in "kv")
        self.is_initialized = True

    def _check(self, key_states, value_states):
        if torch.is_grad_enabled() and (key_states.requires_grad or value_states.requires_grad):
            raise ValueError("NarrowCache: keys and values in fewer bits have no gradients; call the model under torch.no_grad(), or "
                             "with use_cache=False")
        if key_states.device.type != "cpu" or key_states.dtype not in (torch.float32, torch.bfloat16):
            raise ValueError(f"NarrowCache: got keys of {key_states.dtype} on {key_states.device}; expected float32 or bfloat16 on "
                             "the CPU; use DynamicCache")
        if key_states.size(-1) != value_states.size(-1) or key_states.size(-1) > _MOST_HEAD_DIM:
            raise ValueError(f"NarrowCache: got heads of {key_states.size(-1)} and {value_states.size(-1)} numbers; expected as many of "
                             f"keys as of values, at most {_MOST_HEAD_DIM}; use DynamicCache")

    def _make_room(self, new, first):
        length = first + new.size(2)
        if self._rows is not None and first > 0 and self._rows[0].data.size(2) >= length:
            return
        room = max(self._least_room, _FIRST_ROOM, length if first == 0 else 2 * length)
        old, self._rows = self._rows, [_Rows((*new.shape[:2], room, new.size(3)), self._precision) for _ in "kv"]
        if first:
            for rows, kept in zip(self._rows, old):
                for part, of_old in zip(rows.parts(), kept.parts()):
                    part[:, :, :first] = of_old[:, :, :first]

    def update(self, key_states, value_states, *args, **kwargs):
        """The narrow keys and values after a step of one token, which only attention by Fovea reads; wide ones else."""
        self._check(key_states, value_states)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        first = self.get_seq_length()
        self._make_room(key_states, first)
        for rows, new in zip(self._rows, (key_states, value_states)):
            rows.write(new, first)
        length = first + key_states.size(2)
        self._show(length)
        if key_states.size(2) > 1 or first == 0:
            return tuple(rows.widened(length, self._wide) for rows in self._rows)
        return self.keys, self.values

    def _show(self, length):
        self.keys, self.values = (rows.data[:, :, :length] for rows in self._rows)
        # Attention gets this very tensor after a step, and in each step of cross-attention, which reads it from the cache.
        self.keys._fovea_layer = LayerOf(self)

    def _take_rows(self, take):
        """Other rows of the batch."""
        length = self.get_seq_length()
        if length == 0:
            return
        with torch.inference_mode(False):
            for rows in self._rows:
                rows.data = take(rows.data).contiguous()
                rows.steps = None if rows.steps is None else take(rows.steps).contiguous()
        self._show(length)

    def reorder_cache(self, beam_idx):
        self._take_rows(lambda x: x.index_select(0, beam_idx))

    def batch_repeat_interleave(self, repeats):
        self._take_rows(lambda x: x.repeat_interleave(repeats, 0))

    def batch_select_indices(self, indices):
        self._take_rows(lambda x: x[indices])

    def reset(self):
        super().reset()
        self._rows, self.is_initialized = None, False

    def wide(self):
        """(keys, values) in the model's type."""
        return tuple(rows.widened(self.get_seq_length(), self._wide) for rows in self._rows)

    def attend(self, query, spec, ranges, scale):
        """One query a row by full attention, [B, 1, H, D]; None if the step is another's."""
        if not _is_plain(spec) or query.size(2) != 1 or query.dtype != self._wide:
            return None
        keys, values = self._rows
        batch, heads, room, width = keys.data.shape
        length = self.get_seq_length()
        begins, lengths = all_keys(batch, length) if ranges is None else ranges
        q = query[:, :, 0].contiguous()
        out = torch.empty_like(q)
        steps = (None, None) if keys.steps is None else (_tokens(keys.steps), _tokens(values.steps))
        not_finite = torch.ops.fovea.kernel_narrow_step(
            q, _tokens(keys.data), _tokens(values.data), *steps, (begins + rows_of(batch) * (heads * room)).contiguous(),
            lengths.contiguous(), 1 / math.sqrt(width) if scale is None else scale, out)
        # A value whose weight is zero may count there, so the step reads the wide numbers.
        return None if not_finite else out[:, None]


class NarrowCache(DynamicCache):
    """Passed to model.generate(..., past_key_values=cache), for models with attn_implementation="fovea:...". Steps of
    layers with full attention read the narrow numbers as they lie; other layers widen all of them at each step.

    Args:
        precision (str): "bfloat16" or "int8", 8-bit integers with a step for each token and head.
        config (PreTrainedConfig, optional): of the model; its layers with a sliding window then keep their window alone,
            in the model's type.
        room (int): tokens for which layers have room from the beginning; they grow as it is needed.
    """

    def __init__(self, precision, config=None, room=0):
        if precision not in _PRECISIONS:
            raise ValueError(f"NarrowCache: got precision {precision!r}; expected one of {', '.join(map(repr, _PRECISIONS))}")
        super().__init__(**({} if config is None else {"config": config}))
        self.layers = [NarrowLayer(precision, room) if type(layer) is DynamicLayer else layer for layer in self.layers]
        if config is None:
            self.layer_class_to_replicate = partial(NarrowLayer, precision, room)

"""Buffers that any mode of torch may write, and keys that know their layer: for the caches of this package."""
import weakref

import torch


def buffer(shape, dtype):
    """Uninitialised memory on the CPU, whatever torch's default type and device are. It is no tensor of inference mode, whose
    tensors cannot be written outside of it: a cache may be filled in that mode and read on without it."""
    with torch.inference_mode(False):
        return torch.empty(shape, dtype=dtype, device="cpu")


def rows_of(batch):
    """The numbers of a batch's rows."""
    return torch.arange(batch, device="cpu")


def all_keys(batch, length):
    """(begins, lengths) of all keys of every row."""
    return torch.zeros(batch, dtype=torch.int64, device="cpu"), torch.full((batch,), length, dtype=torch.int64, device="cpu")


class LayerOf:
    """An attribute of a layer's keys, which tells attention whose they are; calling it returns the layer. Copies and pickled
    keys forget it, because they are no longer the layer's."""

    def __init__(self, layer=None):
        self._layer = None if layer is None else weakref.ref(layer)

    def __call__(self):
        return None if self._layer is None else self._layer()

    def __reduce__(self):
        return LayerOf, ()

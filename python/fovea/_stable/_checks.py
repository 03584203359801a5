"""Conditions of calls, of which the library has the texts, and numbers."""
import math
import os

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import _ask
from ._second import is_traced

MOST_SCALE = torch.finfo(torch.float32).max


def term_type(q):
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def sqrt_scale(width):
    return 1 / math.sqrt(width) if width else math.inf


def check_scale(scale, caller):
    if scale is not None and not abs(scale) <= MOST_SCALE:
        _ask.refuse("scale", caller, repr(float(scale)))


def check_kernel(before):
    """Checks that backward runs under the FOVEA_KERNEL of forward: kernels do not read what others left."""
    if os.environ.get("FOVEA_KERNEL", "") != before:
        _ask.refuse("kernel", before)


def in_library(operator, tensors, *rest):
    """Has the library check a call by its sizes; one that is traced by tensors of the traced sizes."""
    if not torch._C._len_torch_dispatch_stack() or not is_traced():
        operator(tensors, *rest)
    elif all(_is_known(size) for x in tensors if x is not None for size in x.shape):
        with _disable_current_modes():
            operator([_stand_in(x) for x in tensors], *rest)


def _is_known(size):
    """Whether a traced size is a number, or a symbol that stands for one."""
    return type(size) is int or size.node.has_hint()


def _stand_in(x):
    """A tensor of the sizes that x has where it is traced."""
    if x is None:
        return None
    sizes = [size if type(size) is int else size.node.hint for size in x.shape]
    return torch.empty(sizes, dtype=x.dtype, device="meta")

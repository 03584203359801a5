"""Which kernel a call runs, and why not the others."""
import torch
from torch import Tensor

from . import _device_kernels
from ._functional import _kind, parse


def explain(q: Tensor, k: Tensor, v: Tensor, spec: str = "full", *, causal: bool = False, cross: bool = False,
            dropout: float = 0.0, backward: bool = False) -> str:
    """The walk through the list of kernels of the tensors' device for a call of attention(): a line for each kernel with
    its reasons, and at last the one that runs. On CUDA, kernels of other libraries are tried on a small problem first.

    Args:
        backward (bool): for training: forward and backward.
    """
    parse(spec, q.size(1))
    call = _device_kernels.described(q, k, v, spec, _kind(causal, cross), None, (0, 0), {}, True, dropout)
    if call.q.device.type == "cpu":  # the kernels of other libraries do not run there
        if call.q.dtype == torch.float16:
            return "-> reference"
        return torch.ops.fovea.kernel_explain(call.q, call.k, call.v, call.spec, call.kind, float(dropout), backward)
    lines, taken = [], None
    for kernel, reason in _device_kernels.reasons(call):
        own = reason.startswith(("untried", "FOVEA_KERNEL", "does not run", "its "))
        lines.append(f"{kernel.name}: {reason if own else 'refuses: ' + reason}" if reason else f"{kernel.name}: takes the call")
        taken = taken if reason else kernel.name
    return "\n".join([*lines, f"-> {taken or 'reference'}"])

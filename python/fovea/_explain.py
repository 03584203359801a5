"""Which kernel a call runs, and why not the others."""
import torch
from torch import Tensor

from . import _device_kernels
from ._functional import _kind, parse


def _walk_of_cpu(call, dropout, backward):
    """The library's own list, for each head group."""
    from ._stable import _ask
    from ._stable._problem import Call

    share, lines = call.q.size(1) // call.k.size(1), []
    groups, first = _ask.layer(call.spec, int(call.q.size(1))).groups, 0
    for group in groups:
        begin = first // share
        q = call.q.narrow(1, first, group.heads)
        k, v = (x.narrow(1, begin, (first + group.heads - 1) // share + 1 - begin) for x in (call.k, call.v))
        own = Call(q, k, v, None, [], [], [], group.spec, call.kind, 1.0, dropout, [0, 0, first, share], 0, backward)
        numbers = ",".join(map(str, own.numbers()))
        if len(groups) > 1:
            lines.append(f"{group.spec}, {group.heads} heads:")
        lines += _ask.ask("explain", group.spec, call.kind, repr(float(dropout)), numbers).split("\n")
        first += group.heads
    return lines


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
        return "-> reference" if call.q.dtype == torch.float16 else "\n".join(_walk_of_cpu(call, dropout, backward))
    lines, taken = [], None
    for kernel, reason in _device_kernels.reasons(call):
        own = reason.startswith(("untried", "FOVEA_KERNEL", "does not run", "its "))
        lines.append(f"{kernel.name}: {reason if own else 'refuses: ' + reason}" if reason else f"{kernel.name}: takes the call")
        taken = taken if reason else kernel.name
    return "\n".join([*lines, f"-> {taken or 'reference'}"])

"""Derivatives of derivatives, of a function by operators that autograd can follow."""
import torch

from . import _ask


def _variable(x):
    """A variable of its own: q and k may be one tensor, whose derivative would be that of both."""
    if x is None:
        return None
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()


def second_order(function, grad_out, inputs, cotangents):
    """The gradients of grad_out and of the inputs, out of those of the first derivatives of function(inputs)."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad(), torch.autocast(grad_out.device.type, enabled=False):
        variables = [_variable(x) for x in (grad_out, *inputs)]
        own = variables[1:]
        asked = [i for i, x in enumerate(own) if x is not None and cotangents[i] is not None]
        results = [None] * len(variables)
        if not asked:
            return results
        out = function(own)
        if not out.requires_grad:  # constant, where no sequence of attention has a pair
            return [None if x is None else torch.zeros_like(x) for x in variables]
        first = torch.autograd.grad(out, [own[i] for i in asked], variables[0], create_graph=True, allow_unused=True)
        useful = [(g, cotangents[i]) for g, i in zip(first, asked) if g is not None and g.requires_grad]
        if not useful:
            return results
        defined = [i for i, x in enumerate(variables) if x is not None]
        second = torch.autograd.grad([g for g, _ in useful], [variables[i] for i in defined], [c for _, c in useful],
                                     retain_graph=create_graph, create_graph=create_graph, allow_unused=True)
        for i, gradient in zip(defined, second):
            results[i] = gradient
        return results


def is_traced():
    """Whether a mode of fake tensors or of tracing is on: the composition reads values, which no graph would hold."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
    return any(isinstance(mode, (FakeTensorMode, ProxyTorchDispatchMode)) for mode in _get_current_dispatch_mode_stack())


def refuse_tangents(tensors):
    """Forward-mode derivatives would come out as zeros."""
    level = torch.autograd.forward_ad._current_level
    if level < 0:
        return
    for x in tensors:
        if x is not None and torch.autograd.forward_ad.unpack_dual(x, level=level).tangent is not None:
            _ask.refuse("tangents", "attention")


def wants_gradient(tensors):
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)

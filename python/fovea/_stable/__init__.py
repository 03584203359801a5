"""fovea's operators out of a library of kernels that stands on torch's stable ABI, and so fits every torch from 2.10 on:
their schemas are the library's, and what they do with tensors is here. Loaded by fovea/_library.py."""
import functools
import sys

import torch

from . import _ask, _autograd, _blocks, _core, _index, _layer, _norm, _plain, _routed

_library = None  # its registrations live as long as this
plain_attention = _plain.attention


def _autocast(name, kinds):
    """Under autocast q, k and v become the region's type, as those of PyTorch's own attention do."""
    operator = getattr(torch.ops.fovea, name).default

    def for_device(device):
        def run(*args, **kwargs):
            kind = torch.get_autocast_dtype(device)
            args = [x.to(kind) if i < kinds and isinstance(x, torch.Tensor) and x.is_floating_point()
                    and x.dtype != torch.float64 and x.device.type == device else x for i, x in enumerate(args)]
            kwargs = {key: x.to(kind) if key in ("q", "k", "v") and x.is_floating_point() and x.dtype != torch.float64
                      and x.device.type == device else x for key, x in kwargs.items()}
            with torch.autocast(device, enabled=False):
                return operator(*args, **kwargs)
        return run

    for device, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")):
        _library.impl(name, for_device(device), key)


def _whole(function):
    """torch.compile takes an operator whole, also where it looks at the frames below one that runs eagerly."""
    disabled = None

    @functools.wraps(function)
    def run(*args, **kwargs):
        nonlocal disabled
        if "torch._dynamo" not in sys.modules:  # to import it takes a second
            return function(*args, **kwargs)
        if disabled is None:
            import torch._dynamo
            disabled = torch._dynamo.disable(function)
        return disabled(*args, **kwargs)

    return run


def _constant(name):
    """The operator below autograd, so that no derivative of any kind flows through it."""
    operator = getattr(torch.ops.fovea, name).default

    def run(*args, **kwargs):
        with torch.no_grad(), torch._C._AutoDispatchBelowAutograd():
            return operator(*args, **kwargs)

    return run


def register(path):
    """Defines the operators. torch has loaded the library at `path`."""
    global _library
    _ask.open_library(path)
    _library = torch.library.Library("fovea", "FRAGMENT")
    constant = {"attention_weights", "index_loss_kernel", "parse", "parameters", "properties", "alpha_range", "spec_names"}
    for schema in _ask.ask("schemas").split("\n"):
        name = schema.split("(")[0]
        _library.define(schema, tags=() if name in constant else (torch.Tag.pt2_compliant_tag,))
    on_devices = {"attention_forward": _core.forward, "attention_backward": _core.backward, "index_topk": _index.topk,
                  "index_target": _index.target, "block_topk": _blocks.topk,
                  "attention_weights": _layer.attention_weights}
    for name, function in on_devices.items():
        _library.impl(name, _whole(function), "CPU")
        _library.impl(name, _whole(function), "CompositeExplicitAutograd")  # whatever device torch has
    for name, function in (("head_norm", _norm.forward), ("head_norm_backward", _norm.backward),
                           ("index_loss_kernel", _index.loss_kernel)):
        _library.impl(name, _whole(function), "CPU")
    fakes = {"attention_forward": _core.fake_forward, "attention_backward": _core.fake_backward,
             "head_norm": _norm.fake_forward, "head_norm_backward": _norm.fake_backward, "index_topk": _index.fake_topk,
             "index_target": _index.fake_target, "kernel_members": _routed.fake_members,
             "kernel_counts": _layer.fake_counts, "block_topk": _blocks.fake_topk}
    for name, function in fakes.items():
        torch.library.register_fake(f"fovea::{name}", function, lib=_library)
    derivatives = {"attention_forward": _autograd.forward, "attention_backward": _autograd.backward,
                   "head_norm": _norm.autograd_forward, "head_norm_backward": _norm.autograd_backward}
    for name, function in derivatives.items():
        _library.impl(name, _whole(function), "Autograd")
    for name in ("index_topk", "index_target", "block_topk", "attention_weights"):
        _library.impl(name, _whole(_constant(name)), "Autograd")
    _library.impl("attention", _whole(_layer.attention), "CompositeImplicitAutograd")
    _autocast("attention", 3)
    _autocast("attention_weights", 2)

    def lines(*question):
        answer = _ask.ask(*question)
        return answer.split("\n") if answer else []

    about_specs = {"parse": lambda spec, num_heads=None: _ask.ask("parse", "" if num_heads is None else str(num_heads), spec),
                   "parameters": lambda spec: lines("parameters", spec),
                   "properties": lambda spec: lines("properties", spec), "spec_names": lambda: lines("names"),
                   "alpha_range": lambda: tuple(_ask.constants()[:2])}
    for name, function in about_specs.items():
        _library.impl(name, function, "CompositeImplicitAutograd")
    _plain.remember_usual_states()

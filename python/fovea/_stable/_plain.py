"""Calls of the usual kind, one mechanism on plain CPU tensors with nothing else, straight to the library's operator: a call
of 16 tokens costs a fraction of what torch's dispatcher and the Python behind it add to a general one. Every other call is
left to torch.ops.fovea.attention, which torch's modes and transforms see."""
import functools
import os
import threading

import torch
from torch import Tensor
from torch.nn import Parameter

from . import _ask
from ._checks import MOST_SCALE, check_kernel, sqrt_scale
from ._layer import share_lengths

_TYPES = (torch.float32, torch.bfloat16)
_CLASSES = (Tensor, Parameter)
_states, _keys = set(), set()  # the dispatcher's states in which nobody listens, and the keys of dense CPU tensors


@functools.cache
def _operators():
    """The operators of the library as torch's bindings call them: the objects in torch.ops would choose among overloads and
    look at modes in each call."""
    return torch.ops.fovea.kernel_forward.default._op, torch.ops.fovea.kernel_backward.default._op


def _state():
    return (torch._C._dispatch_tls_local_include_set().raw_repr(), torch._C._dispatch_tls_local_exclude_set().raw_repr())


def _remember_state():
    _states.add(_state())
    _keys.add(torch._C._dispatch_keys(torch.empty(0)).raw_repr())


def _remember_usual_states():
    try:
        _operators()
        _remember_state()
        with torch.inference_mode():
            _remember_state()
    except AttributeError:  # another torch may lack these functions; then no call is plain
        _states.clear()


def remember_usual_states():
    """Asks torch for its usual states, in a thread of its own, which is in no mode."""
    thread = threading.Thread(target=_remember_usual_states)
    thread.start()
    thread.join()


def _is_quiet():
    """Whether neither a mode nor a transform of torch, autocast, tracing or forward-mode derivatives are on."""
    return (_state() in _states and torch._C._len_torch_function_stack() == 0
            and torch.autograd.forward_ad._current_level < 0)


def _are_plain(*tensors):
    keys_of = torch._C._dispatch_keys
    for x in tensors:
        if not (type(x) in _CLASSES and keys_of(x).raw_repr() in _keys and x.dtype in _TYPES):
            return False
    return True


def _share(q, k, enable_gqa):
    if not enable_gqa or q.dim() < 3 or k.dim() < 3 or k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        return 1
    return q.shape[1] // k.shape[1]


def _sequences(q, k, kind, positional, vectors):
    """The vectors that lay out the call, or None if they do not go together or need a copy."""
    q_offsets, k_offsets, k_begins, k_tokens, q_lengths, k_lengths = vectors
    if q.dim() == 4 and q_offsets is k_offsets is k_begins is k_tokens is q_lengths is k_lengths is None:
        return ()
    for x in vectors:
        if x is not None and not (type(x) is Tensor and x.device.type == "cpu" and x.is_contiguous()):
            return None
    if q.dim() == 4:
        if not (q_offsets is k_offsets is k_begins is k_tokens is None):
            return None
        q_lengths, k_lengths = share_lengths(q, k, kind == "causal" or (kind == "self" and positional), q_lengths, k_lengths)
    elif q_lengths is not None or (k_lengths is not None) != (k_begins is not None):
        return None
    elif k_begins is not None and (q_offsets is None or k_offsets is not None):
        return None
    return q_offsets, k_offsets, k_begins, k_tokens, q_lengths, k_lengths


class _NoKernel(RuntimeError):
    """No kernel takes the call."""


class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, layout, rest):
        taken, out, stats, kept, _ = _operators()[0](q, k, v, None, None, None, layout or None, *rest, True, None)
        if not taken:
            raise _NoKernel
        ctx.save_for_backward(q, k, v, out, stats, kept, *layout)
        ctx.rest, ctx.kernel = rest, os.environ.get("FOVEA_KERNEL")
        return out

    @staticmethod
    def backward(ctx, grad_out):
        q, k, v, out, stats, kept, *layout = ctx.saved_tensors
        rest = ctx.rest
        if (_is_quiet() and not torch.is_grad_enabled() and _are_plain(grad_out)
                and os.environ.get("FOVEA_KERNEL") == ctx.kernel):
            return *_operators()[1](q, k, v, None, None, None, layout or None, *rest, grad_out, None, out, stats, kept, None, 0,
                                    None)[1:4], None, None
        check_kernel(ctx.kernel or "")
        *rest, stream, dropout_seed = rest
        grads = torch.ops.fovea.attention_backward(grad_out, None, q, k, v, out, stats, kept, q.new_empty(0), None, [], [], 0,
                                                   layout, *rest, stream or [], dropout_seed)
        return *grads[:3], None, None


def _numbers(scale, dropout, seed, layer, dropout_seed, drawn):
    """Whether scale is a number that kernels take, and the others are numbers."""
    return ((scale is None or (type(scale) in (float, int) and abs(scale) <= MOST_SCALE))
            and type(dropout) in (float, int) and type(seed) is type(layer) is type(dropout_seed) is int
            and (drawn is None or (type(drawn) is Tensor and drawn.device.type == "cpu" and drawn.dtype == torch.int64
                                   and drawn.dim() == 0)))


def attention(q, k, v, spec, kind, vectors, scale, dropout, streams, enable_gqa):
    """The output, or None if the call is not a plain one or has a mistake, which the general way tells. `streams` are the
    seed, the layer, the seed of dropout, and a tensor in its place or None."""
    if not (_is_quiet() and type(spec) is str and _are_plain(q, k, v) and _numbers(scale, dropout, *streams)):
        return None
    shape = q.shape
    if len(shape) < 3 or shape[-1] == 0 or k.shape != v.shape:
        return None
    records = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    try:
        layer = _ask.layer(spec, shape[1])
        group = layer.groups[0]
        if len(layer.groups) > 1 or layer.norm.name != "none" or group.reads_alpha or group.routed or group.choice:
            return None
        layout = _sequences(q, k, kind, layer.positional, vectors)
        if layout is None or (records and layout and layout[2] is not None):
            return None
        seed, layer_number, dropout_seed, drawn = streams
        if drawn is not None:
            dropout_seed = drawn.item()
        share = _share(q, k, enable_gqa)
        stream = None if share == 1 and seed == layer_number == 0 else (seed, layer_number, 0, share)
        rest = group.spec, kind, sqrt_scale(shape[-1]) if scale is None else scale, dropout, stream, dropout_seed
        if records:
            return _Plain.apply(q, k, v, layout, rest)
        return _operators()[0](q, k, v, None, None, None, layout or None, *rest, False, None)[1]
    except RuntimeError:
        return None

"""Calls of the usual kind, one mechanism on plain CPU tensors with nothing else, by one operator of the library: a call of
16 tokens costs less than the Python that a general one runs through. Every other call is left to torch.ops.fovea.attention,
which torch's modes and transforms see."""
import os
import threading

import torch
from torch import Tensor
from torch.nn import Parameter

from . import _ask
from ._autograd import check_kernel
from ._checks import MOST_RATE, MOST_SCALE, sqrt_scale

_TYPES = (torch.float32, torch.bfloat16)
_CLASSES = (Tensor, Parameter)
_states, _keys = set(), set()  # the dispatcher's states in which nobody listens, and the keys of dense CPU tensors


def _state():
    return (torch._C._dispatch_tls_local_include_set().raw_repr(), torch._C._dispatch_tls_local_exclude_set().raw_repr())


def _remember_state():
    _states.add(_state())
    _keys.add(torch._C._dispatch_keys(torch.empty(0)).raw_repr())


def _remember_usual_states():
    try:
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


def _is_plain(x):
    return (type(x) in _CLASSES and torch._C._dispatch_keys(x).raw_repr() in _keys and x.dtype in _TYPES
            and x.layout is torch.strided)


def _fit(q, k, v, share):
    """Whether shapes, types and strides are those that the operator takes. Others get the general way's messages."""
    dims, shape = q.dim(), k.shape
    return (dims in (3, 4) and k.dim() == dims and shape == v.shape and shape[-1] == q.shape[-1] > 0
            and q.dtype is k.dtype and k.dtype is v.dtype and (dims == 3 or shape[0] == q.shape[0])
            and q.shape[1] == shape[1] * share and q.stride(-1) == 1 and k.stride(-1) == 1 and v.stride(-1) == 1)


def _share(q, k, enable_gqa):
    if not enable_gqa or q.dim() < 3 or k.dim() < 3 or k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        return 1
    return q.shape[1] // k.shape[1]


def _sequences(q, k, kind, positional, vectors):
    """The vectors that lay out the call, or None if they do not go together or need a copy."""
    q_offsets, k_offsets, k_begins, k_tokens, q_lengths, k_lengths = vectors
    for x in vectors:
        if x is not None and not (type(x) is Tensor and x.device.type == "cpu" and x.is_contiguous()):
            return None
    if q.dim() == 4:
        if not (q_offsets is k_offsets is k_begins is k_tokens is None):
            return None
        if kind == "causal" or (kind == "self" and positional):
            if (q_lengths is None) != (k_lengths is None) and q.shape[2] == k.shape[2]:  # padding of both
                q_lengths = k_lengths = k_lengths if q_lengths is None else q_lengths
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
        out, stats, kept = torch.ops.fovea.kernel_plain(q, k, v, *layout, *rest, True)
        if out.dim() == 1:
            raise _NoKernel
        ctx.save_for_backward(q, k, v, out, stats, kept, *layout)
        ctx.rest, ctx.kernel = rest, os.environ.get("FOVEA_KERNEL")
        return out

    @staticmethod
    def backward(ctx, grad_out):
        q, k, v, out, stats, kept, *layout = ctx.saved_tensors
        if (_is_quiet() and not torch.is_grad_enabled() and _is_plain(grad_out) and grad_out.stride(-1) == 1
                and os.environ.get("FOVEA_KERNEL") == ctx.kernel):
            return *torch.ops.fovea.kernel_plain_backward(q, k, v, *layout, *ctx.rest, grad_out, out, stats, kept), None, None
        check_kernel(ctx.kernel or "")
        spec, kind, scale, dropout, share, seed, layer, dropout_seed = ctx.rest
        grads = torch.ops.fovea.attention_backward(
            grad_out, None, q, k, v, out, stats, kept, q.new_empty(0), None, [], [], 0, layout, spec, kind, scale, dropout,
            [seed, layer, 0, share], dropout_seed)
        return *grads[:3], None, None


def _numbers(scale, dropout, streams):
    """Whether scale and rate are numbers that kernels take, and the streams numbers of 64 bits."""
    drawn = streams[3]
    return ((scale is None or (type(scale) in (float, int) and abs(scale) <= MOST_SCALE))
            and type(dropout) in (float, int) and 0 <= dropout <= MOST_RATE and all(type(x) is int for x in streams[:3])
            and (drawn is None or (type(drawn) is Tensor and drawn.device.type == "cpu")))


def attention(q, k, v, spec, kind, vectors, scale, dropout, streams, enable_gqa):
    """The output, or None if the call is not a plain one or has a mistake, which the general way tells. `streams` are the
    seed, the layer, the seed of dropout, and a tensor in its place or None."""
    if not (_is_quiet() and type(spec) is str and _is_plain(q) and _is_plain(k) and _is_plain(v)
            and _numbers(scale, dropout, streams)):
        return None
    share = _share(q, k, enable_gqa)
    if not _fit(q, k, v, share):
        return None
    records = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    try:
        layer = _ask.layer(spec, q.shape[1])
        group = layer.groups[0]
        if len(layer.groups) > 1 or layer.norm.name != "none" or group.reads_alpha or group.routed:
            return None
        layout = _sequences(q, k, kind, layer.positional, vectors)
        if layout is None or (records and layout[2] is not None):
            return None
        seed, layer_number, dropout_seed, drawn = streams
        if drawn is not None:
            dropout_seed = drawn.item()
        scale = sqrt_scale(q.shape[-1]) if scale is None else float(scale)
        rest = group.spec, kind, scale, float(dropout), share, seed, layer_number, dropout_seed
        if records:
            return _Plain.apply(q, k, v, layout, rest)
        out = torch.ops.fovea.kernel_plain(q, k, v, *layout, *rest, False)[0]
        return None if out.dim() == 1 else out
    except RuntimeError:
        return None

"""fovea::head_norm: the norms over the concatenated heads, in one pass by a kernel; and attention's norm by it."""
import torch

from . import _ask
from ._second import refuse_tangents, second_order, wants_gradient

_below_autograd = torch._C._AutoDispatchBelowAutograd


def composed(z, gain, gate, bias, centred, eps):
    """By torch's operators, for any types and devices: in float, or in double if z is."""
    kind = torch.float64 if z.dtype == torch.float64 else torch.float32
    wide = z.to(kind)
    middle = wide - wide.mean(-1, keepdim=True) if centred else wide
    y = middle * (middle.square().mean(-1, keepdim=True) + eps).rsqrt() * gain.to(kind)
    if bias is not None:
        y = y + bias.to(kind)
    if gate is not None:
        y = y * (wide * gate.to(kind)).sigmoid()  # the gate sees z as it was before the norm
    return y.to(z.dtype)


def fits_kernels(*tensors):
    """Dense tensors on the CPU, all float32 or all bfloat16; None does not count."""
    kind = tensors[0].dtype
    return kind in (torch.float32, torch.bfloat16) and all(
        x is None or (x.device.type == "cpu" and x.layout == torch.strided and x.dtype == kind) for x in tensors)


def _check_shapes(z, gain, gate, bias):
    if z.dim() == 0:
        raise RuntimeError("fovea::head_norm: z has no dimensions")
    for x in (gain, gate, bias):
        if x is not None and (x.dim() != 1 or x.size(0) != z.size(-1)):
            raise RuntimeError(f"fovea::head_norm: gain, gate and bias are of shape [{z.size(-1)}], z's last size; got "
                               f"{list(x.shape)}")


def _contiguous(*tensors):
    return [None if x is None else x.contiguous() for x in tensors]


def fake_forward(z, gain, gate, bias, centred, eps):
    _check_shapes(z, gain, gate, bias)
    return (z.new_empty(z.shape), *(z.new_empty(z.shape[:-1], dtype=torch.float32) for _ in range(2)))


def fake_backward(grad_y, z, gain, gate, bias, centre, rstd, centred, eps):
    _check_shapes(z, gain, gate, bias)
    return (z.new_empty(z.shape), gain.new_empty(gain.shape),
            *(z.new_empty(0) if x is None else x.new_empty(x.shape) for x in (gate, bias)))


def forward(z, gain, gate, bias, centred, eps):
    y, centre, rstd = fake_forward(z, gain, gate, bias, centred, eps)
    if not fits_kernels(z, gain, gate, bias):
        raise RuntimeError("fovea::head_norm: takes float32 or bfloat16 tensors of one type on the CPU")
    torch.ops.fovea.kernel_head_norm(*_contiguous(z, gain, gate, bias), centre, rstd, centred, eps, y)
    return y, centre, rstd


def backward(grad_y, z, gain, gate, bias, centre, rstd, centred, eps):
    grads = fake_backward(grad_y, z, gain, gate, bias, centre, rstd, centred, eps)
    statistics = all(x.device.type == "cpu" and x.is_contiguous() and x.dtype == torch.float32 and x.shape == z.shape[:-1]
                     for x in (centre, rstd))
    if not (fits_kernels(z, gain, gate, bias) and fits_kernels(z, grad_y) and grad_y.shape == z.shape and statistics):
        raise RuntimeError("fovea::head_norm_backward: takes what head_norm took and gave, and a gradient like y")
    torch.ops.fovea.kernel_head_norm_backward(*_contiguous(z, gain, gate, bias), centre, rstd, centred, eps,
                                              grad_y.contiguous(), *grads[:2], None if gate is None else grads[2],
                                              None if bias is None else grads[3])
    return grads


class _HeadNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, gain, gate, bias, centred, eps):
        with _below_autograd():
            y, centre, rstd = torch.ops.fovea.head_norm(z, gain, gate, bias, centred, eps)
        ctx.save_for_backward(z, gain, gate, bias, centre, rstd)
        ctx.rest = centred, eps
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(centre, rstd)
        return y, centre, rstd

    @staticmethod
    def backward(ctx, grad_y, _centre, _rstd):
        if grad_y is None:
            return None, None, None, None, None, None
        z, gain, gate, bias, centre, rstd = ctx.saved_tensors
        of_z, of_gain, of_gate, of_bias = torch.ops.fovea.head_norm_backward(grad_y, z, gain, gate, bias, centre, rstd,
                                                                             *ctx.rest)
        return of_z, of_gain, None if gate is None else of_gate, None if bias is None else of_bias, None, None


class _HeadNormBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, grad_y, z, gain, gate, bias, centre, rstd, centred, eps):
        with _below_autograd():
            grads = torch.ops.fovea.head_norm_backward(grad_y, z, gain, gate, bias, centre, rstd, centred, eps)
        ctx.save_for_backward(grad_y, z, gain, gate, bias)
        ctx.rest = centred, eps
        ctx.set_materialize_grads(False)
        return grads

    @staticmethod
    def backward(ctx, *cotangents):
        grad_y, *inputs = ctx.saved_tensors
        results = second_order(lambda x: composed(*x, *ctx.rest), grad_y, inputs, cotangents)
        return *results, None, None, None, None


def autograd_forward(z, gain, gate, bias, centred, eps):
    refuse_tangents((z, gain, gate, bias))
    if wants_gradient((z, gain, gate, bias)):
        return _HeadNorm.apply(z, gain, gate, bias, centred, eps)
    with _below_autograd():
        return torch.ops.fovea.head_norm(z, gain, gate, bias, centred, eps)


def autograd_backward(grad_y, z, gain, gate, bias, centre, rstd, centred, eps):
    if wants_gradient((grad_y, z, gain, gate, bias)):
        return _HeadNormBackward.apply(grad_y, z, gain, gate, bias, centre, rstd, centred, eps)
    with _below_autograd():
        return torch.ops.fovea.head_norm_backward(grad_y, z, gain, gate, bias, centre, rstd, centred, eps)


def over_heads(norm, z, gain, gate, bias):
    """The norm over the H * D values of every query token, heads concatenated; the layout of z, [T, H, D] or
    [B, H, N, D]."""
    if norm.name == "none":
        return z
    rows = z if z.dim() == 3 else z.transpose(1, 2)  # [..., H, D]
    flat = rows.flatten(-2)
    gain = flat.new_ones(flat.size(-1)) if gain is None else gain
    given = gain, gate if norm.gate else None, bias if norm.bias else None
    eps = _ask.constants().norm_eps
    # Under autocast parameters stay float32 while z is bfloat16.
    cast = [None if x is None else x.to(flat.dtype) for x in given]
    if fits_kernels(flat, *cast):
        y = torch.ops.fovea.head_norm(flat, *cast, norm.centred, eps)[0]
    else:
        y = composed(flat, *given, norm.centred, eps)
    y = y.view(rows.shape)
    return y if z.dim() == 3 else y.transpose(1, 2)

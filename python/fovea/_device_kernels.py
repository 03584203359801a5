"""Kernels of other libraries for attention on CUDA, in the order in which they are asked: FlexAttention and adasplash.
Each says why it refuses a call, and is tried on a small problem once in a process before its results are used: they are
compared with the reference, forward and backward. A call that all of them refuse runs through the reference."""
import functools
import math
import os
import threading
from collections import OrderedDict, namedtuple

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from ._stable import _ask

# The differences from the reference in double that are allowed, relative to the norm: inputs, weights and sums are rounded
# to the type.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}

# One call. `spec` is its text; `given` names the other tensors and options in use, which no kernel here takes.
Call = namedtuple("Call", "q k v spec kind scale stream given")


def _layer(call):
    return _ask.layer(call.spec, int(call.q.size(1)))


def _groups(call):
    """(heads, first head, parts, spec) of each head group."""
    first = 0
    for group in _layer(call).groups:
        yield group.heads, first, _ask.parts(group.spec), group.spec
        first += group.heads


def _common_refusal(call):
    """Why no kernel here takes the call, or an empty text."""
    q, k, v = call.q, call.k, call.v
    if (torch.compiler.is_compiling() or _get_current_dispatch_mode() is not None
            or any(type(x) not in (torch.Tensor, torch.nn.Parameter) for x in (q, k, v))):
        return "inside torch.compile or another mode of torch, where the call is one operator"
    if q.dtype not in TOLERANCE:
        return f"{str(q.dtype).removeprefix('torch.')} is left to the reference"
    if q.dim() != 4:
        return "the batch is packed"
    if call.given:
        return f"takes no {call.given[0]}"
    alike = all((x.dtype, x.device, x.layout) == (q.dtype, q.device, torch.strided) for x in (q, k, v))
    if not (alike and k.shape[:-1] == v.shape[:-1] and k.dim() == 4 and q.size(0) == k.size(0) and q.size(-1) == k.size(-1)):
        return "q, k and v do not fit"  # the reference's message says why
    if call.scale is not None and not math.isfinite(call.scale):
        return f"scale is {call.scale}"
    if min(q.numel(), k.numel(), v.numel()) == 0:
        return "there is nothing to compute"
    if call.kind == "cross" and _layer(call).positional:
        return "positions of two texts are not compared"
    if _layer(call).norm.name != "none":
        return "the spec has a norm"
    if any(group.routed for group in _layer(call).groups):
        return "the spec routes"
    if any(group.choice for group in _layer(call).groups):
        return "the spec chooses blocks of keys"
    return ""


class _Kernel:
    """A kernel of the list: `name`, `summary`, `tried_specs`, `own_refusal(call)` and `run(call)`."""

    def refusal(self, call):
        """Why the kernel does not take the call, or an empty text."""
        return _common_refusal(call) or self.own_refusal(call)


class Flex(_Kernel):
    """torch.nn.attention.flex_attention, compiled, for patterns with softmax. The pairs come from the library's own
    definition of the pattern, as a table of bits that the kernel reads in the tiles that hold pairs of both kinds."""

    name = "flex"
    summary = "PyTorch's FlexAttention, compiled: patterns with softmax"
    tried_specs = ("window(40)|global(3)", "strided(5)")

    def own_refusal(self, call):
        if call.q.size(-1) < 16:
            return f"head_dim {call.q.size(-1)} is below 16"
        for heads, _first, parts, _spec in _groups(call):
            if parts.transform != "softmax":
                return "the transform is not softmax"
            if parts.selection:
                return f"the spec has {parts.selection}"
            if parts.cap:
                return "the spec has softcap"
            if parts.span:
                return "an adaptive span needs a term of the scores"
        share = call.q.size(1) // max(call.k.size(1), 1)
        if call.q.size(1) != share * call.k.size(1) or share > 1 and len(_layer(call).groups) > 1:
            return "heads that share keys belong to several head groups"
        bits = call.q.size(2) * call.k.size(2) * (call.q.size(1) if any(p.draws for _, _, p, _ in _groups(call)) else 1)
        if bits > 8 * _MOST_BYTES:
            return f"the table of pairs would take more than {_MOST_BYTES >> 20} MiB"
        if call.q.device.type == "cpu" and torch.is_grad_enabled() and any(x.requires_grad for x in call[:3]):
            return "has no backward on a CPU"
        return ""

    def run(self, call):
        outputs = []
        for heads, first, _parts, spec in _groups(call):
            alone = heads == call.q.size(1)  # its keys may then be shared by several heads
            q, k, v = (x if alone else x.narrow(1, first, heads) for x in call[:3])
            mask = _block_mask(spec, call.kind, (q.size(2), k.size(2)), heads, (*call.stream, first), q.device)
            outputs.append(_flex(q.device.type)(q, k, v, block_mask=mask, scale=call.scale,
                                                enable_gqa=k.size(1) != q.size(1)))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1)


class Adasplash(_Kernel):
    """The package adasplash, if it is installed: sparsemax and entmax over all keys, or over those up to the query."""

    name = "adasplash"
    summary = "the package adasplash, if it is installed: sparsemax and entmax without a pattern"
    tried_specs = ("entmax(1.5)", "sparsemax")

    def own_refusal(self, call):
        if _adasplash() is None:
            return "the package adasplash is not installed; pip install adasplash"
        groups = list(_groups(call))
        parts = groups[0][2]
        if len(groups) > 1:
            return "the spec has several head groups"
        if parts.transform not in ("sparsemax", "entmax") or parts.learned:
            return "the transform is neither sparsemax nor entmax with a fixed alpha"
        if not parts.full or parts.selection:
            return "the spec has a pattern or a selection"
        if parts.cap:
            return "the spec has softcap"
        if not call.q.shape == call.k.shape == call.v.shape:
            return "q, k and v have different shapes"
        if call.q.size(-1) not in (16, 32, 64, 128, 256):
            return f"head_dim {call.q.size(-1)} is none of 16, 32, 64, 128, 256"
        if call.q.size(2) < 64:
            return f"{call.q.size(2)} queries are fewer than 64"
        return ""

    def run(self, call):
        parts = next(iter(_groups(call)))[2]
        q, k, v = (x.contiguous() for x in call[:3])
        if call.scale is not None:  # the package scales by 1 / sqrt(D) itself
            q = q * (call.scale * q.size(-1) ** 0.5)
        n = q.size(2)
        # Lengths that are not powers of two are given for each sequence.
        lengths = None if n & (n - 1) == 0 else torch.full((q.size(0),), n, dtype=torch.int32, device=q.device)
        return _adasplash()(q, k, v, alpha=2.0 if parts.transform == "sparsemax" else parts.argument,
                            is_causal=call.kind == "causal", varlen=lengths)


KERNELS = (Flex(), Adasplash())


# FlexAttention's masks.

_TILE = 128              # queries and keys of a tile of its mask
_MOST_BYTES = 256 << 20  # of the table of a mask, and of the tables that are kept


def _reader(table):
    """The mask as a function of head, query and key; `table` is [heads or 1, queries, bytes], a bit for each key."""
    shared = table.size(0) == 1

    def mask(_batch, head, query, key):
        byte = table[head * 0 if shared else head, query, key // 8]
        return (byte.to(torch.int32) >> (key % 8).to(torch.int32)) & 1 != 0

    return mask


def _make_block_mask(spec, kind, lengths, heads, stream, device):
    from torch.nn.attention.flex_attention import BlockMask

    queries, keys = lengths
    columns = -(-keys // _TILE)
    powers = (1 << torch.arange(8, device="cpu")).to(torch.uint8)
    tables, some, every = [], [], []
    for first in range(0, queries, _TILE):
        count = min(_TILE, queries - first)
        pairs = torch.ops.fovea.kernel_pairs(spec, kind, 0, [queries, keys, first, count, heads], [*stream, 0])
        pairs = torch.nn.functional.pad(pairs, (0, columns * _TILE - keys, 0, _TILE - count))
        tiles = pairs.view(-1, _TILE, columns, _TILE)
        some.append(tiles.any(3).any(1)), every.append(tiles.all(3).all(1))
        tables.append((pairs.view(*pairs.shape[:2], -1, 8) * powers).sum(-1, dtype=torch.uint8))
    table = torch.cat(tables, 1).to(device)
    some, every = torch.stack(some, 1), torch.stack(every, 1)  # [heads or 1, rows of tiles, columns]

    def listed(chosen):
        """How many tiles of each row are chosen, and their columns first; [1, heads or 1, rows(, columns)] int32."""
        order = chosen.int().argsort(dim=-1, descending=True, stable=True)
        return chosen.sum(-1, dtype=torch.int32)[None].to(device), order.int()[None].contiguous().to(device)

    return BlockMask.from_kv_blocks(*listed(some & ~every), *listed(every), BLOCK_SIZE=_TILE, mask_mod=_reader(table),
                                    seq_lengths=lengths), table.nbytes


class _Kept:
    """The last masks: a training step asks for the same few in every layer."""

    def __init__(self):
        self.masks, self.bytes, self.lock = OrderedDict(), 0, threading.Lock()

    def get(self, key, make):
        with self.lock:
            if key in self.masks:
                self.masks.move_to_end(key)
                return self.masks[key][0]
        with torch.inference_mode(False), torch.no_grad():  # a later call may need the mask in a graph
            made = make()
        with self.lock:
            if key not in self.masks:
                self.masks[key], self.bytes = made, self.bytes + made[1]
            while self.bytes > _MOST_BYTES and len(self.masks) > 1:
                self.bytes -= self.masks.popitem(last=False)[1][1]
        return made[0]


_kept = _Kept()


def _block_mask(spec, kind, lengths, heads, stream, device):
    draws = _ask.parts(spec).draws
    if not draws:  # heads, layers and seeds then share the mask
        heads, stream = 1, (0, 0, 0)
    key = spec, kind, lengths, heads, tuple(stream), str(device)
    return _kept.get(key, lambda: _make_block_mask(spec, kind, lengths, heads, stream, device))


@functools.cache
def _flex(device):
    from torch.nn.attention.flex_attention import flex_attention
    if device == "cpu":  # where only tests come: the same values without a compiler
        return flex_attention
    compiled = torch.compile(flex_attention, dynamic=False)

    def run(*args, **kwargs):
        # Each length and each kind of mask is a program of its own. Past the usual limit, 8, FlexAttention would compute
        # dense scores.
        with torch._dynamo.config.patch(recompile_limit=1000, fail_on_recompile_limit_hit=True):
            return compiled(*args, **kwargs)

    return run


@functools.cache
def _adasplash():
    try:
        from adasplash import adasplash
    except ImportError:
        return None
    return adasplash


# The trial.

def _difference(got, want):
    got, want = got.detach().double().cpu(), want.detach()
    return float((got - want).norm() / want.norm())


def differences(kernel, device, dtype, backward=True):
    """{(spec, kind, what): how far the kernel is from the reference in double}, on small problems."""
    generator = torch.Generator().manual_seed(0)
    x = [torch.randn(1, 2, 192, 64, generator=generator, dtype=torch.float64, device="cpu").to(dtype) for _ in range(4)]
    found = {}
    for spec in kernel.tried_specs:
        for kind in ("self", "causal"):
            exact = [t.double().requires_grad_(backward) for t in x[:3]]
            there = [t.to(device).requires_grad_(backward) for t in x[:3]]
            want = [torch.ops.fovea.attention(*exact, spec, kind=kind)]
            call = Call(*there, spec, kind, None, (0, 0), ())
            got = [kernel.run(call)]
            if backward:
                want += torch.autograd.grad(want[0], exact, x[3].double())
                got += torch.autograd.grad(got[0], there, x[3].to(device))
            for what, g, w in zip(("output", "dq", "dk", "dv"), got, want):
                found[spec, kind, what] = _difference(g, w)
    return found


@functools.cache
def trial(kernel, device, dtype):
    """Why the kernel is not to be used on this type of device, or an empty text. The first call tries it."""
    try:
        with torch.inference_mode(False), torch.enable_grad():
            found = differences(kernel, device, dtype)
    except Exception as error:  # a compiler that is missing, a device that is too old, memory
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"does not run here: {' '.join(lines[:2]) or type(error).__name__}"
    (spec, kind, what), most = max(found.items(), key=lambda item: float("inf") if item[1] != item[1] else item[1])
    if not most <= TOLERANCE[dtype]:
        return (f"its {what} for {spec}, {kind}, differs by {most:.1e} from the definition; "
                f"{TOLERANCE[dtype]:.0e} is allowed")
    return ""


# The choice.

def reasons(call):
    """(kernel, why it refuses, or an empty text) in order, up to the one that takes the call."""
    named = os.environ.get("FOVEA_KERNEL", "")
    for kernel in KERNELS:
        if named and named != kernel.name:
            yield kernel, f"FOVEA_KERNEL names {named}"
            continue
        reason = kernel.refusal(call)
        if not reason:
            reason = ("untried here: it runs on CUDA" if call.q.device.type != "cuda"
                      else trial(kernel, "cuda", call.q.dtype))
        yield kernel, reason
        if not reason:
            return


def described(q, k, v, spec, kind, scale, stream, tensors, enable_gqa, dropout):
    """The Call, under autocast in the region's type, as for PyTorch's own attention."""
    device = q.device.type
    if torch.is_autocast_enabled(device):
        kept = (torch.float64, torch.get_autocast_dtype(device))
        q, k, v = (x if x.dtype in kept or not x.is_floating_point() else x.to(kept[1]) for x in (q, k, v))
    given = [name for name, x in tensors.items() if x is not None]
    given += ["dropout"] * bool(dropout)
    if not enable_gqa and q.dim() == k.dim() == 4 and q.size(1) != k.size(1):
        given.append("heads that share keys without enable_gqa")
    return Call(q, k, v, spec, kind, scale, stream, tuple(given))


def taken(call):
    """The result of the first kernel that takes the call; None if it is the reference's."""
    for kernel, reason in reasons(call):
        if not reason:
            return kernel.run(call)
        if os.environ.get("FOVEA_KERNEL") == kernel.name:
            raise ValueError(f"attention: FOVEA_KERNEL={kernel.name} refuses {call.spec}: {reason}")
    return None


def attention(q, k, v, *arguments):
    """taken() of the call that the arguments describe; None for inputs that are the reference's to refuse."""
    if not (isinstance(k, torch.Tensor) and isinstance(v, torch.Tensor) and q.dim() == k.dim() == v.dim() == 4
            and isinstance(arguments[0], str)):
        return None
    call = described(q, k, v, *arguments)
    try:
        _layer(call)
    except RuntimeError:  # no spec
        return None
    return taken(call)

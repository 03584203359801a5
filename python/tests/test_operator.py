"""The operator as PyTorch sees it: schema, fake tensors, autograd, gradients."""
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import fovea
import specs

H, D = 3, 4
KINDS = ["self", "causal", "cross"]


def cases():
    for spec in specs.ALL:
        for kind in KINDS:
            if kind != "cross" or specs.for_cross(spec):
                yield pytest.param(spec, kind, id=f"{spec}-{kind}")


def dense(kind, dtype=torch.float64, requires_grad=True):
    """Two sequences, the second padded; on cross-attention with keys of another length."""
    q, = specs.inputs(2, H, 6, D, dtype=dtype, count=1, requires_grad=requires_grad)
    k, v = specs.inputs(2, H, 7 if kind == "cross" else 6, D, dtype=dtype, count=2, requires_grad=requires_grad)
    lengths = {"q_lengths": torch.tensor([6, 4]), "k_lengths": torch.tensor([k.size(2), 4])}
    return (q, k, v), lengths | {"causal": kind == "causal", "cross": kind == "cross"}


def with_dropout(spec, kind):
    """Attention as a function of its differentiable inputs, and those."""
    x, options = dense(kind)
    more = specs.extras(spec, H, D, requires_grad=True)

    def run(q, k, v, *values):
        return fovea.attention(q, k, v, spec, dropout=0.2, dropout_seed=9, **dict(zip(more, values)), **options)

    return run, (*x, *more.values())


@pytest.mark.parametrize("spec,kind", list(cases()))
def test_gradcheck(spec, kind):
    # Central differences in double with steps of 1e-6 err by about 1e-9; a step across a tie or a kink would fail, and
    # the seed has none.
    run, x = with_dropout(spec, kind)
    assert torch.autograd.gradcheck(run, x, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=True)


def operator_arguments(spec, dtype, layout=(None,) * 7, shape=(2, H, 6, D)):
    q, k, v = specs.inputs(*shape, dtype=dtype, requires_grad=True)
    alpha = specs.extras("entmax(learned)", H, D, dtype, True)["alpha"] if "learned" in spec else None
    return (q, k, v, alpha, [], [], list(layout), spec, "self", 0.5, 0.1, [1, 0, 0, 1], 7, True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("spec", ["full", "topk(3)", "window(3)+relu", "entmax(1.5)", "entmax(learned)"])
def test_opcheck(spec, dtype):
    forward, packed = torch.ops.fovea.attention_forward.default, torch.tensor([0, 5, 5, 11])
    # AOT dispatch is compared by outputs. The outputs for backward, stats and kept, leave room that no kernel fills, so
    # AOT dispatch is run without gradients here, and with gradients on the whole operator below.
    most = ("test_schema", "test_autograd_registration", "test_faketensor")
    for layout, shape in (((None,) * 7, (2, H, 6, D)), ([packed] + [None] * 6, (11, H, D))):
        arguments = operator_arguments(spec, dtype, layout, shape)
        torch.library.opcheck(forward, arguments, test_utils=most)
        detached = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments[:-1]]
        torch.library.opcheck(forward, (*detached, False))
    begins, tokens, lengths = torch.tensor([0, 2, 1]), torch.tensor([9, 3, 0, 10]), torch.tensor([2, 1, 3])
    arguments = operator_arguments(spec, dtype, [packed, None, begins, tokens, None, lengths, None], (11, H, D))
    torch.library.opcheck(forward, (*[x.detach() if isinstance(x, torch.Tensor) else x for x in arguments[:-1]], False))


def test_lists_of_keys_without_their_ranges():
    q, tokens = specs.randn(5, H, D), torch.tensor([4, 2])
    for x, layout in ((q, [None, None, None, tokens, None, None, None]),
                      (q, [torch.tensor([0, 5]), None, None, tokens, None, None, None]),
                      (q[None], [None, None, torch.tensor([0]), tokens, None, torch.tensor([2]), None])):
        with pytest.raises(RuntimeError, match="k_tokens go with k_begins"):
            torch.ops.fovea.attention_forward(x, x, x, None, [], [], layout, "full", "self", 1.0, 0.0, [0, 0, 0, 1], 0, False)


@pytest.mark.parametrize("spec", ["topk(3)", "window(3)"])
def test_inference_before_leaves_nothing_behind(spec):
    """Plans are kept: made in inference mode their tensors could be in no graph."""
    q, k, v = specs.inputs(2, H, 7, D, requires_grad=True)
    with torch.inference_mode():
        fovea.attention(q, k, v, spec, causal=True)
    fovea.attention(q, k, v, spec, causal=True).sum().backward()
    assert q.grad is not None and q.grad.isfinite().all()


def test_weights_are_constants_of_the_size_that_compilers_expect():
    q, k = specs.randn(0, H, 4, D), specs.randn(0, H, 5, D)
    assert fovea.attention_weights(q, k).shape == fovea.attention_weights(q.to("meta"), k.to("meta")).shape
    q, k = specs.randn(1, H, 4, D, requires_grad=True), specs.randn(1, H, 5, D)
    assert not fovea.attention_weights(q, k).requires_grad
    ranges = {"q_offsets": torch.tensor([0, 4]), "k_begins": torch.tensor([1]), "k_lengths": torch.tensor([3])}
    assert fovea.attention_weights(q[0].transpose(0, 1), k[0].transpose(0, 1), **ranges).shape == (1, H, 4, 3)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q.detach(), torch.ones_like(q))
        assert torch.autograd.forward_ad.unpack_dual(fovea.attention_weights(dual, k)).tangent is None


@specs.CPU_KERNELS
def test_operators_beneath_check_what_they_read():
    """Their kernels take pointers: a tensor that is too small would be read past its end."""
    q, k, v, alpha, *rest = operator_arguments("entmax(learned)", torch.float32)
    q, k, v, alpha = (x.detach() for x in (q, k, v, alpha))
    forward, backward = torch.ops.fovea.attention_forward, torch.ops.fovea.attention_backward
    for inputs, message in (((q, k[..., :2], v, alpha), "equal heads"), ((q, k, v.double(), alpha), "expected one type"),
                            ((q, k, v, alpha[:-1]), "a value a head"), ((q, k, v, None), "needs alpha of shape"), ((q[0, 0], k, v, alpha), "expected .T, H, D.")):
        with pytest.raises(RuntimeError, match=message):
            forward(*inputs, *rest)
    # The program's library has the three tensors of a copy of the keys too.
    layout_size = 8 if fovea._library.find().name == fovea._library.NAME else 11
    for place, name, size in ((0, "terms", 4), (1, "offsets", 5), (2, "layout", layout_size), (7, "stream", 5)):
        longer = [*rest[:place], [None if name in ("terms", "layout") else 0] * (size + 1), *rest[place + 1:]]
        with pytest.raises(RuntimeError, match=f"the list {name} has {size + 1} entries; expected {size}"):
            forward(q, k, v, alpha, *longer)
    out, stats, kept, sums = forward(q, k, v, alpha, *rest)
    grad, terms, layout = torch.ones_like(out), rest[:2], rest[2:-1]
    assert stats.numel() > 0
    for given, message in (((grad[..., :2], out, stats, kept), "grad_out is Float"),
                           ((grad, out.bfloat16(), stats, kept), "out is BFloat16"),
                           ((grad, out, stats[..., :-1], kept), "stats is Float .* expected what forward left"),
                           ((grad, out, stats, stats), "kept is Float")):
        with pytest.raises(RuntimeError, match=message):
            backward(given[0], None, q, k, v, *given[1:], sums, alpha, *terms, 0, *layout)


@pytest.mark.parametrize("spec", ["topk(3)", "entmax(learned)", "2*window(3)+gated-rmsnorm;1*gated-rmsnorm"])
def test_opcheck_of_the_whole(spec):
    x, options = dense("self", torch.float32)
    kwargs = {"kind": "self", "q_lengths": options["q_lengths"], "k_lengths": options["k_lengths"],
              **specs.extras(spec, H, D, torch.float32, True)}
    torch.library.opcheck(torch.ops.fovea.attention.default, (*x, spec), kwargs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("given", [("gain",), ("gain", "gate"), ("gain", "bias")], ids="-".join)
def test_opcheck_of_norms(given, centred, dtype):
    z = specs.randn(5, H * D, dtype=dtype, requires_grad=True)
    gain, gate, bias = (specs.randn(H * D, dtype=dtype, requires_grad=True) if name in given else None
                        for name in ("gain", "gate", "bias"))
    arguments = (z, gain, gate, bias, centred)
    torch.library.opcheck(torch.ops.fovea.head_norm.default, (*arguments, 1e-8))
    detached = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments]
    y, centre, rstd = torch.ops.fovea.head_norm(*detached, 1e-8)
    backward = (torch.randn_like(y), *detached[:4], centre, rstd, centred, 1e-8)
    torch.library.opcheck(torch.ops.fovea.head_norm_backward.default, backward)


@specs.CPU_KERNELS
@pytest.mark.parametrize("norm", specs.NORMS)
def test_norms_in_one_pass_are_those_in_double(norm):
    """Float32 takes the fused norm, double the composition of PyTorch's operators that gradcheck has checked."""
    results = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(3)
        x = [specs.randn(2, H, 50, D).to(dtype).requires_grad_() for _ in range(3)]
        more = {name: value.detach().float().to(dtype).requires_grad_()
                for name, value in specs.extras("relu+" + norm, H, D, dtype).items()}
        out = fovea.attention(*x, "relu+" + norm, causal=True, **more)
        weight = torch.linspace(-1, 1, out.numel(), dtype=dtype).view(out.shape)
        results.append([out, *torch.autograd.grad((out * weight).sum(), (*x, *more.values()))])
    for ours, exact in zip(*results):
        # The gradient of a row is divided by its root mean square, which is small where few scores are positive.
        torch.testing.assert_close(ours.double(), exact, rtol=1e-4, atol=1e-4 * exact.abs().max().item())


# The ways in which q, k and v may lie in memory.
LAYOUTS = {
    "one": lambda x, n: x(1, H, n, D),
    "two": lambda x, n: x(2, H, n, D),
    "projected": lambda x, n: x(2, n, H, D).transpose(1, 2),
    "sliced": lambda x, n: x(2, n, 3 * H, D)[:, :, H:2 * H].transpose(1, 2),
    "packed": lambda x, n: x(n, H, D),
    "packed-by-heads": lambda x, n: x(H, n, D).transpose(0, 1),
    "overlapping": lambda x, n: x(n, H + D - 1).unfold(1, D, 1),
}


@specs.CPU_KERNELS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("n", [6, 300])  # cpu-rows and cpu-topk
@pytest.mark.parametrize("lies", LAYOUTS)
def test_backward_keeps_layouts(lies, n, dtype):
    q, k, v = [LAYOUTS[lies](lambda *shape: specs.randn(*shape, dtype=dtype), n) for _ in range(3)]
    _, _, _, alpha, *terms, layout, spec, kind, scale, dropout, stream, seed, backward = operator_arguments(
        "topk(3)", dtype)
    end = (layout, spec, kind, scale, dropout, stream, seed)
    rest = (alpha, *terms, *end)
    out, stats, kept, sums = torch.ops.fovea.attention_forward(q, k, v, *rest, backward)
    arguments = (torch.randn_like(out), None, q, k, v, out, stats, kept, sums, alpha, *terms, 0, *end)
    torch.library.opcheck(torch.ops.fovea.attention_backward.default, arguments)
    # Autograd copies a gradient whose strides are not its tensor's; two sequences by heads are copied for the kernels.
    for x, grad in zip((q, k, v), torch.ops.fovea.attention_backward(*arguments)):
        if lies not in ("two", "sliced", "overlapping"):
            kept_sizes = [i for i in range(x.dim()) if x.size(i) > 1]
            assert [x.stride(i) for i in kept_sizes] == [grad.stride(i) for i in kept_sizes]
    gathered = [x.clone(memory_format=torch.contiguous_format).requires_grad_() for x in (q, k, v)]
    alone = torch.autograd.grad(torch.ops.fovea.attention_forward(*gathered, *rest, backward)[0], gathered, arguments[0])
    for a, b in zip(torch.ops.fovea.attention_backward(*arguments), alone):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_another_kernel_in_backward_is_refused(monkeypatch):
    q = specs.randn(1, H, 6, D, requires_grad=True)
    monkeypatch.setenv("FOVEA_KERNEL", "reference")
    out = fovea.attention(q, q, q, "topk(3)")
    monkeypatch.delenv("FOVEA_KERNEL")
    with pytest.raises(RuntimeError, match="FOVEA_KERNEL was 'reference' in forward and is '' in backward"):
        out.sum().backward()


def test_forward_derivatives_are_refused():
    q = specs.randn(1, H, 5, D)
    with pytest.raises(RuntimeError, match="no forward-mode derivatives"):
        torch.func.jvp(lambda x: fovea.attention(x, x, x), (q,), (q,))


@specs.AUTOCAST
@pytest.mark.parametrize("spec", ["topk(3)", "rela-g"])
def test_autocast_casts_as_for_pytorchs_attention(spec):
    q, k, v = specs.inputs(2, H, 6, D, dtype=torch.float32, requires_grad=True)
    more = specs.extras(spec, H, D, torch.float32, True)
    with torch.autocast(specs.DEVICE, torch.bfloat16):
        out = fovea.attention(q, k.bfloat16(), v, spec, **more)
        assert out.dtype == torch.nn.functional.scaled_dot_product_attention(q, k, v).dtype == torch.bfloat16
    expected = fovea.attention(*(x.bfloat16() for x in (q, k, v)), spec,
                               **{name: x.bfloat16() for name, x in more.items()})
    assert torch.equal(out, expected)
    out.float().sum().backward()
    assert all(x.grad is not None and x.grad.dtype == torch.float32 for x in (q, k, v, *more.values()))


@pytest.mark.parametrize("spec", ["full", "topk(8)", "sparsemax"])
def test_backward_within_autocast_is_the_one_outside(spec):
    x = specs.inputs(1, H, 100, 32, dtype=torch.float32, requires_grad=True)  # in float16 the reference computes

    def gradients(inside):
        with torch.autocast(specs.DEVICE, torch.float16):
            loss = fovea.attention(*x, spec, causal=True).float().square().sum()
            if inside:
                return torch.autograd.grad(loss, x)
        return torch.autograd.grad(loss, x)

    assert all(torch.equal(a, b) for a, b in zip(gradients(True), gradients(False)))


@specs.AUTOCAST
def test_weights_under_autocast_are_those_of_the_cast_inputs():
    q, k = specs.inputs(1, H, 300, 64, dtype=torch.float32, count=2)
    with torch.autocast(specs.DEVICE, torch.bfloat16):
        weights = fovea.attention_weights(q, k, "topk(8)")
    assert torch.equal(weights, fovea.attention_weights(q.bfloat16(), k.bfloat16(), "topk(8)"))


@pytest.mark.parametrize("follow", [
    lambda f, x: torch.compile(f, backend="eager", fullgraph=True), lambda f, x: make_fx(f)(*x),
    lambda f, x: make_fx(f, tracing_mode="fake")(*x), lambda f, x: torch.jit.trace(f, x, check_trace=False)],
    ids=["compile", "make_fx", "make_fx-fake", "jit"])
def test_weights_under_autocast_are_one_operator(follow):
    """Followed into its parts its masks would be memory that nothing fills."""
    def weights(q, k):
        return fovea.attention_weights(q, k, "window(3)")

    torch._dynamo.reset()
    x, y = (tuple(specs.inputs(1, H, 6, D, dtype=torch.float32, count=2)) for _ in range(2))
    with torch.autocast(specs.DEVICE, torch.bfloat16):
        followed = follow(weights, x)
        assert torch.equal(followed(*y), weights(*y))


@specs.CPU_KERNELS
def test_room_for_backward_is_where_kernels_run():
    """On the CPU; what stands in for its tensors has their sizes."""
    x = specs.inputs(2, H, 6, D, dtype=torch.float32, requires_grad=True)
    rest = operator_arguments("topk(3)", torch.float32)[3:]

    def sizes(x):
        return [t.shape for t in torch.ops.fovea.attention_forward(*x, *rest)]

    on_cpu, elsewhere = sizes(x), sizes([t.detach().to("meta").requires_grad_() for t in x])
    assert on_cpu[1].numel() > 0 and elsewhere[1].numel() == elsewhere[2].numel() == 0
    with FakeTensorMode() as mode:
        assert sizes([mode.from_tensor(t) for t in x]) == on_cpu


@pytest.mark.parametrize("name", ["alpha", "gain", "k_lengths", "q_offsets"])
def test_tensors_of_another_device_are_refused(name):
    q = specs.randn(*((10,) if name == "q_offsets" else (1,)), H, *(() if name == "q_offsets" else (10,)), D)
    spec = {"alpha": "entmax(learned)", "gain": "relu+rmsnorm"}.get(name, "full")
    with pytest.raises(RuntimeError, match=f"{name} is on meta; expected it on {'cpu' if '_' in name else specs.DEVICE}"):
        fovea.attention(q, q, q, spec, **{name: torch.ones(H, device="meta")})


@pytest.mark.parametrize("options", [
    # Elsewhere the check of the range would wait for the device.
    pytest.param({"spec": "entmax(learned)", "alpha": torch.tensor([1, .5, 2])}, marks=specs.CPU_KERNELS),
    {"spec": "topk(2)", "alpha": torch.ones(H, device=specs.DEVICE)}], ids=["range", "unread"])
def test_weights_refuse_an_alpha_as_attention_does(options):
    q = specs.randn(1, H, 10, D)
    with pytest.raises(RuntimeError, match="alpha"):
        fovea.attention_weights(q, q, **options)


def test_dropout_of_everything_is_refused():
    q = specs.randn(1, H, 10, D)
    with pytest.raises(RuntimeError, match="dropout .* is not in"):
        fovea.attention(q, q, q, dropout=1 - 1e-8)


def test_shared_ranges_of_keys_have_no_gradients():
    q = specs.randn(4, H, D)
    ranges = {"q_offsets": torch.tensor([0, 2, 4]), "k_begins": torch.tensor([0, 1]), "k_lengths": torch.tensor([3, 3])}
    alpha = torch.full((H,), 1.5, device=specs.DEVICE, requires_grad=True)
    with pytest.raises(RuntimeError, match="k_begins have no gradients"):
        fovea.attention(q, q, q, "entmax(learned)", alpha=alpha, **ranges)


def test_heads_concatenate_without_a_copy():
    q, k, v = specs.inputs(2, H, 5, D)
    out = fovea.attention(q, k, v, "topk(2)")
    assert out.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("device", ["xpu", "mps"])
def test_any_device_of_torch_has_the_operators(device):
    """Stand-ins for tensors on devices that are not here run through sizes alone; tests of C++ compute on such a device."""
    with FakeTensorMode():
        q = torch.empty(1, 2, 6, 8, device=device)
        assert fovea.attention(q, q, q, "topk(3)").device.type == device
        out, stats, kept, sums = torch.ops.fovea.attention_forward(q, q, q, None, [], [], [], "topk(3)", "self", 1.0, 0.0, [], 0,
                                                                   False)
        grads = torch.ops.fovea.attention_backward(out, None, q, q, q, out, stats, kept, sums, None, [], [], 0, [], "topk(3)",
                                                   "self", 1.0, 0.0, [], 0)
        assert all(x.device.type == device for x in grads[:3])
    # The operators that run on real tensors of a device.
    for name in ("attention_forward", "attention_backward", "index_topk", "index_target"):
        for key in ("XPU", "MPS", "PrivateUse1", "CUDA"):
            assert torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"fovea::{name}", key), (name, key)

"""The short way of usual calls gives the bits of the general one, and leaves to it what torch's modes have to see."""
import copy

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import fovea
from fovea import _functional, _library


@pytest.fixture
def ways(monkeypatch):
    """Names of the ways that calls took, in order."""
    taken, general = [], _functional._call
    short = _library.plain_attention

    def note_short(*args):
        out = short(*args)
        taken.append("short" if out is not None else "refused")
        return out

    monkeypatch.setattr(_library, "plain_attention", note_short)
    monkeypatch.setattr(_functional, "_call", lambda *args, **kwargs: taken.append("general") or general(*args, **kwargs))
    return taken


def both_ways(monkeypatch, q, k, v, *args, cotangent=None, **kwargs):
    """Output and gradients by the short way and by the general one."""
    results = []
    for short in (True, False):
        with monkeypatch.context() as patch:
            if short:
                patch.setattr(_functional, "_call", None)  # would be an error
            else:
                patch.setattr(_library, "plain_attention", None)
            torch.manual_seed(3)
            x = [t.detach().requires_grad_() for t in (q, k, v)]
            out = fovea.attention(*x, *args, **kwargs)
            grad = torch.ones_like(out) if cotangent is None else cotangent
            results.append((out.detach(), *torch.autograd.grad(out, x, grad)))
    return results


def assert_same(results):
    for ours, general in zip(*results):
        assert torch.equal(ours, general)
        assert ours.shape == general.shape and ours.dtype == general.dtype


def tensors(*shape, dtype=torch.float32):
    return [torch.randn(shape).to(dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("spec", ["full", "topk(5)", "window(4)|global(2)", "sparsemax", "entmax(1.5)", "relu", "random(3)",
                                  "topk(4,keep=window(1))"])
@pytest.mark.parametrize("causal", [False, True])
def test_gives_the_bits_of_the_general_way(monkeypatch, spec, dtype, causal):
    q, k, v = tensors(2, 4, 21, 8, dtype=dtype)
    cotangent = torch.randn(2, 4, 21, 8).to(dtype)
    assert_same(both_ways(monkeypatch, q, k, v, spec, causal=causal, cotangent=cotangent, seed=7, layer=2))


@pytest.mark.parametrize("options", [
    {"dropout": 0.3}, {"dropout": 0.3, "dropout_seed": 5}, {"dropout": 0.3, "dropout_seed": torch.tensor(5)}, {"scale": 2},
    {"q_lengths": torch.tensor([3, 9])}, {"k_lengths": torch.tensor([0, 9]), "causal": True},
    {"q_lengths": torch.tensor([3, 9]), "k_lengths": torch.tensor([1, 0]), "cross": True},
], ids=str)
def test_options(monkeypatch, options):
    assert_same(both_ways(monkeypatch, *tensors(2, 3, 9, 8), "topk(4)", **options))


def test_packed_sequences(monkeypatch):
    q, k, v = tensors(12, 3, 8)
    offsets = torch.tensor([0, 5, 5, 12])
    assert_same(both_ways(monkeypatch, q, k, v, "topk(3)", q_offsets=offsets))
    assert_same(both_ways(monkeypatch, q[:6], k, v, "topk(3)", cross=True, q_offsets=torch.tensor([0, 4, 4, 6]),
                          k_offsets=offsets))
    assert_same(both_ways(monkeypatch, q, k, v, "topk(3)"))


def test_keys_of_a_cache(ways):
    q, k, v = (x.detach() for x in tensors(12, 3, 8))
    options = {"q_offsets": torch.arange(3), "k_begins": torch.tensor([2, 0]), "k_lengths": torch.tensor([4, 7])}
    for tokens in (None, torch.tensor([11, 3, 4, 5, 0, 1, 2, 9])):
        given = fovea.attention(q[:2], k, v, "topk(3)", causal=True, k_tokens=tokens, **options)
        general = torch.ops.fovea.attention(q[:2], k, v, "topk(3)", kind="causal", k_tokens=tokens, **options)
        assert torch.equal(given, general)
    assert ways == ["short", "short"]


def test_heads_that_share_keys(monkeypatch):
    q, (k, v, _) = tensors(2, 6, 9, 8)[0], tensors(2, 3, 9, 8)
    assert_same(both_ways(monkeypatch, q, k, v, "topk(4)", enable_gqa=True))


@pytest.mark.parametrize("arranged", [
    lambda x: x.transpose(1, 2).contiguous().transpose(1, 2), lambda x: torch.cat([x, x], -1)[..., :8],
    lambda x: x[:, :, :1], lambda x: x[:1], lambda x: x[:, :1].expand(-1, 4, -1, -1), lambda x: x[:, :, 1:2].expand(-1, -1, 5, -1),
    lambda x: x[:, :, :0], lambda x: x[:0], lambda x: torch.cat([x, x], -1)[..., ::2],
], ids=["tokens-first", "gaps", "one-token", "one-text", "one-head", "one-row", "no-token", "no-text", "every-other"])
def test_strides(monkeypatch, arranged):
    assert_same(both_ways(monkeypatch, *map(arranged, tensors(3, 4, 7, 8)), "topk(3)"))


def test_gradient_of_a_sum_is_one_number_in_memory(monkeypatch):
    q, k, v = tensors(2, 4, 7, 8)
    assert_same(both_ways(monkeypatch, q, k, v, "topk(3)", cotangent=torch.ones(()).expand(2, 4, 7, 8)))


def test_one_tensor_for_q_k_and_v(ways):
    x = torch.randn(1, 2, 6, 8, requires_grad=True)
    given, = torch.autograd.grad(fovea.attention(x, x, x, "topk(3)").square().sum(), x)
    general, = torch.autograd.grad(torch.ops.fovea.attention(x, x, x, "topk(3)").square().sum(), x)
    assert torch.equal(given, general) and ways == ["short"]


def test_second_derivatives(ways):
    q, k, v = (torch.randn(1, 2, 6, 4, requires_grad=True) for _ in range(3))

    def second(attention):
        first = torch.autograd.grad(attention(q, k, v, "topk(3)").square().sum(), q, create_graph=True)[0]
        return torch.autograd.grad(first.square().sum(), (q, k, v))

    for ours, general in zip(second(fovea.attention), second(torch.ops.fovea.attention)):
        torch.testing.assert_close(ours, general)
    assert ways == ["short"]


def test_many_cotangents_at_once_are_refused_as_by_the_general_way(ways):
    q, k, v = (torch.randn(1, 2, 6, 4, requires_grad=True) for _ in range(3))
    out = fovea.attention(q, k, v, "topk(3)")
    with pytest.raises(RuntimeError, match="fovea::attention_backward"):
        torch.autograd.grad(out, q, torch.randn(5, 1, 2, 6, 4), is_grads_batched=True)
    assert ways == ["short"]


def test_a_changed_input_is_refused_in_backward():
    q, k, v = (torch.randn(1, 2, 6, 4, requires_grad=True) for _ in range(3))
    lengths = torch.tensor([4])
    out = fovea.attention(q, k, v, "topk(3)", q_lengths=lengths)
    lengths.fill_(5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


class Watched(torch.Tensor):
    pass


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class SeenFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("inside", [
    Seen, SeenFunctions, lambda: torch.autocast("cpu", torch.bfloat16), torch.autograd.forward_ad.dual_level,
], ids=["dispatch-mode", "function-mode", "autocast", "forward-mode"])
def test_what_listens_gets_the_general_way(ways, inside):
    q, k, v = tensors(1, 2, 6, 8)
    expected = fovea.attention(q, k, v, "topk(3)")
    with inside() as mode:
        given = fovea.attention(q, k, v, "topk(3)")
    torch.testing.assert_close(given.float(), expected, atol=0.05 if given.dtype == torch.bfloat16 else 1e-5, rtol=0.05)
    assert ways == ["short", "refused", "general"]
    if isinstance(mode, Seen):
        assert "fovea.attention_forward.default" in mode.names


def test_transforms_get_the_general_way(ways):
    x = torch.randn(1, 2, 6, 8)
    with pytest.raises(RuntimeError, match="functorch"):
        torch.func.grad(lambda q: fovea.attention(q, x, x, "topk(3)").sum())(x)
    assert ways == ["refused", "general"]


@pytest.mark.parametrize("change", [lambda x: x.double(), lambda x: x.half(), lambda x: x.as_subclass(Watched),
                                    lambda x: x.to("meta")], ids=["float64", "float16", "subclass", "meta"])
def test_other_tensors_get_the_general_way(ways, change):
    q, k, v = map(change, tensors(1, 2, 6, 8))
    fovea.attention(q, k, v, "topk(3)")
    assert ways == ["refused", "general"]


@pytest.mark.parametrize("spec,given", [("relu+rmsnorm", {}), ("1*topk(2);1*full", {}), ("entmax(learned)", {"alpha": torch.full((2,), 1.5)}),
                                        ("full", {"indices": torch.zeros(1, 6, 1, dtype=torch.int32)}),
                                        ("full", {"offset_bias": torch.zeros(2, 3)})], ids=lambda x: x if isinstance(x, str) else "")
def test_other_calls_get_the_general_way(ways, spec, given):
    fovea.attention(*tensors(1, 2, 6, 8), spec, **given)
    assert ways[-1] == "general"


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(ways, mode):
    q, k, v = (torch.randn(1, 2, 6, 8, requires_grad=True) for _ in range(3))
    with mode():
        given = fovea.attention(q, k, v, "topk(3)")
    assert ways == ["short"] and not given.requires_grad
    with torch.no_grad():
        assert torch.equal(given, torch.ops.fovea.attention(q, k, v, "topk(3)"))


def test_tensors_of_inference_mode_outside_it(ways):
    with torch.inference_mode():
        q, k, v = tensors(1, 2, 6, 8)
    fovea.attention(q, k, v, "topk(3)")
    assert ways == ["short"]


def test_what_no_kernel_takes(ways, monkeypatch):
    monkeypatch.setenv("FOVEA_KERNEL", "reference")
    q = torch.randn(1, 2, 6, 8, requires_grad=True)
    fovea.attention(q, q, q, "topk(3)").sum().backward()
    assert ways == ["refused", "general"]


MISTAKES = [
    ("tpok(3)", {}), ("window(3)", {"cross": True}), ("full", {"scale": float("nan")}), ("full", {"dropout": 1.0}),
    ("full", {"q_lengths": torch.tensor([7])}), ("full", {"q_lengths": torch.tensor([7], dtype=torch.int32)}),
    ("full", {"q_offsets": torch.tensor([0, 6])}), ("3*full", {}),
]


@pytest.mark.parametrize("spec,given", MISTAKES, ids=[f"{spec}-{'-'.join(given)}" for spec, given in MISTAKES])
def test_mistakes_are_told_as_by_the_general_way(monkeypatch, spec, given):
    q = torch.randn(1, 2, 6, 8, requires_grad=True)
    told = []
    for short in (_library.plain_attention, None):
        monkeypatch.setattr(_library, "plain_attention", short)
        with pytest.raises((RuntimeError, ValueError)) as error:
            fovea.attention(q, q, q, spec, **copy.copy(given))
        told.append((type(error.value), str(error.value)))
    assert told[0] == told[1]


@pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11), reason="torch 2.10 cannot hold such memory")
def test_large_results_are_used_again():
    """The memory of a large result is kept for the next one, and of several the last that came back is taken."""
    q = torch.randn(1, 8, 1024, 64)
    several = [fovea.attention(q, q, q, "window(4)") for _ in range(3)]
    several.clear()
    place = fovea.attention(q, q, q, "window(4)").data_ptr()
    assert fovea.attention(q, q, q, "window(4)").data_ptr() == place
    held = fovea.attention(q, q, q, "window(4)")
    assert fovea.attention(q, q, q, "window(4)").data_ptr() != held.data_ptr()
    assert held.device == torch.device("cpu") and held.untyped_storage().nbytes() == q.nbytes


def test_large_results_of_the_general_way_lie_in_the_same_memory(monkeypatch):
    from fovea._stable import _core
    made, recycled = [], _core.recycled

    def noted(rows):
        made.append(recycled(rows))
        assert made[-1].data_ptr() != rows.data_ptr()
        return made[-1]

    monkeypatch.setattr(_core, "recycled", noted)
    q = torch.randn(1, 8, 1024, 64, requires_grad=True)
    out = fovea.attention(q, q, q, "window(4)+relu+rmsnorm")
    grad, = torch.autograd.grad(out.sum(), q)
    assert len(made) == 4 and grad.shape == q.shape and bool(grad.isfinite().all())

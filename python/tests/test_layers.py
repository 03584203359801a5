"""A layer's head groups are one call of the kernels, with the numbers of the groups by themselves."""
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import fovea
import specs

H, D = 4, 8
LAYERS = {"2*window(3);2*topk(3)": ("window(3)", "topk(3)"), "2*random(3);2*relu": ("random(3)", "relu"),
          "2*topk(2);2*entmax(1.5)": ("topk(2)", "entmax(1.5)")}


class Calls(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += "attention_forward" in str(function)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("spec,calls", [("2*window(3);2*topk(3)", 1), ("1*full;1*relu;1*topk(2);1*sparsemax", 1),
                                        ("1*full;2*routed(2,3,random);1*relu", 3), ("2*relu+rmsnorm;2*gelu+rmsnorm", 1)])
def test_groups_that_follow_one_another_are_one_call(spec, calls):
    x = specs.inputs(1, H, 7, D, dtype=torch.float32)
    with Calls() as mode:
        fovea.attention(*x, spec)
    assert mode.count == calls


@specs.CPU_KERNELS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("spec", LAYERS)
def test_each_group_has_the_bits_of_its_own_call(spec, dtype):
    x = specs.inputs(2, H, 11, D, dtype=dtype, requires_grad=True)
    bias = specs.randn(H, 5, dtype=dtype if dtype == torch.float64 else torch.float32, requires_grad=True)
    out = fovea.attention(*x, spec, causal=True, offset_bias=bias, offset_first=-4)
    grad = torch.randn_like(out)
    grads = torch.autograd.grad(out, (*x, bias), grad)
    for i, own in enumerate(LAYERS[spec]):
        if own.startswith("random"):
            continue  # draws by the head's place
        heads = slice(2 * i, 2 * i + 2)
        parts = [t[:, heads].detach().requires_grad_() for t in x] + [bias[heads].detach().requires_grad_()]
        alone = fovea.attention(*parts[:3], own, causal=True, offset_bias=parts[3], offset_first=-4)
        assert torch.equal(alone, out[:, heads])
        for got, all_heads, dim in zip(torch.autograd.grad(alone, parts, grad[:, heads]), grads, (1, 1, 1, 0)):
            assert torch.equal(got, all_heads.narrow(dim, 2 * i, 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_groups_add_their_gradients_of_a_shared_head_of_keys(dtype):
    """Three groups read one head of k and v."""
    q = specs.randn(2, 3, 9, D, dtype=dtype)
    k, v = (specs.randn(2, 1, 9, D, dtype=dtype, requires_grad=True) for _ in range(2))
    out = fovea.attention(q, k, v, "1*full;1*topk(2);1*relu", enable_gqa=True)
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, (k, v), grad)
    parts = [torch.autograd.grad(fovea.attention(q[:, i:i + 1], k, v, own), (k, v), grad[:, i:i + 1])
             for i, own in enumerate(("full", "topk(2)", "relu"))]
    for got, *of_groups in zip(found, *parts):
        torch.testing.assert_close(got, sum(of_groups))


def test_alpha_and_sinks_of_one_layer():
    """Each is read by the heads that learn it, and gets zeros elsewhere."""
    x = [specs.randn(1, 3, 5, 4, dtype=torch.float64) for _ in range(3)]
    alpha, sinks = (torch.full((3,), value, dtype=torch.float64, device=specs.DEVICE, requires_grad=True) for value in (1.4, 0.3))
    out = fovea.attention(*x, "1*sink;1*entmax(learned);1*topk(2)+sink", alpha=alpha, sinks=sinks)
    for head, (spec, given) in enumerate([("sink", {"sinks": sinks}), ("entmax(learned)", {"alpha": alpha}),
                                          ("topk(2)+sink", {"sinks": sinks})]):
        own = fovea.attention(*(t[:, head:head + 1] for t in x), spec, **{n: t[head:head + 1] for n, t in given.items()})
        torch.testing.assert_close(out[:, head:head + 1], own)
    of_alpha, of_sinks = torch.autograd.grad(out.square().sum(), (alpha, sinks))
    assert of_alpha[1] != 0 and of_alpha[[0, 2]].eq(0).all() and of_sinks[1] == 0 and of_sinks[[0, 2]].ne(0).all()
    with pytest.raises(RuntimeError, match="needs sinks of shape \\[3\\], a value a head; got none"):
        fovea.attention(*x, "1*sink;1*entmax(learned);1*topk(2)+sink", alpha=alpha)
    with pytest.raises(RuntimeError, match="got sinks, which 'full' does not have; leave it out"):
        fovea.attention(*x, "full", sinks=sinks)


def test_alpha_is_checked_and_learned_in_the_heads_that_read_it():
    x = specs.inputs(1, H, 9, D, dtype=torch.float32)
    alpha = torch.tensor([0.0, 1.5, 0.0, 1.7], device=specs.DEVICE, requires_grad=True)
    out = fovea.attention(*x, "1*full;1*entmax(learned);1*relu;1*entmax(learned)", alpha=alpha)
    grad, = torch.autograd.grad(out.square().sum(), alpha)
    assert [bool(value) for value in grad] == [False, True, False, True]


@specs.CPU_KERNELS  # elsewhere the check would wait for the device
def test_alpha_out_of_range_names_its_head():
    x = specs.inputs(1, H, 9, D, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="alpha of head 3 is 0.5; expected one in"):
        fovea.attention(*x, "2*full;2*entmax(learned)", alpha=torch.tensor([0, 0, 1.5, 0.5]))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("spec,given,message", [
    ("full", {"gain": torch.ones(H * D, device=specs.DEVICE)}, "got gain, which 'full' does not have"),
    ("relu+rmsnorm", {"gain": torch.ones(3, device=specs.DEVICE)}, "gain has shape .3.; expected .32."),
    ("full", {"offset_bias": torch.ones(3, 2, device=specs.DEVICE)}, "offset_bias has shape .3, 2."),
], ids=["unread", "norm", "term"])
def test_mistakes_are_told_where_a_call_is_compiled(spec, given, message, dynamic):
    torch._dynamo.reset()
    q = specs.randn(1, H, 6, D)
    compiled = torch.compile(lambda q: fovea.attention(q, q, q, spec, **given), backend="eager", dynamic=dynamic, fullgraph=True)
    with pytest.raises(Exception, match=message):
        compiled(q)

"""The operators and modules under torch.compile and torch.export."""
import pytest
import torch

import fovea
import specs

H, D = 3, 4


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("spec", ["topk(3)", "window(3)|global(1)", "sparsemax", "rela-g", "1*full;2*topk(2)"])
def test_compile(spec, dynamic):
    more = specs.extras(spec, H, D, torch.float32, True)
    torch._dynamo.reset()  # else the cases count as recompilations of one function

    def step(q, k, v, seed):
        return (2 * fovea.attention(q, k, v, spec, causal=True, dropout=0.1, dropout_seed=seed, **more)).sin().sum()

    compiled = torch.compile(step, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for n, seed in ((6, 1), (9, 2)):
        x = specs.inputs(2, H, n, D, dtype=torch.float32, requires_grad=True)
        expected = torch.autograd.grad(step(*x, seed), (*x, *more.values()))
        got = torch.autograd.grad(compiled(*x, seed), (*x, *more.values()))
        for a, b in zip(got, expected):
            torch.testing.assert_close(a, b)


def test_inductor():
    """The default backend, once: it compiles C++ and takes its time."""
    torch._dynamo.reset()

    def step(q, k, v):
        return fovea.attention(q * 2, k, v, "topk(3)").exp().sum()

    x = specs.inputs(1, H, 6, D, dtype=torch.float32, requires_grad=True)
    try:
        value = torch.compile(step, fullgraph=True)(*x)
    except torch._dynamo.exc.BackendCompilerFailed as error:  # no C++ compiler where Python looks for one
        if "compiler" not in str(error).lower():
            raise
        pytest.skip(f"inductor cannot compile here: {str(error).splitlines()[0]}")
    torch.testing.assert_close(value, step(*x))


def test_dropout_compiles_in_one_graph():
    net = torch.nn.Sequential(*(fovea.Attention(H * D, H, "topk(3)", dropout=.5) for _ in range(3)))
    x = torch.randn(2, 6, H * D)
    explained = torch._dynamo.explain(net)(x)
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    assert not torch.equal(compiled(x), compiled(x)), "one mask for all calls"
    torch.export.export(net, (x,))


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
def test_compiled_backward_has_the_mask_of_forward(backend):
    q, k, v = specs.inputs(1, H, 8, D, requires_grad=True)
    weights = torch.randn(1, H, 8, D, dtype=torch.float64)
    out = torch.compile(lambda q, k, v: fovea.attention(q, k, v, dropout=.5), backend=backend, fullgraph=True)(q, k, v)
    loss = (out * weights).sum()
    grad, = torch.autograd.grad(loss, v)
    torch.testing.assert_close((grad * v).sum(), loss)  # linear in v


def test_numbered_layers_share_compiled_code():
    layers = [fovea.Attention(H * D, H, "topk(3)", layer=i) for i in range(12)]  # 8 versions are torch's limit
    x = torch.randn(2, 6, H * D)
    for layer in layers:
        expected = layer(x)
        layer.compile(backend="eager", fullgraph=True)
        torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("spec", ["window(3)", "topk(2)", "entmax(learned)", "sink", "softcap(0.5)"])
@pytest.mark.parametrize("lengths", [{}, {"q_lengths": torch.tensor([5, 3]), "k_lengths": torch.tensor([5, 3])}])
def test_weights_compile(spec, lengths):
    q, k = torch.randn(2, 2, H, 6, D)
    more = specs.extras(spec, H, D, torch.float32)

    def largest(q, k):
        return fovea.attention_weights(q * 2, k, spec, **lengths, **more).amax(-1)

    torch.testing.assert_close(torch.compile(largest, backend="eager")(q, k), largest(q, k))


@torch._dynamo.config.patch(compiled_autograd=True)  # monkeypatch would leave no such setting to the tests behind it
def test_compiled_backward_of_an_eager_forward():
    layer, x = fovea.Attention(H * D, H, "rela-g"), torch.randn(2, 6, H * D, requires_grad=True)
    expected, = torch.autograd.grad(layer(x).sum(), x)
    loss = layer(x).sum()
    torch.compile(lambda y: y.backward(), backend="eager")(loss)
    torch.testing.assert_close(x.grad, expected)


def test_what_a_spec_says_does_not_matter_to_export():
    class Made(torch.nn.Module):
        def forward(self, x):
            assert fovea.parse("full+topk(3)") == "topk(3)" and fovea.spec_names()
            return fovea.attention(x, x, x, "topk(3)") * len(fovea.properties("topk(3)")) + len(fovea.parameters("rela-g"))

    x = torch.randn(2, H, 6, D)
    torch.testing.assert_close(torch.export.export(Made(), (x,)).module()(x), Made()(x))

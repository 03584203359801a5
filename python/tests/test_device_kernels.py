"""Kernels of other libraries for CUDA: what they compute, when they are chosen, and what happens if they are wrong. No GPU
is needed: FlexAttention computes on the CPU too, without gradients, and adasplash is a stand-in."""
import random
import sys
import types

import pytest
import torch

import fovea
import specs
from fovea import _device_kernels as kernels

FLEX, ADASPLASH = kernels.KERNELS
# PyTorch says at each call that it computes without a compiler.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
TREES = [tree for tree in (specs.random_pairs(random.Random(seed)) for seed in range(16)) if "span" not in tree]


def call(spec, kind="self", shape=(2, 3, 150, 16), keys=None, dtype=torch.float32, scale=None, stream=(0, 0), **given):
    batch, heads, queries, width = shape
    kv_heads, n = keys or (heads, queries)
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(batch, h, m, width, generator=generator).to(dtype)
               for h, m in ((heads, queries), (kv_heads, n), (kv_heads, n)))
    return kernels.Call(q, k, v, spec, kind, scale, stream, tuple(given))


def same_as_ours(made):
    want = torch.ops.fovea.attention(*(x.double() for x in made[:3]), made.spec, kind=made.kind, scale=made.scale,
                                     seed=made.stream[0], layer=made.stream[1], enable_gqa=made.q.size(1) != made.k.size(1))
    assert FLEX.refusal(made) == ""
    got = FLEX.run(made)
    assert not got[want.abs().sum(-1) == 0].any(), "rows without a candidate are zero"
    # Outputs of size one, sums of at most 150 terms in float32.
    torch.testing.assert_close(got.double(), want, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", ["self", "causal"])
@pytest.mark.parametrize("spec", [s for s in specs.PATTERNS if not s.startswith("span")] + TREES)
def test_flex_computes_every_pattern(spec, kind):
    same_as_ours(call(spec, kind))


def test_flex_computes_other_shapes():
    same_as_ours(call("full", "cross", keys=(3, 70)))
    same_as_ours(call("window(40)", "causal", shape=(1, 4, 10, 16), keys=(2, 300)))  # a cache, shared keys
    same_as_ours(call("1*window(7);2*strided(3)", "causal", scale=0.3))
    same_as_ours(call("random(5)", stream=(7, 2)))
    same_as_ours(call("block(3)", shape=(1, 1, 1, 16)))


def test_masks_of_heads_and_layers_are_apart():
    outputs = [FLEX.run(call("random(5)", stream=stream)) for stream in ((7, 2), (7, 3), (8, 2), (7, 2))]
    assert torch.equal(outputs[0], outputs[3])
    assert not torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize("kernel, made, says", [
    (FLEX, dict(spec="topk(3)"), "the spec has topk"),
    (FLEX, dict(spec="sparsemax"), "the transform is not softmax"),
    (FLEX, dict(spec="window(8)+softcap(2)"), "the spec has softcap"),
    (FLEX, dict(spec="rela-g"), "the spec has a norm"),
    (FLEX, dict(spec="routed(3,8)"), "the spec routes"),
    (FLEX, dict(spec="span(8,4)", kind="causal"), "an adaptive span needs a term of the scores"),
    (FLEX, dict(spec="full", dtype=torch.float64), "float64 is left to the reference"),
    (FLEX, dict(spec="full", shape=(1, 2, 30, 8)), "head_dim 8 is below 16"),
    (FLEX, dict(spec="1*full;2*window(3)", shape=(1, 3, 30, 16), keys=(1, 30)), "heads that share keys"),
    (FLEX, dict(spec="full", indices=True), "takes no indices"),
    (ADASPLASH, dict(spec="entmax(1.5)"), "is not installed"),
])
def test_refusals_have_reasons(kernel, made, says):
    assert says in kernel.refusal(call(**made))


def test_flex_refuses_gradients_on_a_cpu_and_packed_batches():
    made = call("full")
    made.q.requires_grad_()
    assert FLEX.refusal(made) == "has no backward on a CPU"
    packed = kernels.Call(*(x[0].transpose(0, 1) for x in call("full")[:3]), "full", "self", None, (0, 0), ())
    assert FLEX.refusal(packed) == "the batch is packed"


@pytest.fixture
def adasplash(monkeypatch):
    """A stand-in that computes what the package should, or what `wrong` makes of it."""
    module = types.ModuleType("adasplash")
    module.wrong = lambda out: out

    def attention(q, k, v, alpha=1.5, is_causal=True, varlen=None, niter=None):
        assert varlen is not None or q.size(2) & (q.size(2) - 1) == 0
        out = torch.ops.fovea.attention(q.double(), k.double(), v.double(), f"entmax({alpha})" if alpha != 2 else "sparsemax",
                                        kind="causal" if is_causal else "self")
        return module.wrong(out).to(q.dtype)

    module.adasplash = attention
    monkeypatch.setitem(sys.modules, "adasplash", module)
    kernels._adasplash.cache_clear(), kernels.trial.cache_clear()
    yield module
    kernels._adasplash.cache_clear(), kernels.trial.cache_clear()


@pytest.mark.parametrize("spec", ["entmax(1.5)", "entmax(1.3)", "sparsemax"])
@pytest.mark.parametrize("n", [64, 150])
def test_adasplash_gets_its_arguments(adasplash, spec, n):
    made = call(spec, "causal", shape=(2, 2, n, 16), scale=0.5)
    assert ADASPLASH.refusal(made) == ""
    want = fovea.attention(*made[:3], spec, causal=True, scale=0.5)
    torch.testing.assert_close(ADASPLASH.run(made), want, rtol=0, atol=2e-5)


@pytest.mark.parametrize("made, says", [(dict(spec="entmax(learned)"), "neither sparsemax nor entmax with a fixed alpha"),
                                        (dict(spec="window(8)+sparsemax"), "the spec has a pattern or a selection"),
                                        (dict(spec="softcap(2)+sparsemax"), "the spec has softcap"),
                                        (dict(spec="sparsemax", shape=(1, 1, 64, 24)), "head_dim 24 is none of"),
                                        (dict(spec="sparsemax", shape=(1, 1, 63, 16)), "63 queries are fewer than 64")])
def test_adasplash_refuses(adasplash, made, says):
    assert says in ADASPLASH.refusal(call(**made))


def test_a_kernel_is_used_only_if_its_trial_agrees(adasplash):
    """On the CPU in place of CUDA."""
    assert kernels.trial(ADASPLASH, "cpu", torch.float32) == ""
    kernels.trial.cache_clear()
    adasplash.wrong = lambda out: out * 1.001
    assert "differs by 1.0e-03 from the definition; 1e-05 is allowed" in kernels.trial(ADASPLASH, "cpu", torch.float32)
    assert kernels.trial(ADASPLASH, "cpu", torch.bfloat16) == "", "which is rounded further"
    kernels.trial.cache_clear()
    adasplash.wrong = lambda out: out * torch.nan
    assert "differs by nan" in kernels.trial(ADASPLASH, "cpu", torch.float32)
    kernels.trial.cache_clear()

    def fails(_out):
        raise RuntimeError("no compiler:\ngcc\nand a trace")

    adasplash.wrong = fails
    assert kernels.trial(ADASPLASH, "cpu", torch.float32) == "does not run here: no compiler: gcc"


def test_flex_agrees_in_its_trial_forward():
    for dtype in kernels.TOLERANCE:
        found = kernels.differences(FLEX, "cpu", dtype, backward=False)
        assert len(found) == 4 and all(value <= kernels.TOLERANCE[dtype] for value in found.values()), (dtype, found)


def test_nothing_is_chosen_without_cuda(monkeypatch):
    made = call("window(5)")
    assert kernels.taken(made) is None
    assert [reason for _, reason in kernels.reasons(made)][0] == "untried here: it runs on CUDA"
    monkeypatch.setenv("FOVEA_KERNEL", "reference")
    assert {reason for _, reason in kernels.reasons(made)} == {"FOVEA_KERNEL names reference"}
    monkeypatch.setenv("FOVEA_KERNEL", "flex")
    with pytest.raises(ValueError, match="FOVEA_KERNEL=flex refuses window.5.: untried here"):
        kernels.taken(made)


@pytest.mark.skipif(specs.STAND_IN, reason="PyTorch's compiler asks for a real GPU")
def test_flex_compiled_reads_the_same_table():
    from torch.nn.attention.flex_attention import flex_attention

    made = call("window(20)|global(2)", "causal", shape=(1, 2, 200, 32))
    mask = kernels._block_mask(made.spec, made.kind, (200, 200), 2, (0, 0, 0), torch.device("cpu"))
    got = torch.compile(flex_attention, dynamic=False)(*made[:3], block_mask=mask)
    torch.testing.assert_close(got, fovea.attention(*made[:3], made.spec, causal=True), rtol=0, atol=2e-5)


def test_explain_ends_with_the_kernel_that_runs():
    x = [torch.randn(1, 4, 600, 16) for _ in range(3)]
    walk = fovea.explain(*x, "topk(8)", causal=True).splitlines()
    assert walk[0].startswith("cpu-topk: ") and walk[-1] == "-> cpu-topk"
    assert all(line.startswith("cpu-") for line in walk[:-1]), "those of CUDA do not run on tensors of the CPU"
    groups = fovea.explain(*x, "2*window(8);2*sparsemax", backward=True).splitlines()
    assert [line for line in groups if line.endswith("heads:")] == ["window(8), 2 heads:", "sparsemax, 2 heads:"]
    assert fovea.explain(*(t.double() for t in x), "window(8)").endswith("-> reference")
    with pytest.raises(fovea.SpecError):
        fovea.explain(*x, "window(")

"""fovea.Attention, and the messages of the package."""
import copy
import math
import os
import subprocess
import sys

import pytest
import torch
import torch.utils.checkpoint

import fovea
import specs

M, H = 12, 3


def test_self_attention_is_projection_attention_projection():
    layer = fovea.Attention(M, H, "topk(2)", causal=True)
    x = torch.randn(2, 5, M)
    heads = [p(x).view(2, 5, H, M // H).transpose(1, 2) for p in (layer.q_proj, layer.k_proj, layer.v_proj)]
    scores = (heads[0] @ heads[1].transpose(-1, -2) / math.sqrt(M // H)).masked_fill(~torch.ones(5, 5).tril().bool(), -math.inf)
    scores = scores.masked_fill(scores < scores.topk(2).values[..., -1:], -math.inf)
    expected = layer.out_proj((scores.softmax(-1) @ heads[2]).transpose(1, 2).reshape(2, 5, M))
    torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", specs.ALL)
def test_every_spec_trains(spec):
    layer = fovea.Attention(M, H, spec, dropout=0.1)
    x = torch.randn(2, 7, M)
    layer(x).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
    missing = set(fovea.parameters(spec)) - {n.replace("a", "alpha") if n == "a" else n for n, _ in layer.named_parameters()}
    assert not missing
    assert layer.eval()(x).shape == x.shape


@pytest.mark.parametrize("stage, rows", [("gate", M), ("gate(head)", H)])
@pytest.mark.parametrize("rest", ["full", "topk(2)+sink", "relu+rmsnorm", "1*window(3)+rmsnorm;2*topk(2)+rmsnorm"])
def test_a_gate_multiplies_the_heads(stage, rows, rest):
    """By the sigmoid of a product with the query, behind the norm and before the output's projection."""
    spec = ";".join(f"{group}+{stage}" for group in rest.split(";"))
    layer, plain = fovea.Attention(M, H, spec), fovea.Attention(M, H, rest)
    plain.load_state_dict({n: t for n, t in layer.state_dict().items() if not n.startswith("gate_proj")})
    assert layer.gate_proj.weight.shape == (rows, M) and layer.gate_proj.bias is None
    x = torch.randn(2, 5, M)
    plain.out_proj = torch.nn.Identity()
    gates = (x @ layer.gate_proj.weight.T).sigmoid().repeat_interleave(M // rows, -1)
    torch.testing.assert_close(layer(x), layer.out_proj(plain(x) * gates))
    with pytest.raises(RuntimeError, match="the gate reads a layer's input, so that the function of q, k and v does not have it"):
        fovea.attention(*[torch.randn(1, H, 5, M // H)] * 3, spec)


def scaled_by_hand(layer, x, counts):
    """The queries [B, H, N, D] by the papers' formulae, from the numbers of candidates of each query."""
    q = layer.q_proj(x).view(*x.shape[:2], H, -1).transpose(1, 2)
    n = torch.tensor(counts, dtype=x.dtype)
    if layer.scale is not None:
        return q * layer.scale[:, None, None] * n.log()[:, None]
    base = torch.nn.functional.softplus(x @ layer.scale_base.weight.T).transpose(1, 2)
    power = 2 * torch.tanh(x @ layer.scale_power.weight.T).transpose(1, 2)
    return q * (1 + base * (n + 1).log() ** power)[..., None]


@pytest.mark.parametrize("spec, causal, counts", [
    ("scaled", False, [5, 5, 5, 5, 5]), ("scaled", True, [1, 2, 3, 4, 5]), ("window(2)+topk(2)+scaled", True, [1, 2, 2, 2, 2]),
    ("window(3)|global(1)+sink+scaled", False, [5, 3, 4, 4, 3]), ("entmax(1.5)+scaled", True, [1, 2, 3, 4, 5]),
    ("window(3)+sparsemax+scaled", False, [2, 3, 3, 3, 2])])
def test_scaled_queries_are_those_of_the_papers(spec, causal, counts):
    layer, plain = (fovea.Attention(M, H, s, causal=causal, dtype=torch.float64) for s in (spec, spec.replace("+scaled", "")
                                                                                         .replace("scaled", "full")))
    names = {"scale"} if "entmax" not in spec and "sparsemax" not in spec else {"scale_base.weight", "scale_power.weight"}
    assert {n for n, _ in layer.named_parameters()} - {n for n, _ in plain.named_parameters()} == names
    x = torch.randn(2, 5, M, dtype=torch.float64)
    k, v = (p(x).view(2, 5, H, M // H).transpose(1, 2) for p in (layer.k_proj, layer.v_proj))
    heads = fovea.attention(scaled_by_hand(layer, x, counts), k, v, plain.spec, causal=causal, sinks=layer.sinks)
    torch.testing.assert_close(layer(x), layer.out_proj(heads.transpose(1, 2).flatten(2)))
    layer(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("spec", ["scaled", "entmax(1.5)+scaled+gate", "1*window(2)+scaled;2*sparsemax+scaled",
                                  "random(2)|window(2)+scaled"])
def test_scaled_queries_count_no_padding(spec):
    """A batch gives what each of its sequences gives alone; heads may scale or not."""
    layer = fovea.Attention(M, H, spec, seed=3, dtype=torch.float64)
    x = torch.randn(2, 6, M, dtype=torch.float64)
    together = layer(x, q_lengths=torch.tensor([6, 3]))
    torch.testing.assert_close(together[:1], layer(x[:1]))
    torch.testing.assert_close(together[1:, :3], layer(x[1:, :3]))
    assert torch.compile(layer, fullgraph=True)(x).allclose(layer(x))


def test_scaled_queries_are_refused_where_they_have_no_number():
    with pytest.raises(RuntimeError, match="a layer learns the factor of its queries, so that the function of q, k and v"):
        fovea.attention(*[torch.randn(1, H, 5, M // H)] * 3, "topk(2)+scaled")
    with pytest.raises(ValueError, match="counts the candidates of its own pattern, so it takes no indices"):
        fovea.Attention(M, H, "scaled")(torch.randn(1, 5, M), indices=torch.zeros(1, 5, 1, dtype=torch.int64))
    for spec, why in (("relu+scaled", "weights that are not normalised"), ("routed(2,3,random)+scaled", "the data decide")):
        with pytest.raises(fovea.SpecError, match=why):
            fovea.Attention(M, H, spec)


def test_a_sigmoid_needs_its_number():
    assert fovea.parse("full+sigmoid") == "sigmoid"
    with pytest.raises(ValueError, match=r"knows no greatest length.* give the number, -ln\(length\), such as sigmoid\(-6.93\)"):
        fovea.Attention(M, H, "sigmoid")
    with pytest.raises(RuntimeError, match=r"no such length is known; give the number, such as sigmoid\(-6.93\d*\) for 1,024"):
        fovea.attention(*[torch.randn(1, H, 5, M // H)] * 3, "sigmoid")


def test_parameters_start_as_the_papers_say():
    scale = fovea.Attention(512, 512, "scaled").scale
    assert abs(scale.mean() - 1) < 2e-3 and abs(scale.std() - 0.01) < 2e-3
    layer = fovea.Attention(512, 8, "rela-g")
    limit = math.sqrt(3 / 512)
    assert (layer.gain == 1).all() and layer.gate.abs().max() <= limit and layer.gate.abs().max() > limit / 2
    assert fovea.Attention(512, 8, "rela-i").gain.abs().max() <= limit
    by_head = fovea.Attention(512, 8, "relu+rmsnorm-xavier(head)").gain.abs().max()
    assert math.sqrt(3 / 64) / 2 < by_head <= math.sqrt(3 / 64)
    for norm in specs.NORMS:
        gain = fovea.Attention(512, 8, norm).gain
        assert gain is None or (gain == 1).all() != ("uniform_gain" in specs.properties(norm)), norm
    assert (fovea.Attention(M, H, "entmax(learned)")._alpha() == 1.5).all()
    bound = math.sqrt(3 / 512) / math.sqrt(2)  # Xavier's sqrt(6 / 1024) with gain 1 / sqrt(2)
    assert bound / 2 < layer.q_proj.weight.abs().max() <= bound


def test_cross_attention_and_lengths():
    layer = fovea.Attention(M, H, "topk(3)")
    x, memory, lengths = torch.randn(2, 4, M), torch.randn(2, 9, M), torch.tensor([9, 6])
    out = layer(x, memory, k_lengths=lengths)
    torch.testing.assert_close(out[1:], layer(x[1:], memory[1:, :6]))
    with pytest.raises(ValueError, match="cross-attention"):
        fovea.Attention(M, H, "window(3)")(x, memory)


@pytest.mark.parametrize("spec,causal", [("full", True), ("window(3)", False), ("full", False), ("random(2)", False)])
def test_a_key_of_the_same_numbers_is_as_good_as_the_query(spec, causal):
    """Hooks, checkpointing and casts hand on other objects."""
    layer, x = fovea.Attention(M, H, spec, causal=causal).eval(), torch.randn(2, 6, M, requires_grad=True)
    lengths = {"q_lengths": torch.tensor([6, 3]), "k_lengths": torch.tensor([6, 3])}
    plain = layer(x, **lengths)
    grad, = torch.autograd.grad(plain.sum(), x)

    def checkpointed(*given):
        return torch.utils.checkpoint.checkpoint(lambda *a: layer(*a, **lengths), *given, use_reentrant=True)

    again = checkpointed(x, x, x)
    again.sum().backward()
    torch.testing.assert_close(x.grad, grad)
    layer.register_full_backward_hook(lambda *_: None)
    for out in (layer(x, x, x, **lengths), layer(x, x.clone(), x[:], **lengths)):
        torch.testing.assert_close(out, plain, rtol=0, atol=0)
    torch.testing.assert_close(again, plain)  # without a backward pass to come other kernels run


def test_dropout_only_in_training_and_by_torchs_generator():
    layer, x = fovea.Attention(M, H, dropout=0.5), torch.randn(2, 9, M)
    assert not torch.equal(layer(x), layer(x))
    torch.manual_seed(1)
    first = layer(x)
    torch.manual_seed(1)
    assert torch.equal(first, layer(x)) and torch.equal(layer(x, dropout_seed=4), layer(x, dropout_seed=4))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_compiled_module_in_one_graph():
    layer, x = fovea.Attention(M, H, "topk(3)+gated-rmsnorm", dropout=0.1), torch.randn(2, 9, M)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for seed in (1, 2):
        torch.testing.assert_close(compiled(x, dropout_seed=seed), layer(x, dropout_seed=seed))
    torch.manual_seed(3)
    drawn = compiled(x)
    assert not torch.equal(drawn, compiled(x))
    torch.manual_seed(3)
    torch.testing.assert_close(drawn, layer(x))


def test_state_is_copied_and_saved():
    layer, x = fovea.Attention(M, H, "rela-g").double(), torch.randn(1, 4, M, dtype=torch.float64)
    twin = fovea.Attention(M, H, "rela-g").double()
    twin.load_state_dict(layer.state_dict())
    assert torch.equal(twin(x), layer(x)) and torch.equal(copy.deepcopy(layer)(x), layer(x))


@pytest.mark.parametrize("call,message", [
    (lambda q: fovea.attention(q, q, q, "windw(3)"), "did you mean 'window'"),
    (lambda q: fovea.attention(q, q[:, :1], q[:, :1]), "expected equal heads"),
    (lambda q: fovea.attention(q, q.double(), q), "expected one type"),
    (lambda q: fovea.attention(q[0, 0], q, q), "expected \\[T, H, D\\] or \\[B, H, N, D\\]"),
    (lambda q: fovea.attention(q, q, q, dropout=1.0), "dropout 1 is not in \\[0, 1\\)"),
    (lambda q: fovea.attention(q, q, q, "entmax(learned)"), "needs alpha of shape \\[3\\]"),
    (lambda q: fovea.attention(q, q, q, "rela-g"), "needs gate"),
    (lambda q: fovea.attention(q, q, q, "rmsnorm", gain=torch.ones(3)), "gain has shape \\[3\\]; expected \\[12\\]"),
    (lambda q: fovea.attention(q, q, q, q_lengths=torch.tensor([9])), "q_lengths is \\[9\\]; expected 2 lengths between 0 and 5"),
    (lambda q: fovea.attention(q, q, q, q_lengths=torch.tensor([1.0, 2])), "expected a contiguous int64 vector"),
    (lambda q: fovea.attention(q[0], q[0], q[0], q_offsets=torch.tensor([0, 2])), "is \\[0, 2\\]; expected it to rise from 0 to"),
    (lambda q: fovea.attention(q[0], q[0], q[0], q_lengths=torch.tensor([1])), "give q_offsets and k_offsets"),
    (lambda q: fovea.attention(q, q, q, "2*full;2*topk(2)"), "4 heads"),
    (lambda q: fovea.attention(q, q, q.to("meta")), "on meta; expected one type .* and one device"),
    (lambda q: fovea.attention(q[0], q[0], q[0], q_offsets=torch.tensor([0, 1, H]), k_begins=torch.tensor([0, 2**63 - 1]),
                               k_lengths=torch.tensor([1, 2])), "2 ranges within"),
    (lambda q: fovea.attention(q[0], q[0], q[0], k_tokens=torch.tensor([0])), "k_tokens go with k_begins"),
    (lambda q: fovea.attention(q[0], q[0], q[0], q_offsets=torch.tensor([0, H]), k_begins=torch.tensor([0]),
                               k_lengths=torch.tensor([2]), k_tokens=torch.tensor([0, H])),
     f"k_tokens hold {H}; expected rows of k, 0 to {H - 1}"),
    (lambda q: fovea.attention(q[0], q[0], q[0], q_offsets=torch.tensor([0, H]), k_begins=torch.tensor([0]),
                               k_lengths=torch.tensor([3]), k_tokens=torch.tensor([0, -1])), "1 ranges within the 2 keys"),
    (lambda q: fovea.attention(q[0], q[0], q[0], q_offsets=torch.tensor([0, H]), k_begins=torch.tensor([0]),
                               k_lengths=torch.tensor([2]), k_tokens=torch.tensor([0, -1])), "k_tokens hold -1"),
    (lambda q: fovea.attention(q, q, q, "entmax(learned)", alpha=torch.tensor([1.5] * (H - 1) + [1.0])),
     f"alpha of head {H - 1} is 1; expected one in"),
    (lambda q: fovea.attention(q, q, q, "entmax(learned)", alpha=torch.full((H,), 2)), "expected a floating type"),
    (lambda q: fovea.attention(q, q, q, "relu", gain=torch.ones(H)), "got gain, which 'relu' does not have"),
    (lambda q: fovea.attention(q, q, q, "rmsnorm", bias=torch.ones(H)), "got bias"),
    (lambda q: fovea.attention(q, q, q, "rmsnorm", gate=torch.ones(H)), "got gate"),
    (lambda q: fovea.attention(q, q, q, "entmax(1.5)", alpha=torch.ones(H)), "got alpha"),
    (lambda q: fovea.Attention(M, 1)(torch.randn(5, M)), f"has shape \\[5, {M}\\]; expected \\[B, N, {M}\\]"),
    (lambda q: fovea.Attention(M, H)(torch.randn(1, 5, M), torch.randn(5, M)), "key has shape"),
    (lambda q: fovea.Attention(M, H, causal=True)(torch.randn(1, 5, M), torch.randn(1, 6, M)), "in self-attention"),
    (lambda q: fovea.Attention(M, H)(torch.randn(1, 5, M), torch.randn(1, 5, M), q_lengths=torch.tensor([3])),
     "a key without k_lengths"),
    (lambda q: fovea.Attention(M, H)(None), "query is of type NoneType; expected a tensor"),
    (lambda q: fovea.Attention(M, 0), "not a positive multiple"),
    (lambda q: fovea.Attention(-M, H), "not a positive multiple"),
    (lambda q: fovea.Attention(M, H, dropout=1 - 1e-9), "not in"),
    (lambda q: fovea.attention(q, q, q, k_lengths=[5, 3]), "k_lengths is of type list; expected a tensor"),
    (lambda q: fovea.attention(q, q, q, None), "spec is of type NoneType; expected a text"),
    (lambda q: fovea.attention(q, q, q, scale=torch.tensor(1.0)), "scale is a tensor; expected a number"),
    (lambda q: fovea.attention(q, q, q, scale=float("nan")), "scale is nan; expected a finite number"),
    (lambda q: fovea.attention(q, q, q, "relu", scale=-float("inf")), "scale is -inf; expected a finite number"),
    (lambda q: fovea.attention_weights(q, q, scale=1e39), "scale is .*; expected a finite number"),
    (lambda q: fovea.index_target(q, q, torch.zeros(2, 5, 1, dtype=torch.int32), scale=float("nan")), "scale is nan"),
    (lambda q: fovea.attention(q, q, q, dropout=float("nan")), "dropout nan is not in"),
    (lambda q: fovea.attention(q, q, q, dropout=None), "dropout is of type NoneType; expected a number"),
    (lambda q: fovea.attention(q, q, q, dropout=.1, dropout_seed=2**64), "dropout_seed 18446744073709551616 is not in"),
    (lambda q: fovea.attention(q, q, q, dropout=.1, dropout_seed=torch.ones(2)),
     r"dropout_seed is Float of shape \[2\]; expected int64 of no dimension"),
    (lambda q: fovea.attention(q, q, q, "rmsnorm", gain=torch.ones(M, dtype=torch.complex64)), "gain is ComplexFloat"),
    (lambda q: fovea.attention(q, q, q, "topk("), "column 6"),
    (lambda q: fovea.parse("full", 0), "num_heads 0 is not in"),
    (lambda q: fovea.parse("full", 2**70), "num_heads 1180591620717411303424 is not in"),
    (lambda q: fovea.attention(q.tolist(), q, q), "q is of type list; expected a tensor"),
    (lambda q: fovea.attention(q, q, None), "v is None; expected a tensor"),
    (lambda q: fovea.attention(q, q[:1], q[:1]), "and batches"),
    (lambda q: fovea.attention(q, q, q.to_sparse()), "v is Sparse; expected a dense tensor"),
    (lambda q: fovea.attention(*[q.to(torch.float8_e4m3fn)] * 3), "q is Float8"),
    (lambda q: fovea.attention(q, q, q, seed=torch.tensor(3)), "seed is a tensor; expected a whole number"),
    (lambda q: fovea.attention(q, q, q, layer=1.5), "layer is of type float; expected a whole number"),
    (lambda q: fovea.attention(q, q, q, seed=2**63), "seed 9223372036854775808 is not in"),
    (lambda q: fovea.attention(q, q, q, dropout="0.1"), "dropout is of type str; expected a number"),
    (lambda q: fovea.attention(q, q, q, dropout=.1, dropout_seed="a"), "dropout_seed is of type str; expected a whole"),
    (lambda q: fovea.Attention(M, H, dropout=1.5), "not in"),
    (lambda q: fovea.Attention(M, H, f"{H}*full;2*topk(2)"), f"{H + 2} heads"),
    (lambda q: torch.ops.fovea.head_norm(q, torch.ones(1), None, None, False, 1e-8), "z's last size"),
    (lambda q: torch.ops.fovea.head_norm(q, torch.ones(M // H), torch.ones(3), None, False, 1e-8), "z's last size"),
    (lambda q: torch.ops.fovea.head_norm_backward(q[0], q, torch.ones(M // H), None, None, q[..., 0], q[..., 0], False,
                                                   1e-8),
     "what head_norm took"),
])
def test_mistakes_are_named(call, message):
    with pytest.raises((RuntimeError, TypeError, ValueError), match=message):
        call(torch.randn(2, H, 5, M // H))


@pytest.mark.parametrize("spec,causal", [("full", True), ("topk(2)", True), ("window(3)", False), ("full", False)])
@pytest.mark.parametrize("given", ["q_lengths", "k_lengths"])
def test_one_kind_of_lengths_stands_for_both_in_self_attention(spec, causal, given):
    layer, x = fovea.Attention(M, H, spec, causal=causal).eval(), torch.randn(2, 8, M)
    alone = layer(x[1:, :5])[0]
    lengths = {given: torch.tensor([8, 5])}
    torch.testing.assert_close(layer(x, **lengths)[1, :5], alone)
    if causal or spec != "full":
        torch.testing.assert_close(layer(x, x, x, **lengths)[1, :5], alone)
    if causal or spec != "full":
        q = torch.randn(2, H, 8, 4)
        first = q[1:, :, :5]
        torch.testing.assert_close(fovea.attention(q, q, q, spec, causal=causal, **lengths)[1:, :, :5],
                                   fovea.attention(first, first, first, spec, causal=causal))


def test_specs_that_do_not_parse_raise_spec_errors_everywhere():
    q = torch.randn(1, H, 2, 4)
    for call in (lambda: fovea.parse("topk("), lambda: fovea.attention(q, q, q, "topk("),
                 lambda: fovea.attention_weights(q, q, "topk("), lambda: fovea.Attention(M, H, "topk(")):
        with pytest.raises(fovea.SpecError, match="column 6"):
            call()


@pytest.mark.parametrize("spec", ["|".join(["window(3)"] * 1200),
                                  "|".join(f"bigbird({4 * i})" for i in range(1, 701))], ids=["given", "canonical"])
def test_specs_that_are_too_long_raise_spec_errors_of_one_line(spec):
    q = torch.randn(1, H, 2, 4)
    for call in (lambda: fovea.parse(spec), lambda: fovea.attention(q, q, q, spec)):
        with pytest.raises(fovea.SpecError, match="^attention spec: got .* expected at most 10000$"):
            call()


def test_a_learned_alpha_that_runs_away_stays_finite():
    layer, x = fovea.Attention(M, H, "entmax(learned)"), torch.randn(2, 5, M)
    with torch.no_grad():
        layer.a.fill_(-20)
    out = layer(x)
    out.sum().backward()
    assert out.isfinite().all() and layer.q_proj.weight.grad.isfinite().all()


def test_causal_and_cross_exclude_each_other():
    q = torch.randn(1, 1, 2, 2)
    with pytest.raises(ValueError, match="exclude each other"):
        fovea.attention(q, q, q, causal=True, cross=True)


@pytest.mark.parametrize("spec,message", [
    ("clause(1)", "knows no clauses of a text, which 'clause\\(1\\)' needs"),
    ("mix(full,clause(1),clause(2))", "knows no clauses of a text"),
    ("2*full;2*clause(2)+topk(4)", "knows no clauses of a text"),
    ("routed(4,8)", "has no learned centroids, which 'routed\\(4,8\\)' needs"),
    ("2*routed(4,8,causal);2*window(4)", "has no learned centroids"),
    ("dsa(4)+topk(2)", "has no learned indexer, which 'dsa\\(4\\)\\+topk\\(2\\)' needs"),
])
def test_specs_of_models_are_refused_at_construction(spec, message):
    with pytest.raises(ValueError, match=message) as caught:
        fovea.Attention(16, 4, spec)
    assert "\n" not in str(caught.value)


def test_spec_error_points_at_the_column():
    with pytest.raises(fovea.SpecError, match="column 7") as caught:
        fovea.parse("topk(8")
    assert str(caught.value).splitlines()[-1].strip() == "^"


def test_missing_library_is_one_line():
    run = subprocess.run([sys.executable, "-c", "import fovea"], capture_output=True, text=True, check=False,
                         env=os.environ | {"FOVEA_LIBRARY": "/nonexistent.so", "PYTHONPATH": os.path.dirname(fovea.__path__[0])})
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("ImportError: FOVEA_LIBRARY: no file '/nonexistent.so'")


@pytest.mark.parametrize("text,column", [("topk(8)\u00a0+relu", 8), ("topk(8) \u2013 relu", 9), ("\u2013" * 90, 1),
                                         ("full|" * 40 + "\u2013", 201), ("full|f\u00fcll" + "\u2013" * 90, 6)],
                         ids=["space", "dash", "long", "far", "word"])
def test_spec_error_names_whole_characters(text, column):
    with pytest.raises(fovea.SpecError, match=f"column {column}:"):
        fovea.parse(text)


def test_module_runs_where_meta_is_the_default_device():
    with torch.device("meta"):
        assert fovea.Attention(32, 4, dropout=0.1)(torch.empty(2, 10, 32)).shape == (2, 10, 32)

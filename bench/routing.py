"""Routed attention, causal: against dense attention, the algorithm in eager PyTorch and the package routing-transformer,
and by length. A pass is that of training: the commitment loss has its gradient, and the sums for the centroids are
taken."""
import math
import os
import pathlib
import re
import sys

import torch
import torch.nn.functional as F

import attention
import inputs
import peers
import published
from timing import compared, in_turns

COMMITMENT = 1e-4


def sizes_of(spec):
    """Clusters and window of routed(c,w)."""
    return tuple(int(number) for number in re.findall(r"\d+", spec)[:2])


def inputs_of(n, clusters, _window):
    """q and v [1, H, N, D], and the centroids [H, C, D], which have no gradient."""
    q, _, v = inputs.normal(n)
    random = torch.Generator().manual_seed(clusters)
    means = torch.randn(inputs.HEADS, clusters, inputs.HEAD_DIM, generator=random)
    return q, v, F.layer_norm(means, means.shape[-1:])


def operator():
    """fovea_bench::routed, of a library beside the package's."""
    if not hasattr(torch.ops.fovea_bench, "routed"):
        torch.ops.load_library(pathlib.Path(os.environ["FOVEA_LIBRARY"]).with_name("libfovea_routing_op.so"))
    return torch.ops.fovea_bench.routed


def ours(spec, self_key="keep", scaled=False):
    """(q, v, centroids) -> output and commitment loss."""
    routed = operator()

    def run(q, v, means):
        out, distance = routed(q, v, means, spec, self_key, scaled)
        return out, COMMITMENT * distance

    return run


def training_pass(function, given):
    """function(q, v, ...) -> output and loss."""
    leaves = [x.clone().requires_grad_() for x in given[:2]]
    grad = torch.randn_like(given[0])

    def run():
        out, loss = function(*leaves, *given[2:])
        torch.autograd.grad((out, loss), leaves, (grad, torch.ones_like(loss)))

    return run


def eager(window):
    def run(q, v, means):
        out = published.routing(q[0], v[0], means, window)[None]
        x = F.layer_norm(q[0], q.shape[-1:], eps=1e-6)
        nearest = (x.detach() @ means.transpose(-1, -2)).argmax(-1)
        own = means.gather(1, nearest[..., None].expand_as(x))
        return out, COMMITMENT * F.mse_loss(x, own)

    return run


def has_package():
    try:
        import routing_transformer.routing_transformer  # noqa: F401
    except ImportError:
        print("bench: the package routing-transformer is missing, nothing is compared with it; install it with "
              ".venv/bin/python3 -m pip install routing-transformer", file=sys.stderr)
        return False
    return True


def package(means, window):
    """Its KmeansAttention in training, without dropout, whose keys are the queries."""
    from routing_transformer.routing_transformer import KmeansAttention

    heads, clusters, width = means.shape
    module = KmeansAttention(clusters, window, heads, width, causal=True, shared_qk=True)
    module.kmeans.means.copy_(F.normalize(means, dim=-1))
    module.kmeans.initted.fill_(True)
    return lambda q, v, _means: module(q, q, v)


def require_equal_package(given, window):
    """The package scales scores by other norms, and its average has no 0.01 in its divisor. Queries of the norm of D give
    the scores of routing-scale sqrt."""
    q, v, means = given
    q = F.layer_norm(q, q.shape[-1:], eps=1e-6) * q.size(-1) ** 0.5
    places = (means @ q[0].transpose(-1, -2)).topk(window, -1).indices.flatten(1)
    count = torch.zeros(q.shape[1:3]).scatter_add(1, places, torch.ones(places.shape))[None, ..., None]
    spec = f"routed({means.size(1)},{window})"
    mine, peer = ours(spec, "last", True), package(means, window)
    attention.require_equal(lambda *x: mine(*x)[0] * (count + 0.01) / count.clamp_min(1), lambda *x: peer(*x)[0],
                            (q, v, means), f"{spec} against routing-transformer")


def against_others(quick, seconds):
    clusters, window = (16, 128) if quick else (16, 512)
    spec = f"routed({clusters},{window})"
    rows = []

    def add(n, peer, mine, other):
        times = in_turns({"ours": mine, "peer": other}, seconds)
        rows.append({"n": n, "mechanism": spec, "peer": peer, **compared(times["ours"], times["peer"])})

    n = 1024 if quick else 8192
    add(n, "SDPA", training_pass(ours(spec), inputs_of(n, clusters, window)),
        attention.forward_backward(peers.sdpa(True), inputs.normal(n)))
    n = 1024 if quick else 4096
    given = inputs_of(n, clusters, window)
    attention.require_equal(lambda *x: ours(spec)(*x)[0], lambda *x: eager(window)(*x)[0], given, spec)
    add(n, "the algorithm in eager PyTorch", training_pass(ours(spec), given), training_pass(eager(window), given))
    if has_package():
        require_equal_package(given, window)
        mine = training_pass(ours(spec, "last", True), given)
        add(n, "routing-transformer, KmeansAttention", mine, training_pass(package(given[2], window), given))
    return rows


def by_length(given):
    """Rows for c = w = sqrt(n), and the slope of log time over log n."""
    rows = []
    for root in (16, 32) if given.quick else (32, 64, 128, 256):
        n, spec = root * root, f"routed({root},{root})"
        run = training_pass(ours(spec), inputs_of(n, root, root))
        time = in_turns({"ours": run}, given.seconds)["ours"]
        rows.append({"n": n, "mechanism": spec, "ms": 1e3 * time.seconds, "spread %": 100 * time.spread,
                     "MiB beyond the inputs": attention.peak_mib(spec, n, given.threads)})
    x, y = (torch.tensor([math.log(row[name]) for row in rows]) for name in ("n", "ms"))
    x = x - x.mean()
    return rows, ((x * y).sum() / x.square().sum()).item()

"""The mechanisms as other programs compute them: functions of (q, k, v), each [1, H, N, D]."""
import functools
import sys

import torch
import torch.nn.functional as F


def sdpa(causal):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def scores(q, k):
    return (q * q.size(-1) ** -0.5) @ k.transpose(-1, -2)


def topk(count):
    """As the papers' implementations do it: the k-th greatest score of each row, the others masked, a dense softmax."""

    def run(q, k, v):
        s = scores(q, k)
        threshold = s.topk(min(count, s.size(-1)), -1).values[..., -1:]
        return s.masked_fill(s < threshold, float("-inf")).softmax(-1) @ v

    return run


@functools.cache  # says once what is missing
def has_entmax():
    try:
        import entmax  # noqa: F401
    except ImportError:
        print("bench: the package entmax is missing, nothing is compared with it; install it with "
              ".venv/bin/python3 -m pip install entmax", file=sys.stderr)
        return False
    return True


def entmax_package(spec):
    """{option: {variant: function}}: the package's defaults, and the fastest of what its documentation offers: sorting
    the greatest k scores alone, more of them where they do not do; fewer steps of bisection, as many as change a
    float32."""
    import entmax

    def attend(weights):
        return lambda q, k, v: weights(scores(q, k), dim=-1) @ v

    if spec == "entmax(1.3)":
        bisect = functools.partial(entmax.entmax_bisect, alpha=1.3)
        return {"": {"": attend(bisect)}, ",": {"n_iter=25": attend(functools.partial(bisect, n_iter=25))}}
    weights = {"sparsemax": entmax.sparsemax, "entmax(1.5)": entmax.entmax15}[spec]
    return {"": {"": attend(weights)},
            ",": {f"k={k}": attend(functools.partial(weights, k=k)) for k in (32, 64, 128, 256)}}


def flex(keeps, causal, n, tile, device="cpu"):
    """Compiled FlexAttention over the pairs that keeps(query, key) allows, in tiles of so many keys; it has no backward
    on the CPU."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def mask(_batch, _head, query, key):
        return keeps(query, key) & (query >= key) if causal else keeps(query, key)

    block_mask = create_block_mask(mask, None, None, n, n, device=device, BLOCK_SIZE=tile)
    # Each mask is a program of its own. Past the limit of them, 8, FlexAttention would fall back to dense scores.
    torch._dynamo.config.recompile_limit = 1000
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    compiled = torch.compile(flex_attention, dynamic=False)

    def run(q, k, v):
        with torch.no_grad():
            return compiled(q, k, v, block_mask=block_mask)

    return run


def flex_pairs(name, causal):
    """The pairs of window(256), block(256) and dilated(256,2), as docs/attention.md defines them."""
    low, high = (-255, 0) if causal else (-128, 127)
    return {
        "window(256)": lambda q, k: (k - q >= low) & (k - q <= high),
        "block(256)": lambda q, k: q // 256 == k // 256,
        "dilated(256,2)": lambda q, k: (k - q >= 2 * low) & (k - q <= 2 * high) & ((k - q) % 2 == 0),
    }[name]

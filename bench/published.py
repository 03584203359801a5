"""Long-range mechanisms as their papers' programs compute them, in eager PyTorch: dense products over the keys, then the
relative shift. Written from the definitions of the papers."""
import math

import torch
import torch.nn.functional as F


def skewed(scores):
    """[H, M, L] by distance -> [H, M, M + L] by key: row i moves i places to the right."""
    heads, queries, reach = scores.shape
    wide = F.pad(scores, (0, queries + 1)).reshape(heads, -1)[:, : queries * (queries + reach)]
    return wide.view(heads, queries, queries + reach)


def unskewed(scores):
    """[H, M, M + L] by key -> [H, M, L]: row i keeps the L keys from place i on."""
    heads, queries, keys = scores.shape
    reach = keys - queries
    wide = F.pad(scores.reshape(heads, -1), (0, queries)).view(heads, queries, keys + 1)
    return wide[:, :, :reach]


class AdaptiveSpan:
    """Sukhbaatar et al. 2019: each token of a block of M sees the L tokens before it, of which each head keeps the newest
    by a ramp of width R behind its span z L. The cache is cut to the widest head's span, in steps of 64. With `topk`,
    the greatest of these weights of each row remain (Zhao et al., Extremely Sparse Transformer)."""

    def __init__(self, limit, ramp, topk=0):
        self.limit, self.ramp, self.topk = limit, ramp, topk
        self.slots = torch.arange(1 - limit, 1, dtype=torch.float32)

    def trimmed(self, z):
        widest = min(self.limit, math.ceil(float(z.max()) * self.limit) + self.ramp)
        return max(0, min(self.limit - 1, self.limit - widest) // 64 * 64)

    def __call__(self, q, k, v, positions, z):
        """q [H, M, D]; k, v [H, L + M, D], the cache first; positions [D, L], slot L - 1 is the token before the query;
        z [H], the spans as shares of L -> [H, M, D]."""
        trim = self.trimmed(z)
        k, v, positions = k[:, trim:], v[:, trim:], positions[:, trim:]
        scores = unskewed(q @ k.transpose(-1, -2)) + q @ positions
        weights = (scores / math.sqrt(q.size(-1))).softmax(-1)
        mask = ((self.slots[trim:] + z[:, None] * self.limit) / self.ramp + 1).clamp(0, 1)
        weights = weights * mask[:, None]
        if self.topk:
            least = weights.topk(min(self.topk, weights.size(-1)), -1).values[..., -1:]
            weights = weights * (weights >= least)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-8)
        return skewed(weights) @ v


def routing(q, v, means, window):
    """Roy et al. 2020, algorithm 1, causal, whose keys are the queries: each cluster takes the `window` tokens that are
    nearest to its centroid and attends within them; a token's outputs are averaged. The vectors are normalised, and the
    average has 0.01 more in its divisor, as in the released code. q, v [H, N, D], means [H, C, D] -> [H, N, D]."""
    heads, tokens, width = q.shape
    x = F.layer_norm(q, (width,), eps=1e-6)
    places = (means @ x.transpose(-1, -2)).topk(min(window, tokens), -1).indices.sort(-1).values
    flat = places.flatten(1)[..., None]
    rows, values = (t.gather(1, flat.expand(-1, -1, width)).view(*places.shape, width) for t in (x, v))
    future = torch.ones(places.size(-1), places.size(-1), dtype=torch.bool).triu(1)
    weights = (rows @ rows.transpose(-1, -2)).masked_fill(future, float("-inf")).softmax(-1)
    mixed = (weights @ values).flatten(1, 2)
    total = torch.zeros_like(v).scatter_add(1, flat.expand_as(mixed), mixed)
    count = v.new_zeros(heads, tokens, 1).scatter_add(1, flat, torch.ones_like(flat, dtype=v.dtype))
    return total / (count + 0.01)


def with_term(q, k, v, term, keeps):
    """Dense causal attention [H, N, D] with a term [H, N, N] added to its scores; keeps(scores) says which of them count
    beside the causal limit, as a bool tensor."""
    future = torch.ones(q.size(1), k.size(1), dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(-1, -2) * q.size(-1) ** -0.5 + term).masked_fill(future, float("-inf"))
    return scores.masked_fill(~keeps(scores), float("-inf")).softmax(-1) @ v


def shifted(scores):
    """Dai et al. 2019, appendix B: [H, N, K] by distance, the greatest first -> by key; what lies behind the query is
    not defined."""
    heads, queries, keys = scores.shape
    return F.pad(scores, (1, 0)).view(heads, keys + 1, queries)[:, 1:].reshape(heads, queries, keys)


def transformer_xl(q, k, v, u, w, relative):
    """q [H, N, D]; k, v [H, K, D], memory first; u, w [H, 1, D] are the biases of content and of position; relative
    [H, K, D]: W_r R of the distances K - 1 ... 0 -> [H, N, D]."""
    queries, keys = q.size(1), k.size(1)
    scores = (q + u) @ k.transpose(-1, -2) + shifted((q + w) @ relative.transpose(-1, -2))
    future = torch.ones(queries, keys, dtype=torch.bool).triu(1 + keys - queries)
    return (scores * q.size(-1) ** -0.5).masked_fill(future, float("-inf")).softmax(-1) @ v

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
    the greatest probabilities of each row remain, before the ramp (Zhao et al., Extremely Sparse Transformer)."""

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
        if self.topk:
            least = weights.topk(min(self.topk, weights.size(-1)), -1).values[..., -1:]
            weights = weights * (weights >= least)
        mask = ((self.slots[trim:] + z[:, None] * self.limit) / self.ramp + 1).clamp(0, 1)
        weights = weights * mask[:, None]
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-8)
        return skewed(weights) @ v


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

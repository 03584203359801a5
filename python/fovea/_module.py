"""Multi-head attention as a module: projections, heads and whatever parameters the mechanism needs."""
import math
import operator

import torch
from torch import Tensor, nn

from . import _foreign
from ._functional import attention, parameters, parse, properties

LEAST_ALPHA, _ = torch.ops.fovea.alpha_range()


class Attention(nn.Module):
    """Multi-head self- or cross-attention by any mechanism.

    Args:
        embed_dim (int): model width M, a multiple of num_heads.
        num_heads (int): H.
        spec (str): the mechanism, or one a group of heads.
        causal (bool): a query sees no key after itself.
        bias (bool): of the four projections.
        dropout (float): rate on the attention weights, in training mode.
        seed, layer (int): random(k) and routed(c,w,random) draw from (seed, layer, head): give each layer its number.

    Projections start as Xavier's uniform, q, k and v with gain 1/sqrt(2). Where the spec has a norm over the
    concatenated heads its `gain` starts at one (rmsnorm-xavier: uniform in +-sqrt(3 / M), or with
    `head` in +-sqrt(3 / D) of a head), its `gate` uniform in +-sqrt(3 / M), its `bias` at zero. entmax(learned) has `a` [H], alpha = 1 + sigmoid(a), at least 1.0001, from
    alpha = 1.5.
    """

    def __init__(self, embed_dim: int, num_heads: int, spec: str = "full", *, causal: bool = False, bias: bool = True,
                 dropout: float = 0.0, seed: int = 0, layer: int = 0, device=None, dtype: torch.dtype | None = None,
                 **others):
        super().__init__()
        if others:
            _foreign.refuse_in_module(others)
        embed_dim, num_heads = operator.index(embed_dim), operator.index(num_heads)
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} is not a positive multiple of num_heads {num_heads}")
        if not 0 <= dropout < 1 - 2**-25:  # float32 rounds what is above to 1
            raise ValueError(f"dropout {dropout} is not in [0, 1)")
        self.embed_dim, self.num_heads, self.spec = embed_dim, num_heads, parse(spec, num_heads)
        self.causal, self.dropout, self.seed, self.layer = causal, dropout, seed, layer
        self._properties = properties(spec)
        if "span" in self._properties:
            raise ValueError(f"fovea.Attention has no learned spans, which '{spec}' needs; train them with fovea train, or "
                             "call fovea.attention with each head's mask as offset_bias")
        if "clauses" in self._properties:
            raise ValueError(f"fovea.Attention knows no clauses of a text, which '{spec}' needs; train it with fovea train, "
                             "or give each clause as a sequence of its own, with the mechanism inside it")
        if "centroids" in self._properties:
            raise ValueError(f"fovea.Attention has no learned centroids, which '{spec}' needs; train them with fovea train, "
                             "or use routed(clusters,window,random)")
        made = {"device": device, "dtype": dtype}
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(embed_dim, embed_dim, bias=bias, **made) for _ in range(4))
        needed = parameters(spec)
        for name in ("gain", "gate", "bias"):
            self.register_parameter(name, nn.Parameter(torch.empty(embed_dim, **made)) if name in needed else None)
        self.a = nn.Parameter(torch.empty(num_heads, **made)) if "alpha" in needed else None
        self.reset_parameters()

    def reset_parameters(self):
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2))
        nn.init.xavier_uniform_(self.out_proj.weight)
        for projection in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)
        limit = math.sqrt(3 / self.embed_dim)
        if self.gain is not None:
            if "uniform_gain" in self._properties:
                inputs = self.embed_dim // self.num_heads if "head_gain" in self._properties else self.embed_dim
                nn.init.uniform_(self.gain, -math.sqrt(3 / inputs), math.sqrt(3 / inputs))
            else:
                nn.init.ones_(self.gain)
        if self.gate is not None:
            nn.init.uniform_(self.gate, -limit, limit)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.a is not None:
            nn.init.zeros_(self.a)

    def forward(self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, *,
                q_lengths: Tensor | None = None, k_lengths: Tensor | None = None,
                dropout_seed: int | Tensor | None = None, indices: Tensor | None = None,
                block_indices: Tensor | None = None, block_size: int = 128, **others) -> Tensor:
        """
        Args:
            query (Tensor): [B, N_q, M].
            key, value (Tensor, optional): [B, N_k, M], query where left out; value alone defaults to key. A layer that
                compares positions, causally or by a pattern, is self-attention and takes them of query's shape only.
            q_lengths, k_lengths (Tensor, optional): [B] int64 on the CPU; in self-attention, so without a key or where
                positions are compared, one stands for both.
            dropout_seed (int or Tensor, optional): default a new one from torch's generator.
            indices, block_indices (Tensor, optional), block_size (int): the keys that each query attends to, as of
                fovea.attention.
            others: none; an argument of torch.nn.MultiheadAttention is refused with what is in its place.
        Returns:
            Tensor: [B, N_q, M].
        """
        if others:
            _foreign.refuse_in_forward(others)
        # The test is not whether key is the object query: hooks, checkpointing and casts hand on others of the same
        # numbers.
        cross = key is not None and not (self.causal or "positional" in self._properties)
        key = query if key is None else key
        value = key if value is None else value
        for name, x in (("query", query), ("key", key), ("value", value)):
            if not isinstance(x, torch.Tensor):
                raise TypeError(f"Attention: {name} is of type {type(x).__name__}; expected a tensor")
            if x.dim() != 3 or x.size(-1) != self.embed_dim:
                raise ValueError(f"Attention: {name} has shape {list(x.shape)}; expected [B, N, {self.embed_dim}]")
            if not cross and x.shape != query.shape:
                raise ValueError(f"Attention: {name} has shape {list(x.shape)} in self-attention; expected query's, "
                                 f"{list(query.shape)}; cross-attention takes a spec that compares no positions, and "
                                 "is not causal")
        if cross and q_lengths is not None and k_lengths is None:
            raise ValueError("Attention: got q_lengths and a key without k_lengths; give both, or leave out the key for "
                             "self-attention")
        if not cross:
            q_lengths = k_lengths if q_lengths is None else q_lengths
            k_lengths = q_lengths if k_lengths is None else k_lengths
        rate = self.dropout if self.training else 0.0
        # Code would be compiled again for every layer that reads its number.
        draws = {"seed": self.seed, "layer": self.layer} if "seed" in self._properties else {}
        heads = attention(
            self._split(self.q_proj(query)), self._split(self.k_proj(key)), self._split(self.v_proj(value)), self.spec,
            causal=self.causal, cross=cross, q_lengths=q_lengths, k_lengths=k_lengths, gain=self.gain, gate=self.gate,
            bias=self.bias, alpha=None if self.a is None else self._alpha(), dropout=rate, dropout_seed=dropout_seed,
            indices=indices, block_indices=block_indices, block_size=block_size, **draws)
        return self.out_proj(heads.transpose(1, 2).flatten(2))

    def _alpha(self):
        # In half precision it would keep two digits.
        return (1 + (self.a if self.a.dtype == torch.float64 else self.a.float()).sigmoid()).clamp_min(LEAST_ALPHA)

    def _split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, N, D], a view

    def extra_repr(self):
        text = (f"{self.embed_dim}, {self.num_heads}, {self.spec!r}, causal={self.causal}, "
                f"bias={self.q_proj.bias is not None}, dropout={self.dropout}")
        return text + (f", seed={self.seed}, layer={self.layer}" if "seed" in self._properties else "")

"""Multi-head attention as a module: projections, heads and whatever parameters the mechanism needs."""
import math
import operator
import re

import torch
from torch import Tensor, nn

from . import _foreign
from ._functional import attention, parameters, parse, properties

LEAST_ALPHA, _ = torch.ops.fovea.alpha_range()


LEAST_SCALE = 1e-3  # of SSMax: a negative one would turn the order of the scores


def _without_layer_stages(spec):
    """A canonical spec without the scale and the gate, its last stages."""
    groups = (re.sub(r"(\+?scaled)?(\+?gate(\(head\))?)?$", "", group) for group in spec.split(";"))
    return ";".join(group + "full" if group == "" or group.endswith("*") else group for group in groups)


def _scales(spec, num_heads):
    """The head groups of a canonical spec: (heads, "head_scale", "input_scale" or None)."""
    groups = (re.fullmatch(r"(?:(\d+)\*)?(.*)", group).groups() for group in spec.split(";"))
    return [(int(heads or num_heads), next((p for p in properties(text) if p.endswith("_scale")), None))
            for heads, text in groups]


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
    alpha = 1.5; sink has `sinks` [H], from zero. gate has the linear layer `gate_proj`, M to M, or to H with `head`: the
    outputs of the heads, behind the norm, are multiplied by the sigmoid of what it makes of the query. scaled has
    `scale` [H], normal around 1 with a deviation of 0.01, and beside entmax the linear layers `scale_base` and
    `scale_power`, M to H.
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
        if "indexer" in self._properties:
            raise ValueError(f"fovea.Attention has no learned indexer, which '{spec}' needs; train it with fovea train, or "
                             "choose keys by fovea.index_topk and give them as indices")
        if "open_bias" in self._properties:
            raise ValueError(f"fovea.Attention knows no greatest length, from which training would set the bias of sigmoid in "
                             f"'{spec}'; give the number, -ln(length), such as sigmoid(-6.93) for 1,024 keys")
        made = {"device": device, "dtype": dtype}
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(embed_dim, embed_dim, bias=bias, **made) for _ in range(4))
        self.gate_proj = None
        self._mechanism = _without_layer_stages(self.spec)  # as the function takes it
        self._scales = _scales(self.spec, num_heads)
        if "gate" in self._properties:
            rows = num_heads if "gate(head)" in self.spec else embed_dim
            self.gate_proj = nn.Linear(embed_dim, rows, bias=False, **made)
        self.scale = nn.Parameter(torch.empty(num_heads, **made)) if "head_scale" in self._properties else None
        self.scale_base, self.scale_power = (
            nn.Linear(embed_dim, num_heads, bias=False, **made) if "input_scale" in self._properties else None for _ in range(2))
        needed = parameters(spec)
        for name in ("gain", "gate", "bias"):
            self.register_parameter(name, nn.Parameter(torch.empty(embed_dim, **made)) if name in needed else None)
        self.a = nn.Parameter(torch.empty(num_heads, **made)) if "alpha" in needed else None
        self.sinks = nn.Parameter(torch.empty(num_heads, **made)) if "sinks" in needed else None
        self.reset_parameters()

    def reset_parameters(self):
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2))
        nn.init.xavier_uniform_(self.out_proj.weight)
        for projection in (self.gate_proj, self.scale_base, self.scale_power):
            if projection is not None:
                nn.init.xavier_uniform_(projection.weight)
        if self.scale is not None:
            nn.init.normal_(self.scale, 1, 0.01)
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
        for numbers in (self.a, self.sinks):
            if numbers is not None:
                nn.init.zeros_(numbers)

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
        q = self._split(self.q_proj(query))
        if self.scale is not None or self.scale_base is not None:
            if indices is not None or block_indices is not None:
                raise ValueError(f"Attention: '{self.spec}' counts the candidates of its own pattern, so it takes no indices "
                                 "and no block_indices; leave +scaled out")
            kind = "causal" if self.causal else "cross" if cross else "self"
            counts = torch.ops.fovea.kernel_counts(query.detach(), key.detach(), self.spec, kind, q_lengths, k_lengths,
                                                   self.num_heads, [draws.get("seed", 0), draws.get("layer", 0), 0, 0])
            q = (q * self._factors(counts.to(query.device), query).transpose(1, 2).unsqueeze(-1)).to(q.dtype)
        heads = attention(
            q, self._split(self.k_proj(key)), self._split(self.v_proj(value)), self._mechanism,
            causal=self.causal, cross=cross, q_lengths=q_lengths, k_lengths=k_lengths, gain=self.gain, gate=self.gate,
            bias=self.bias, alpha=None if self.a is None else self._alpha(), sinks=self.sinks, dropout=rate,
            dropout_seed=dropout_seed, indices=indices, block_indices=block_indices, block_size=block_size, **draws)
        heads = heads.transpose(1, 2)  # [B, N_q, H, D]
        if self.gate_proj is not None:
            heads = heads * self.gate_proj(query).sigmoid().unflatten(2, (self.num_heads, -1))
        return self.out_proj(heads.flatten(2))

    def _alpha(self):
        # In half precision it would keep two digits.
        return (1 + (self.a if self.a.dtype == torch.float64 else self.a.float()).sigmoid()).clamp_min(LEAST_ALPHA)

    def _factors(self, counts, query):
        """[B, N, H], of queries with so many candidates."""
        kind = torch.float64 if query.dtype == torch.float64 else torch.float32
        n = counts.to(kind).clamp_min(1)  # a query without candidates gets zeros, whatever its factor is
        parts, head = [], 0
        for heads, scale in self._scales:
            own = slice(head, head + heads)
            if scale is None:
                parts.append(torch.ones_like(n[..., own]))
            elif scale == "head_scale":
                parts.append(n[..., own].log() * self.scale[own].to(kind).clamp_min(LEAST_SCALE))
            else:
                base = torch.nn.functional.softplus(self.scale_base(query)[..., own].to(kind))
                power = 2 * self.scale_power(query)[..., own].to(kind).tanh()
                parts.append(1 + base * (n[..., own] + 1).log() ** power)
            head += heads
        return torch.cat(parts, -1)

    def _split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, N, D], a view

    def extra_repr(self):
        text = (f"{self.embed_dim}, {self.num_heads}, {self.spec!r}, causal={self.causal}, "
                f"bias={self.q_proj.bias is not None}, dropout={self.dropout}")
        return text + (f", seed={self.seed}, layer={self.layer}" if "seed" in self._properties else "")

"""The choice of blocks of keys by block attention: MoBA (Lu et al. 2025) and Quest (Tang et al. 2024)."""
import operator
from typing import SupportsIndex

import torch
from torch import Tensor

from ._functional import _check_type


def block_topk(q: Tensor, k: Tensor, block_size: int, k_best: int, *, causal: bool = True, score: str = "mean",
               lengths: Tensor | None = None, q_offsets: Tensor | None = None, k_offsets: Tensor | None = None) -> Tensor:
    """The blocks of keys that each query attends to, as attention(block_indices=) takes them: its own block and the
    k_best - 1 best others, or earlier ones if causal. Of those equal to the last one it keeps all, as topk(k) does. Not
    differentiable. For self-attention.

    Args:
        q (Tensor): [B, H, N_q, D], or packed without padding [T_q, H, D].
        k (Tensor): [B, H_kv, N_k, D], or packed [T_k, H_kv, D]; of q's type, H_kv a divisor of H.
        block_size (int): keys of a block, counted from the first key of a sequence.
        k_best (int): blocks of a query, 1 or more; its own one counts.
        causal (bool): a query sees no key after itself. Query i stands at key position i + N_k - N_q.
        score (str): "mean", the product of the query and the mean of a block's keys (MoBA), or "bounds", the upper bound of
            its products with them, from their least and greatest numbers (Quest).
        lengths (Tensor, optional): [B] int64 on the CPU, what of N_q = N_k is no padding.
        q_offsets, k_offsets (Tensor, optional): packed: [B + 1] int64 on the CPU, where sequences begin and end;
            k_offsets default to q_offsets, both to a single sequence.
    Returns:
        Tensor: int32 [B, H, N_q, n], or packed [T_q, H, n], ascending, -1 in places left over, as attention() takes it.
    Raises:
        TypeError, RuntimeError: an argument does not fit; the message names it.
    """
    if not torch.compiler.is_compiling():
        for name, value in {"q": q, "k": k}.items():
            _check_type(f"block_topk: {name}", value, Tensor, "a tensor")
        for name, value in {"block_size": block_size, "k_best": k_best}.items():
            _check_type(f"block_topk: {name}", value, SupportsIndex, "a whole number")
        block_size, k_best = operator.index(block_size), operator.index(k_best)
    if score not in ("mean", "bounds"):
        raise ValueError(f"block_topk: got score {score!r}; expected 'mean' or 'bounds'")
    return torch.ops.fovea.block_topk(q, k, block_size, k_best, causal=bool(causal), bounds=score == "bounds",
                                      q_offsets=q_offsets, k_offsets=k_offsets, lengths=lengths)

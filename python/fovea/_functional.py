"""The operators as functions. Shapes: B sequences, H heads, N queries or keys, D head size, T tokens of all sequences."""
from collections import namedtuple

import torch

SpecName = namedtuple("SpecName", "part name arguments help")


class SpecError(ValueError):
    """A spec that does not parse: the message names the column, with a caret under it, and the nearest known name."""


def parse(spec, num_heads=None):
    """The canonical text of a spec, equal for equal mechanisms: parse("full + relu+topk(8)") == "topk(8)+relu".

    Args:
        spec (str): a mechanism, or one a group of heads: "4*local(256);4*topk(8)".
        num_heads (int, optional): the heads that it is for.
    Raises:
        SpecError: the text is no spec, or one of another number of heads.
    """
    try:
        return torch.ops.fovea.parse(spec, num_heads)
    except RuntimeError as error:
        raise SpecError(str(error)) from None


def spec_names():
    """Every name that a spec may use, as (part, name, arguments, help); parts: pattern, stage, alias, later."""
    return [SpecName(*line.split("\t")) for line in torch.ops.fovea.spec_names()]


def parameters(spec):
    """Names of the tensors that a spec needs beside q, k and v: of gain, gate and bias [H * D], alpha [H]."""
    parse(spec)
    return torch.ops.fovea.parameters(spec)


def _kind(causal, cross):
    if causal and cross:
        raise ValueError("attention: causal and cross exclude each other; cross-attention sees every key")
    return "causal" if causal else "cross" if cross else "self"


def attention(q, k, v, spec="full", *, causal=False, cross=False, q_lengths=None, k_lengths=None, q_offsets=None,
              k_offsets=None, k_begins=None, k_tokens=None, alpha=None, gain=None, gate=None, bias=None, scale=None,
              dropout=0.0, seed=0, layer=0, dropout_seed=None):
    """Attention by any mechanism, differentiable in q, k, v, alpha, gain, gate and bias; works in torch.compile.

    Args:
        q (Tensor): [B, H, N_q, D], or packed without padding [T_q, H, D].
        k, v (Tensor): [B, H, N_k, D], or packed [T_k, H, D]; q's type and device.
        spec (str): the mechanism, "topk(8)", "window(64)|global(4)", "relu+gated-rmsnorm", "4*local(256);4*full".
        causal (bool): a query sees no key after itself. Query i stands at key position i + N_k - N_q.
        cross (bool): queries and keys are of different texts, so that specs which compare positions are refused.
        q_lengths, k_lengths (Tensor, optional): [B] int64 on the CPU, what of N is no padding. k_lengths also goes
            with k_begins.
        q_offsets, k_offsets (Tensor, optional): packed: [B + 1] int64 on the CPU, where sequences begin and end;
            k_offsets default to q_offsets, both to a single sequence.
        k_begins (Tensor, optional): packed: [B] int64 on the CPU; with k_lengths, in place of k_offsets, the keys of
            sequence b are k_begins[b] ... k_begins[b] + k_lengths[b] - 1 and may be shared. No gradients.
        k_tokens (Tensor, optional): packed: [N] int64 on the CPU, with k_begins, which are ranges of it then: key j of
            sequence b is row k_tokens[k_begins[b] + j] of k and v. For caches in pieces.
        alpha (Tensor, optional): [H] in [1.0001, 64], for entmax(learned).
        gain, gate, bias (Tensor, optional): [H * D], for norms; gain is one and bias zero where left out.
        scale (float, optional): of q . k; default 1 / sqrt(D).
        dropout (float): rate on the weights; the mask is a function of dropout_seed, head and positions.
        seed, layer (int): random(k) draws from (seed, layer, head).
        dropout_seed (int, optional): of this call; default a new one from torch's generator. Steps and layers that
            pass the same one share a mask.
    Returns:
        Tensor: q's shape. A row without a candidate is zero.
    """
    if dropout_seed is None:
        dropout_seed = int(torch.randint(2**62, (), device="cpu")) if dropout > 0 else 0
    return torch.ops.fovea.attention(
        q, k, v, spec, kind=_kind(causal, cross), q_offsets=q_offsets, k_offsets=k_offsets, k_begins=k_begins,
        k_tokens=k_tokens, q_lengths=q_lengths, k_lengths=k_lengths, alpha=alpha, gain=gain, gate=gate, bias=bias,
        scale=scale, dropout=dropout, seed=seed, layer=layer, dropout_seed=dropout_seed)


def attention_weights(q, k, spec="full", *, causal=False, cross=False, q_lengths=None, k_lengths=None, q_offsets=None,
                      k_offsets=None, k_begins=None, k_tokens=None, alpha=None, scale=None, seed=0, layer=0):
    """The weights that attention() would use, whole: for looking at, not for training. Arguments as there.

    Returns:
        Tensor: [B, H, N_q, N_k] with the greatest lengths, zero outside the selected pairs.
    """
    return torch.ops.fovea.attention_weights(
        q, k, spec, kind=_kind(causal, cross), q_offsets=q_offsets, k_offsets=k_offsets, k_begins=k_begins,
        k_tokens=k_tokens, q_lengths=q_lengths, k_lengths=k_lengths, alpha=alpha, scale=scale, seed=seed, layer=layer)

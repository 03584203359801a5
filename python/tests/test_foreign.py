"""Arguments and shapes of PyTorch's own attention, which mean something else or nothing here."""
import warnings

import pytest
import torch

import fovea

X = torch.randn(1, 2, 4, 8)


@pytest.mark.parametrize("name,ours", [("is_causal", "causal"), ("dropout_p", "dropout"), ("attn_mask", "q_lengths and k_lengths"),
                                       ("query", "q, the first argument")])
def test_names_of_sdpa_are_told(name, ours):
    with pytest.raises(TypeError, match=f"attention has no argument '{name}'; in its place, Fovea has {ours}") as error:
        fovea.attention(X, X, X, **{name: None})
    assert "\n" not in str(error.value)


def test_names_of_multihead_attention_are_told():
    with pytest.raises(TypeError, match="'batch_first'; in its place, Fovea has nothing: inputs are always"):
        fovea.Attention(8, 2, batch_first=True)
    for name in ("key_padding_mask", "need_weights"):
        with pytest.raises(TypeError, match=f"a call has no argument '{name}'; in its place, Fovea has "):
            fovea.Attention(8, 2)(X[0], **{name: None})


def test_other_names_are_refused_too():
    with pytest.raises(TypeError, match="attention has no argument 'caussal'$"):
        fovea.attention(X, X, X, caussal=True)


def test_heads_before_tokens_are_said():
    """[H, N, D] of PyTorch's attention is [T, H, D] here: other numbers."""
    heads_first = torch.randn(2, 16, 8)
    with pytest.warns(UserWarning, match=r"one packed sequence of 2 tokens and 16 heads; .* q\[None\]"):
        fovea.attention(heads_first, heads_first, heads_first)
    packed = heads_first.transpose(0, 1).contiguous()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fovea.attention(packed, packed, packed)
        fovea.attention(packed[:1], packed, packed)  # one step of decoding
        fovea.attention(heads_first, heads_first, heads_first, q_offsets=torch.tensor([0, 2]))

"""Names of arguments that PyTorch's own attention has, and what Fovea has in their place."""

_FUNCTION = {
    "is_causal": "causal",
    "dropout_p": "dropout",
    "query": "q, the first argument",
    "key": "k, the second argument",
    "value": "v, the third argument",
    "attn_mask": "q_lengths and k_lengths for padding, a pattern of the spec such as window(64) for places, and offset_bias for a "
                 "bias by distance; other masks have no form here",
}
_FUNCTION["key_padding_mask"] = _FUNCTION["attn_mask"]
_MODULE = {
    "batch_first": "nothing: inputs are always [B, N, embed_dim]; leave it out",
    "is_causal": "causal",
    "kdim": "nothing: keys have the width embed_dim; leave it out",
    "vdim": "nothing: values have the width embed_dim; leave it out",
    "add_bias_kv": "nothing of the kind; leave it out",
    "add_zero_attn": "nothing of the kind; leave it out",
}
_FORWARD = {
    "attn_mask": "q_lengths and k_lengths for padding, a pattern of the spec such as window(64) for places, and causal=True of "
                 "the module",
    "key_padding_mask": "k_lengths, [B] int64: the tokens of each sequence that are not padding",
    "is_causal": "causal=True of the module",
    "need_weights": "fovea.attention_weights(q, k, spec), for looking at them; leave it out",
    "average_attn_weights": "fovea.attention_weights(q, k, spec), for looking at them; leave it out",
}


def _refuse(caller, names, others):
    name = next(iter(others))
    told = f"; in its place, Fovea has {names[name]}" if name in names else ""
    raise TypeError(f"{caller} has no argument '{name}'{told}")


def refuse_in_function(others):
    _refuse("attention", _FUNCTION, others)


def refuse_in_module(others):
    _refuse("Attention", _MODULE, others)


def refuse_in_forward(others):
    _refuse("Attention: a call", _FORWARD, others)

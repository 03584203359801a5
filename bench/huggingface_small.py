"""Configurations of transformers' models, made small by the names of their fields."""
import re

VOCABULARY, HEADS, WIDTH = 99, 4, 32
# The first pattern that matches a field's whole name gives its value; None keeps the default.
RULES = [(re.compile(pattern), value) for pattern, value in (
    (r".*codebook_size", 64), (r".*vocab_size.*", VOCABULARY),
    (r"pad_token_id", 0), (r"bos_token_id|cls_token_id", 1), (r"eos_token_id|sep_token_id|decoder_start_token_id", 2),
    (r"mask_token_id", 3), (r".*_token_id|.*_token_index|.*_token_idx|image_token|.*begin_token|.*end_token", None),
    (r"(num_)?(encoder_|decoder_|text_|hidden_)*layers|num_hidden_layers|n_layers?|depth|layer_num|.*_num_hidden_layers|"
     r"num_(encoder|decoder)_layers|(encoder|decoder)_num_layers|.*num_encoder_layers|e_layers|.*_depth|num_blocks", 2),
    (r"(encoder_|decoder_|text_|vision_|num_|hidden_)*(attention_heads|heads)|n_heads?|.*num_attention_heads|"
     r"(num_)?(encoder|decoder)_attention_heads|attention_heads", HEADS),
    (r".*num_key_value_heads|num_kv_heads|num_query_groups|n_kv_heads|.*kv_heads", 2),
    (r"hidden_sizes?|d_model|n_embd|embed_dim|.*hidden_size|embedding_size|.*embed_dim|dim|.*_dim_model|out_hidden_size|"
     r"projection_dim|text_dim|hidden_dim|encoder_dim|decoder_dim|d_embed|word_embed_proj_dim|.*embedding_dim|model_dim|"
     r"encoder_hidden_dim|feat_extract_dim|decoder_hidden_dim", WIDTH),
    (r"head_dim|d_kv|d_head|attention_head_dim|.*_head_dim|.*head_size|key_length|kv_channels|.*head_dim", 8),
    (r".*intermediate_size|.*ffn_dim|d_ff|d_inner|.*ffn_hidden_size|.*mlp_dim|.*feedforward.*|n_inner|.*feed_forward_.*dim|"
     r".*_inner_dim", 48),
    (r"q_lora_rank|kv_lora_rank|o_lora_rank|.*_rank|lora_r", 16),
    (r"max_position_embeddings|n_positions|max_source_positions|max_target_positions|max_seq_len.*|n_ctx|"
     r"max_sequence_length|context_length|max_length|seq_length", 128),
    (r"num_experts_per_tok|moe_topk|num_experts_per_token|top_k_experts|moe_k|num_selected_experts|router_top_k|expert_top_k", 2),
    (r"n_group|topk_group|n_shared_experts|num_shared_experts", 1),
    (r".*num_experts|.*num_local_experts|n_routed_experts|moe_num_experts|.*_experts", 4),
    (r"first_k_dense_replace|num_nextn_predict_layers|num_mtp_layers|mtp_.*layers|num_hash_layers", 0),
    (r"sliding_window|local_attention|.*window_size_left|attention_window", 8),
    (r"rotary_dim|rotary_ndims", 8), (r"prediction_length", 8), (r"attention_chunk_size", 6), (r"index_topk", 6), (r"index_n_heads", 2), (r"index_block_size", 4), (r"index_topk_blocks", 2),
    (r"image_size|img_size", 32), (r"patch_size|.*patch_size", 8), (r"num_mel_bins|num_mels|n_mels|feature_size|input_feat.*", 16),
    (r"num_queries|num_query_tokens|num_latents|n_latents|resampler_n_latents", 6),
    (r"mamba_n_heads|mamba_num_heads|linear_num_key_heads|linear_num_value_heads|ssm_num_heads|mamba_nheads", 4),
    (r"mamba_d_state|ssm_state_size|mamba_d_ssm|state_size|mamba_d_head|mamba_head_dim", 16),
    (r".*dropout.*|.*drop_rate|.*drop_path.*|.*_drop|.*pdrop|layerdrop|.*layerdrop", 0.0),
)]


# Values by model_type that the names do not tell.
SPECIAL = {
    "esm": {"vocab_size": VOCABULARY, "pad_token_id": 0, "mask_token_id": 3}, "dots1": {"num_experts_per_tok": 2},
    "deepseek_v2": {"num_experts_per_tok": 2}, "mistral4": {"head_dim": 16}, "longcat_flash": {"qk_head_dim": 16},
    "mobilebert": {"true_hidden_size": WIDTH, "intra_bottleneck_size": WIDTH, "embedding_size": WIDTH},
    "layoutlmv3": {"coordinate_size": 5, "shape_size": 6}, "xmod": {"default_language": "en_XX"},
    "nemotron": {"num_key_value_heads": 2}, "zamba2": {"attention_hidden_size": 2 * WIDTH, "attention_head_dim": 16},
    "wav2vec2-bert": {"feature_projection_input_dim": 16}, "granite_speech5": {"input_dim": 16},
    "bamba": {"attn_layer_indices": [1]}, "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "num_hidden_layers": 2}, "glm5_next_text": {"index_kpool": 2, "qk_rope_head_dim": 0},
    "qwen4_exp_text": {"indexer_budget": 8, "indexer_compress_ratio": 4, "indexer_head_dim": 8, "indexer_kv_heads": 1,
                       "indexer_n_heads": HEADS, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    "moonshine": {"encoder_num_key_value_heads": HEADS, "decoder_num_key_value_heads": HEADS},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"], "lru_width": WIDTH, "attention_window_size": 8},
    **{kind: {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": section}}
       for kind, section in (("qwen2_vl_text", [2, 1, 1]), ("qwen2_5_vl_text", [2, 1, 1]), ("paddleocr_vl_text", [2, 1, 1]),
                             ("qwen2_5_omni_text", [2, 1, 1]), ("glm4v_text", [2, 1, 1]), ("glm_ocr_text", [2, 1, 1]),
                             ("glm_image_text", [2, 1, 1]))},
}


def _value(name, default):
    for pattern, value in RULES:
        if pattern.fullmatch(name):
            if value is None or isinstance(default, bool) or default is None:
                return default
            if isinstance(default, (list, tuple)) and default and all(isinstance(x, (int, float)) for x in default):
                return _numbers(name, default, value)
            return value if isinstance(default, (int, float)) else default
    return default


def _numbers(name, default, value):
    """Lists for stages: equal widths would not divide by the heads of each."""
    if "head" in name:
        return [HEADS] * len(default)
    return [value] * len(default)


def _layer_types(types, layers):
    """One layer of each kind, in the order of their first places."""
    kinds = list(dict.fromkeys(types))[:4]
    return (kinds * layers)[:max(layers, len(kinds))]


def _own(config, name):
    """A field's value; None for those that may differ by layer."""
    try:
        return getattr(config, name, None)
    except Exception:
        return None


def _is_set(config, name):
    """Whether a configuration takes a field, rather than to compute it."""
    target = (getattr(type(config), "attribute_map", None) or {}).get(name, name)
    return not any(isinstance(getattr(type(config), key, None), property) for key in (name, target))


def _rope(parameters, head_dim):
    """Rope settings whose sections fill a small head."""
    if not isinstance(parameters, dict):
        return parameters
    made = {name: _rope(value, head_dim) for name, value in parameters.items()}
    if isinstance(made.get("mrope_section"), (list, tuple)):
        pairs = int(head_dim * made.get("partial_rotary_factor", 1)) // 2
        made["mrope_section"] = [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3]
    return made


def _kinds_of_layers(config, fields):
    """Lists with an entry a layer."""
    types = _own(config, "layer_types")
    if isinstance(types, (list, tuple)) and types and isinstance(types[0], str) and _is_set(config, "layer_types"):
        fields["layer_types"] = _layer_types(types, 2)
        if _own(config, "num_hidden_layers") is not None:
            fields["num_hidden_layers"] = len(fields["layer_types"])
    count = fields.get("num_hidden_layers", 2)
    for name in ("mlp_layer_types", "layers_block_type"):
        default = _own(config, name)
        if isinstance(default, (list, tuple)) and default and _is_set(config, name):
            fields[name] = _layer_types(default, count)[:count]


def small_values(config):
    """Fields of a small configuration of the same class, from one with default values."""
    fields, defaults = {}, config.to_dict()
    for name, default in defaults.items():
        inner = _own(config, name)
        if hasattr(inner, "to_dict") and name in (getattr(type(config), "sub_configs", None) or {}):
            fields[name] = {**small_values(inner), "model_type": inner.model_type}
            continue
        value = _value(name, default)
        if value != default:
            fields[name] = value
        if re.fullmatch(r".*_token_(id|index|idx)", name) and isinstance(default, int) and default >= VOCABULARY:
            fields[name] = 10 + sum(map(ord, name)) % 80
    _kinds_of_layers(config, fields)
    keys = defaults.get("num_key_value_heads")
    if keys is not None and (keys == defaults.get("num_attention_heads") or defaults.get("kv_lora_rank")):
        fields["num_key_value_heads"] = HEADS
    if "head_dim" in defaults and defaults["head_dim"] is None and "hidden_size" in fields:
        fields["head_dim"] = WIDTH // HEADS
    if defaults.get("num_experts_per_tok") == 1:
        fields["num_experts_per_tok"] = 1
    for name in ("rope_parameters", "rope_scaling"):
        made = _rope(defaults.get(name), fields.get("qk_rope_head_dim", WIDTH // HEADS))
        if made != defaults.get(name):
            fields[name] = made
    return {**fields, **SPECIAL.get(config.model_type, {})}


def small_config(cls):
    config = cls()
    return cls(**small_values(config))

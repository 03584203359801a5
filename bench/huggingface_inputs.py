"""Inputs of small models of transformers, by the names that their forward takes."""
import inspect

import torch

ROWS, LENGTH, TARGET = 3, 21, 9


def _tokens(length, seed, low=4, high=99):
    return torch.randint(low, high, (ROWS, length), generator=torch.Generator().manual_seed(seed))


def _padding(side):
    mask = torch.ones(ROWS, LENGTH, dtype=torch.long)
    for row in range(ROWS - 1):
        if side == "left":
            mask[row, :5 + 4 * row] = 0
        else:
            mask[row, LENGTH - 5 - 4 * row:] = 0
    return mask


def _sub(config, *names):
    for name in names:
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    return config


def _reserved(config):
    """Numbers of tokens that stand for images and the like."""
    found = set()
    for name, value in config.to_dict().items():
        if name.endswith(("_token_id", "_token_index", "_token_idx")) and isinstance(value, int):
            found.add(value)
    for name in getattr(type(config), "sub_configs", None) or {}:
        inner = getattr(config, name, None)
        if hasattr(inner, "to_dict"):
            found |= _reserved(inner)
    return found


def _text(config):
    ids = _tokens(LENGTH, 2)
    free = next(n for n in range(4, 99) if n not in _reserved(config))
    for token in _reserved(config):
        ids[ids == token] = free
    return ids


def _pixels(config):
    vision = _sub(config, "vision_config", "backbone_config", "encoder")
    size = getattr(vision, "image_size", getattr(config, "image_size", 32))
    size = size if isinstance(size, (list, tuple)) else (size, size)
    channels = getattr(vision, "num_channels", getattr(vision, "in_channels", 3))
    frames = getattr(vision, "num_frames", None)
    shape = (2, channels, *size) if frames is None else (2, frames, channels, *size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(4))


def inputs_of(model):
    """Arguments of a call by variant: without a mask and with padding, if the model takes text."""
    config, names = model.config, inspect.signature(model.forward).parameters
    main = model.main_input_name
    noise = torch.Generator().manual_seed(5)
    if "input_ids" in names and main in ("input_ids", "inputs_embeds") or "input_ids" in names and "pixel_values" in names:
        base = {"input_ids": _text(config)}
        if main == "pixel_values" and "attention_mask" not in names or names["input_ids"].default is inspect.Parameter.empty and (
                "pixel_values" in names and names["pixel_values"].default is inspect.Parameter.empty):
            base["pixel_values"] = _pixels(config)
        if "bbox" in names and "decoder_input_ids" in names:
            base["bbox"] = torch.zeros(ROWS, LENGTH, 4)
        if "decoder_input_ids" in names:
            base["decoder_input_ids"] = _tokens(TARGET, 6)
        variants = {"no mask": base}
        if "attention_mask" in names:
            sides = ("right",) if "decoder_input_ids" in names or not getattr(config, "is_causal", True) else ("left", "right")
            for side in sides:
                variants[side] = {**base, "attention_mask": _padding(side)}
        return variants
    base = {}
    if "pixel_values" in names:
        base["pixel_values"] = _pixels(config)
    elif "input_features" in names:
        bins = next((getattr(config, name) for name in ("num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels")
                     if getattr(config, name, None)), 16)
        length = 2 * getattr(config, "max_source_positions", 32) if "Whisper" in type(model).__name__ else 64
        base["input_features"] = torch.randn(2, *((bins, length) if "Whisper" in type(model).__name__ else (length, bins)),
                                             generator=noise)
    elif "input_values" in names and getattr(config, "frequency_stride", None):
        base["input_values"] = torch.randn(2, config.max_length, config.num_mel_bins, generator=noise)
    elif "input_values" in names:
        base["input_values"] = torch.randn(2, 4000, generator=noise)
    elif "flattened_patches" in names:
        base["flattened_patches"] = torch.rand(2, 12, 2 + 3 * 8 * 8, generator=noise)
    elif "past_values" in names:
        base["past_values"] = torch.randn(2, getattr(config, "context_length", 32), getattr(config, "num_input_channels", 1),
                                          generator=noise)
    elif "hidden_states" in names:
        base["hidden_states"] = torch.randn(2, LENGTH, config.hidden_size, generator=noise)
    elif "inputs_embeds" in names:
        base["inputs_embeds"] = torch.randn(2, LENGTH, config.hidden_size, generator=noise)
    else:
        raise ValueError(f"no inputs known for {list(names)}")
    if "decoder_input_ids" in names:
        base["decoder_input_ids"] = _tokens(TARGET, 6)[:2]
    return {"no mask": base}

"""Mechanisms of loaded models: swapped, and compared."""
import re

import torch

from . import _attention
from ._names import parse
from ._register import KEY, check_interface, register

_NUMBER = re.compile(r"\.(\d+)(?:\.|$)")
_ATTENTION = re.compile("attn|attention", re.IGNORECASE)


def _number_layers(model):
    """For attention modules without a layer_idx: the number in their path, "encoder.layer.3.attention.self" is 3."""
    for path, module in model.named_modules():
        number = _NUMBER.search(path)
        if number and getattr(module, "layer_idx", None) is None and _ATTENTION.search(f"{path} {type(module).__name__}"):
            module.fovea_layer = int(number[1])


def _check_layers(model, mechanism):
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    for first, last, _ in mechanism.by_layer:
        if layers is not None and last >= layers:
            named = f"{first}-{last}" if first != last else f"{first}"
            raise ValueError(f"fovea: '{mechanism.text}' names layers {named}, and the model has 0 to {layers - 1}")


def _check_called(model, name):
    """Raises at the model's next call if that call does not come to Fovea's function."""
    before = _attention.calls

    def after_call(module, *_):
        handle.remove()
        if _attention.calls == before and not torch.compiler.is_compiling():
            raise RuntimeError(f"fovea: {type(module).__name__} accepted '{name}' and did not call it; its "
                               "attention is its own")

    handle = model.register_forward_hook(after_call)


def sparsify(model, spec):
    """Swaps the mechanism of a loaded model of transformers, and returns the model. `save_pretrained` writes the spec to
    config.json as "fovea_attention", from where `from_pretrained` restores it once fovea.transformers is installed
    (`register` and `sparsify` do that; so does importing fovea after transformers).

    Args:
        model (PreTrainedModel): any that calls attention functions by name.
        spec (str): as of `register`.
    Raises:
        SpecError, ValueError: the text does not parse or fit, or the model has an attention of its own.
        RuntimeError: at the model's next call, if it does not come to the mechanism.
    """
    mechanism = parse(spec)
    _check_layers(model, mechanism)
    name = register(spec)
    check_interface(model, name)
    _number_layers(model)
    setattr(model.config, KEY, mechanism.text)
    model.set_attn_implementation(name)
    _check_called(model, name)
    return model


def sweep(model, batch, specs):
    """The loss of a model on one batch under each mechanism, as {spec: loss}; the model keeps its own.

    Args:
        batch (dict): arguments of the model. Without "labels", those of a language model are the input ids, padding
            left out.
        specs (list of str): "sdpa" and "eager" are transformers' own.
    """
    batch = dict(batch)
    if "labels" not in batch:
        labels = batch["input_ids"].clone()
        if batch.get("attention_mask") is not None:
            labels[batch["attention_mask"] == 0] = -100
        batch["labels"] = labels
    own, stored, training = model.config._attn_implementation, getattr(model.config, KEY, None), model.training
    losses = {}
    model.eval()
    try:
        for spec in specs:
            if spec in ("sdpa", "eager"):
                _set(model, spec, None)
            else:
                sparsify(model, spec)
            with torch.no_grad():
                losses[spec] = float(model(**batch).loss)
    finally:
        _set(model, own, stored)
        model.train(training)
    return losses


def _set(model, name, stored):
    if stored is None:
        if hasattr(model.config, KEY):
            delattr(model.config, KEY)
    else:
        setattr(model.config, KEY, stored)
    model.set_attn_implementation(name)

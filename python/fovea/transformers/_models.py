"""Mechanisms of loaded models: swapped, and compared."""
import re

import torch

from . import _attention, _indexer
from ._names import chosen_keys, parse
from ._register import KEY, check_interface, enter

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
        if name == module.config._attn_implementation and _attention.calls == before and not torch.compiler.is_compiling():
            raise RuntimeError(f"fovea: {type(module).__name__} accepted '{name}' and did not call it; its "
                               "attention is its own")

    handle = model.register_forward_hook(after_call)


def sparsify(model, spec, *, index_heads=None, index_width=None, index_candidates=None):
    """Swaps the mechanism of a loaded model of transformers, and returns the model. `save_pretrained` writes the spec to
    config.json as "fovea_attention", from where `from_pretrained` restores it once fovea.transformers is installed
    (`register` and `sparsify` do that; so does importing fovea after transformers).

    Args:
        model (PreTrainedModel): any that calls attention functions by name.
        spec (str): as of `register`, or dsa(k): each query attends to the k keys that an indexer chooses, new parameters
            of the model. In training, backward adds the indexers' loss to the model's; make the optimizer afterwards.
        index_heads, index_width, index_candidates (int, optional): heads and head size of the indexers, and how many keys
            their loss looks at for each chosen one; defaults 4 (or the next divisor of the model's heads), 64 and 4.
    Raises:
        SpecError, ValueError: the text does not parse or fit, or the model has an attention of its own.
        RuntimeError: at the model's next call, if it does not come to the mechanism.
    """
    mechanism = _swap(model, spec, {"heads": index_heads, "width": index_width, "candidates": index_candidates})
    _indexer.detach(model, lambda path, layer: chosen_keys(mechanism.spec(layer)) is not None)
    if not mechanism.has_indexer and hasattr(model.config, _indexer.NAME):
        delattr(model.config, _indexer.NAME)
    return model


def _swap(model, spec, sizes):
    """`sparsify` without the end of indexers that the mechanism does not use."""
    mechanism = parse(spec)
    _check_layers(model, mechanism)
    if not mechanism.has_indexer and any(value is not None for value in sizes.values()):
        raise ValueError(f"fovea: '{mechanism.text}' has no indexer; leave out index_heads, index_width and "
                         "index_candidates, or choose dsa(k)")
    if mechanism.has_indexer:
        sizes = _indexer.sizes_of(model, sizes)
    name = enter(mechanism, spec)
    check_interface(model, name)
    _number_layers(model)
    setattr(model.config, KEY, mechanism.text)
    model.set_attn_implementation(name)
    if mechanism.has_indexer:
        _indexer.attach(model, mechanism, sizes)
        setattr(model.config, _indexer.NAME, sizes)
    _check_called(model, name)
    return mechanism


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
    own, training = model.config._attn_implementation, model.training
    stored = {key: getattr(model.config, key, None) for key in (KEY, _indexer.NAME)}
    indexers = _indexer.indexers(model)
    losses = {}
    model.eval()
    try:
        for spec in specs:
            if spec in ("sdpa", "eager"):
                _set(model, spec, dict.fromkeys(stored))
            else:
                _swap(model, spec, {})
            with torch.no_grad():
                losses[spec] = float(model(**batch).loss)
    finally:
        _indexer.detach(model, lambda path, layer: path in indexers)
        _set(model, own, stored)
        model.train(training)
    return losses


def _set(model, name, stored):
    for key, value in stored.items():
        if value is not None:
            setattr(model.config, key, value)
        elif hasattr(model.config, key):
            delattr(model.config, key)
    model.set_attn_implementation(name)

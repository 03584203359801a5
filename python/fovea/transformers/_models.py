"""Mechanisms of loaded models: swapped, and compared."""
import sys

import torch

from . import _attention, _indexer
from .._functional import parse as parse_spec
from ._index_loss import join
from ._names import chosen_keys, parse
from ._peft import remember
from ._register import _transformers, check_interface, enter, names, number_layers


def _check_layers(model, mechanism):
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    for first, last, _ in mechanism.by_layer:
        if layers is not None and last >= layers:
            named = f"{first}-{last}" if first != last else f"{first}"
            raise ValueError(f"fovea: '{mechanism.text}' names layers {named}, and the model has 0 to {layers - 1}")


def _check_heads(model, mechanism):
    """Refuses head groups that are not of the model's number of heads, which its next call would find."""
    heads = getattr(model.config.get_text_config(), "num_attention_heads", None)
    if not isinstance(heads, int):
        return  # a model without one number, whose layers check it
    for spec in {mechanism.rest, *(spec for *_, spec in mechanism.by_layer)}:
        if chosen_keys(spec) is None:
            parse_spec(spec, heads)


class _CallCheck:
    """A hook that raises after the model's next call if that call did not come to Fovea's function. A class of a module,
    so that a model can be pickled and copied before its first call."""

    def __init__(self, name):
        self.name, self.before = name, _attention.calls

    def __getstate__(self):
        return self.name

    def __setstate__(self, name):
        self.__init__(name)

    def __call__(self, module, *_):
        if torch.compiler.is_compiling():
            return
        for key in [key for key, hook in module._forward_hooks.items() if hook is self]:
            del module._forward_hooks[key]
        if self.name == module.config._attn_implementation and _attention.calls == self.before:
            raise RuntimeError(f"fovea: {type(module).__name__} accepted '{self.name}' and did not call it; its "
                               "attention is its own")


def _check_called(model, name):
    for key in [key for key, hook in model._forward_hooks.items() if isinstance(hook, _CallCheck)]:
        del model._forward_hooks[key]
    model.register_forward_hook(_CallCheck(name))


def _bare(model):
    """The model of transformers inside one of PEFT's."""
    unwrap = getattr(model, "get_base_model", None)
    inner = unwrap() if unwrap and "peft" in sys.modules else model
    if not isinstance(inner, _transformers().PreTrainedModel):
        raise TypeError(f"fovea: got an object of type {type(model).__name__}; expected a loaded model of transformers, a "
                        "PreTrainedModel or a PeftModel; if it wraps or compiles one, pass the model inside")
    return inner


def sparsify(model, spec, *, index_heads=None, index_width=None, index_candidates=None):
    """Swaps the mechanism of a loaded model of transformers, and returns the model. `save_pretrained` writes it to
    config.json, from where `from_pretrained` restores it in a program that has imported fovea; transformers alone
    refuses the checkpoint and names the mechanism.

    Args:
        model (PreTrainedModel): any that calls attention functions by name, also inside a PeftModel.
        spec (str): as of `register`, or dsa(k): each query attends to the k keys that an indexer chooses, new parameters
            of the model. In training, backward adds the indexers' loss to the model's; make the optimizer afterwards.
        index_heads, index_width, index_candidates (int, optional): heads and head size of the indexers, and how many keys
            their loss looks at for each chosen one; defaults 4 (or the next divisor of the model's heads), 64 and 4.
    Raises:
        SpecError, ValueError: the text does not parse or fit, or the model has an attention of its own.
        RuntimeError: at the model's next call, if it does not come to the mechanism.
    """
    inner = _bare(model)
    mechanism = _swap(inner, spec, {"heads": index_heads, "width": index_width, "candidates": index_candidates})
    _indexer.detach(inner, lambda path, layer: chosen_keys(mechanism.spec(layer)) is not None)
    join(inner)
    if not mechanism.has_indexer and hasattr(inner.config, _indexer.NAME):
        delattr(inner.config, _indexer.NAME)
    for holder in {id(m): m for m in (inner, model)}.values():
        remember(holder)
    return model


def _swap(model, spec, sizes):
    """`sparsify` without the end of indexers that the mechanism does not use."""
    mechanism = parse(spec)
    _check_layers(model, mechanism)
    _check_heads(model, mechanism)
    if not mechanism.has_indexer and any(value is not None for value in sizes.values()):
        raise ValueError(f"fovea: '{mechanism.text}' has no indexer; leave out index_heads, index_width and "
                         "index_candidates, or choose dsa(k)")
    if mechanism.has_indexer:
        sizes = _indexer.sizes_of(model, sizes)
    name = enter(mechanism, spec)
    check_interface(model, name)
    number_layers(model)
    model.set_attn_implementation(name)
    if mechanism.has_indexer:
        _indexer.attach(model, mechanism, sizes)
        setattr(model.config, _indexer.NAME, sizes)
        join(model)
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
    if isinstance(specs, str):
        raise TypeError(f"sweep: specs is the text '{specs}'; expected a list of texts")
    if "labels" not in batch and "input_ids" not in batch:
        raise ValueError("sweep: the batch has neither labels nor input_ids; expected labels, of which the model makes a loss")
    if "labels" not in batch:
        labels = batch["input_ids"].clone()
        if batch.get("attention_mask") is not None:
            labels[batch["attention_mask"] == 0] = -100
        batch["labels"] = labels
    inner, modes = _bare(model), [(module, module.training) for module in model.modules()]
    own, sizes = names(inner.config), getattr(inner.config, _indexer.NAME, None)
    indexers = _indexer.indexers(inner)
    losses = {}
    model.eval()
    try:
        for spec in specs:
            if spec in ("sdpa", "eager"):
                inner.set_attn_implementation(spec)
            else:
                _swap(inner, spec, {})
            with torch.no_grad():
                losses[spec] = float(model(**batch).loss)
    finally:
        _indexer.detach(inner, lambda path, layer: path in indexers)
        join(inner)
        inner.set_attn_implementation(own)
        if sizes is not None:
            setattr(inner.config, _indexer.NAME, sizes)
        elif hasattr(inner.config, _indexer.NAME):
            delattr(inner.config, _indexer.NAME)
        for module, training in modes:  # not train(): parts of the model may be frozen in another mode
            module.training = training
    return losses

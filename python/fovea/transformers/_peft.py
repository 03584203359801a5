"""Adapters of PEFT remember the mechanism that they were trained with: adapter_config.json holds the same keys as a
model's config.json. A model that such an adapter is loaded into gets the mechanism, unless it has another one: then a
warning names both. PEFT without fovea says that it does not know the keys."""
import functools
import warnings

from ._indexer import NAME
from ._register import KEY, mechanism_of

_FIELD = "_fovea"  # of a PeftConfig: {key: value}


def remember(model):
    """Writes the mechanism of a model to the configurations of its adapters."""
    text = mechanism_of(getattr(model, "config", None))
    keys = {} if text is None else {KEY: text}
    if text is not None and getattr(model.config, NAME, None):
        keys[NAME] = model.config.fovea_indexer
    for config in getattr(model, "peft_config", {}).values():
        setattr(config, _FIELD, keys)


def _apply(model, config, sparsify):
    stored = getattr(config, _FIELD, {})
    wanted, present = stored.get(KEY), mechanism_of(getattr(model, "config", None))
    if wanted is None or wanted == present:
        return
    if present is not None:
        warnings.warn(f"the adapter was trained with the attention 'fovea:{wanted}', and the model has 'fovea:{present}'",
                      stacklevel=4)
        return
    sizes = stored.get(NAME) or {}
    sparsify(model, wanted, **{f"index_{name}": value for name, value in sizes.items()})


def _around_adapters(inner, parts, sparsify):
    """`inner`, which puts an adapter into a model, behind the mechanism of the adapter. `parts` returns from its arguments
    the model, the adapter's configuration, and who holds the configurations of all adapters."""
    @functools.wraps(inner)
    def with_mechanism(*args, **kwargs):
        model, config, holder = parts(*args, **kwargs)
        _apply(model, config, sparsify)
        result = inner(*args, **kwargs)
        remember(holder)
        return result

    return with_mechanism


def install(sparsify):
    """Once, after peft has been imported. `sparsify` swaps the mechanism of a model."""
    import peft
    from peft.config import PeftConfigMixin

    to_dict, from_peft_type = PeftConfigMixin.to_dict, PeftConfigMixin.from_peft_type.__func__

    @functools.wraps(to_dict)
    def to_dict_with_mechanism(self):
        return {**to_dict(self), **getattr(self, _FIELD, {})}

    @functools.wraps(from_peft_type)
    def from_peft_type_with_mechanism(cls, **kwargs):
        stored = {key: kwargs.pop(key) for key in (KEY, NAME) if key in kwargs}
        config = from_peft_type(cls, **kwargs)
        setattr(config, _FIELD, stored)
        return config

    PeftConfigMixin.to_dict = to_dict_with_mechanism
    PeftConfigMixin.from_peft_type = classmethod(from_peft_type_with_mechanism)
    wrapped = peft.PeftModel
    wrapped.__init__ = _around_adapters(wrapped.__init__, lambda self, model, peft_config, *_, **__:
                                        (model, peft_config, self), sparsify)
    wrapped.add_adapter = _around_adapters(wrapped.add_adapter, lambda self, adapter_name, peft_config, *_, **__:
                                           (self.base_model if peft_config.is_prompt_learning else self.get_base_model(),
                                            peft_config, self), sparsify)
    peft.inject_adapter_in_model = _around_adapters(peft.inject_adapter_in_model, lambda peft_config, model, *_, **__:
                                                    (model, peft_config, model), sparsify)

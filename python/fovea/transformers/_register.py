"""Registers names in transformers' two tables, and looks at models that are loaded with them."""
import functools
import re
import sys
import warnings

from . import _cross, _indexer
from ._attention import function
from ._index_loss import join
from ._names import PREFIX, parse
from ._own_indexers import mask, note_readers, replace_forward

KEY = "fovea_attention"  # in config.json
_NUMBER = re.compile(r"\.(\d+)(?:\.|$)")
_ATTENTION = re.compile("attn|attention", re.IGNORECASE)


def _transformers():
    try:
        import transformers
    except ImportError:
        raise ImportError("fovea.transformers needs the package transformers; pip install transformers") from None
    return transformers


def register(spec):
    """Makes a mechanism known to transformers and returns its name for `attn_implementation`.

    Args:
        spec (str): "topk(32)", or by layer "0-3=window(512),*=topk(64)"; layers that are not named get "full". With or
            without the prefix "fovea:".
    Raises:
        SpecError, ValueError: the text does not parse, or needs parameters that models of transformers do not have.
    """
    mechanism = parse(spec)
    if mechanism.has_indexer:
        raise ValueError(f"fovea: '{mechanism.text}' needs indexers, which a loaded model gets from fovea.sparsify(model, "
                         f"'{mechanism.text}')")
    return enter(mechanism, spec)


def enter(mechanism, spec):
    """Enters a mechanism in transformers' tables, also under the name that the caller wrote; returns its name."""
    _transformers()
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    install()
    for name in {mechanism.name, PREFIX + spec.removeprefix(PREFIX)}:
        AttentionInterface.register(name, function(mechanism))
        AttentionMaskInterface.register(name, mask)
    return mechanism.name


def _calls_interface(model):
    """Whether the file of the model's class, or of one that it is derived from, looks attention up by name."""
    for cls in type(model).__mro__:
        if cls.__module__ in ("transformers.modeling_utils", "transformers.generation.utils"):
            continue
        if hasattr(sys.modules.get(cls.__module__), "ALL_ATTENTION_FUNCTIONS"):
            return True
    # Parts that are models are looked at by themselves. Other parts are settings: FSMT's decoder, MPT's attention.
    from transformers import MODEL_MAPPING
    parts = (getattr(model.config, name, None) for name in getattr(model.config, "sub_configs", None) or ())
    return any(type(part) in MODEL_MAPPING for part in parts)


def check_interface(model, name):
    """Refuses a model that would accept the name and ignore it."""
    if not _calls_interface(model):
        raise ValueError(f"fovea: {type(model).__name__} has an attention of its own and never calls '{name}'; models "
                         "whose file uses ALL_ATTENTION_FUNCTIONS do")


def number_layers(model):
    """For attention modules without a layer_idx: the number in their path, "encoder.layer.3.attention.self" is 3."""
    for path, module in model.named_modules():
        number = _NUMBER.search(path)
        if (number and getattr(module, "layer_idx", None) is None and not hasattr(module, "fovea_layer")
                and _ATTENTION.search(f"{path} {type(module).__name__}")):
            module.fovea_layer = int(number[1])


def _look_at(model):
    _cross.watch(model)
    number_layers(model)
    note_readers(model)


def mechanism_of(config):
    """The text of the mechanism that a model of this configuration computes; None if it is not one of Fovea's."""
    name = getattr(config, "_attn_implementation", None)
    return parse(name).text if isinstance(name, str) and name.startswith(PREFIX) else None


def _sub_configs(config):
    return [(key, sub) for key in getattr(config, "sub_configs", None) or () if (sub := getattr(config, key, None)) is not None]


def names(config):
    """The names of a configuration's attentions as transformers reads them: one text, or {"": own, part: names} where
    parts differ."""
    own = getattr(config, "_attn_implementation", None)
    parts = {key: names(sub) for key, sub in _sub_configs(config)}
    return own if all(names == own for names in parts.values()) else {"": own, **parts}


def _has_mechanism(found):
    if isinstance(found, dict):
        return any(map(_has_mechanism, found.values()))
    return isinstance(found, str) and found.startswith(PREFIX)


def _write(config, out):
    """Writes the mechanism to the dictionary that becomes config.json, from what the model computes. transformers itself
    reads "attn_implementation", so that it refuses the checkpoint where fovea was not imported."""
    found, own = names(config), mechanism_of(config)
    for key in (KEY, "attn_implementation"):
        out.pop(key, None)
    if _has_mechanism(found):
        out["attn_implementation"] = found
    if own is not None:
        out[KEY] = own
    else:
        out.pop(_indexer.NAME, None)


def _restore(config):
    """For a configuration that names only the mechanism of the whole, which goes to parts without an own one too."""
    stored = getattr(config, KEY, None)
    if stored is None or getattr(config, "_attn_implementation", None) is not None:
        return
    config._attn_implementation_internal = enter(parse(stored), stored)
    for _, sub in _sub_configs(config):
        if getattr(sub, "_attn_implementation", None) is None:
            sub._attn_implementation = config._attn_implementation


def _is(name, text):
    return name.startswith(PREFIX) and parse(name).text == parse(text).text


def _checked(model, requested):
    """The implementation that a model asks for, registered if it is Fovea's and the model can call it."""
    stored = getattr(model.config, KEY, None)
    if stored is not None and requested is None:
        _restore(model.config)
        requested = model.config._attn_implementation
    elif stored is not None and mechanism_of(model.config) != stored and not _is(requested, stored):
        warnings.warn(f"the checkpoint's config.json names the attention '{PREFIX}{stored}'; loading it with "
                      f"'{requested}'", stacklevel=3)
    if requested is not None and requested.startswith(PREFIX):
        enter(parse(requested), requested)
        check_interface(model, requested)
        replace_forward(model)
        _look_at(model)  # a loaded model; one in the making is looked at by post_init
    return requested


def _keep(config, name):
    """The configuration's own note of the mechanism follows what the model computes."""
    if isinstance(name, str) and name.startswith(PREFIX):
        setattr(config, KEY, parse(name).text)
    elif hasattr(config, KEY):
        delattr(config, KEY)


def install():
    """Lets transformers restore the mechanism that a checkpoint's config.json names, store the one that a model has, and
    refuse names for models that would ignore them. Importing fovea calls it once transformers is there."""
    _transformers()
    from transformers import PretrainedConfig, PreTrainedModel

    inner = PreTrainedModel.get_correct_attn_implementation
    if getattr(inner, "by_fovea", False):
        return

    @functools.wraps(inner)
    def get_correct_attn_implementation(self, requested, *arguments, **named):
        result = inner(self, _checked(self, requested), *arguments, **named)
        _keep(self.config, result)
        return result

    get_correct_attn_implementation.by_fovea = True
    PreTrainedModel.get_correct_attn_implementation = get_correct_attn_implementation
    inner_end, inner_dict = PreTrainedModel.post_init, PretrainedConfig.to_dict

    @functools.wraps(inner_end)
    def post_init(self):
        inner_end(self)
        if str(self.config._attn_implementation).startswith(PREFIX):
            _look_at(self)
        _indexer.restore(self, KEY)
        join(self)

    @functools.wraps(inner_dict)
    def to_dict(self):
        out = inner_dict(self)
        _write(self, out)
        return out

    def __setstate__(self, state):
        self.__dict__.update(state)
        name = state.get("_attn_implementation_internal")
        if isinstance(name, str) and name.startswith(PREFIX):
            enter(parse(name), name)  # a model that another process has pickled

    PreTrainedModel.post_init = post_init
    PretrainedConfig.to_dict = to_dict
    PretrainedConfig.__setstate__ = __setstate__

"""Registers names in transformers' two tables, and looks at models that are loaded with them."""
import functools
import sys
import warnings

from . import _cross, _indexer
from ._attention import function
from ._names import PREFIX, parse
from ._own_indexers import mask, note_readers, replace_forward

KEY = "fovea_attention"  # in config.json


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


def _look_at(model):
    _cross.watch(model)
    note_readers(model)


def install():
    """Lets transformers restore the mechanism that a checkpoint's config.json names, and refuse names for models that
    would ignore them. `register` calls it."""
    _transformers()
    from transformers import PreTrainedModel

    inner = PreTrainedModel.get_correct_attn_implementation
    if getattr(inner, "by_fovea", False):
        return

    @functools.wraps(inner)
    def get_correct_attn_implementation(self, requested, *arguments):
        stored = getattr(self.config, KEY, None)
        if stored is not None and requested is None:
            requested = enter(parse(stored), stored)
        elif stored is not None and requested != PREFIX + stored:
            warnings.warn(f"the checkpoint's config.json names the attention '{PREFIX}{stored}'; loading it with "
                          f"'{requested}'", stacklevel=2)
        if requested is not None and requested.startswith(PREFIX):
            check_interface(self, requested)
            replace_forward(self)
            _look_at(self)  # a loaded model; one in the making is looked at by post_init
        return inner(self, requested, *arguments)

    get_correct_attn_implementation.by_fovea = True
    PreTrainedModel.get_correct_attn_implementation = get_correct_attn_implementation
    inner_end = PreTrainedModel.post_init

    @functools.wraps(inner_end)
    def post_init(self):
        inner_end(self)
        if str(self.config._attn_implementation).startswith(PREFIX):
            _look_at(self)
        _indexer.restore(self, KEY)

    PreTrainedModel.post_init = post_init

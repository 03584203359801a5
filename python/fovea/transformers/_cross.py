"""Whether an attention module reads another text than its own: known from its class and from what it is given, never from
lengths, which may be equal by chance."""
import functools
import inspect
import re

import torch

NAME = "fovea_cross"  # of attention modules: whether the keys are of another text than the queries
_ATTENTION = re.compile("attn|attention", re.IGNORECASE)
# Parameters of a forward that hold the text of the keys, if that is not the text of the queries.
_KEYS = re.compile(r"^k$|key|kv|encoder|cross|memory|context|source|src", re.IGNORECASE)
_NOT_KEYS = re.compile(r"mask|position|embed|bias|index|idx|offset|cache|past|length|seq|num|repeat|rope|^is_|^use_|^output_",
                       re.IGNORECASE)


@functools.lru_cache(maxsize=None)
def _key_parameters(cls):
    """The first parameter of a class's forward, and (place, name) of those that may hold another text."""
    names = list(inspect.signature(cls.forward).parameters)[1:]
    return names[:1], [(i, name) for i, name in enumerate(names) if _KEYS.search(name) and not _NOT_KEYS.search(name)]


def _by_class(cls):
    """True or False where the class alone tells, else None."""
    if "cross" in cls.__name__.lower():
        return True
    return None if _key_parameters(cls)[1] else False


def _noting(cls):
    """The forward of a class, which notes in its module whether it was given another text."""
    forward, (first, others) = cls.forward, _key_parameters(cls)

    @functools.wraps(forward)
    def noting(self, *args, **kwargs):
        own = args[0] if args else kwargs.get(first[0])
        cross = False
        for place, name in others:
            given = args[place] if place < len(args) else kwargs.get(name)
            if isinstance(given, torch.Tensor) and given is not own:
                cross = True
        if self.__dict__.get(NAME) is not cross:
            setattr(self, NAME, cross)
        return forward(self, *args, **kwargs)

    noting.by_fovea = True
    return noting


def watch(model):
    """Lets the attention modules of a model tell known() what they are. Classes whose modules may be either note it at
    each call."""
    for module in model.modules():
        cls = type(module)
        if not _ATTENTION.search(cls.__name__):
            continue
        known = _by_class(cls)
        if known is not None:
            setattr(module, NAME, known)
        elif not getattr(cls.forward, "by_fovea", False):
            cls.forward = _noting(cls)


def known(module, kwargs):
    """Whether the module's keys are of another text; None if neither its class nor its call tells."""
    noted = module.__dict__.get(NAME)
    if noted or kwargs.get("encoder_hidden_states") is not None or module.__dict__.get("is_cross_attention") is True:
        return True
    return _by_class(type(module)) if noted is None and not torch.compiler.is_compiling() else noted

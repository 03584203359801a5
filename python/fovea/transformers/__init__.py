"""Fovea's mechanisms as attention implementations of Hugging Face's transformers.

    import fovea
    from transformers import AutoModelForCausalLM
    name = fovea.transformers.register("topk(32)")
    model = AutoModelForCausalLM.from_pretrained(FOLDER, attn_implementation=name)

Importing this package does not import transformers; `register`, `sparsify`, `sweep` and the caches do. docs/huggingface.md explains.
"""
from . import _peft
from ._imports import when_imported
from ._index_loss import index_loss
from ._indexer import indexers
from ._models import sparsify, sweep
from ._names import Mechanism, parse
from ._register import install, register

__all__ = ["Mechanism", "NarrowCache", "ScreenedCache", "index_loss", "indexers", "install", "parse", "register", "sparsify", "sweep"]

when_imported("transformers.modeling_utils", install)
when_imported("peft", lambda: _peft.install(sparsify))


def __getattr__(name):
    if name == "NarrowCache":
        from ._narrow import NarrowCache
        return NarrowCache
    if name == "ScreenedCache":
        from ._cache import ScreenedCache
        return ScreenedCache
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Fovea's mechanisms as attention implementations of Hugging Face's transformers.

    import fovea
    from transformers import AutoModelForCausalLM
    name = fovea.transformers.register("topk(32)")
    model = AutoModelForCausalLM.from_pretrained(FOLDER, attn_implementation=name)

Importing this package does not import transformers; `register`, `sparsify` and `sweep` do. docs/huggingface.md explains.
"""
import sys

from ._indexer import indexers
from ._models import sparsify, sweep
from ._names import Mechanism, parse
from ._register import install, register

__all__ = ["Mechanism", "indexers", "install", "parse", "register", "sparsify", "sweep"]

if "transformers" in sys.modules and hasattr(sys.modules["transformers"], "__version__"):
    install()

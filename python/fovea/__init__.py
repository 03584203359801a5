"""Sparse attention for PyTorch: an attention mechanism is a value.

    import fovea, torch
    q = k = v = torch.randn(1, 8, 4096, 64)
    out = fovea.attention(q, k, v, "topk(32)", causal=True)

`fovea.spec_names()` lists what a spec may say; docs/attention.md explains it.
"""
from . import _library

_library.load()

from ._functional import SpecError, attention, attention_weights, parameters, parse, properties, spec_names  # noqa: E402
from ._explain import explain  # noqa: E402
from ._blocks import block_topk  # noqa: E402
from ._indexer import index_loss, index_target, index_topk  # noqa: E402
from ._module import Attention  # noqa: E402
from . import transformers  # noqa: E402
from .transformers import sparsify, sweep  # noqa: E402

__all__ = ["Attention", "SpecError", "attention", "attention_weights", "block_topk", "explain", "index_loss", "index_target", "index_topk",
           "parameters", "parse", "properties", "sparsify", "spec_names", "sweep", "transformers"]
__version__ = "0.1.0"

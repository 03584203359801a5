"""Learned indexers that models of transformers bring along (DeepSeek-V3.2 and those built like it). Their own forward
scores all pairs; under a mechanism of Fovea, fovea.index_topk chooses the same keys without a score of every pair, and
the mask stays a list of ranges."""
import functools
import inspect
import re
import sys

import torch
from torch import nn

from ._chosen import choose
from ._masks import Ranges, added_mask, dense_mask, is_encoded, ranges_mask

# For each model_type, the function of the model's file that turns an indexer's queries and keys by their positions.
ROTARY = {"deepseek_v32": "apply_rotary_pos_emb", "axk2": "apply_rotary_pos_emb",
          "glm_moe_dsa": "apply_rotary_pos_emb_interleave", "dots3_note_text": "apply_rotary_pos_emb_interleave"}
# Lines of the forward that is replaced: another version's forward may compute something else.
_LINES = ["q = self.wq_b(q_resid)", "k = self.k_norm(self.wk(hidden_states)).unsqueeze(2)", "{rotate}(q_rot, k_rot, cos, sin",
          "q = torch.cat([q_rot, q_pass], dim=-1)", "k.transpose(-1, -2).float().unsqueeze(1)) * self.softmax_scale",
          "scores = F.relu(scores)", ".float() * (self.n_heads**-0.5)"]
_PARAMETERS = ["self", "hidden_states", "q_resid", "position_embeddings", "attention_mask", "position_ids", "cache"]
_replaced = set()  # model types
# In files whose own code computes with the mask of pairs: what form of it the code expects.
_ADDS = re.compile(r"(attention_scores|_bias) \+ attention_mask")
_READS = re.compile(r"\b(attention_)?mask\.dtype == torch\.bool")
_JOINS = re.compile(r"torch\.cat\(\[attention_mask, block_bias\b")  # keys of another kind, after those of the mask
_forms = {}  # by model type: added_mask or dense_mask


def takes_ranges(config):
    """Whether the indexers of the model read a mask in the form of Ranges."""
    return getattr(config, "model_type", None) in _replaced


def mask(**given):
    """The mask function of transformers' AttentionMaskInterface."""
    config = given.get("config")
    indexed = getattr(config, "index_topk", None) or "indexed_attention" in (getattr(config, "layer_types", None) or ())
    form = _forms.get(getattr(config, "model_type", None))
    if not indexed or form is joined_mask:
        return ranges_mask(**given) if form is None else form(given)
    # Windows are of layers without an indexer.
    if given.get("local_size") is not None or takes_ranges(config):
        return ranges_mask(**{**given, "allow_is_causal_skip": True})
    # Other indexers read the mask themselves, pair by pair; their scores are as large.
    return dense_mask(given)


def joined_mask(given):
    """The mask that a model lengthens by numbers to add, whether it has an indexer or not."""
    return added_mask(given)


@functools.lru_cache(maxsize=None)
def _form_for(name):
    """The mask that a file of models computes with; None if it only hands masks on."""
    try:
        source = inspect.getsource(sys.modules[name])
    except (KeyError, OSError, TypeError):
        return None
    if _JOINS.search(source):
        return joined_mask
    return added_mask if _ADDS.search(source) else dense_mask if _READS.search(source) else None


def note_readers(model):
    """Notes the parts of a model whose file computes with the mask itself, so that they get one of pairs."""
    for module in model.modules():
        kind = getattr(getattr(module, "config", None), "model_type", None)
        form = None if kind is None else _form_for(type(module).__module__)
        if form is not None:
            _forms[kind] = form


def replace_forward(model):
    """Lets the indexers of the model's file choose by fovea.index_topk wherever they get Ranges."""
    for cls in type(model).__mro__:
        file = sys.modules.get(cls.__module__)
        kind = getattr(getattr(cls, "config_class", None), "model_type", None)
        if kind not in ROTARY or kind in _replaced or not cls.__module__.startswith("transformers.models."):
            continue
        found = [x for x in vars(file).values() if inspect.isclass(x) and issubclass(x, nn.Module)
                 and x.__name__.endswith("Indexer") and x.__module__ == cls.__module__]
        if len(found) != 1 or not _is_known(found[0].forward, ROTARY[kind]):
            continue  # it keeps its mask of all pairs
        found[0].forward = _over_ranges(found[0].forward, getattr(file, ROTARY[kind]))
        _replaced.add(kind)


def _is_known(forward, rotate):
    if list(inspect.signature(forward).parameters) != _PARAMETERS:
        return False
    source = inspect.getsource(forward)
    return all(line.format(rotate=rotate) in source for line in _LINES)


def _over_ranges(forward, rotate):
    @functools.wraps(forward)
    @torch.no_grad()
    def over_ranges(self, hidden_states, q_resid, position_embeddings, attention_mask, position_ids=None, cache=None,
                    **others):
        if not is_encoded(attention_mask[:, None], hidden_states.size(0)):
            return forward(self, hidden_states, q_resid, position_embeddings, attention_mask, position_ids, cache=cache,
                           **others)
        batch, queries = hidden_states.shape[:2]
        q = self.wq_b(q_resid).view(batch, queries, self.n_heads, self.head_dim)
        k = self.k_norm(self.wk(hidden_states)).unsqueeze(2)
        turned = rotate(*(x[..., :self.qk_rope_head_dim] for x in (q, k)), *position_embeddings, unsqueeze_dim=2)
        q, k = (torch.cat([t, x[..., self.qk_rope_head_dim:]], -1) for t, x in zip(turned, (q, k)))
        k = k.squeeze(2)
        if cache is not None:
            k = cache.update_indexer(k, self.layer_idx)
        weights = self.weights_proj(hidden_states.to(self.weights_proj.weight.dtype)).float()
        weights = weights * (self.n_heads ** -0.5 * self.softmax_scale)
        # A count that differs from text to text would be compiled again for each.
        count = self.index_topk if torch.compiler.is_compiling() else min(self.index_topk, k.size(1))
        ranges = Ranges.decode(attention_mask[:, None], queries, k.size(1))
        return choose((q, k.to(q.dtype), weights), count, ranges, ranges.causal)

    return over_ranges

"""Indexers inside models of transformers: small heads beside each layer's attention that choose its keys, `dsa(k)`.

An indexer reads the queries and keys of its layer as the attention function gets them, with their positions, so that
the model's own cache serves it too. It begins as a sketch of the attention: random projections keep dot products, hence
its scores start near the attention's, and training only has to refine them."""
import torch
from torch import nn

from ._names import chosen_keys, parse

NAME = "fovea_indexer"   # of the module inside an attention module, and of its sizes in config.json
_SIZES = ("heads", "width", "candidates")


class Indexer(nn.Module):
    """
    Args:
        sizes (dict): heads and width of the indexer; candidates, the number of keys for each chosen one that training
            looks at.
        shape (tuple): heads, key heads and head size of the attention.
    """

    def __init__(self, sizes, shape, **factory):
        super().__init__()
        attention_heads, key_heads, head_dim = shape
        self.heads, self.width, self.candidates = (sizes[name] for name in _SIZES)
        self.query = nn.Linear(attention_heads * head_dim, self.heads * self.width, bias=False, **factory)
        self.key = nn.Linear(key_heads * head_dim, self.width, bias=False, **factory)
        self.weights = nn.Linear(attention_heads * head_dim, self.heads, **factory)
        self.loss = None  # of the last call in training, for logs
        self.collects, self.pending = False, None  # during a call of the model: whether the loss is wanted; the loss
        if self.key.weight.device.type != "meta":
            self._begin(shape)

    @torch.no_grad()
    def _begin(self, shape):
        heads, key_heads, head_dim = shape
        # Columns near orthonormal: what they project keeps its dot products.
        kind = {"dtype": torch.float32, "device": "cpu"}  # not torch's default ones, which a model in the making may change
        sketch = torch.empty(self.width, key_heads * head_dim, **kind)
        nn.init.orthogonal_(sketch)
        sketch *= max(1, key_heads * head_dim / self.width) ** 0.5
        query = torch.zeros(self.heads, self.width, heads, head_dim, **kind)
        for h in range(heads):
            own = h * key_heads // heads
            query[h * self.heads // heads, :, h] = sketch[:, own * head_dim:(own + 1) * head_dim]
        self.key.weight.copy_(sketch)
        self.query.weight.copy_(query.flatten(2).flatten(0, 1))
        self.weights.weight.zero_()
        self.weights.bias.fill_(head_dim ** -0.5)

    def forward(self, query, key):
        """Returns q, k and weights of fovea.index_topk for [B, H, S, D] and [B, H_kv, T, D]. They teach the indexer alone."""
        query, key = (x.detach().transpose(1, 2).flatten(2) for x in (query, key))
        return self.query(query).unflatten(-1, (self.heads, self.width)), self.key(key), self.weights(query)


def _attention_modules(model):
    for path, module in model.named_modules():
        if getattr(module, "layer_idx", None) is not None and "attention" in type(module).__name__.lower() \
                and not getattr(module, "is_cross_attention", False):
            yield path, module


def _shape(path, module, config):
    heads, head_dim = getattr(config, "num_attention_heads", None), getattr(module, "head_dim", None)
    if not isinstance(heads, int) or not isinstance(head_dim, int):
        raise ValueError(f"fovea: {path} ({type(module).__name__}) does not tell its heads and head_dim; dsa(k) needs them")
    return heads, getattr(config, "num_key_value_heads", None) or heads, head_dim


def sizes_of(model, given):
    """The sizes of the model's indexers: those given, else those of its configuration, else the default ones."""
    config = model.config.get_text_config()
    if model.config.is_encoder_decoder:
        raise ValueError(f"fovea: {type(model).__name__} has an encoder and a decoder; dsa(k) is for models of one stack")
    heads = config.num_attention_heads
    sizes = {"heads": next(n for n in (4, 3, 2, 1) if heads % n == 0), "width": 64, "candidates": 4,
             **(getattr(model.config, NAME, None) or {}), **{name: n for name, n in given.items() if n is not None}}
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"fovea: got index_{name} {value!r}; expected a whole number of 1 or more")
    if heads % sizes["heads"]:
        raise ValueError(f"fovea: got index_heads {sizes['heads']}; expected a divisor of the model's {heads} heads")
    return sizes


def attach(model, mechanism, sizes):
    """Gives the layers whose mechanism is dsa(k) an indexer, if they have none of these sizes."""
    config = model.config.get_text_config()
    for path, module in _attention_modules(model):
        if chosen_keys(mechanism.spec(module.layer_idx)) is None:
            continue
        indexer = getattr(module, NAME, None)
        if indexer is not None and (indexer.heads, indexer.width) == (sizes["heads"], sizes["width"]):
            indexer.candidates = sizes["candidates"]
            continue
        like = next(module.parameters())
        module.add_module(NAME, Indexer(sizes, _shape(path, module, config), device=like.device, dtype=like.dtype))


def detach(model, keep):
    """Takes away the indexers for which `keep` does not hold: keep(path, layer)."""
    for path, module in _attention_modules(model):
        if hasattr(module, NAME) and not keep(path, module.layer_idx):
            delattr(module, NAME)


def indexers(model):
    """The indexers of a model that `sparsify(model, "dsa(k)")` changed, by the path of their attention module."""
    return {path: module.fovea_indexer for path, module in _attention_modules(model) if hasattr(module, NAME)}


def restore(model, key):
    """The indexers that a checkpoint holds, before its weights are loaded."""
    stored = getattr(model.config, key, None)
    if stored is not None and getattr(model.config, NAME, None):
        attach(model, parse(stored), sizes_of(model, {}))

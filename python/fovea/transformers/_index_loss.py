"""The loss of a model's indexers joins the model's own. It has no part in the loss's value, and its gradient is what
autograd gives to the model's loss: the factor of gradient accumulation, of a GradScaler, of anything that follows."""
import inspect
import warnings

import torch

from ._indexer import indexers


class _WithLoss(torch.autograd.Function):
    """Hands `loss` on; in backward, `index_loss` counts as if it had been added to it."""

    @staticmethod
    def forward(ctx, loss, index_loss):
        ctx.kind = index_loss.dtype
        return loss.clone()  # callers divide it in place

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.sum().to(ctx.kind)


def _share_of_step(model, arguments):
    """The share of the call in an optimizer step. A Trainer divides a loss by the tokens of all calls of a step, which it
    passes as num_items_in_batch; the indexers' loss is a mean over the tokens of one call."""
    labels, items = arguments.get("shift_labels"), arguments.get("num_items_in_batch")
    if items is None:
        return 1
    if labels is None:
        labels = arguments["labels"]
        if getattr(model, "loss_type", None) == "ForCausalLM":
            labels = labels[..., 1:]
    return (labels != -100).sum() / items


def _check_checkpointing(model):
    for path, module in model.named_modules():
        function = getattr(module, "_gradient_checkpointing_func", None)
        if getattr(module, "gradient_checkpointing", False) and getattr(function, "keywords", {}).get("use_reentrant"):
            raise ValueError(f"fovea: {path or 'the model'} has reentrant gradient checkpointing, which drops the loss of "
                             "dsa(k)'s indexers; call model.gradient_checkpointing_enable({'use_reentrant': False})")


class ForwardWithIndexLoss:
    """The forward method of a model with indexers, as an attribute of the model: not a hook, because adapters may call
    forward() by name; a class of a module, so that the model can be pickled and copied."""

    def __init__(self, model):
        self.model, self.losses, self.warned = model, [], False

    def __getstate__(self):
        return {"model": self.model, "losses": [], "warned": self.warned}

    @property
    def __signature__(self):
        return inspect.signature(type(self.model).forward.__get__(self.model))

    def __call__(self, *args, **kwargs):
        model = self.model
        forward = type(model).forward
        found = list(indexers(model).values()) if model.training and torch.is_grad_enabled() else []
        if not found or found[0].collects:  # or a model around this one collects
            return forward(model, *args, **kwargs)
        if not torch.compiler.is_compiling():
            self._begin()
        for indexer in found:
            indexer.collects = True
        try:
            out = forward(model, *args, **kwargs)
        finally:
            losses = [indexer.pending for indexer in found if indexer.pending is not None]
            for indexer in found:
                indexer.collects, indexer.pending = False, None
        return self._join(out, losses, inspect.signature(forward).bind_partial(model, *args, **kwargs)) if losses else out

    def _begin(self):
        _check_checkpointing(self.model)
        if self.losses and not self.warned:
            self.warned = True
            warnings.warn("fovea: the model gave no loss, so its indexers did not learn; pass labels, or add "
                          "fovea.transformers.index_loss(model) to your own loss", stacklevel=4)
        self.losses = []

    def _join(self, out, losses, bound):
        # Arguments that forward() takes as **kwargs, such as num_items_in_batch, stand in a dict of their own.
        arguments = {**bound.arguments, **bound.kwargs}
        if isinstance(out, tuple):
            if arguments.get("labels") is not None and isinstance(out[0], torch.Tensor) and out[0].requires_grad:
                return (_WithLoss.apply(out[0], sum(losses) * _share_of_step(self.model, arguments)), *out[1:])
        elif getattr(out, "loss", None) is not None:
            out.loss = _WithLoss.apply(out.loss, sum(losses) * _share_of_step(self.model, arguments))
            return out
        if not torch.compiler.is_compiling():
            self.losses = losses
        return out


def join(model):
    """Lets the model's loss teach its indexers, if it has some; otherwise gives the model its own forward back."""
    if indexers(model):
        if not isinstance(model.__dict__.get("forward"), ForwardWithIndexLoss):
            model.forward = ForwardWithIndexLoss(model)
    elif isinstance(model.__dict__.get("forward"), ForwardWithIndexLoss):
        del model.forward


def index_loss(model):
    """The loss of all indexers of the model's last call, to be added to a loss that is computed outside of the model. A
    model that is given labels needs no such call: its own loss teaches the indexers.

    Raises:
        ValueError: the last call was not one in training without a loss of the model's own.
    """
    found = [f for f in (module.__dict__.get("forward") for module in model.modules())
             if isinstance(f, ForwardWithIndexLoss) and f.losses]
    if not found:
        raise ValueError("fovea: no loss of indexers waits; call the model in training mode, with dsa(k) and without "
                         "labels, before each index_loss(model)")
    total = sum(sum(f.losses) for f in found)
    for f in found:
        f.losses = []
    return total

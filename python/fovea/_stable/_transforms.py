"""How scores become weights, by torch's operators: for the reference. Rows are the last dimension."""
import torch

_INFINITY = float("inf")
# With scores shifted to a maximum of 0 the threshold tau lies in [-1, 0), so what is at -2 is never in the support.
_OUTSIDE = -2.0
_MOST_ENTMAX_DERIVATIVE = 2.0**64


def _filled(x, dropped, value):
    return x if dropped is None else x.masked_fill(dropped, value)


def _row_sum(x):
    return x.sum(-1, keepdim=True)


def _shifted(scores, dropped, factor):
    """factor (s - max s), with what is dropped or cannot be in the support at _OUTSIDE."""
    masked = _filled(scores, dropped, -_INFINITY)
    return _filled((masked - masked.amax(-1, keepdim=True)) * factor, dropped, _OUTSIDE).clamp_min(_OUTSIDE)


def _last_true(holds):
    """The support's size from the condition that holds on a prefix of the sorted row; at least 1, NaN rows too."""
    return (_row_sum(holds) - 1).clamp_min(0)


def _ranks(row):
    return torch.arange(1, row.size(-1) + 1, dtype=row.dtype, device=row.device)


def _sparsemax(scores, dropped):
    """Exact, by sorting (Martins, Astudillo 2016, algorithm 1)."""
    z = _shifted(scores, dropped, 1.0)
    ordered = z.sort(-1, descending=True).values
    rank, sums = _ranks(ordered), ordered.cumsum(-1) - 1
    tau = (sums / rank).gather(-1, _last_true(rank * ordered > sums))
    return (z - tau).clamp_min(0)


def _entmax15(scores, dropped):
    """Exact, by sorting (Peters, Niculae, Martins 2019, algorithm 2)."""
    z = _shifted(scores, dropped, 0.5)
    ordered = z.sort(-1, descending=True).values
    rank = _ranks(ordered)
    mean, square = ordered.cumsum(-1) / rank, ordered.square().cumsum(-1) / rank
    spread = rank * (square - mean.square())
    tau = mean - ((1 - spread) / rank).clamp_min(0).sqrt()
    return (z - tau.gather(-1, _last_true(tau <= ordered))).clamp_min(0).square()


def _entmax(scores, dropped, alpha):
    """Any alpha, in double. The unknown is P, the weight of the greatest: tau = -P^(alpha - 1)."""
    exponent = 1 / (alpha - 1)
    z = _shifted(scores.double(), dropped, alpha - 1)
    power, steep = exponent.reciprocal(), exponent < 1
    may_be_steep = bool((alpha > 2).any())
    halvings, newton = (54, 0) if may_be_steep else (26, 6)  # Newton's steps end where a key joins the support

    def weights(p):
        return (z + p.pow(power)).clamp_min(0).pow(exponent)

    low = torch.zeros_like(z.amax(-1, keepdim=True))
    high, p = torch.ones_like(low), torch.full_like(low, 0.5)
    for i in range(halvings + newton):
        start, w = p, weights(p)
        excess = _row_sum(w) - 1
        reached = excess >= 0
        high, low = torch.where(reached, start, high), torch.where(reached, low, start)
        p = low + (high - low) / 2
        if i < halvings:
            continue
        slope = torch.where(w > 0, (start / w).pow(power - 1), torch.zeros_like(w))
        following = start - excess / _row_sum(slope)
        p = torch.where(following.isfinite() & ~steep, following.clamp(low, high), p)
    result = weights(p)
    if may_be_steep:
        # Above alpha = 2 a key at the edge of the support may weigh 0 with `low` and much with `high`: in between.
        least = weights(low)
        more = weights(high) - least
        added = _row_sum(more)
        blend = torch.where(added > 0, (1 - _row_sum(least)) / added, torch.ones_like(added)).clamp(0, 1)
        result = torch.where(steep, least + blend * more, result)
    return (result + _row_sum(z) * 0).to(scores.dtype)  # a NaN in the row reaches all of it


def _alpha(parts, alpha, device):
    """[H, 1, 1] or of one element, double."""
    if parts.learned:
        return alpha.double().view(-1, 1, 1)
    return torch.full((1, 1, 1), parts.argument, dtype=torch.float64, device=device)


def _with_sink(parts, scores, dropped, sinks):
    """The scores with the sink's as one more key."""
    sink = (sinks.to(scores.dtype).view(-1, 1, 1) if parts.learned else
            torch.full((1, 1, 1), parts.argument, dtype=scores.dtype, device=scores.device))
    return torch.cat((_filled(scores, dropped, -_INFINITY), sink.expand(*scores.shape[:-1], 1)), -1)


def _is_15(parts):
    return not parts.learned and parts.argument == 1.5


def _forward(parts, scores, dropped, alpha):
    if parts.transform == "softmax":
        weights = torch.softmax(_filled(scores, dropped, -_INFINITY), -1)
    elif parts.transform == "sink":
        weights = torch.softmax(_with_sink(parts, scores, dropped, alpha), -1)[..., :-1]
    elif parts.transform == "sparsemax":
        weights = _sparsemax(scores, dropped)
    elif parts.transform == "entmax":
        weights = (_entmax15(scores, dropped) if _is_15(parts) else
                   _entmax(scores, dropped, _alpha(parts, alpha, scores.device)))
    elif parts.transform == "relu":
        weights = scores.relu()
    elif parts.transform == "gelu":
        weights = torch.nn.functional.gelu(scores)
    elif parts.transform == "leaky-relu":
        weights = torch.nn.functional.leaky_relu(scores, parts.argument)
    elif parts.transform == "sigmoid":
        weights = (scores + parts.argument).sigmoid()
    else:
        raise RuntimeError(f"attention: the reference has no {parts.transform}; the package's files are of two versions")
    return _filled(weights, dropped, 0)


def _simplex(u, grad):
    """ds = u (dp - sum(u dp) / sum(u)), the Jacobian of every map onto the simplex here."""
    mass = _row_sum(u)
    return u * (grad - _row_sum(u * grad) / torch.where(mass == 0, torch.ones_like(mass), mass))


def _support_or_one(p):
    """p with 1 in place of 0, for functions whose derivative at 0 is infinite; results at these ones are not used."""
    return torch.where(p == 0, torch.ones_like(p), p)


def _alpha_gradient(p, u, grad, alpha):
    """d p / d alpha (Correia, Niculae, Martins 2019, proposition 1), summed against the gradient, one value a head."""
    mass = _row_sum(u)
    skewed = u / torch.where(mass == 0, torch.ones_like(mass), mass)
    entropy = torch.where(p == 0, torch.zeros_like(p), p * _support_or_one(p).log())
    beta = alpha - 1
    slope = (p - skewed) / beta.square() - (entropy - skewed * _row_sum(entropy)) / beta
    return (grad * slope).sum((0, 2, 3))


def gradients(parts, scores, dropped, alpha, p, grad_weights):
    """The gradients of the scores and of what the transform learns, [H] double or None, by operators that have derivatives."""
    grad, of_alpha = _filled(grad_weights, dropped, 0), None
    if parts.transform == "softmax":
        result = p * (grad - _row_sum(p * grad))
    elif parts.transform == "sink":
        mean = _row_sum(p * grad)
        result = p * (grad - mean)
        if parts.learned:
            of_sink = torch.softmax(_with_sink(parts, scores, dropped, alpha), -1)[..., -1:]
            of_alpha = -(of_sink * mean).double().sum((0, 2, 3))
    elif parts.transform == "sparsemax":
        result = _simplex((p != 0).to(p.dtype), grad)
    elif parts.transform == "entmax" and _is_15(parts):
        result = _simplex(torch.where(p == 0, torch.zeros_like(p), _support_or_one(p).sqrt()), grad)
    elif parts.transform == "entmax":
        value, wide, wide_grad = _alpha(parts, alpha, p.device), p.double(), grad.double()
        u = _support_or_one(wide).pow(2 - value).clamp_max(_MOST_ENTMAX_DERIVATIVE)
        u = torch.where(wide == 0, torch.zeros_like(wide), u)
        result = _simplex(u, wide_grad).to(p.dtype)
        of_alpha = _alpha_gradient(wide, u, wide_grad, value) if parts.learned else None
    elif parts.transform == "relu":
        result = torch.where(p > 0, grad, torch.zeros_like(grad))
    elif parts.transform == "gelu":
        result = torch.ops.aten.gelu_backward(grad, scores)
    elif parts.transform == "sigmoid":
        result = grad * p * (1 - p)
    else:  # leaky-relu
        result = torch.where(scores > 0, grad, grad * parts.argument)
    return _filled(result, dropped, 0), of_alpha


class _Transform(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, alpha, dropped, parts):
        weights = _forward(parts, scores, dropped, alpha)
        ctx.save_for_backward(scores, alpha, dropped, weights)
        ctx.parts = parts
        return weights

    @staticmethod
    def backward(ctx, grad):
        scores, alpha, dropped, weights = ctx.saved_tensors
        of_scores, of_alpha = gradients(ctx.parts, scores, dropped, alpha, weights, grad)
        return of_scores, None if of_alpha is None else of_alpha.to(alpha.dtype), None, None


def weights_of(parts, scores, dropped, alpha):
    """The weights; with derivatives of any order if autograd records the scores."""
    if torch.is_grad_enabled() and (scores.requires_grad or (alpha is not None and alpha.requires_grad)):
        return _Transform.apply(scores, alpha, dropped, parts)
    return _forward(parts, scores, dropped, alpha)

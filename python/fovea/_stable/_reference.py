"""Attention from the definitions by torch's operators, in blocks of queries: for CUDA, float64 and float16, for what no
kernel takes, and for second derivatives. Memory: the results and a block of scores, of FOVEA_REFERENCE_MIB."""
import collections
import threading

import torch

from ._budget import Budget
from ._call import rows_like, token_rows
from ._transforms import gradients, weights_of

_MOST_MASKS = 256 << 20  # bytes of masks that are kept on other devices
_CANDIDATES, _KEPT = 0, 1  # stable/pairs.cc
_INFINITY = float("inf")


class _Masks:
    """The last masks, copied to a device: a training step asks for the same few in every layer."""

    def __init__(self):
        self.kept, self.bytes, self.lock = collections.OrderedDict(), 0, threading.Lock()

    def get(self, key, make):
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
        with torch.inference_mode(False):  # a later call may need the mask in a graph
            mask = make()
        with self.lock:
            if key not in self.kept:
                self.kept[key], self.bytes = mask, self.bytes + mask.nbytes
            while self.bytes > _MOST_MASKS and len(self.kept) > 1:
                self.bytes -= self.kept.popitem(last=False)[1].nbytes
        return mask


_masks = _Masks()
# `count` sequences of equal lengths that follow one another, from the first one's tokens on; of each, the queries
# first ... first + queries - 1.
Piece = collections.namedtuple("Piece", "count q_begin k_begin q_length k_length first queries")


def _pieces(sequences, budget):
    i = 0
    while i < len(sequences):
        q_begin, q_length, k_begin, k_length = sequences[i]
        count, area = 1, q_length * k_length
        if area == 0:
            i += 1
            continue
        step = min(budget.queries(k_length), q_length)
        most = budget.pairs // (area * budget.heads)
        while (i + count < len(sequences) and count < most
               and sequences[i + count] == [q_begin + count * q_length, q_length, k_begin + count * k_length, k_length]):
            count += 1
        i += count
        for first in range(0, q_length, step):
            yield Piece(count, q_begin, k_begin, q_length, k_length, first, min(step, q_length - first))


class _Rows:
    """The tensors of a call by tokens, and the parts of them that a piece reads."""

    def __init__(self, call):
        self.call, self.dtype = call, torch.float64 if call.q.dtype == torch.float64 else torch.float32
        self.stream = call.stream()
        self.sequences = torch.ops.fovea.kernel_sequences(call.vectors, call.sizes()).tolist()
        self.lists = call.sorted_lists()
        self.q, self.k, self.v = (token_rows(x) for x in (call.q, call.k, call.v))
        tokens = call.vectors[3]
        if tokens is not None:  # in the order in which sequences count them
            tokens = tokens.to(self.k.device)
            self.k, self.v = self.k.index_select(0, tokens), self.v.index_select(0, tokens)
        self.by_query, self.queries = (None if x is None else token_rows(x) for x in (call.by_query, call.queries))
        heads = [(head + call.skipped) // call.share for head in range(call.heads)]
        self.key_heads = torch.tensor(heads, device=self.q.device) if call.share > 1 else None

    def pieces(self):
        return _pieces(self.sequences, Budget(self.call))

    def of_queries(self, rows, piece):
        """[G, H, n, ..]."""
        begin, length = piece.q_begin + piece.first, piece.queries if piece.count == 1 else piece.q_length
        part = rows[begin:begin + piece.count * length].to(self.dtype)
        return part.view(piece.count, length, rows.size(1), -1).transpose(1, 2)

    def of_keys(self, rows, piece):
        """[G, H, k_length, D], a head of k and v for each head of q."""
        part = rows[piece.k_begin:piece.k_begin + piece.count * piece.k_length].to(self.dtype)
        part = part.view(piece.count, piece.k_length, rows.size(1), -1).transpose(1, 2)
        return part if self.key_heads is None else part.index_select(1, self.key_heads)

    def put_queries(self, piece, values, rows):
        begin, length = piece.q_begin + piece.first, piece.queries if piece.count == 1 else piece.q_length
        rows[begin:begin + piece.count * length] = values.transpose(1, 2).flatten(0, 1).to(rows.dtype)

    def add_keys(self, piece, values, rows):
        if self.key_heads is not None:
            sums = values.new_zeros(values.size(0), rows.size(1), values.size(2), values.size(3))
            values = sums.index_add_(1, self.key_heads, values)
        rows[piece.k_begin:piece.k_begin + piece.count * piece.k_length] += values.transpose(1, 2).flatten(0, 1)

    # Masks of pairs, [G or 1, H or 1, n, k_length].

    def pairs(self, piece, part):
        call = self.call
        place = [piece.q_length, piece.k_length, piece.first, piece.queries, call.heads]
        stream = self.stream[:3] if call.parts.draws else [0, 0, 0]

        def make():
            mask = torch.ops.fovea.kernel_pairs(call.spec, call.kind, part, place, [*stream, 0])
            return mask.to(self.q.device)[None]

        if self.q.device.type == "cpu":
            return make()
        return _masks.get((call.spec, call.kind, part, *place, *stream, str(self.q.device)), make)

    def outside(self, piece):
        """Pairs that are not candidates; None if there are none."""
        call = self.call
        outside = None if call.parts.full and call.kind != "causal" else ~self.pairs(piece, _CANDIDATES)
        if self.lists is None:
            return outside
        begin, length = piece.q_begin + piece.first, piece.queries if piece.count == 1 else piece.q_length
        lists = self.lists[begin:begin + piece.count * length].to(self.q.device).long()
        lists = lists.view(piece.count, length, lists.size(1), -1).transpose(1, 2)   # [G, 1, H_kv or H, n, count]
        if call.block > 1:
            # A list is sorted, with -1 behind, so that the text's number of blocks is its greatest length.
            lists = lists[..., :-(-piece.k_length // call.block)]
            places = torch.arange(min(call.block, piece.k_length), device=lists.device)
            keys = lists[..., None] * call.block + places
            lists = torch.where((lists[..., None] < 0) | (keys >= piece.k_length), -1, keys).flatten(-2)
        listed = torch.zeros(*lists.shape[:-1], piece.k_length + 1, dtype=torch.bool, device=lists.device)
        listed = listed.scatter_(-1, torch.where(lists < 0, piece.k_length, lists), True)[..., :-1]
        if 1 < listed.size(1) == self.k.size(1) and self.key_heads is not None:
            listed = listed.index_select(1, self.key_heads)
        return ~listed if outside is None else outside | ~listed

    def dropout(self, piece):
        if not self.call.dropout:
            return None
        parts = []
        for g in range(piece.count):
            place = [self.call.heads, piece.q_begin + g * piece.q_length + piece.first, piece.queries, piece.k_length]
            parts.append(torch.ops.fovea.kernel_dropout(self.call.dropout, place, self.stream))
        return torch.stack(parts).to(self.q.device, self.dtype)

    # Terms by offset.

    def offsets(self, piece, first, count):
        """The place of each pair's offset among those of a term, [n, k_length]."""
        device = self.q.device
        queries = torch.arange(piece.first, piece.first + piece.queries, device=device)
        keys = torch.arange(piece.k_length, device=device)
        return (keys - queries[:, None] - (piece.k_length - piece.q_length) - first).clamp(0, count - 1)

    def gathered(self, by_offset, index):
        return by_offset.gather(-1, index.expand(*by_offset.shape[:2], *index.shape))

    def scattered(self, by_pair, index, count):
        sums = by_pair.new_zeros(*by_pair.shape[:3], count)
        return sums.scatter_add(-1, index.expand(by_pair.shape), by_pair)

    def head_scores(self, piece, dtype):
        call = self.call
        index = self.offsets(piece, call.by_head_first, call.by_head.size(1))
        return call.by_head.to(dtype)[:, index][None]

    def added(self, piece, dtype):
        """The sum of the terms that are added to the scores; None if nothing is."""
        call, total = self.call, None
        if call.by_head is not None:
            total = self.head_scores(piece, dtype)
        if call.by_query is not None:
            index = self.offsets(piece, call.by_query_first, call.by_query.size(-1))
            term = self.gathered(self.of_queries(self.by_query, piece).to(dtype), index)
            total = term if total is None else total + term
        if call.rows is not None:
            queries, rows = self.of_queries(self.queries, piece).to(dtype), call.rows.to(dtype).transpose(0, 1)
            index = self.offsets(piece, call.rows_first, call.rows.size(0))
            term = self.gathered(queries @ rows.transpose(1, 2) * call.scale, index)
            total = term if total is None else total + term
        return total

    def added_slack(self, piece, added):
        """By how much what is added may differ between equal keys."""
        epsilon = torch.finfo(torch.float64).eps
        slack = added.abs() * (4 * epsilon)
        if self.call.rows is None:
            return slack
        queries, rows = self.of_queries(self.queries, piece).double(), self.call.rows.double().transpose(0, 1)
        unit = (queries.size(-1) + 2) * epsilon * abs(self.call.scale)
        longest = rows.norm(dim=-1).amax(-1).view(1, -1, 1, 1)
        return slack + queries.norm(dim=-1, keepdim=True) * longest * unit


def _kth(scores, k):
    """The k-th greatest of each row, or the least of fewer."""
    return scores.topk(min(int(k), scores.size(-1)), -1, sorted=False).values.amin(-1, keepdim=True)


def _top_p(scores, p):
    """The score down to which each row's greatest reach p of its softmax weight."""
    ordered = scores.sort(-1, descending=True).values
    best = ordered[..., :1]
    sums = (ordered - best).exp().masked_fill(ordered == best, 1).cumsum(-1)
    fewer = (sums < sums[..., -1:] * p).sum(-1, keepdim=True)
    return ordered.gather(-1, fewer.clamp(max=scores.size(-1) - 1))


_THRESHOLDS = {"topk": _kth, "top-p": _top_p}


def _below_threshold(scores, slack, not_competing, parts):
    """True where a candidate is below the threshold of its row's selection among those that compete."""
    masked = scores if not_competing is None else scores.masked_fill(not_competing, -_INFINITY)
    # False for NaN, which so stays and reaches the output.
    return (masked if slack is None else masked + slack) < _THRESHOLDS[parts.selection](masked, parts.amount)


def _unselected(rows, piece, scores, slack, outside):
    """Pairs that take no part: not candidates, or not selected."""
    parts = rows.call.parts
    if not parts.keeps:
        below = _below_threshold(scores, slack, outside, parts)
        return below if outside is None else below | outside
    kept = rows.pairs(piece, _KEPT)
    lost = _below_threshold(scores, slack, kept if outside is None else kept | outside, parts) & ~kept
    return lost if outside is None else lost | outside


def _without(outside, added):
    """Pairs that take no part, with those that a term of minus infinity leaves out."""
    if added is None:
        return outside
    left_out = added.detach() == -_INFINITY
    return left_out if outside is None else outside | left_out


def _capped(scores, cap):
    """c tanh(s / c)."""
    return (scores / cap).tanh() * cap


def _cap_slope(capped, cap):
    """The derivative, from what _capped() gave: 1 - (s / c)^2."""
    share = capped / cap
    return (1 - share) * (1 + share)


class _Computed:
    """One piece with everything that forward and backward share."""

    def __init__(self, rows, piece):
        call = rows.call
        self.q = rows.of_queries(rows.q, piece)
        self.k, self.v = rows.of_keys(rows.k, piece), rows.of_keys(rows.v, piece)
        ranks, cap = call.parts.selection and self.q.device.type == "cpu", call.parts.cap
        added = rows.added(piece, torch.float64 if ranks else rows.dtype)
        outside = _without(rows.outside(piece), added)
        if ranks:
            # In double, where scores that are apart by no more than rounding are equal: a product's order of additions
            # depends on the place of a key.
            wide_q, wide_k = self.q.double(), self.k.double()
            unit = (self.q.size(-1) + 2) * torch.finfo(torch.float64).eps * abs(call.scale)
            scores = wide_q @ wide_k.transpose(-1, -2) * call.scale
            with torch.no_grad():
                slack = (wide_q.norm(dim=-1, keepdim=True) * unit) @ wide_k.norm(dim=-1, keepdim=True).transpose(-1, -2)
            if cap:
                scores = capped = _capped(scores, cap)
                with torch.no_grad():  # the slack of the product becomes less, and tanh and the product with c round by a few units
                    slack = slack * _cap_slope(capped, cap) + capped.abs() * (8 * torch.finfo(torch.float64).eps)
            if added is not None:
                scores = scores + added
                with torch.no_grad():
                    slack = slack + rows.added_slack(piece, added)
            with torch.no_grad():
                self.dropped = _unselected(rows, piece, scores, slack.nan_to_num(0, 0, 0), outside)
            self.scores = scores.to(rows.dtype)
        else:
            # Scaled after the product: scores that tie as products still tie.
            self.scores = self.q @ self.k.transpose(-1, -2) * call.scale
            if cap:
                self.scores = capped = _capped(self.scores, cap)
            if added is not None:
                self.scores = self.scores + added
            with torch.no_grad():
                self.dropped = _unselected(rows, piece, self.scores, None, outside) if call.parts.selection else outside
        if call.by_head is not None and call.parts.span:
            # All that a row selects may be left out: the row is then zeros, not NaN.
            self.dropped = _without(self.dropped, rows.head_scores(piece, call.by_head.dtype))
        if call.parts.transform in ("gelu", "leaky-relu"):
            # Kernels take a score of minus infinity for a key that is left out, also where the transform is not 0 there.
            self.dropped = _without(self.dropped, self.scores)
        self.slopes = _cap_slope(capped.to(rows.dtype), cap) if cap else None
        self.weights = weights_of(call.parts, self.scores, self.dropped, call.alpha)
        self.factors = rows.dropout(piece)
        self.used = self.weights if self.factors is None else self.weights * self.factors


class _WeightedSum(torch.autograd.Function):
    """sum_j weights_ij values_j. A product with zero turns infinities and NaN of keys without a weight into NaN, so
    values that hold any are summed row by row over the others alone."""

    @staticmethod
    def forward(ctx, weights, values, asks):
        ctx.save_for_backward(weights, values)
        if not asks or bool(values.isfinite().all()):
            return weights @ values
        out = weights.new_zeros(*weights.shape[:3], values.size(3))
        for i in range(weights.size(2)):
            row = weights[:, :, i, :, None]
            out[:, :, i] = (row * values).masked_fill(row == 0, 0).sum(-2)
        return out

    @staticmethod
    def backward(ctx, grad):
        weights, values = ctx.saved_tensors
        return grad @ values.transpose(-1, -2), weights.transpose(-1, -2) @ grad, None


def _output(piece_values):
    # If all pairs take part, a GPU is not made to wait for the answer.
    asks = piece_values.dropped is not None or piece_values.v.device.type == "cpu"
    return _WeightedSum.apply(piece_values.used, piece_values.v, asks)


def forward(call):
    """out and sums by tokens; sums is None if the call asks for none."""
    rows = _Rows(call)
    out = torch.zeros(rows.q.shape, dtype=rows.q.dtype, device=rows.q.device)
    count, sums = call.value_offsets, None
    if count:
        sums = torch.zeros(*rows.q.shape[:2], count, dtype=rows.dtype, device=rows.q.device)
    for piece in rows.pieces():
        computed = _Computed(rows, piece)
        rows.put_queries(piece, _output(computed), out)
        if count:
            by_offset = rows.scattered(computed.used, rows.offsets(piece, call.values_first, count), count)
            rows.put_queries(piece, by_offset, sums)
    return out, sums


def backward(call, grad_out, grad_sums, wanted):
    """The gradients of q, k, v and alpha by tokens, and those of the terms that are wanted."""
    rows = _Rows(call)
    grad_out, grad_sums = token_rows(grad_out), None if grad_sums is None else token_rows(grad_sums)
    grad_q = rows_like(rows.q).zero_()
    grad_k, grad_v = (torch.zeros(x.shape, dtype=rows.dtype, device=x.device) for x in (rows.k, rows.v))
    grad_alpha = None if call.alpha is None else torch.zeros(call.heads, dtype=torch.float64, device=rows.q.device)
    given = [call.by_head, rows.by_query, rows.queries, call.rows]
    terms = [torch.zeros(x.shape, dtype=rows.dtype, device=x.device) if wants and x is not None else None
             for wants, x in zip(wanted, given)]
    for piece in rows.pieces():
        computed = _Computed(rows, piece)
        grad = rows.of_queries(grad_out, piece)
        rows.add_keys(piece, computed.used.transpose(-1, -2) @ grad, grad_v)
        grad_weights = grad @ computed.v.transpose(-1, -2)
        if grad_sums is not None:
            index = rows.offsets(piece, call.values_first, call.value_offsets)
            grad_weights = grad_weights + rows.gathered(rows.of_queries(grad_sums, piece), index)
        if computed.factors is not None:
            grad_weights = grad_weights * computed.factors
        of_scores, of_alpha = gradients(call.parts, computed.scores, computed.dropped, call.alpha, computed.weights,
                                        grad_weights)
        of_products = of_scores if computed.slopes is None else of_scores * computed.slopes
        rows.put_queries(piece, of_products @ computed.k * call.scale, grad_q)
        rows.add_keys(piece, of_products.transpose(-1, -2) @ computed.q * call.scale, grad_k)
        if of_alpha is not None:
            grad_alpha += of_alpha
        _add_terms(rows, piece, of_scores, terms)
    of_alpha = None if grad_alpha is None else grad_alpha.to(call.alpha.dtype)
    terms = [None if x is None else x.to(like.dtype) for x, like in zip(terms, given)]
    return grad_q, _as_rows(grad_k, rows.k), _as_rows(grad_v, rows.v), of_alpha, terms


def _as_rows(grad, like):
    return rows_like(like).copy_(grad)


def _add_terms(rows, piece, of_scores, terms):
    call, (by_head, by_query, queries, of_rows) = rows.call, terms
    if by_head is not None:
        index = rows.offsets(piece, call.by_head_first, by_head.size(1))
        by_head += rows.scattered(of_scores, index, by_head.size(1)).sum((0, 2))
    if by_query is not None:
        count = by_query.size(-1)
        rows.put_queries(piece, rows.scattered(of_scores, rows.offsets(piece, call.by_query_first, count), count), by_query)
    if queries is None and of_rows is None:
        return
    count = call.rows.size(0)
    by_offset = rows.scattered(of_scores, rows.offsets(piece, call.rows_first, count), count) * call.scale
    if queries is not None:
        rows.put_queries(piece, by_offset @ call.rows.to(rows.dtype).transpose(0, 1), queries)
    if of_rows is not None:
        product = (by_offset.transpose(-1, -2) @ rows.of_queries(rows.queries, piece)).sum(0)  # [H, count, D]
        of_rows += (product.sum(0, keepdim=True) if of_rows.size(1) == 1 else product).transpose(0, 1)


def weights(call):
    """[B, H, N_q, N_k] with the greatest lengths."""
    call.dropout = 0.0
    rows = _Rows(call)
    if not rows.sequences and not call.packed:  # no lengths to take the greatest of
        return call.q.new_empty(0, call.heads, call.q.size(2), call.k.size(2))
    queries = max((s[1] for s in rows.sequences), default=0)
    keys = max((s[3] for s in rows.sequences), default=0)
    all_weights = call.q.new_zeros(len(rows.sequences), call.heads, queries, keys)
    place = {s[0]: b for b, s in enumerate(rows.sequences) if s[1] > 0}
    for piece in rows.pieces():
        computed = _Computed(rows, piece).weights
        for g in range(piece.count):
            b = place[piece.q_begin + g * piece.q_length]
            all_weights[b, :, piece.first:piece.first + piece.queries, :piece.k_length] = computed[g].to(call.q.dtype)
    return all_weights

"""Routed attention, "routed(c,w,random)": the library draws the members of each cluster, whose rows are gathered,
normalised and attended to cluster by cluster, as sequences of one packed call. Only torch's operators and
fovea::attention_forward touch the numbers, so derivatives of any order follow."""
import torch

from . import _ask, _core, _reference
from ._call import Call, from_token_rows, token_rows
from ._checks import term_type
from ._second import is_traced

_MOST_WEIGHTS = 1 << 22  # of clusters whose weights are computed together


def route_of(spec):
    route = _ask.route(spec)
    if route.has_centroids:
        raise RuntimeError(f"attention: '{spec}' needs centroids, which models of fovea train learn; in Python, use "
                           f"routed({route.clusters},{route.window},random)")
    return route


def fake_members(q, k, layout, route, stream):
    """Sizes for what stands in for tensors, of which lengths are unknown."""
    clusters, window, shared, filled = route
    packed, q_offsets = q.dim() == 3, layout[0]
    sequences = q.size(0) if not packed else 1 if q_offsets is None else q_offsets.size(0) - 1
    lists = q.size(1) * sequences * clusters
    return tuple(q.new_empty(size, dtype=torch.int64, device="cpu") for x in (q, q if shared else k)
                 for size in (lists * torch.sym_min(window, x.size(0 if packed else 2)), lists + 1 + 2 * filled))


class _Clusters:
    """The inputs of one head group in the order of the members. `width` is that of q and k, of which they may be padded
    by zeros; scale is 1 if None."""

    def __init__(self, q, k, v, arguments, width, scale):
        (self.alpha, _terms, _offsets, layout, spec, self.kind, _scale, self.dropout, stream, self.dropout_seed) = arguments
        self.route, self.q, self.width, self.scale = route_of(spec), q, width, 1.0 if scale is None else scale
        self.vectors, self.drawn_seed, self.stream = layout[:6], layout[6], stream[:3]
        # Rows are gathered head by head, so each head of q needs a head of k and v.
        k, v = self._repeated(k, stream[3]), self._repeated(v, stream[3])
        self.shared = self.kind == "causal"  # keys are queries: ranks within a cluster then say what is earlier
        self.has_lengths = any(x is not None for x in self.vectors)
        # A graph that is traced needs sizes that no lengths change: rows are filled up by one behind the last.
        self.filled = self.has_lengths and is_traced()
        if self.filled and self.alpha is not None:
            raise RuntimeError(f"attention: '{spec}' with lengths or offsets cannot be traced, as each head has an alpha and a "
                               "call of its own; call it outside of torch.compile")
        self.q_rows, self.q_offsets, self.k_rows, self.k_offsets = torch.ops.fovea.kernel_members(
            q.detach(), k.detach(), self.vectors,
            [self.route.clusters, self.route.window, int(self.shared), int(self.filled)], [*self.stream, 0])
        q_places, k_places = self.q_rows.to(q.device), self.k_rows.to(q.device)
        self.places = q_places
        self.members_q = self._normalised(q, q_places)
        self.members_k = self.members_q if self.shared else self._normalised(k, k_places)
        self.members_v = self._gathered(v, k_places)

    def _repeated(self, x, share):
        if share == 1:
            return x
        skipped = self.stream[2] % share
        heads = (torch.arange(self.q.size(1), device=x.device) + skipped) // share
        return x.index_select(1, heads)

    def _gathered(self, x, places):
        """[members, 1, D]"""
        rows = token_rows(x).flatten(0, 1)
        if self.filled:
            rows = torch.nn.functional.pad(rows, (0, 0, 0, 1))
        return rows.index_select(0, places)[:, None]

    def _normalised(self, x, places):
        """After the rows are gathered, so that no value of padding can spoil a gradient."""
        rows = self._gathered(x, places)
        plain = torch.nn.functional.layer_norm(rows[..., :self.width], (self.width,), eps=_ask.constants().routing_norm_eps)
        return torch.nn.functional.pad(plain, (0, rows.size(-1) - self.width)) if rows.size(-1) > self.width else plain

    def calls(self):
        """The arguments of fovea::attention_forward: one call for all heads, or one for each if heads have an alpha."""
        if self.alpha is None:
            yield self._call(self.members_q, self.members_k, self.members_v, self.q_offsets, self.k_offsets, 0)
            return
        heads = self.q.size(1)
        for head in range(heads):
            (q, q_offsets), (k, k_offsets) = (self._part(x, head) for x in (self.q_offsets, self.k_offsets))
            yield self._call(self.members_q[q], self.members_k[k], self.members_v[k], q_offsets, k_offsets, head)

    def _part(self, offsets, head):
        """The members of a head's lists, and their own offsets."""
        heads = self.q.size(1)
        lists = (offsets.numel() - 1) // heads
        if self.has_lengths:
            return _part(offsets, head * lists, (head + 1) * lists)
        members = self.members_q if offsets is self.q_offsets else self.members_k  # as many for each head
        count = members.size(0) // heads
        return slice(head * count, (head + 1) * count), offsets[head * lists:(head + 1) * lists + 1] - head * count

    def _call(self, q, k, v, q_offsets, k_offsets, head):
        alpha = None if self.alpha is None else self.alpha[head:head + 1]
        layout = [q_offsets, k_offsets, None, None, None, None, self.drawn_seed]
        seed, layer, first = self.stream
        return (q, k, v, alpha, [], [], layout, self.route.within, self.kind, float(self.scale), self.dropout,
                [seed, layer, first + head], self.dropout_seed, False)

    def members(self, i):
        """The rows of the queries and of the keys in list i."""
        return (self.q_rows[self.q_offsets[i]:self.q_offsets[i + 1]], self.k_rows[self.k_offsets[i]:self.k_offsets[i + 1]])

    def weights_by_list(self):
        """(i, the weights [n_q, n_k] of list i), no list empty."""
        first = 0
        for q, k, v, alpha, _, _, layout, *rest, _ in self.calls():
            q_offsets, k_offsets = layout[:2]
            count = q_offsets.numel() - 1
            most = int(q_offsets.diff().max()) * int(k_offsets.diff().max()) if count else 0
            step = max(_MOST_WEIGHTS // max(most, 1), 1)
            for begin in range(0, count, step):
                end = min(begin + step, count)
                (queries, own_q), (keys, own_k) = (_part(x, begin, end) for x in (q_offsets, k_offsets))
                part = _core.checked(q[queries], k[keys], v[keys], alpha, [], [], [own_q, own_k, *layout[2:]], *rest)
                computed = _reference.weights(part)[:, 0]
                for i, (n_q, n_k) in enumerate(zip(own_q.diff().tolist(), own_k.diff().tolist())):
                    if n_q and n_k:
                        yield first + begin + i, computed[i, :n_q, :n_k]
            first += count

    def sums(self, x):
        """The sum of each row's members of x [members, D], in their order, so that bits do not depend on threads; in the
        layout [T * H, D]."""
        rows = self.q.numel() // self.q.size(-1)
        return x.new_zeros(rows + int(self.filled), x.size(1)).index_add(0, self.places, x)[:rows]

    def shares(self, dtype):
        """The factor of each row's sum, [T * H, 1]."""
        ones = torch.ones((), dtype=dtype, device=self.q.device).expand(self.places.size(0), 1)
        return (self.sums(ones) + _ask.constants().count_bias).reciprocal()


def _part(offsets, first, last):
    """The members of the lists first ... last - 1, and their own offsets."""
    own = offsets[first:last + 1]
    begin = int(own[0])
    return slice(begin, int(own[-1])), own - begin


def attention(q, k, v, arguments, width, scale):
    """The output of a routed head group: a query's outputs are averaged over its clusters, and zero without any."""
    clusters = _Clusters(q, k, v, arguments, width, scale)
    outputs = [torch.ops.fovea.attention_forward(*call)[0] for call in clusters.calls()]
    mixed = (outputs[0] if len(outputs) == 1 else torch.cat(outputs)).squeeze(1).to(term_type(q))
    rows = clusters.sums(mixed) * clusters.shares(mixed.dtype)
    return from_token_rows(rows.to(q.dtype).view(-1, q.size(1), rows.size(1)), q)


def weights(q, k, arguments, scale):
    """[B, H, N_q, N_k] with the greatest lengths, averaged over a query's clusters as outputs are."""
    clusters = _Clusters(q, k, k, arguments, q.size(-1), scale)
    whole = Call(q, k, k, None, [], [], arguments[3], clusters.route.within, clusters.kind, 1.0, 0.0, arguments[8], 0)
    sequences = torch.ops.fovea.kernel_sequences(whole.vectors, whole.sizes()).tolist()
    if not sequences and not whole.packed:  # no lengths to take the greatest of
        return q.new_empty(0, q.size(1), q.size(2), k.size(2))
    queries, keys = (max((s[i] for s in sequences), default=0) for i in (1, 3))
    out = torch.zeros(len(sequences), q.size(1), queries, keys, dtype=torch.float64, device=q.device)
    shares = clusters.shares(torch.float64)
    for i, part in clusters.weights_by_list():
        b, head = i // clusters.route.clusters % len(sequences), i // clusters.route.clusters // len(sequences)
        q_rows, k_rows = clusters.members(i)
        q_places, k_places = q_rows // q.size(1) - sequences[b][0], k_rows // q.size(1) - sequences[b][2]
        # A token is in a cluster once, so no place is written twice.
        out[b, head, q_places[:, None].to(q.device), k_places.to(q.device)] += part.double() * shares[q_rows.to(q.device)]
    return out.to(q.dtype)

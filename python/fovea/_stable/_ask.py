"""Questions about specs to the library, without tensors: by ctypes, which no mode of torch intercepts."""
import ctypes
import functools
from collections import namedtuple

_BETWEEN = "\x1f"
_MOST = 4096  # answers that are kept: a service may be sent any spec
_library = None


def open_library(path):
    global _library
    _library = ctypes.CDLL(str(path))
    _library.fovea_ask.restype = ctypes.c_char_p
    _library.fovea_ask.argtypes = [ctypes.c_char_p]


def ask(*parts):
    """The answer to a question, a text. Raises RuntimeError with the library's line."""
    # A control character in a spec is an error that the library's parser tells.
    clean = [part.replace(_BETWEEN, "\x01").replace("\0", "\x01") for part in parts]
    answer = _library.fovea_ask(_BETWEEN.join(clean).encode()).decode()
    if answer[0] == "!":
        raise RuntimeError(answer[1:])
    return answer[1:]


def refuse(*parts):
    """Raises RuntimeError with the library's line for what it is asked to refuse."""
    ask("refuse", *parts)


Norm = namedtuple("Norm", "name gate bias centred")
Reads = namedtuple("Reads", "gain gate bias alpha sinks")
# choice: the blocks of blocktopk, or None; listed: the mechanism in a call that has their lists.
Group = namedtuple("Group", "heads spec reads_alpha routed span listed choice")
Choice = namedtuple("Choice", "block best bounds")
# Head groups that one call computes: one that chooses its keys, or as many as follow.
Run = namedtuple("Run", "heads spec routed reads_alpha choice")
Layer = namedtuple("Layer", "norm reads positional groups runs")
Parts = namedtuple("Parts", "transform argument learned selection amount keeps full draws span cap")
Route = namedtuple("Route", "clusters window has_centroids within")


@functools.lru_cache(_MOST)
def layer(spec, heads):
    """A layer of `heads` heads, resolved into its head groups."""
    first, *groups = (line.split(_BETWEEN) for line in ask("layer", str(heads), spec).split("\n"))
    name, *flags = first
    gate, bias, centred, *reads, positional = (flag == "1" for flag in flags)
    groups = tuple(Group(int(heads), text, reads_alpha == "1", routed == "1", int(span), listed,
                         Choice(int(block), int(best), bounds == "1") if int(block) else None)
                   for heads, text, reads_alpha, routed, span, listed, block, best, bounds in groups)
    return Layer(Norm(name, gate, bias, centred), Reads(*reads), positional, groups, _runs(groups))


def _runs(groups):
    runs = []
    for group in groups:
        if runs and not any(x.routed or x.choice for x in (group, runs[-1][0])):
            runs[-1].append(group)
        else:
            runs.append([group])
    return tuple(Run(sum(group.heads for group in run), run[0].listed if len(run) == 1 else
                     ";".join(f"{group.heads}*{group.spec}" for group in run), run[0].routed,
                     any(group.reads_alpha for group in run), run[0].choice) for run in runs)


@functools.lru_cache(_MOST)
def parts(spec):
    """The parts of one mechanism. selection: its name, empty without, with its k or p in `amount`; span: the limit of an adaptive span, cap: the soft cap of the scores, 0 without."""
    transform, argument, learned, selection, amount, keeps, full, draws, span, cap = ask("parts", spec).split(_BETWEEN)
    return Parts(transform, float(argument), learned == "1", selection, float(amount), keeps == "1", full == "1",
                 draws == "1", int(span), float(cap))


@functools.lru_cache(_MOST)
def route(spec):
    """The clusters of a routed mechanism. within: the mechanism within one of them."""
    clusters, window, has_centroids, within = ask("route", spec).split(_BETWEEN)
    return Route(int(clusters), int(window), has_centroids == "1", within)


Constants = namedtuple("Constants", "least_alpha greatest_alpha norm_eps routing_norm_eps count_bias")


@functools.lru_cache(None)
def constants():
    """The range of a learned alpha; what is added to the mean square of a norm over heads, to the variance of a routed
    query or key, and to the number of a row's clusters."""
    return Constants(*map(float, ask("constants").split(_BETWEEN)))

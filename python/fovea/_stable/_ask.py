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


Norm = namedtuple("Norm", "name gate bias centred")
Reads = namedtuple("Reads", "gain gate bias alpha")
Group = namedtuple("Group", "heads spec reads_alpha routed span")
Layer = namedtuple("Layer", "norm reads positional groups")
Parts = namedtuple("Parts", "transform argument learned k keeps full draws span")
Route = namedtuple("Route", "clusters window has_centroids within")


@functools.lru_cache(_MOST)
def layer(spec, heads):
    """A layer of `heads` heads, resolved into its head groups."""
    first, *groups = (line.split(_BETWEEN) for line in ask("layer", str(heads), spec).split("\n"))
    name, *flags = first
    gate, bias, centred, reads_gain, reads_gate, reads_bias, reads_alpha, positional = (flag == "1" for flag in flags)
    return Layer(Norm(name, gate, bias, centred), Reads(reads_gain, reads_gate, reads_bias, reads_alpha), positional,
                 tuple(Group(int(heads), text, reads == "1", routed == "1", int(span))
                       for heads, text, reads, routed, span in groups))


@functools.lru_cache(_MOST)
def parts(spec):
    """The parts of one mechanism. k: of topk, 0 without; span: the limit of an adaptive span, 0 without."""
    transform, argument, learned, k, keeps, full, draws, span = ask("parts", spec).split(_BETWEEN)
    return Parts(transform, float(argument), learned == "1", int(k), keeps == "1", full == "1", draws == "1", int(span))


@functools.lru_cache(_MOST)
def route(spec):
    """The clusters of a routed mechanism. within: the mechanism within one of them."""
    clusters, window, has_centroids, within = ask("route", spec).split(_BETWEEN)
    return Route(int(clusters), int(window), has_centroids == "1", within)


@functools.lru_cache(_MOST)
def saved(spec, kind, dropout, numbers):
    """How many floats and how many integers forward leaves in a row for backward."""
    floats, ints = ask("saved", spec, kind, repr(dropout), ",".join(map(str, numbers))).split(_BETWEEN)
    return int(floats), int(ints)

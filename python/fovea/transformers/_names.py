"""Names of attention implementations: `fovea:topk(32)`, or by layer `fovea:0-3=window(512),*=topk(64)`."""
import re
from dataclasses import dataclass

from .._functional import SpecError, parameters, parse as parse_spec, properties, spec_names

PREFIX = "fovea:"
# transformers reads more than a name into these.
_TAKEN = re.compile(r"flash|sdpa|flex_attention|^paged\|")
_ENTRY = re.compile(r"([^=()]*)=(.*)")  # not the "=" of an argument
_LAYERS = re.compile(r"(\d+)(?:-(\d+))?")
_CHOSEN = re.compile(r"dsa\(\s*([^()]*?)\s*\)")  # the keys that an indexer chooses


def _split(text, separator):
    """The parts between separators that stand in no parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


@dataclass(frozen=True)
class Mechanism:
    """The meaning of a name: specs by layer, (first, last, spec) each, and the spec of all other layers."""
    by_layer: tuple = ()
    rest: str = "full"

    def spec(self, layer):
        for first, last, spec in self.by_layer:
            if first <= layer <= last:
                return spec
        return self.rest

    @property
    def has_indexer(self):
        return any(chosen_keys(spec) for spec in (self.rest, *(spec for *_, spec in self.by_layer)))

    @property
    def text(self):
        """Canonical, equal for equal mechanisms."""
        if not self.by_layer:
            return self.rest
        layers = [f"{a}={spec}" if a == b else f"{a}-{b}={spec}" for a, b, spec in self.by_layer]
        return ",".join([*layers, f"*={self.rest}"])

    @property
    def name(self):
        return PREFIX + self.text


def chosen_keys(spec):
    """How many keys the indexer of a layer chooses; None if the spec has no indexer."""
    found = _CHOSEN.fullmatch(spec)
    return int(found[1]) if found else None


def has_pattern(has):
    """Whether a spec of these properties goes by the places of queries and keys, which random(k) draws from."""
    return "positional" in has or "seed" in has


def _checked_spec(text):
    found = _CHOSEN.fullmatch(text.strip())
    if found:
        if not found[1].isdecimal() or int(found[1]) < 1:
            raise ValueError(f"fovea: got '{text.strip()}'; expected dsa(k) with a whole number k of 1 or more")
        return f"dsa({int(found[1])})"
    spec = parse_spec(text.strip())
    if "indexer" in properties(spec):
        raise ValueError(f"fovea: got '{spec}'; in models of transformers dsa(k) stands alone, without stages and head groups")
    learned = [name for name in parameters(spec) if name in ("alpha", "sinks", "gate")]
    learned += [name for name in ("span", "centroids", "gate") if name in properties(spec)]
    learned += ["the scale of queries"] if {"head_scale", "input_scale"} & set(properties(spec)) else []
    if "clauses" in properties(spec):
        raise ValueError(f"fovea: '{spec}' attends within clauses of a text, which models of transformers do not know; "
                         "choose a spec without them")
    if "open_bias" in properties(spec):
        raise ValueError(f"fovea: training sets the bias of sigmoid in '{spec}' to -ln(greatest length); give the number, such "
                         "as sigmoid(-6.93) for 1,024 tokens")
    if learned:
        raise ValueError(f"fovea: '{spec}' learns {learned[0]}, and models of transformers have no such parameter; "
                         "choose a spec without it")
    return spec


def parse(text):
    """The Mechanism of a name, with or without its prefix.

    Raises:
        SpecError: a spec does not parse.
        ValueError: the layers do not, or transformers would read the name as another's.
    """
    if not isinstance(text, str):
        raise TypeError(f"fovea: the mechanism is of type {type(text).__name__}; expected a text such as 'topk(32)'")
    text = text.removeprefix(PREFIX)
    by_layer, rest, parts = [], None, _split(text, ",")
    for part in parts:
        found = _ENTRY.fullmatch(part)
        if not found and len(parts) > 1:
            raise ValueError(f"fovea: '{part}' names no layers; expected LAYERS=SPEC, such as 0-3=window(512) or *=full")
        selector, spec = (found[1].strip(), found[2]) if found else ("*", part)
        if selector == "*":
            if rest is not None:
                raise ValueError(f"fovea: '{text}' names the other layers (*) twice")
            rest = _checked_spec(spec)
            continue
        layers = _LAYERS.fullmatch(selector)
        if layers is None:
            raise ValueError(f"fovea: got layers '{selector}'; expected a number, a range such as 0-3, or *")
        first, last = int(layers[1]), int(layers[2] or layers[1])
        if last < first or any(a <= last and first <= b for a, b, _ in by_layer):
            raise ValueError(f"fovea: layers '{selector}' of '{text}' are empty or named twice")
        by_layer.append((first, last, _checked_spec(spec)))
    mechanism = Mechanism(tuple(sorted(by_layer)), rest or "full")
    if _TAKEN.search(mechanism.text):
        raise ValueError(f"fovea: transformers would take '{mechanism.name}' for an implementation of its own")
    return mechanism


_PATTERNS, _STAGES = ({name.name for name in spec_names() if name.part == part} for part in ("pattern", "stage"))


def _head_groups(spec):
    """(heads, mechanism) of each group of heads, "4*" and "full"; heads is empty where one mechanism is for all."""
    for group in _split(spec, ";"):
        count, star, rest = group.partition("*")
        yield (count + star, rest) if star and count.strip().isdigit() else ("", group)


def with_stages(spec, stages):
    """The spec with the model's stages, a soft cap and a sink, in every group of heads.

    Raises:
        ValueError: the spec has a soft cap of its own, or weighs by another transform than softmax beside a sink.
    """
    try:
        return parse_spec(";".join("+".join([heads + rest, *stages]) for heads, rest in _head_groups(spec)))
    except SpecError as error:
        if stages[0].startswith("softcap"):
            if "softcap" in properties(spec):
                raise ValueError(f"fovea: the model caps its scores, {stages[0]}, and so does '{spec}'; choose a spec without "
                                 "softcap") from None
            if len(stages) == 1:
                raise ValueError(f"fovea: the model caps its scores: {str(error).splitlines()[0]}") from None
        raise ValueError(f"fovea: the model has attention sinks, which go with softmax, and '{spec}' does not; choose a spec "
                         "such as full or topk(32)") from None


def within(spec, window):
    """The spec with its candidates limited to those of the pattern `window`, in every group of heads.

    Raises:
        ValueError: the spec has candidates of its own that go with no pattern, such as chosen blocks.
    """
    groups = []
    for heads, rest in _head_groups(spec):
        pairs, *stages = _split(rest, "+")
        first = re.match(r"\(*([a-z_-]+)", pairs)
        if first and first[1] in _PATTERNS:
            pairs = window if pairs == "full" else f"({pairs})&{window}"
        elif first and first[1] in _STAGES:
            pairs, stages = window, [pairs, *stages]
        else:
            raise ValueError(f"fovea: '{spec}' on a layer with a sliding window is not supported; give such layers another spec, "
                             "such as full, their window")
        groups.append(heads + "+".join([pairs, *stages]))
    return ";".join(groups)

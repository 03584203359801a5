"""Timing in turns: what else the machine does falls on all candidates alike."""
import math
import statistics
import time
from typing import NamedTuple


class Timing(NamedTuple):
    seconds: float  # the median
    spread: float  # the middle half's width over the median; NaN of a single time


def timing_of(times):
    if len(times) == 1:
        return Timing(times[0], math.nan)
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return Timing(middle, (high - low) / middle)


def seconds_of(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_turns(candidates, seconds, least=5, once_above=math.inf):
    """{name: function} -> {name: Timing}. Runs all once unmeasured, then one after the other until the time is used up,
    every candidate at least `least` times. A first run that takes over `once_above` seconds counts, and is the only one
    of its candidate."""
    first = {name: seconds_of(run) for name, run in candidates.items()}
    once = {name: [spent] for name, spent in first.items() if spent > once_above}
    times = {name: [] for name in candidates if name not in once}
    end = time.perf_counter() + seconds
    while times and (time.perf_counter() < end or any(len(t) < least for t in times.values())):
        for name in times:
            times[name].append(seconds_of(candidates[name]))
    return {name: timing_of(once.get(name) or times[name]) for name in candidates}


def compared(ours, theirs):
    """The columns of a comparison; the spread is the greater of the two sides', in per cent."""
    spreads = [side.spread for side in (ours, theirs) if not math.isnan(side.spread)]
    return {"ms": 1e3 * ours.seconds, "peer ms": 1e3 * theirs.seconds, "times faster": theirs.seconds / ours.seconds,
            "spread %": 100 * max(spreads) if spreads else math.nan}

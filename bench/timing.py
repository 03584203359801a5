"""Timing in turns: what else the machine does falls on all candidates alike."""
import statistics
import time
from typing import NamedTuple


class Timing(NamedTuple):
    seconds: float  # the median
    spread: float  # the middle half's width over the median


def timing_of(times):
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return Timing(middle, (high - low) / middle)


def in_turns(candidates, seconds, least=5):
    """{name: function} -> {name: Timing}. Runs all once unmeasured, then one after the other until the time is used up,
    every candidate at least `least` times."""
    for run in candidates.values():
        run()
    times = {name: [] for name in candidates}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or any(len(t) < least for t in times.values()):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: timing_of(t) for name, t in times.items()}


def compared(ours, theirs):
    """The columns of a comparison; the spread is the greater of the two sides', in per cent."""
    return {"ms": 1e3 * ours.seconds, "peer ms": 1e3 * theirs.seconds, "times faster": theirs.seconds / ours.seconds,
            "spread %": 100 * max(ours.spread, theirs.spread)}

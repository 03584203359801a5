"""Timing in turns: what else the machine does falls on all candidates alike."""
import statistics
import time


def in_turns(candidates, seconds, least=3):
    """Median seconds of each: {name: function} -> {name: seconds}. Runs all once unmeasured, then one after the other
    until the time is used up, every candidate at least `least` times."""
    for run in candidates.values():
        run()
    times = {name: [] for name in candidates}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or any(len(t) < least for t in times.values()):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in times.items()}

"""Steps of a whole language model of bytes over long caches, by bin/decoder_steps, against the same model in eager PyTorch,
whose caches hold random keys and values."""
import json
import statistics
import sys

import training as tools
from timing import compared, timing_of

LENGTHS = {1: (2048, 8192, 32768), 64: (2048, 8192)}  # by streams; 64 caches of 32,768 tokens are 17 GB in float32
QUICK_LENGTHS = {1: (2048, 8192), 64: (2048,)}
CANDIDATES = (("full", "model", "float32"), ("full", "bfloat16", "float32"), ("full", "int8", "float32"),
              ("full", "model", "bfloat16"), ("topk(32)", "model", "float32"), ("window(256)", "model", "float32"))
STEPS = {1: 60, 64: 12}


def ours(given, setting, streams, keys):
    spec, cache, precision = setting
    command = [given.build.resolve() / "bin" / "decoder_steps", spec, streams, keys, STEPS[streams], cache, precision]
    return json.loads(tools.run(*command, threads=given.threads).stdout)["ms"]


def eager(given, streams, keys):
    """The times of the faster of SDPA and two products."""
    command = [sys.executable, tools.ROOT / "bench" / "eager_decoder.py", "steps", "--streams", streams, "--keys", keys,
               "--length", STEPS[streams], "--threads", given.threads]
    found = json.loads(tools.run(*command, threads=given.threads).stdout.splitlines()[-1])["ms"]
    return min(found.values(), key=statistics.median)


def rows(given):
    """Rows come one by one. The sides take turns, as programs of their own."""
    rounds = 1 if given.quick else 3
    for streams, lengths in (QUICK_LENGTHS if given.quick else LENGTHS).items():
        for keys in lengths:
            theirs, times = [], {setting: [] for setting in CANDIDATES}
            for _ in range(rounds):
                theirs += eager(given, streams, keys)
                for setting, all_times in times.items():
                    all_times += ours(given, setting, streams, keys)
            for setting, all_times in times.items():
                spec, cache, precision = setting
                yield {"streams": streams, "keys": keys, "mechanism": spec, "cache": cache, "weights": precision,
                       **compared(*(timing_of([ms / 1e3 for ms in side]) for side in (all_times, theirs)))}

"""The time of one call of fovea.attention, by the short way and by the general one, beside SDPA:

    .venv/bin/python3 bench/calls.py [--rounds 3] [--lengths 16 64 256 1024 8192] [--build build/release]

Prints microseconds of the processor on one thread, which other programs disturb less than the clock does: medians over
rounds, in which the two ways take turns, each in a process of its own. Above 8 MiB of scores SDPA is left out.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAYS = ("short", "general")
SPECS = ["full", "topk(32)", "window(64)"]
LONGEST_SDPA = 2048


def time_of(call, seconds):
    """Microseconds of the processor."""
    call()
    begin = time.process_time()
    call()
    repetitions = max(1, int(seconds / max(time.process_time() - begin, 1e-6)))
    spent = []
    for _ in range(3):
        begin = time.process_time()
        for _ in range(repetitions):
            call()
        spent.append((time.process_time() - begin) / repetitions * 1e6)
    return statistics.median(spent)


def measure(way, lengths, seconds):
    """{"n pass mechanism": microseconds} of one of the ways."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    import fovea

    torch.set_num_threads(1)
    if way == "general":
        fovea._library.plain_attention = None
    found = {}
    for n in lengths:
        random = torch.Generator().manual_seed(n)
        q, k, v, grad = (torch.randn(1, 8, n, 64, generator=random) for _ in range(4))
        leaves = [x.requires_grad_() for x in (q, k, v)]
        calls = {spec: lambda spec=spec: fovea.attention(q, k, v, spec) for spec in SPECS if spec != "full" or n <= LONGEST_SDPA}
        if n <= LONGEST_SDPA:
            calls["SDPA"] = lambda: scaled_dot_product_attention(q, k, v)
        for name, call in calls.items():
            def forward(call=call):
                with torch.no_grad():
                    call()

            found[f"{n} forward {name}"] = time_of(forward, seconds)
            found[f"{n} both {name}"] = time_of(lambda call=call: torch.autograd.grad(call(), leaves, grad), seconds)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256, 1024, 8192])
    parser.add_argument("--seconds", type=float, default=0.1, help="of one measurement, of which a row has three per round")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)  # this process measures
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.lengths, given.seconds)))
        return
    rounds = {way: [] for way in WAYS}
    environment = {**os.environ, "FOVEA_LIBRARY": str(given.build.resolve() / "lib" / "libfovea_python.so"), "PYTHONPATH": str(ROOT / "python")}
    for _ in range(given.rounds):
        for way, all_rounds in rounds.items():
            command = [sys.executable, __file__, "--measure", way, "--seconds", str(given.seconds), "--lengths", *map(str, given.lengths)]
            all_rounds.append(json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout))
    middle = {way: {key: statistics.median(r[key] for r in all_rounds) for key in all_rounds[0]} for way, all_rounds in rounds.items()}
    print("| n | pass | mechanism | short way, us | general way, us | general / short | SDPA, us |\n" + "|" + " --- |" * 7)
    for key, short in middle["short"].items():
        n, which, mechanism = key.split(" ", 2)
        if mechanism != "SDPA":
            general, dense = middle["general"][key], middle["short"].get(f"{n} {which} SDPA")
            print(f"| {n} | {which} | {mechanism} | {short:.0f} | {general:.0f} | {general / short:.2f} | {'' if dense is None else f'{dense:.0f}'} |")


if __name__ == "__main__":
    main()

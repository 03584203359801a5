#!/usr/bin/env python3
"""A model of training by many processes: the time of an update from the latency and the bandwidth of their exchanges.

scale.py measure FOVEA COLLECTIVE: measures both with 2 and 4 processes of one thread on this machine, and checks the
model against trainings by 1, 2 and 4 processes. FOVEA and COLLECTIVE are programs of the build.
scale.py table: the speed-up to 1,024 processes that the model gives for two networks, in the form of docs/scale.md.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "GOMP_SPINCOUNT": "5000"}


def exchange(processes, parameters, latency, bandwidth):
    """Seconds of the exchanges of an update. A sum sends each process's part of the gradient to all others, and the
    sums back: 2 (n - 1) messages of an n-th of 4 bytes a parameter. The order and the records of the passes take
    about log2(n) steps each, three exchanges in all."""
    if processes == 1:
        return 0
    steps = 3 * (processes - 1).bit_length() + 2 * (processes - 1)
    return steps * latency + 2 * (processes - 1) / processes * 4 * parameters / bandwidth


def mpirun(count, *command):
    launcher = shutil.which("mpirun", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    options = [launcher, "--oversubscribe", "--bind-to", "none", "-n", str(count)] if count > 1 else []
    return subprocess.run([*options, *map(str, command)], check=True, capture_output=True, text=True, env=ENVIRONMENT)


def fitted(measured):
    """Latency and bandwidth by the smallest and the largest sum."""
    n, sums = measured["processes"], measured["sums"]
    latency = sums[0]["seconds"] / (2 * (n - 1))
    last = sums[-1]
    return latency, 2 * (n - 1) / n * 4 * last["values"] / (last["seconds"] - sums[0]["seconds"])


def update_seconds(fovea, folder, count, updates):
    """The median time of an update, and the parameters of the model."""
    log = mpirun(count, fovea, "train", "--model", folder / f"run-{count}", "--train-sets", folder / "corpus/train.src",
                 folder / "corpus/train.trg", "--vocabs", folder / "v.spm", folder / "v.spm", "--tied-embeddings-all",
                 "--dim-emb", 256, "--enc-depth", 3, "--dec-depth", 3, "--transformer-heads", 4, "--transformer-dim-ffn", 1024,
                 "--mini-batch-words", 2000, "--after-batches", updates, "--disp-freq", 1, "--cpu-threads", 1,
                 "--save-freq", 100000).stderr
    seconds = [float(value) for value in re.findall(r"Time ([\d.]+)s", log)]
    parameters = int(re.search(r"([\d,]+) parameters", log)[1].replace(",", ""))
    return statistics.median(seconds[2:]), parameters


def measure(fovea, collective):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        mpirun(1, fovea, "corpus", "--generate", 20000, "--valid", 50, "--test", 50, "--output", folder / "corpus")
        mpirun(1, fovea, "vocab", "--train-sets", folder / "corpus/train.src", folder / "corpus/train.trg", "--dim-vocabs", 2000,
               "--output", folder / "v.spm")
        alone, parameters = update_seconds(fovea, folder, 1, 20)
        cores = len(os.sched_getaffinity(0))
        print(f"{parameters:,} parameters; one process: {alone:.3f} s an update of one batch; {cores} processors")
        print("| processes | latency | bandwidth | exchange, model | update, model | update, measured |\n|---|---|---|---|---|---|")
        for count in (2, 4):
            latency, bandwidth = fitted(json.loads(mpirun(count, collective).stdout))
            modelled = exchange(count, parameters, latency, bandwidth)
            measured, _ = update_seconds(fovea, folder, count, 20)
            # More processes than processors take turns.
            update = alone * max(1, count / cores) + modelled
            print(f"| {count} | {latency * 1e6:.0f} µs | {bandwidth / 1e9:.2f} GB/s | {modelled * 1e3:.0f} ms | {update:.3f} s | "
                  f"{measured:.3f} s |", flush=True)


def table():
    counts = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    networks = {"10 Gbit/s, 30 µs": (30e-6, 1.25e9), "100 Gbit/s, 5 µs": (5e-6, 12.5e9)}
    models = {"15 million parameters, 1 s a batch": (15e6, 1.0), "60 million parameters, 4 s a batch": (60e6, 4.0)}
    print("| processes | " + " | ".join(f"{model}; {network}" for model in models for network in networks) + " |")
    print("|---" * (1 + len(models) * len(networks)) + "|")
    for n in counts:
        cells = [n * alone / (alone + exchange(n, parameters, *network))
                 for parameters, alone in models.values() for network in networks.values()]
        print(f"| {n:,} | " + " | ".join(f"{cell:,.0f}" if cell >= 20 else f"{cell:.1f}" for cell in cells) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "table"])
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    if arguments.what == "measure" and len(arguments.programs) != 2:
        parser.error("measure: expected two programs, fovea and collective")
    measure(*arguments.programs) if arguments.what == "measure" else table()

#!/usr/bin/env python3
"""Speeds of trained translation models in alternating pairs, and their ratios to the first model: table 4 of "Explicit Sparse
Transformer", table 2 of "Sparse Attention with Linear Units".

    recipes/speed_pairs.py --models full=RUN 'topk(8)=RUN' ... --train-sets test.en test.de --output FOLDER [options]

Measures, in target tokens a second: training (forward and backward) and decoding of one sentence at a time, by fovea analyze
--cost, as the median of ten groups of sentences by length; and decoding in batches of 128 sentences, whose time includes the
start of the program. Every second round goes through the models backwards. A measurement that is there is not repeated, so that
Ctrl-C and the same command continue. Close other programs first; FOVEA names the program.
--data KEY adds the measurements to recipes/results/runs.tsv, for recipes/verdicts.py."""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import verdict_files as files
import verdict_rule as rule
import verdicts

MEASURES = ("train-speed", "decode-speed", "decode-128-speed")


def fovea(*arguments):
    program = os.environ.get("FOVEA", str(files.ROOT / "build/release/bin/fovea"))
    found = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if found.returncode:
        said = (found.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise files.Bad(f"fovea {arguments[0]} failed: {said.removeprefix('Error: ')}")
    return found.stdout


def medians(text):
    """Medians of the columns training and decoding over the groups of sentences in the output of fovea analyze --cost."""
    found = re.findall(r"^\S+ +\d+ +\d+-\d+ +\d+ +(\d+) +(\d+)$", text, re.MULTILINE)
    if not found:
        raise files.Bad("fovea analyze --cost printed no speeds; expected a translation model")
    return [statistics.median(map(float, column)) for column in zip(*found)]


def measured(model, options, place):
    """The three speeds of a model."""
    common = ["--model", model, "--cpu-threads", options.cpu_threads, "--devices", options.devices, "--precision", options.precision]
    speeds = medians(fovea("analyze", *common, "--cost", "--train-sets", *options.train_sets, "--cost-pairs", options.cost_pairs))
    begin = time.perf_counter()
    fovea("translate", *common, "--mini-batch", 128, "--beam-size", options.beam_size, "--quiet", "--input", options.train_sets[0],
          "--output", place.with_suffix(".out"))
    words = len(place.with_suffix(".out").read_text(encoding="utf-8").split())
    return [*speeds, words / (time.perf_counter() - begin)]


def rounds(models, options):
    """{model: {measure: speeds of the rounds}}."""
    found = {name: {measure: [] for measure in MEASURES} for name in models}
    options.output.mkdir(parents=True, exist_ok=True)
    for number in range(1, options.pairs + 1):
        for i, name in sorted(enumerate(models), reverse=number % 2 == 0):
            place = options.output / f"{i + 1}-round{number}.txt"
            title = f"{name}, {options.cpu_threads} threads, on {options.devices}, in {options.precision}, with beam {options.beam_size}"
            if not place.exists():
                verdicts.write(place, title + "\n" + " ".join(map(str, measured(models[name], options, place))) + "\n")
            written, numbers = place.read_text(encoding="utf-8").splitlines()
            if written != title:
                raise files.Bad(f"{place}: holds the speed of '{written}', not of '{title}'; expected another --output")
            for measure, speed in zip(MEASURES, map(float, numbers.split())):
                found[name][measure].append(speed)
    return found


def tables(found):
    first, *others = found
    yield f"Target tokens per second: median of {len(found[first][MEASURES[0]])} rounds\n"
    yield " " * 16 + "".join(f" {measure:>18}" for measure in MEASURES)
    for name, speeds in found.items():
        yield f"{name:16}" + "".join(f" {statistics.median(speeds[measure]):18.0f}" for measure in MEASURES)
    yield f"\nSpeed over that of {first}: mean of {len(found[first][MEASURES[0]])} pairs, and 95% interval"
    for name in others:
        for measure in MEASURES:
            ratios = [speed / base for speed, base in zip(found[name][measure], found[first][measure])]
            interval = " ({:.2f} to {:.2f})".format(*rule.ratio_interval(ratios)) if len(ratios) > 1 else ""
            yield f"{name:16} {measure:18} {statistics.geometric_mean(ratios):.2f}{interval}"


def processor(device):
    """What measures: this machine's processor, or the name of a CUDA device by its number."""
    if device == "cpu":
        return verdicts.processor()
    found = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "-i", device], capture_output=True, text=True)
    return found.stdout.strip() or "-"


def add(found, models, options):
    rows = []
    for name, speeds in found.items():
        log = pathlib.Path(models[name]) / "log.jsonl"
        updates = verdicts.progress(log.parent)[0] if log.exists() else "-"
        rows += [{"data": options.data, "system": name, "seed": number, "measure": measure, "value": f"{speed:.0f}", "updates": updates,
                  "processor": processor(options.devices), "precision": options.precision, "recorded": verdicts.commit()}
                 for measure in MEASURES for number, speed in enumerate(speeds[measure], 1)]
    verdicts.add_runs(rows, options.results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=RUN")
    parser.add_argument("--train-sets", nargs=2, required=True, metavar=("SRC", "TRG"))
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--pairs", type=int, default=rule.PAIRS)
    parser.add_argument("--cost-pairs", type=int, default=1000)
    parser.add_argument("--cpu-threads", type=int, default=2)
    parser.add_argument("--devices", default="cpu", metavar="D", help="cpu, or the number of a CUDA device")
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--data", help="the key in settings.tsv under which to add the measurements")
    parser.add_argument("--results", type=pathlib.Path, default=files.FOLDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    models = dict(text.rpartition("=")[::2] for text in options.models)
    try:
        if "" in models or len(models) != len(options.models) or len(models) < 2 or options.pairs < 1:
            raise files.Bad("--models and --pairs: expected two models or more as NAME=RUN with different names, and a pair or more")
        if options.data:
            verdicts.require_setting(options.data, options.results)
        found = rounds(models, options)
        print("\n".join(tables(found)))
        if options.data:
            add(found, models, options)
    except (files.Bad, OSError, ValueError) as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

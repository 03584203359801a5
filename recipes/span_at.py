#!/usr/bin/env python3
"""The mean span, with the keys of the ramp, of language models with adaptive span when validation first reaches a number of bits
per byte. This is table 4 of "Extremely Sparse Transformer", whose spans count the ramp too.

    recipes/span_at.py RUN... [--bits 1.4 1.3 1.2 1.1]

Prints a row for each run, from its log.jsonl, and - for bits that no validation has reached. The span is that of the last line
of training up to the validation: give fovea train a --disp-freq that divides --valid-freq. A warning names older spans."""
import argparse
import json
import pathlib
import sys


def records(run):
    """The run's records without the part that a resumed training has repeated."""
    kept = []
    for line in (pathlib.Path(run) / "log.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["event"] == "start":
            kept = [earlier for earlier in kept if earlier["updates"] <= record["updates"]]
        kept.append(record)
    return kept


def span_at(run, bits):
    """The mean span in tokens, or None if no validation has so few bits."""
    span, updates = None, 0
    for record in sorted(records(run), key=lambda record: (record["updates"], record["event"] == "valid")):
        if "span-with-ramp" in record.get("notes", {}):
            span, updates = record["notes"]["span-with-ramp"], record["updates"]
        if record["event"] == "valid" and record["metric"] == "bits-per-byte" and record["value"] <= bits:
            if span is None:
                sys.exit(f"Error: {run}: no span before update {record['updates']}; expected a model with span(limit,ramp) and a "
                         "--disp-freq of at most --valid-freq")
            if updates < record["updates"]:
                print(f"Warning: {run}: the span at {bits:g} bits is that of update {updates}, and the validation that of update "
                      f"{record['updates']}; train with a --disp-freq that divides --valid-freq", file=sys.stderr)
            return span
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="folder of a run")
    parser.add_argument("--bits", type=float, nargs="+", default=[1.4, 1.3, 1.2, 1.1])
    options = parser.parse_args()
    width = max(map(len, [*options.runs, "bits per byte"]))
    print(f"{'bits per byte':{width}}", *(f"{bits:8g}" for bits in options.bits))
    for run in options.runs:
        try:
            spans = [span_at(run, bits) for bits in options.bits]
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"Error: {run}: cannot read its log.jsonl ({error}); expected the folder of a run of fovea train")
        print(f"{run:{width}}", *(f"{'-' if span is None else format(span, '.1f'):>8}" for span in spans))


if __name__ == "__main__":
    main()

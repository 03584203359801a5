"""The shortest length from which each mechanism beats dense SDPA, by the level of the processor's instructions: the part
`crossover` of bench/run.py. Both sides are held to the level: Fovea by FOVEA_CPU, PyTorch by ATEN_CPU_CAPABILITY and MKL's
variable. A level is a process of its own, because both read these once.

    shortest.py --most N --threads N --seconds S     (prints a line of JSON per mechanism and pass)
"""
import argparse
import json
import os
import subprocess
import sys

from crossover import LEAST
from plot import COLOURS, LEFT, Axis, line, text

SPECS = ["window(64)", "topk(8)", "window(256)", "topk(32)", "relu", "sparsemax", "entmax(1.5)", "full"]
PASSES = {"forward": "forward", "both": "forward and backward"}
AVX2 = {"FOVEA_CPU": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
ROW, LEGEND, APART = 44, 64, 9  # pixels; APART: between the marks of a mechanism, so that none hides another


def measured(most, seconds):
    """Yields a row for each mechanism and pass at this process's level."""
    import attention
    import peers
    from crossover import Crossover
    from inputs import normal
    from timing import in_turns

    def ratios_of(which):
        def measure(n, specs):
            inputs, make = normal(n), attention.PASSES[which]
            sides = {"sdpa": make(peers.sdpa(False), inputs),
                     **{spec: make(attention.ours(spec, False), inputs) for spec in specs}}
            times = in_turns(sides, seconds / 4)
            return {spec: times["sdpa"].seconds / times[spec].seconds for spec in specs}

        return measure

    for which in PASSES:
        found = Crossover(SPECS, ratios_of(which), most).run()
        for spec in SPECS:
            first, longest = found.first_win(spec), max(found.ratios[spec])
            yield {"pass": PASSES[which], "mechanism": spec, "faster from": first,
                   "times faster there": found.ratios[spec][first or longest], "longest": longest,
                   "times faster at the longest": found.ratios[spec][longest]}


def levels():
    """The levels of this processor by name, with the variables that hold a process to them."""
    flags = open("/proc/cpuinfo").read()
    best = "AVX-512" if " avx512vl" in flags else "AVX2"
    return {"AVX2": AVX2, best: {}} if best != "AVX2" else {"AVX2": {}}


def rows(given, most):
    """A row for each level, pass and mechanism; `faster from` is None if the longest does not win."""
    for level, variables in levels().items():
        environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(sys.path[:2])}
        command = [sys.executable, __file__, "--most", str(most), "--threads", str(given.threads), "--seconds", str(given.seconds)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        for row in map(json.loads, done.stdout.splitlines()):
            yield {"level": level, **row}


def shown(row):
    return {**row, "faster from": row["faster from"] or f"not up to {row['longest']}"}


def picture(found, title):
    """A row of marks for each mechanism, on an axis of lengths: a hollow mark for forward, a full one for both passes, and
    a colour for each level. An arrow says that the longest length did not win."""
    kept = list(found)
    most = max(row["longest"] for row in kept)
    width, right = 720, 40
    marks = [2**i for i in range(5, most.bit_length())]
    left = LEFT + 60
    x = Axis(marks, left, width - right)
    height = LEGEND + ROW * len(SPECS) + 50
    levels_of = list(dict.fromkeys(row["level"] for row in kept))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
             f'<rect width="{width}" height="{height}" fill="white"/>', text(16, 22, title, font_size=14)]
    bottom = LEGEND + ROW * len(SPECS)
    for mark in marks:
        parts += [line(x.place(mark), LEGEND - 8, x.place(mark), bottom, "#e0e0e0"),
                  text(x.place(mark), bottom + 18, f"{mark:,}", text_anchor="middle")]
    words = f"faster than dense SDPA from this length on, in tokens ({LEAST:,} is the least that was measured; →: not up to {most:,})"
    parts.append(text((left + width - right) / 2, bottom + 40, words, text_anchor="middle"))
    place = 16
    for number, level in enumerate(levels_of):
        for which in PASSES.values():
            parts.append(mark_at(place + 6, 42, COLOURS[number], which))
            words = f"{level}, {which}"
            parts.append(text(place + 18, 46, words))
            place += 40 + 6.3 * len(words)
    for at, spec in enumerate(SPECS):
        y = LEGEND + ROW * at + ROW / 2
        parts += [text(left - 14, y + 4, spec, text_anchor="end"), line(left, y, width - right, y, "#f0f0f0")]
        for row in kept:
            if row["mechanism"] != spec:
                continue
            number, place = levels_of.index(row["level"]), list(PASSES.values()).index(row["pass"])
            shift = (number * len(PASSES) + place - (len(levels_of) * len(PASSES) - 1) / 2) * APART
            if row["faster from"]:
                parts.append(mark_at(x.place(row["faster from"]), y + shift, COLOURS[number], row["pass"]))
            else:
                parts.append(text(width - right + 4, y + shift + 4, "→" + ("" if row["pass"] == PASSES["both"] else "○"),
                                  fill=COLOURS[number], font_size=11))
    return "\n".join([*parts, "</svg>", ""])


def mark_at(x, y, colour, which):
    fill = colour if which == PASSES["both"] else "white"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" fill="{fill}" stroke="{colour}" stroke-width="1.8"/>'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    for row in measured(given.most, given.seconds):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Draws results as SVG:

    recipes/draw_results.py k FOLDER --output k.svg [--set valid]
    recipes/draw_results.py runs --data KEY --processor NAME --output k.svg [--measure BLEU]
    recipes/draw_results.py lengths --data KEY --output lengths.svg [--measure answered-*-4]
    recipes/draw_results.py spans RUN... --output spans.svg [--bits 1.4 1.3 1.2 1.1]

`k` draws the finished runs of recipes/k-sweep.sh --output FOLDER: BLEU, or bits per byte, over k for each mechanism. A bar is
the standard deviation over seeds; a dot without a bar is one seed. `runs` draws the same of recipes/results/runs.tsv, for one
kind of processor. `lengths` draws a measure of recipes/length-rows.sh over the lengths of texts, from the same file: a line is
the mean over seeds, a pale dot one seed. `spans` draws the mean span of runs with adaptive span when validation first reaches
a number of bits per byte, as recipes/span_at.py prints it. Bits over time are drawn by `fovea curves RUN... --over time`."""
import argparse
import html
import pathlib
import re
import statistics
import sys

import span_at
import verdict_files
import verdict_lengths

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 400, 62, 20, 48
COLOURS = ["#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#c77b0a", "#4a4e69", "#17888f", "#a05a2c"]
MEASURES = {"bleu": "BLEU", "bits": "bits per byte", "answered": "share of answers that are found", "ms": "milliseconds of an update",
            "MiB": "MiB of memory"}


def ticks(low, high, wanted=5):
    """Multiples of 1, 2 or 5 times a power of ten within the range, about `wanted` of them."""
    step = next(unit * 10.0**power for power in range(-9, 12) for unit in (1, 2, 5) if (high - low) / (unit * 10.0**power) <= wanted)
    first = -(-low // step)
    return [round(step * (first + i), 9) for i in range(int((high - first * step) / step + 1e-9) + 1)]


class Chart:
    """Curves over a row of equally distant names, such as the numbers of keys."""

    def __init__(self, columns, x_title, y_title):
        self.columns, self.x_title, self.y_title = columns, x_title, y_title
        self.curves = []  # (name, {column: (value, deviation or None)})
        self.levels = []  # (name, (value, deviation or None)): lines from side to side
        self.seeds = {}  # {name of a curve: {column: values}}: dots beside the curve

    def range(self):
        values = [value for _, curve in self.curves for value in curve.values()] + [value for _, value in self.levels]
        values += [(value, None) for columns in self.seeds.values() for of_seeds in columns.values() for value in of_seeds]
        low = min(value - (deviation or 0) for value, deviation in values)
        high = max(value + (deviation or 0) for value, deviation in values)
        margin = 0.06 * (high - low) or 0.5
        return low - margin, high + margin

    def x(self, column):
        return LEFT + (self.right - LEFT) * (self.columns.index(column) + 0.5) / len(self.columns)

    def y(self, value):
        low, high = self.limits
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    def axes(self):
        right, bottom = self.right, HEIGHT - BOTTOM
        for tick in ticks(*self.limits):
            y = self.y(tick)
            yield f'<line x1="{LEFT}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>'
            yield text(LEFT - 8, y + 4, f"{tick:g}", anchor="end")
        yield f'<path d="M{LEFT} {TOP}V{bottom}H{right:.1f}" fill="none" stroke="#555"/>'
        for column in self.columns:
            yield text(self.x(column), bottom + 18, column)
        yield text((LEFT + right) / 2, HEIGHT - 8, self.x_title)
        yield text(16, (TOP + bottom) / 2, self.y_title, more=f' transform="rotate(-90 16 {(TOP + bottom) / 2:.1f})"')

    def level(self, value, deviation):
        right, y = self.right, self.y(value)
        if deviation:
            top = self.y(value + deviation)
            yield (f'<rect class="deviation" x="{LEFT}" y="{top:.2f}" width="{right - LEFT:.1f}" height="{2 * (y - top):.2f}" fill="#333" '
                   'fill-opacity="0.12"/>')
        yield f'<line class="level" x1="{LEFT}" x2="{right:.1f}" y1="{y:.2f}" y2="{y:.2f}" stroke="#333" stroke-dasharray="5 4"/>'

    def curve(self, values, colour):
        places = [(self.x(column), *values[column]) for column in self.columns if column in values]
        if len(places) > 1:
            points = " ".join(f"{x:.1f},{self.y(value):.2f}" for x, value, _ in places)
            yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        for x, value, deviation in places:
            if deviation:
                top, bottom = self.y(value + deviation), self.y(value - deviation)
                yield (f'<path class="deviation" d="M{x:.1f} {top:.2f}V{bottom:.2f}M{x - 4:.1f} {top:.2f}h8M{x - 4:.1f} {bottom:.2f}h8" '
                       f'stroke="{colour}"/>')
            yield f'<circle cx="{x:.1f}" cy="{self.y(value):.2f}" r="3.5" fill="{colour}"/>'

    def dots(self):
        """The seeds of a curve stand a little to the side, each curve at another place, so that none hides the others."""
        for place, ((name, _), colour) in enumerate(zip(self.curves, COLOURS)):
            for column, values in self.seeds.get(name, {}).items():
                x = self.x(column) + 4 * (place - (len(self.curves) - 1) / 2)
                for value in values:
                    yield f'<circle class="seed" cx="{x:.1f}" cy="{self.y(value):.2f}" r="2.5" fill="{colour}" fill-opacity="0.5"/>'

    def labels(self):
        """The names at the right of the chart, moved apart where they would cover one another. A thin line leads from the end of
        each curve to its name."""
        places = [(self.y(value[0]), self.right, name, "#333") for name, value in self.levels]
        for (name, values), colour in zip(self.curves, COLOURS):
            last = [column for column in self.columns if column in values][-1]
            places.append((self.y(values[last][0]), self.x(last), name, colour))
        places.sort()
        rows = [place[0] for place in places]
        for i in range(1, len(rows)):
            rows[i] = max(rows[i], rows[i - 1] + 15)
        lowest = HEIGHT - BOTTOM
        for i in reversed(range(len(rows))):
            rows[i], lowest = min(rows[i], lowest), min(rows[i], lowest) - 15
        for (y, x, name, colour), row in zip(places, rows):
            yield (f'<path class="leader" d="M{x:.1f} {y:.2f}L{self.right:.1f} {row:.2f}h8" fill="none" stroke="{colour}" '
                   'stroke-width="0.7" stroke-dasharray="2 2"/>')
            yield text(self.right + 11, row + 4, name, anchor="start", colour=colour)

    def svg(self):
        if len(self.curves) > len(COLOURS):
            sys.exit(f"Error: got {len(self.curves)} curves; expected at most {len(COLOURS)}")
        self.limits = self.range()
        self.right = WIDTH - 24 - 7.5 * max(len(name) for name, _ in self.curves + self.levels)
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
                 'font-family="sans-serif" font-size="13">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *self.axes()]
        for _, value in self.levels:
            lines += self.level(*value)
        for (_, values), colour in zip(self.curves, COLOURS):
            lines += self.curve(values, colour)
        lines += self.dots()
        return "\n".join([*lines, *self.labels(), "</svg>\n"])


def text(x, y, words, anchor="middle", colour="#222", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{more}>{html.escape(str(words))}</text>'


def mean(values):
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def sweep(folder, name):
    """{mechanism: {k: values of the seeds}} and the measure. The k of full attention is 0."""
    found, measures = {}, set()
    for path in sorted(pathlib.Path(folder).glob(f"*/{name}*")):
        run = re.fullmatch(r"(full|(.+)-k(\d+))-seed\d+", path.parent.name)
        file = re.fullmatch(rf"{name}(-all-keys)?\.(bleu|bits)", path.name)
        if run and file:
            mechanism = (run[2] or run[1]) + ("-train" if file[1] else "")
            measures.add(file[2])
            found.setdefault(mechanism, {}).setdefault(int(run[3] or 0), []).append(float(path.read_text()))
    if len(measures) != 1:
        sys.exit(f"Error: {folder}: found {len(measures)} measures of the {name} set; expected the folder of runs of recipes/k-sweep.sh")
    settings = pathlib.Path(folder) / "settings"
    documents = settings.exists() and "--documents" in settings.read_text(encoding="utf-8").splitlines()
    return found, ("d-" if documents else "") + MEASURES[measures.pop()]


def recorded(data, measure, processor):
    """{mechanism: {k: values of the seeds}} of recipes/results/runs.tsv, of mechanisms whose text has k."""
    found = {}
    for run in verdict_files.table("runs"):
        spec = re.fullmatch(r"(full|([\w-]+)\((\d+)(?:,\d+)?\))", run["system"])
        if spec and (run["data"], run["measure"], run["processor"]) == (data, measure, processor):
            found.setdefault(spec[2] or spec[1], {}).setdefault(int(spec[3] or 0), []).append(float(run["value"]))
    if not found:
        sys.exit(f"Error: found no runs of the data '{data}' with {measure} on the processor '{processor}'; expected those of runs.tsv")
    return dict(sorted(found.items()))


def draw_k(found, title):
    full = found.pop("full", None)
    columns = sorted({k for values in found.values() for k in values}) or [0]
    chart = Chart(columns, "k, keys that a query may attend", title)
    chart.curves = [(mechanism, {k: mean(values) for k, values in of_k.items()}) for mechanism, of_k in found.items()]
    if full:
        chart.levels = [("full", mean(full[0]))]
    return chart.svg()


def draw_lengths(data, measure):
    """The measure over the lengths of texts; its name has * in place of the length."""
    found = verdict_lengths.by_length(verdict_files.table("runs"), data, re.escape(measure).replace(r"\*", r"(\d+)"))
    if not found:
        sys.exit(f"Error: found no runs of the data '{data}' with {measure}; expected those of runs.tsv")
    kind = measure.partition("-")[0]
    chart = Chart(list(found), "length of the text", MEASURES.get(kind, kind))
    names = dict.fromkeys(name for systems in found.values() for name in systems)
    chart.seeds = {name: {length: systems[name] for length, systems in found.items() if name in systems} for name in names}
    chart.curves = [(name, {length: (statistics.fmean(values), None) for length, values in of_lengths.items()})
                    for name, of_lengths in chart.seeds.items()]
    return chart.svg()


def draw_spans(runs, bits):
    bits = sorted(bits, reverse=True)
    chart = Chart([f"{value:g}" for value in bits], "bits per byte of validation, first reached", "mean span in tokens")
    for run in runs:
        try:
            spans = {f"{value:g}": span_at.span_at(run, value) for value in bits}
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"Error: {run}: cannot read its log.jsonl ({error}); expected the folder of a run of fovea train")
        reached = {column: (span, None) for column, span in spans.items() if span is not None}
        if not reached:
            sys.exit(f"Error: {run}: no validation has {bits[0]:g} bits per byte; expected larger --bits or a longer training")
        chart.curves.append((pathlib.Path(run).resolve().name, reached))
    return chart.svg()


def drawn(options):
    if options.what == "spans":
        return draw_spans(options.runs, options.bits)
    if options.what == "lengths":
        return draw_lengths(options.data, options.measure)
    if options.what == "runs":
        return draw_k(recorded(options.data, options.measure, options.processor), f"{options.measure}, test set")
    found, measure = sweep(options.folder, options.set)
    return draw_k(found, f"{measure}, {options.set} set")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="what", required=True)
    over_k, runs, lengths, spans = (parts.add_parser(name) for name in ("k", "runs", "lengths", "spans"))
    over_k.add_argument("folder", metavar="FOLDER")
    over_k.add_argument("--set", default="test", choices=["test", "valid"])
    for part, measure in ((runs, "BLEU"), (lengths, "answered-*-4")):
        part.add_argument("--data", required=True)
        part.add_argument("--measure", default=measure)
    runs.add_argument("--processor", required=True)
    spans.add_argument("runs", metavar="RUN", nargs="+")
    spans.add_argument("--bits", type=float, nargs="+", default=[1.4, 1.3, 1.2, 1.1])
    for part in (over_k, runs, lengths, spans):
        part.add_argument("--output", required=True, metavar="FILE.svg")
    options = parser.parse_args()
    try:
        svg = drawn(options)
        part = pathlib.Path(f"{options.output}.part")
        part.write_text(svg, encoding="utf-8")
        part.replace(options.output)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()

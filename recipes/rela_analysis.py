#!/usr/bin/env python3
"""The analyses of section 5.2 of "Sparse Attention with Linear Units" (Zhang, Titov, Sennrich 2021), of the finished runs of
recipes/rela-rows.sh: figures 3 to 7 as numbers, and tables 5 and 6 in the paper's form.

    recipes/rela_analysis.py build/rela-rows --test-sets test.en test.de \\
        --align-sets align.en align.de --gold en-de.wa

Means over heads and over the seeds of a row; the row full is the paper's softmax. Without --gold, figure 4 and table 5 are left
out. Results are kept in --output: after Ctrl-C, the same command continues, and what is there is not computed again unless a
text or a model is another one.

Published table 5, AER in percent (AoL AoH, then shifted): softmax 75.95 67.51 79.38 54.31, sparsemax 78.17 67.88 82.32 54.95,
entmax 78.82 67.69 79.84 58.98, rela-g 64.46 61.64 59.24 52.41. Table 6 (encoder, decoder, cross): softmax .56 .31 .45, entmax
.84 .39 .52, rela-g with tau 1 1.26 .81 .78, .5 .97 .65 .69, .25 .92 .65 .71, .1 .92 .66 .72. The figures have no numbers.

What the paper leaves open is ours: figures 3, 5 and 6 and table 6 count pieces, and figure 7 words; a null row has an outcome of
its own in the diversity; two words are linked if any of their pieces are; the variance over heads is that of a population;
figure 7 has the middle layer, and the words just produced in place of a tagger's labels, unless --layer and --tags say others."""
import argparse
import json
import pathlib
import re
import statistics
import sys

import verdict_files as files
import verdicts
from speed_pairs import fovea

ROWS = ("full", "sparsemax", "entmax", "rela-g")
KINDS = ("encoder", "decoder", "cross")
TAUS = ("1", "0.5", "0.25", "0.1")
LABELS = 12  # of figure 7, the most frequent ones


def stamp(path):
    """Tells a file, or the model in a folder, from another of its name."""
    path = pathlib.Path(path)
    try:
        status = (path / "model.safetensors" if path.is_dir() else path).stat()
    except OSError as error:
        raise files.Bad(f"cannot read '{path}' ({error.strerror}); expected a text, or the folder of a model") from error
    return [str(path), status.st_size, status.st_mtime_ns]


def kept(place, paths, *words):
    """The JSON that fovea prints for these words, computed once for the same words and files, and kept in `place`."""
    key = [list(map(str, words)), [stamp(path) for path in paths]]
    if place.exists():
        found = json.loads(place.read_text(encoding="utf-8"))
        if found["key"] == key:
            return found["result"]
    print(f"==> {place.stem}", file=sys.stderr, flush=True)
    result = json.loads(fovea(*words, "--json", "--quiet"))
    verdicts.write(place, json.dumps({"key": key, "result": result}))
    return result


def models_of(options):
    """{row: folders of its averaged models}."""
    found = {}
    for row in options.rows:
        folders = [path for path in options.runs.glob(f"{row}-seed*/averaged") if re.fullmatch(r"\d+", path.parent.name.rpartition("-seed")[2])]
        if folders:
            found[row] = sorted(folders, key=lambda path: int(path.parent.name.rpartition("-seed")[2]))
    if not found:
        raise files.Bad(f"{options.runs}: found no finished run of {', '.join(options.rows)}; expected the folder of recipes/rela-rows.sh, "
                        "with ROW-seedN/averaged in it")
    return found


class Analysis:
    """What fovea says of all rows."""
    def __init__(self, options):
        self.options, self.models = options, models_of(options)
        options.output.mkdir(parents=True, exist_ok=True)
        self.heads = {row: self.analyze("heads", row, "--unit", "piece", "--tau", *TAUS)["records"] for row in self.models}
        self.layers = max(record["layer"] for records in self.heads.values() for record in records)
        self.layer = options.layer or (self.layers + 1) // 2
        if not 1 <= self.layer <= self.layers:
            raise files.Bad(f"--layer: got {self.layer}; expected 1 to {self.layers}, a layer of the models")

    def analyze(self, name, row, *words):
        texts = self.options.test_sets
        return kept(self.options.output / f"{name}-{row}.json", [*self.models[row], *texts], "analyze", "--model", *self.models[row],
                    "--train-sets", *texts, *self.threads(), *words)

    def each(self, name, row, texts, *words):
        """A result per seed, by words that begin with the command."""
        for model in self.models[row]:
            yield kept(self.options.output / f"{name}-{model.parent.name}.json", [model, *texts], words[0], "--model", model, *words[1:],
                       *self.threads())

    def threads(self):
        return ["--cpu-threads", self.options.cpu_threads] if self.options.cpu_threads else []

    def of(self, row, kind, figure, head=0):
        """A figure of each layer."""
        return [record[figure] for record in self.heads[row] if record["kind"] == kind and record["head"] == head]

    def has_nulls(self, row):
        """Does the cross-attention of the row leave queries without any key, as rectified attention does?"""
        return any(value > 0 for value in self.of(row, "cross", "mean_null_rate"))


def line(name, values, digits=4):
    return f"{name:28}" + "".join(f" {'-' if value is None else format(value, f'.{digits}f') if isinstance(value, float) else value:>8}" for value in values)


def by_layer(analysis, title, rows, digits=4):
    """A table of figures by layer, with their mean."""
    yield "\n" + title + "\n"
    yield line("layer", [*map(str, range(1, analysis.layers + 1)), "mean"])
    for name, values in rows:
        yield line(name, [*values, mean(values)], digits)


def mean(values):
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def of_kinds(analysis, figure):
    return [(f"{row}, {kind}", analysis.of(row, kind, figure)) for row in analysis.models for kind in KINDS]


def figures_3_and_5(analysis):
    yield from by_layer(analysis, "Figure 3: share of weights that are 0, mean over heads", of_kinds(analysis, "mean_zeros"))
    yield from by_layer(analysis, "Figure 5: Jensen-Shannon divergence of heads, in nats", of_kinds(analysis, "diversity"))


def alignments(analysis):
    """{(row, shifted): (AER of the mean of heads by layer, AER of the best head by layer)}, in percent, means over seeds."""
    options, found = analysis.options, {}
    words = ["align", "--train-sets", *options.align_sets, "--gold", options.gold, "--gold-base", options.gold_base, "--search",
             *(["--gold-reversed"] if options.gold_reversed else [])]
    for row in analysis.models:
        results = [result["records"] for result in analysis.each("align", row, [*options.align_sets, options.gold], *words)]
        for shifted in (False, True):
            found[row, shifted] = [[100 * statistics.fmean(best(records, shifted, layer, heads) for records in results)
                                    for layer in range(1, analysis.layers + 1)] for heads in (False, True)]
    return found


def best(records, shifted, layer, heads):
    """The AER of a layer's mean of heads, or of its best head. No link at all counts as an AER of 1."""
    return min(1 if record["aer"] is None else record["aer"] for record in records
               if (record["shifted"], record["layer"], record["head"] > 0) == (shifted, layer, heads))


def figure_4_and_table_5(analysis):
    found = alignments(analysis)
    rows = [(f"{row}, {'best head' if heads else 'layer'}{', shifted' if shifted else ''}", values[heads])
            for (row, shifted), values in found.items() for heads in (0, 1)]
    yield from by_layer(analysis, "Figure 4: AER in percent", rows, 2)
    yield "\nTable 5: mean AER over layers, in percent, of the layers' attention (AoL) and of their best heads (AoH)\n"
    yield line("", ["AoL", "AoH", "AoL", "AoH"])
    yield line("", ["", "", "shifted", "shifted"])
    for row in analysis.models:
        yield line(row, [mean(values) for shifted in (False, True) for values in found[row, shifted]], 2)


def table_6(analysis):
    yield "\nTable 6: mean diversity of heads over layers, in nats\n"
    yield line("", KINDS)
    for row in analysis.models:
        for tau in TAUS:
            figure = "diversity" if tau == "1" else f"diversity_tau_{tau}"
            values = [mean(analysis.of(row, kind, figure)) for kind in KINDS]
            if tau == "1" or analysis.has_nulls(row):
                yield line(row + (f" (tau {tau})" if analysis.has_nulls(row) else ""), values)


def figure_6(analysis):
    rows = of_kinds(analysis, "mean_null_rate")
    for row in filter(analysis.has_nulls, analysis.models):
        texts = analysis.options.test_sets
        results = list(analysis.each("shuffled", row, texts, "filter", "--train-sets", *texts, "--score", "null-rate", "--test", "shuffled"))
        for name, side in (("true", "good"), ("shuffled", "bad")):
            rows.append((f"{row}, cross, {name} pairs", [-statistics.fmean(result["layers"][layer][side] for result in results)
                                                         for layer in range(analysis.layers)]))
        rows.append((f"{row}, cross, layer", analysis.of(row, "cross", "null_rate")))
        rows.append((f"{row}, cross, variance", analysis.of(row, "cross", "null_variance")))
    yield from by_layer(analysis,
                        "Figure 6: null rate, mean over heads; over pairs, true and shuffled; of a layer's mean of heads; its variance over heads", rows)


def figure_7(analysis):
    layer, tags = analysis.layer, analysis.options.tags
    by = f"column:{tags}" if tags else "previous"
    for row in filter(analysis.has_nulls, analysis.models):
        result = analysis.analyze("labels", row, "--by", by, "--unit", "word")
        here = lambda records: [record for record in records if (record["kind"], record["layer"]) == ("cross", layer) and record["head"] > 0]
        rates, counts = {}, {}
        for record in here(result["labels"]):
            rates.setdefault(record["label"], {})[record["head"]] = record["null_rate"]
            counts[record["label"]] = record["rows"]
        whole = {record["head"]: record["null_rate"] for record in here(result["records"])}
        yield f"\nFigure 7: null rate of the heads of cross-attention, layer {layer}, {row}, by {'label' if tags else 'the word before'}\n"
        yield line("head", [*map(str, sorted(whole)), "words"])
        yield line("all", [*(whole[head] for head in sorted(whole)), ""])
        for label in sorted(counts, key=lambda label: -counts[label])[:LABELS]:
            yield line(label, [*(rates[label].get(head) for head in sorted(whole)), str(counts[label])])


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUNS", type=pathlib.Path, help="folder of recipes/rela-rows.sh")
    parser.add_argument("--test-sets", nargs=2, required=True, metavar=("SRC", "TRG"), help="text that is analysed")
    parser.add_argument("--align-sets", nargs=2, metavar=("SRC", "TRG"), help="text with a gold alignment")
    parser.add_argument("--gold", help="its links, as for fovea align")
    parser.add_argument("--gold-base", type=int, choices=(0, 1), default=0, help="number of the first word in --gold [0]")
    parser.add_argument("--gold-reversed", action="store_true", help="the links of --gold have the target word first")
    parser.add_argument("--rows", nargs="+", default=ROWS, metavar="ROW", help="rows of recipes/rela-rows.sh [full sparsemax entmax rela-g]")
    parser.add_argument("--layer", type=int, default=0, help="layer of figure 7 [the middle one]")
    parser.add_argument("--tags", help="a line of labels per pair for figure 7, one for each word of the target")
    parser.add_argument("--cpu-threads", type=int, default=0, help="threads [all]")
    parser.add_argument("--output", type=pathlib.Path, help="where results are kept [RUNS/analysis]")
    options = parser.parse_args()
    options.output = options.output or options.runs / "analysis"
    return options


def main():
    options = parsed()
    try:
        if (options.gold is None) != (options.align_sets is None):
            raise files.Bad("--gold and --align-sets: got one of them; expected both")
        analysis = Analysis(options)
        print(f"Analyses of {', '.join(f'{row} ({len(models)})' for row, models in analysis.models.items())}: rows, and seeds of each")
        tables = [figures_3_and_5, *([figure_4_and_table_5] if options.gold else []), table_6, figure_6, figure_7]
        for table in tables:
            print("\n".join(text.rstrip(" ") for text in table(analysis)), flush=True)
    except (files.Bad, OSError, ValueError, KeyError) as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        print("stopped; run the same command again to continue", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()

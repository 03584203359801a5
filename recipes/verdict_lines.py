"""The interval of a difference over the lines of a test text, with seeds fixed: for recipes/verdicts.py lines."""
import collections
import operator
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile

import verdict_files as files
import verdict_rule as rule

RESAMPLES, SEED = 1000, 12345


def evaluate(arguments):
    """(difference, low, high, p) of `fovea evaluate --baseline`."""
    program = os.environ.get("FOVEA", str(files.ROOT / "build/release/bin/fovea"))
    found = subprocess.run([program, "evaluate", *map(str, arguments)], capture_output=True, text=True)
    match = re.search(r"BLEU .*difference ([-+.\d]+), 95% interval ([-+.\d]+) to ([-+.\d]+), p = ([.\d]+)", found.stdout)
    if not match:
        raise files.Bad(f"fovea evaluate failed: {found.stderr.strip() or found.stdout.strip()}")
    return match.groups()


def of_bleu(reference, output, baseline, tokenize, documents):
    """(difference, low, high, p) of two translations. Documents are few, so that their interval is by leaving each out."""
    more = ["--tokenize", tokenize, *(["--documents"] if documents else [])]
    call = lambda texts: evaluate([*(word for pair in zip(("--reference", "--input", "--baseline"), texts) for word in pair), *more])
    difference, low, high, p = call((reference, output, baseline))
    if documents:
        left = [float(call(texts)[0]) for texts in without_each_document((reference, output, baseline))]
        low, high = (f"{end:.2f}" for end in rule.jackknife(float(difference), left))
        p = "-"
    return difference, low, high, p


def without_each_document(paths):
    """Paths of the texts without one document, for each document. A line <d> or an empty line of the first text begins one."""
    texts = [pathlib.Path(path).read_text(encoding="utf-8").splitlines() for path in paths]
    if len({len(text) for text in texts}) != 1:
        raise files.Bad("--documents: the texts have different numbers of lines; expected as many")
    begins = sorted({0} | {i for i, line in enumerate(texts[0]) if line.strip() in ("", "<d>")})
    with tempfile.TemporaryDirectory() as folder:
        places = [pathlib.Path(folder) / name for name in ("reference", "output", "baseline")]
        for begin, end in zip(begins, [*begins[1:], len(texts[0])]):
            for text, place in zip(texts, places):
                place.write_text("".join(line + "\n" for line in text[:begin] + text[end:]), encoding="utf-8")
            yield places


def phrases(labels):
    """The names in a sentence's labels, as conlleval finds them: (begin, end, type)."""
    found, begin, kind = [], 0, None
    for i, label in enumerate([*labels, "O"]):
        mark, _, this = label.partition("-")
        this = this or None
        if kind and (this != kind or mark == "B"):
            found.append((begin, i, kind))
            kind = None
        if this and not kind:
            begin, kind = i, this
    return set(found)


def counts(path, wanted):
    """For each sentence of columns whose last two are the right label and the model's: names in both, in one, in the other; of
    one type if `wanted` names it."""
    rows, sentence = [], []
    for line in [*pathlib.Path(path).read_text(encoding="utf-8").splitlines(), ""]:
        cells = line.split()
        if cells and cells[0] != "-DOCSTART-":
            if len(cells) < 3:
                raise files.Bad(f"{path}: got the line '{line}'; expected a word, the right label and the model's, as fovea tag prints them")
            sentence.append(cells)
        elif sentence:
            right, found = (phrases([cells[column] for cells in sentence]) for column in (-2, -1))
            of = lambda names: sum(kind == wanted or not wanted for _, _, kind in names)
            rows.append((of(right & found), of(right), of(found)))
            sentence = []
    return list(zip(*rows))


def f1(columns, weights=None):
    """F1 in percent of the sentences, each with its weight."""
    both, right, found = (sum(map(operator.mul, column, weights)) if weights else sum(column) for column in columns)
    return 200 * both / (right + found) if right + found else 0.0


def weighted_f1(kinds, weights=None):
    """The mean of the F1 of the types, each by its share of the right names."""
    support = [sum(map(operator.mul, right, weights)) if weights else sum(right) for _, right, _ in kinds]
    total = sum(support)
    return sum(share * f1(columns, weights) for share, columns in zip(support, kinds)) / total if total else 0.0


def types_of(paths):
    """The types of names in the files."""
    found = set()
    for path in paths:
        found |= {label.partition("-")[2] for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() for label in line.split()[-2:]}
    return sorted(found - {""})


def of_f1(outputs, baselines, measure, resamples=RESAMPLES):
    """(difference, low, high) of the means over files, one per seed, whose sentences are drawn again together."""
    kinds = types_of([outputs[0]]) if measure == "F1-weighted" else [measure.partition("-")[2]]
    sides = [[[counts(path, kind) for kind in kinds] for path in paths] for paths in (outputs, baselines)]
    lengths = {len(columns[0]) for side in sides for model in side for columns in model}
    if len(lengths) != 1:
        raise files.Bad("--input and --baseline-input: the files have different numbers of sentences; expected the same test text")
    n, rng, drawn = lengths.pop(), random.Random(SEED), []
    gap = lambda weights: operator.sub(*(statistics.fmean(weighted_f1(model, weights) for model in side) for side in sides))
    for _ in range(resamples):
        times = collections.Counter(rng.choices(range(n), k=n))
        drawn.append(gap([times[i] for i in range(n)]))
    middle, reach = gap(None), 1.959964 * statistics.stdev(drawn)
    return middle, middle - reach, middle + reach

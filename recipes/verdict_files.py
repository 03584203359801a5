"""Reads recipes/results, which holds the claims of five papers, what is compared for each, and our runs; judges each claim by
verdict_rule.py. The columns of the files stand in recipes/results/README.md."""
import ast
import collections
import csv
import dataclasses
import fractions
import math
import operator
import pathlib
import re
import statistics

import verdict_rule as rule

FOLDER = pathlib.Path(__file__).resolve().parent / "results"
ROOT = FOLDER.parent.parent
NOT_RUN, ONE, EARLY, OTHER, EXACT, APART = "not run", "one training", "undecided, early", "other conditions", "exact", "not judged"


class Bad(Exception):
    """A file of results that cannot be used, or a wrong call."""


def table(name, folder=FOLDER):
    """The rows of NAME.tsv as dictionaries; `-` is None."""
    path = folder / f"{name}.tsv"
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise Bad(f"{path}: line {number} has {len(row)} columns; expected the {len(rows[0])} of the first line")
    return [{key: None if cell == "-" else cell for key, cell in zip(rows[0], row)} for row in rows[1:]]


def weights(text):
    """The numbers of "-1/8*8 1/4*4": a weight, and how often it stands."""
    parts = (part.partition("*") for part in text.split())
    return [float(fractions.Fraction(weight)) for weight, _, times in parts for _ in range(int(times or 1))]


def figure(value, text):
    """A run's number: its value, or the sum of its values with these weights."""
    numbers = [float(number) for number in value.split()]
    factors = weights(text) if text else [1.0]
    if len(numbers) != len(factors):
        raise Bad(f"'{value}' has {len(numbers)} values and '{text or 1}' {len(factors)} weights; expected as many")
    return sum(number * factor for number, factor in zip(numbers, factors))


def is_exact(text):
    """Are all equations of "512/64 = 8; 1 + 1 = 2" true?"""
    operations = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow}

    def value(node):
        if isinstance(node, ast.BinOp) and type(node.op) in operations:
            return operations[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        raise Bad(f"'{text}' is not arithmetic; expected numbers, + - * / ^ and =")

    sides = [[value(ast.parse(side.strip().replace("^", "**"), mode="eval").body) for side in equation.split("=")]
             for equation in text.split(";")]
    return all(abs(left - right) <= 1e-12 * abs(right) for left, right in sides)


def unit_of(measure):
    """The unit for which the rule knows how far a model may be from the best one, or None."""
    if "BLEU" in measure and "COCO" not in measure:
        return "BLEU"
    return next((unit for unit in ("bits", "F1") if measure.startswith(unit)), None)


def yardsticks(row):
    """The measures by which the models of a comparison are early, in order of preference. Models are early, not measures: those
    behind F1 of a type are the ones behind F1."""
    measure, own = row["measure"], unit_of(row["measure"])
    if measure.startswith(("d-BLEU", "bits-per-dim")):
        return (measure,)
    if own is None:
        return ("BLEU",) if measure in ("BERTScore", "accuracy") else ()
    return tuple(dict.fromkeys((own, measure)))


@dataclasses.dataclass
class Result:
    """A comparison, and what the runs say."""
    row: dict
    status: str = NOT_RUN
    values: tuple = ()  # (values of the system, values of the baseline): a number per seed
    found: rule.Estimate | None = None  # of a speed: of the log of the ratio, from the bound
    ps: tuple = ()  # of a margin: for it, and against it
    p: float | None = None  # in a family, by Holm
    pairs: tuple = ()  # (value of the system, value of the baseline) of the same seed and processor
    ratio: tuple = ()  # the ratio of speeds, and from five pairs on its interval
    why: str = ""

    @property
    def better(self):
        return -1 if self.row["better"] == "-" or self.row["better"] is None else 1


class Book:
    def __init__(self, folder=FOLDER, root=ROOT, count_all=False):
        """With `count_all`, Holm's correction counts comparisons that nobody has run yet."""
        self.folder, self.root, self.count_all = folder, root, count_all
        self.claims, self.comparisons, self.runs, self.lines = (
            table(name, folder) for name in ("claims", "comparisons", "runs", "lines"))
        self.settings = {row["data"]: row for row in table("settings", folder)}
        self.check()
        self.results = [Result(row) for row in self.comparisons]
        for result in self.results:
            self.look(result)
        self.decide()

    def check(self):
        """Every name that one file uses stands in the file that explains it."""
        ids = [claim["id"] for claim in self.claims]
        for row in self.comparisons:
            if row["claim"] not in ids:
                raise Bad(f"comparisons.tsv: got the claim '{row['claim']}'; expected one of claims.tsv")
        for name, rows in (("runs", self.runs), ("lines", self.lines), ("comparisons", self.comparisons)):
            for row in rows:
                if row["data"] and row["data"] not in self.settings:
                    raise Bad(f"{name}.tsv: got the data '{row['data']}'; expected one of settings.tsv")
        for line in self.lines:
            self.check_seeds(line)
        keys = [(run["data"], run["system"], run["seed"], run["measure"], run["processor"]) for run in self.runs]
        for key in keys:
            if keys.count(key) > 1:
                raise Bad(f"runs.tsv: {', '.join(map(str, key))} stands {keys.count(key)} times; expected once")

    def check_seeds(self, line):
        """An interval of the difference of means, whose seed is a range, has the seeds of the runs."""
        first, dash, last = line["seed"].partition("-")
        if not dash:
            return
        wanted = set(map(str, range(int(first), int(last) + 1)))
        for name in (line["system"], line["baseline"]):
            seeds = {run["seed"] for run in self.runs if (run["data"], run["system"], run["measure"]) == (line["data"], name, line["measure"])}
            if seeds != wanted:
                raise Bad(f"lines.tsv: {line['data']}, {line['system']}, {line['measure']}: got the seeds {line['seed']}; expected those of "
                          f"'{name}' in runs.tsv, {' '.join(sorted(seeds, key=int)) or 'none'}; run recipes/verdicts.py lines with all of them")

    def systems(self, data, measure, factors=None):
        """{processor: {system: {seed: number}}}."""
        found = {}
        for run in self.runs:
            if (run["data"], run["measure"]) == (data, measure):
                seeds = found.setdefault(run["processor"], {}).setdefault(run["system"], {})
                seeds[run["seed"]] = figure(run["value"], factors)
        return found

    def pair(self, row, data=None):
        """(systems of the processor with most seeds on both sides, or None; those of any processor)."""
        found = self.systems(data or row["data"], row["measure"], row["weights"])
        names = [name for name in (row["system"], row["baseline"]) if name and not is_number(name)]
        counts = {place: min(len(systems.get(name, ())) for name in names) for place, systems in found.items()}
        best = max((place for place in counts if place), key=counts.get, default=None)
        return (found[best] if best and counts[best] else None), found

    def look(self, result):
        """What one comparison says, without its family."""
        row = result.row
        if row["kind"] in ("test", "arithmetic"):
            result.status = EXACT if self.proved(row) else "does not hold"
            return
        here, anywhere = self.pair(row)
        result.pairs = tuple((systems[row["system"]][seed], systems[row["baseline"]][seed]) for systems in anywhere.values()
                             if {row["system"], row["baseline"]} <= systems.keys()
                             for seed in sorted(systems[row["system"]].keys() & systems[row["baseline"]].keys()))
        if here is None:
            names = (row["system"], row["baseline"])
            result.values = tuple([number for systems in anywhere.values() for number in systems.get(name, {}).values()]
                                  for name in names if name and not is_number(name))
            if all(result.values) and result.values:
                result.status, result.why = ONE, "processor not recorded" if result.pairs else "on two kinds of processor"
            return
        if row["kind"].startswith("as-"):
            self.speed(result, here)
        else:
            self.difference(result, here)

    def proved(self, row):
        if row["kind"] == "arithmetic":
            return is_exact(row["system"])
        suite, name = row["system"].split()
        path = self.root / row["baseline"]
        return path.is_file() and re.search(rf"\bTEST\w*\({suite}, {name}\)", path.read_text(encoding="utf-8")) is not None

    @staticmethod
    def speed(result, here):
        system, baseline = here[result.row["system"]], here[result.row["baseline"]]
        ratios = [system[seed] / baseline[seed] for seed in system if seed in baseline]
        middle = statistics.geometric_mean(ratios)
        if len(ratios) < rule.PAIRS:
            result.status, result.ratio = ONE, (middle,)
            return
        result.ratio, result.status = (middle, *rule.ratio_interval(ratios)), "undecided"
        result.found = rule.speed(ratios, float(result.row["margin"]), result.row["kind"] == "as-slow")

    def difference(self, result, here):
        row = result.row
        systems = {name: list(seeds.values()) for name, seeds in here.items()}
        baseline = row["baseline"]
        if baseline and is_number(baseline):
            systems = {name: [value - float(baseline) for value in values] for name, values in systems.items()}
            baseline = None
        result.values = tuple(systems[name] for name in (row["system"], baseline) if name)
        if min(map(len, result.values)) < rule.SEEDS:
            result.status = ONE
            return
        result.found = rule.estimate(systems, row["system"], baseline, self.over_lines(row))
        result.status = "undecided"
        if row["kind"] in ("not-worse", "equal"):
            result.ps = rule.margin_ps(result.found, float(row["margin"]), result.better, row["kind"] == "equal")
        if row["kind"] != "analysis" and (why := self.early(result, systems)):
            result.status, result.why = EARLY, why

    def over_lines(self, row, data=None):
        """The variance of the difference over test lines: that of the difference of means if it is recorded (a range of seeds), else
        the square of the mean of the standard deviations that the 95% intervals of single seeds give. The seeds share their lines,
        so the mean of their differences varies by at most that."""
        data = data or row["data"]
        found = [line for line in self.lines if (line["data"], line["measure"]) == (data, row["measure"])
                 and {line["system"], line["baseline"]} == {row["system"], row["baseline"]}]
        if not found:
            return None
        return statistics.fmean((float(line["high"]) - float(line["low"])) / (2 * 1.959964) for line in found) ** 2

    def best(self, data, measure):
        """The best known value of the measure with models of this size: the one in settings.tsv, or one of ours."""
        ours = [number for systems in self.systems(data, measure).values() for seeds in systems.values() for number in seeds.values()]
        known = [float(self.settings[data]["best"])] if self.settings[data]["best"] and measure in ("BLEU", "bits", "bits-per-dim") else []
        return (min if unit_of(measure) == "bits" else max)(ours + known)

    def early(self, result, systems):
        """Why the models are too early for a verdict, or nothing. `systems` are those of the comparison's processor."""
        row = result.row
        for measure in yardsticks(row):
            here = self.pair(row | {"measure": measure, "weights": None})[0]
            if here:
                unit, best = unit_of(measure), self.best(row["data"], measure)
                if rule.too_early([statistics.fmean(here[name].values()) for name in (row["system"], row["baseline"])], best, unit):
                    return f"both sides are more than {'2 BLEU' if unit == 'BLEU' else '5%'} from the best known, {best:g}"
                return self.early_by_half(result, systems)
        return ""

    def early_by_half(self, result, systems):
        row = result.row
        data = self.settings[row["data"]]["half"]
        here = self.pair(row, data)[0] if data else None
        if here is None:
            return "no figures of both sides after half of the updates"
        half = [list(here[name].values()) for name in (row["system"], row["baseline"])]
        pool = rule.pooled(systems)
        at_half = rule.Estimate(statistics.fmean(half[0]) - statistics.fmean(half[1]),
                                pool.variance * (1 / len(half[0]) + 1 / len(half[1])), pool.nu, self.over_lines(row, data))
        margin = float(row["margin"]) if result.ps else 0.0
        return rule.contradicted(result.found, at_half, math.copysign(margin, result.found.difference) if row["kind"] == "equal"
                                 else -result.better * margin)

    def decide(self):
        """The verdicts of families, and of comparisons that stand alone."""
        families, written = {}, collections.defaultdict(set)
        for result in self.results:
            row = result.row
            key = tuple(row[name] for name in ("data", "kind", "system", "baseline", "measure", "weights", "margin"))
            written[row["family"]].add(key)
            if result.found and row["kind"] != "every":
                p = min(result.ps) if result.ps else result.found.two_sided()
                families.setdefault(row["family"] or id(result), {}).setdefault(key, []).append((p, result))
        self.families = {name: (len(members), len(written[name])) for name, members in families.items() if name in written}
        for name, members in families.items():
            count = len(written[name]) if self.count_all and name in written else None
            for adjusted, same in zip(rule.holm([found[0][0] for found in members.values()], count), members.values()):
                for _, result in same:
                    result.p = adjusted
                    if result.status == "undecided":
                        result.status = (rule.by_margin(result.ps, adjusted) if result.ps
                                         else rule.by_difference(result.found, adjusted, result.better))
        self.decide_every()

    def decide_every(self):
        groups = {}
        for result in self.results:
            if result.row["kind"] == "every":
                groups.setdefault((result.row["claim"], result.row["data"], result.row["system"]), []).append(result)
        for group in groups.values():
            if all(result.status == "undecided" for result in group):
                verdict = rule.beats_every([result.found for result in group], group[0].better)
                for result in group:
                    result.status, result.p = verdict, result.found.two_sided()

    def of(self, claim):
        return [result for result in self.results if result.row["claim"] == claim["id"]]

    def verdict(self, claim):
        """The verdict of a claim from those of its comparisons."""
        if claim["not-judged"]:
            return APART
        results = self.of(claim)
        if not results:
            return ONE if claim["ours"] else NOT_RUN
        published = [result for result in results if not result.row["scope"]]
        if all(result.status == NOT_RUN for result in published):
            return OTHER if any(result.status != NOT_RUN for result in results) else NOT_RUN
        settings = {}
        for result in published:
            settings.setdefault(result.row["data"], []).append(result.status)
        return across([together(statuses) for statuses in settings.values()])


def is_number(text):
    return re.fullmatch(r"-?\d*\.?\d+", text) is not None


def together(statuses):
    """The verdict of comparisons that one setting must all pass."""
    if "does not hold" in statuses:
        return "does not hold"
    kinds = set(statuses)
    if len(kinds) == 1:
        return kinds.pop()
    return ONE if kinds <= {ONE, NOT_RUN} else EARLY if kinds <= {EARLY, ONE, NOT_RUN} else "undecided"


def across(verdicts):
    """The verdict of settings of which each is a test of the whole claim."""
    kinds = set(verdicts)
    if {"holds", "does not hold"} <= kinds:
        return "undecided"
    return next(kind for kind in ("does not hold", "holds", EXACT, "undecided", EARLY, ONE, NOT_RUN) if kind in kinds)

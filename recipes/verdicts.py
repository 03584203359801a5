#!/usr/bin/env python3
"""Verdicts on the claims of five papers, computed from the runs in recipes/results:

    recipes/verdicts.py page [--check]           rewrites the marked tables of docs/results.md and README.md
    recipes/verdicts.py show ID...               the runs, intervals and verdict of a claim
    recipes/verdicts.py add --data KEY RUN...    adds runs of fovea train, whose folders are NAME-seedN or NAME-kK-seedN
    recipes/verdicts.py lines --data KEY ...     adds the interval of a difference over test lines, of BLEU or F1
    recipes/verdicts.py simulate [--write]       how often the rule errs when the truth is known
    recipes/verdicts.py summary                  verdicts, and core-hours of the runs

`add` takes seed, precision and updates from the run's train.yml and log.jsonl, and its figures from the files that the sweeps
leave there (f1, test.bleu, valid.bleu, test.bits, LENGTH.bits, LENGTH.ms, LENGTH.MiB, LENGTH-QUESTIONS.answers, and of its
attention heads.json, from `fovea analyze --json`, and null-TEST.json, from `fovea filter --json`), or from --measure NAME --value V.
After it, `page` brings the pages up to date. recipes/results/README.md explains the files; tests/verdicts_test.py recomputes every verdict."""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import verdict_files as files
import verdict_lines as over_lines
import verdict_page as page
import verdict_rule as rule

PAGES = ("docs/results.md", "README.md")
TRIALS, SEED = 4000, 1
F1_TOTAL = re.compile(r"with (\d+) phrases; found: (\d+) phrases; correct: (\d+)")
HEADS = {"zeros": "mean_zeros", "diversity": "diversity", "diversity-tau-0.1": "diversity_tau_0.1", "nulls": "mean_null_rate",
         "null-layer": "null_rate"}  # the measure, and its name in what `fovea analyze` prints of a layer
F1_TYPE = re.compile(r"^ *(\w+): precision: *([\d.]+)%; recall: *([\d.]+)%; FB1: *[\d.]+ +(\d+)", re.MULTILINE)


def write(path, text):
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def append(name, rows, folder):
    """Adds rows to NAME.tsv, all of them or none."""
    path = folder / f"{name}.tsv"
    old = path.read_text(encoding="utf-8")
    keys = old.splitlines()[0].split("\t")
    for value in (str(value) for row in rows for value in row.values()):
        if re.search(r"[\t\n]", value):
            raise files.Bad(f"got {value!r}; expected text without tabs and line ends")
    write(path, old + "".join("\t".join(str(row.get(key, "-")) for key in keys) + "\n" for row in rows))


def values_of_yaml(path):
    return dict(re.findall(r'^([\w-]+): "?([^"\n]*?)"?$', path.read_text(encoding="utf-8"), re.MULTILINE))


def processor():
    """This machine's processor and the widest vectors that it has."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name, flags = (re.search(rf"^{key}\s*: (.*)", text, re.MULTILINE) for key in ("model name", "flags"))
    widest = next((level for level in ("amx", "avx512", "avx2") if flags and level in flags[1]), "")
    return ", ".join(part for part in (name[1].strip() if name else "", widest.upper().replace("AVX512", "AVX-512")) if part) or "-"


def system_of(run):
    """The system of a run: what its file `system` says, or by the name of its folder the spec where a sweep names mechanism and k, else
    the name."""
    if (run / "system").exists():
        return (run / "system").read_text(encoding="utf-8").strip()
    folder = run.resolve().name
    match = re.fullmatch(r"(.+?)(?:-k(\d+))?-seed\d+", folder)
    if not match:
        raise files.Bad(f"got the folder '{folder}'; expected NAME-seedN or NAME-kK-seedN, or --system")
    name, k = match.groups()
    if not k:
        return {"entmax": "entmax(1.5)"}.get(name, name)
    return f"{name}({k},2)" if name == "dilated" else f"{name}({k})"


def figures_of(run):
    """(system's mark, measure, value) of the files of results in a run's folder."""
    for name, measure in (("test", "BLEU"), ("valid", "BLEU-valid")):
        for mark in ("", "-all-keys"):
            if (file := run / f"{name}{mark}.bleu").exists():
                yield mark, measure, file.read_text(encoding="utf-8").split()[0]
            if (file := run / f"{name}{mark}.bertscore").exists():
                yield mark, measure.replace("BLEU", "BERTScore"), file.read_text(encoding="utf-8").split()[0]
        if (file := run / f"{name}.bits").exists():
            yield "", measure.replace("BLEU", "bits"), file.read_text(encoding="utf-8").split()[0]
    for kind in ("bits", "ms", "MiB"):
        for file in sorted(run.glob(f"[1-9]*.{kind}"), key=lambda file: int(file.stem)):
            yield "", f"{kind}-{file.stem}", file.read_text(encoding="utf-8").split()[0]
    for file in sorted(run.glob("*-*.answers"), key=lambda file: [int(number) for number in file.stem.split("-")]):
        yield "", f"answered-{file.stem}", re.search(r"^answered (\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)[1]
    if (file := run / "heads.json").exists():
        yield from head_figures(json.loads(file.read_text(encoding="utf-8"))["records"])
    for file in sorted(run.glob("null-*.json")):
        yield "", f"null-auc-{file.stem.removeprefix('null-')}", f"{json.loads(file.read_text(encoding='utf-8'))['auc']:.3f}"
    if (file := run / "f1").exists():
        for measure, number in f1_figures(file.read_text(encoding="utf-8")):
            yield "", measure, f"{number:.4f}"


def head_figures(records):
    """Of each measure of attention, a number for each layer: encoder, decoder and cross-attention, from the first layer. A measure is
    left out where a layer has none of it, as no other tau was asked for."""
    layers = [record for record in records if record["head"] == 0]
    for measure, name in HEADS.items():
        values = [record.get(name) for record in layers]
        if None not in values:
            yield "", measure, " ".join(f"{value:.4f}" for value in values)


def f1_figures(text):
    """(measure, percent) of what `fovea score` prints of names, from their counts: its own percentages have two digits. The counts of
    a type follow from its rounded precision and recall, as long as it has fewer than 10,000 names."""
    counts = {}
    if total := F1_TOTAL.search(text):
        right, found, both = map(int, total.groups())
        counts[""] = (both, right, found)
    for kind, precision, recall, found in F1_TYPE.findall(text):
        both = round(float(precision) * int(found) / 100)
        if both:
            counts["-" + kind] = (both, round(100 * both / float(recall)), int(found))
    for mark, (both, right, found) in counts.items():
        if not mark:
            yield from (("P", 100 * both / found), ("R", 100 * both / right))
        yield f"F1{mark}", over_lines.f1(([both], [right], [found]))
    kinds = [columns for mark, columns in counts.items() if mark]
    if sum(right for _, right, _ in kinds) == counts.get("", (0, 0, 0))[1] > 0:
        yield "F1-weighted", over_lines.weighted_f1([tuple([count] for count in columns) for columns in kinds])


def progress(run):
    """(updates, CPU seconds or -) by the run's log."""
    updates, seconds = 0, "-"
    for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        updates = max(updates, event.get("updates", 0))
        seconds = event.get("cpu_seconds", seconds)
    return updates, seconds


def commit():
    found = subprocess.run(["git", "-C", files.ROOT, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or "-"


def require_setting(data, folder):
    settings = [row["data"] for row in files.table("settings", folder)]
    if data not in settings:
        raise files.Bad(f"--data: got '{data}'; expected one of {', '.join(settings)}, or a new line in settings.tsv")


def add_runs(rows, folder):
    """Adds figures of runs to runs.tsv, unless one of them stands there."""
    names = ("data", "system", "seed", "measure", "processor")
    there = {tuple(row[name] for name in names) for row in files.table("runs", folder)}
    for row in rows:
        key = tuple(str(row[name]) for name in names)
        if key in there or there.add(key):
            raise files.Bad(f"{', '.join(key)}: stands in runs.tsv already; expected another run, or the old line removed")
    append("runs", rows, folder)


def add(options):
    require_setting(options.data, options.results)
    if (options.measure is None) != (options.value is None):
        raise files.Bad("--measure and --value: got one of them; expected both")
    rows = [row for run in options.runs for row in rows_of(pathlib.Path(run), options)]
    add_runs(rows, options.results)
    for row in rows:
        print(f"added {row['system']}, seed {row['seed']}: {row['measure']} {row['value']}")


def rows_of(run, options):
    settings = values_of_yaml(run / "train.yml")
    updates, seconds = progress(run)
    found = [("", options.measure, options.value)] if options.measure else list(figures_of(run))
    if not found:
        raise files.Bad(f"{run}: found no f1, test.bleu, valid.bleu, test.bits or other figures; expected some, or --measure and --value")
    name = options.system or system_of(run)
    wanted = int(settings.get("after-batches", 0))
    for mark, measure, value in found:
        yield {"data": options.data, "system": name.replace("(", "-train(", 1) if mark else name, "seed": settings["seed"], "measure": measure,
               "value": value, "updates": updates, "cpu-seconds": options.cpu_seconds or seconds, "recorded": commit(),
               "processor": options.processor or processor(), "precision": settings.get("precision", "-"),
               "share": f"{min(1, updates / wanted):.2g}" if wanted else "-"}


def lines(options):
    require_setting(options.data, options.results)
    measure = options.measure or ("d-BLEU" if options.documents else "BLEU")
    if measure.startswith("F1"):
        difference, low, high = (f"{number:.2f}" for number in over_lines.of_f1(options.input, options.baseline_input, measure))
        p = "-"
    elif options.reference and len(options.input) == len(options.baseline_input) == 1:
        texts = options.reference, options.input[0], options.baseline_input[0]
        difference, low, high, p = over_lines.of_bleu(*texts, options.tokenize, options.documents)
    else:
        raise files.Bad("--input and --baseline-input: expected one file each and --reference for BLEU, or --measure F1")
    drop_older_range(options, measure)
    append("lines", [{"data": options.data, "system": options.system, "baseline": options.baseline, "seed": options.seed,
                      "measure": measure, "low": low, "high": high, "p": p, "recorded": commit()}], options.results)
    print(f"{options.system} less {options.baseline}, seed {options.seed}: {difference} (95% interval {low} to {high})")


def drop_older_range(options, measure):
    """Takes the interval of fewer seeds out of lines.tsv, which the new one replaces."""
    path = options.results / "lines.tsv"
    first, *rows = path.read_text(encoding="utf-8").splitlines()
    wanted = (options.data, options.system, options.baseline)
    kept = [row for row in rows for cells in [row.split("\t")]
            if not ("-" in options.seed and "-" in cells[3] and tuple(cells[:3]) == wanted and cells[4] == measure)]
    if len(kept) < len(rows):
        write(path, "".join(row + "\n" for row in [first, *kept]))


def rewrite(options):
    book = files.Book(options.results)
    tables, places, stale = page.blocks(book), [], []
    for name in PAGES:
        path = files.ROOT / name
        old = path.read_text(encoding="utf-8")
        new, found = page.rewritten(old, tables)
        places += found
        if new != old:
            stale.append(name)
            if not options.check:
                write(path, new)
    if sorted(places) != sorted(tables):
        raise files.Bad(f"{', '.join(PAGES)}: got blocks of {', '.join(places)}; expected each of {', '.join(tables)} once")
    if options.check and stale:
        raise files.Bad(f"{', '.join(stale)}: the tables differ from recipes/results; run recipes/verdicts.py page")
    print("rewritten: " + ", ".join(stale) if stale else "the tables are up to date")


def show(options):
    book = files.Book(options.results)
    for name in options.ids:
        claim = next((claim for claim in book.claims if claim["id"] == name), None)
        if claim is None:
            raise files.Bad(f"got the claim '{name}'; expected an id of claims.tsv, such as X-4")
        print(f"{name}: {claim['claim']}\n  published: {claim['published']}\n  verdict: {book.verdict(claim)}")
        for result in book.of(claim):
            row = result.row
            print(f"  {row['kind']}, {row['data']}{', ' + row['scope'] if row['scope'] else ''}: {page.ours(book, result) or 'no runs'}: "
                  f"{result.status}{' (' + result.why + ')' if result.why else ''}"
                  + (f", p {result.p:.3g}{' by Holm in ' + row['family'] if row['family'] else ''}" if result.p is not None else ""))
            for run in book.runs:
                if (run["data"], run["measure"]) == (row["data"], row["measure"]) and run["system"] in (row["system"], row["baseline"]):
                    print("    " + ", ".join(f"{key} {value}" for key, value in run.items() if value and key not in ("data", "measure")))


def simulate(options):
    rates = rule.false_rates(options.trials, options.seed)
    text = page.rates_table(rates, options.trials)
    print(text)
    if options.write:
        path = files.ROOT / PAGES[0]
        write(path, page.rewritten(path.read_text(encoding="utf-8"), {"rates": text})[0])


def summary(options):
    book = files.Book(options.results)
    print(page.counts_table(book))
    trained = {}
    for run in book.runs:
        key = tuple(run[name] for name in ("data", "system", "seed", "processor"))
        trained[key] = max(trained.get(key, 0), float((run["cpu-seconds"] or "0").strip("~")))
    known = [seconds for seconds in trained.values() if seconds]
    print(f"\n{len(trained)} models; {sum(known) / 3600:.1f} core-hours for the {len(known)} whose time is recorded")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=files.FOLDER, metavar="FOLDER", help="the files of results")
    commands = parser.add_subparsers(required=True)

    def command(name, run):
        found = commands.add_parser(name)
        found.set_defaults(run=run)
        return found

    command("page", rewrite).add_argument("--check", action="store_true")
    command("show", show).add_argument("ids", nargs="+", metavar="ID")
    command("summary", summary)
    simulation = command("simulate", simulate)
    simulation.add_argument("--trials", type=int, default=TRIALS)
    simulation.add_argument("--seed", type=int, default=SEED)
    simulation.add_argument("--write", action="store_true", help="write the table into docs/results.md")
    adding = command("add", add)
    adding.add_argument("runs", nargs="+", metavar="RUN")
    adding.add_argument("--data", required=True)
    for option in ("system", "measure", "value", "processor", "cpu-seconds"):
        adding.add_argument(f"--{option}")
    over = command("lines", lines)
    for option in ("data", "system", "baseline", "seed"):
        over.add_argument(f"--{option}", required=True)
    for option in ("input", "baseline-input"):
        over.add_argument(f"--{option}", nargs="+", required=True, metavar="FILE")
    over.add_argument("--reference")
    over.add_argument("--measure", help="F1, F1-weighted or F1-TYPE, of columns by fovea tag, one file per seed (BLEU, d-BLEU with --documents)")
    over.add_argument("--tokenize", default="13a")
    over.add_argument("--documents", action="store_true")
    return parser.parse_args()


def main():
    options = parsed()
    try:
        options.run(options)
    except (files.Bad, OSError, ValueError, KeyError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()

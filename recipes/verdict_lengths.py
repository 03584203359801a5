"""The tables of docs/results.md that compare mechanisms by the length of texts, from the runs of recipes/length-rows.sh: a row a
mechanism, a column a length, and the verdict on each difference from full attention."""
import re
import statistics

import verdict_rule as rule

BASELINE = "full"
# (data, the pattern of its measures with the length in the first group, the title, digits, the sign of what is better, or 0 without
# verdicts)
TABLES = (("recall", r"answered-(\d+)-1", "Share of answers that are found, one question, by words of the text", 2, 1),
          ("recall", r"answered-(\d+)-4", "The same, four questions", 2, 1),
          ("bytes-1024", r"bits-(\d+)", "Bits per byte, by the length of pieces in bytes", 3, -1),
          ("bytes-time", r"ms-(\d+)", "Milliseconds of an update of 8,192 bytes, by the length of its segments", 0, 0),
          ("bytes-time", r"MiB-(\d+)", "MiB of memory of the same", 0, 0))


def by_length(rows, data, pattern):
    """{length: {system: values of the seeds}} of rows of runs.tsv, in the order of lengths: those of the processor with most of these runs
    and, where the data have verdicts, any seed that every system has on another processor, which then changes both sides alike."""
    runs = [(int(match[1]), run) for run in rows if run["data"] == data and (match := re.fullmatch(pattern, run["measure"]))]
    measured = {}  # (processor, seed): its systems and lengths
    for length, run in runs:
        measured.setdefault((run["processor"], run["seed"]), set()).add((run["system"], length))
    processors = [run["processor"] for _, run in runs]
    most = max(processors, key=processors.count, default=None)
    everything = set().union(*measured.values())
    judged = any(sign for name, _, _, _, sign in TABLES if name == data)
    found = {}
    for length, run in sorted(runs, key=lambda each: each[0]):
        if run["processor"] == most or judged and measured[run["processor"], run["seed"]] == everything:
            found.setdefault(length, {}).setdefault(run["system"], []).append(float(run["value"]))
    return found


def verdicts(found, sign):
    """{(length, system): better, worse or undecided, against full attention}: of all with enough seeds, by Holm over the table."""
    estimates = {(length, name): rule.estimate(systems, name, BASELINE) for length, systems in found.items() for name, values in systems.items()
                 if name != BASELINE and min(len(values), len(systems.get(BASELINE, ()))) >= rule.SEEDS}
    adjusted = rule.holm([each.two_sided() for each in estimates.values()])
    words = {"holds": "better", "does not hold": "worse"}
    return {key: words.get(word, word) for (key, each), p in zip(estimates.items(), adjusted)
            for word in [rule.by_difference(each, p, sign)]}


def cell(values, digits, verdict):
    if not values:
        return ""
    spread = f" ({statistics.stdev(values):.{digits}f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}" + (f", {verdict}" if verdict in ("better", "worse") else "")


def length_tables(book):
    """All tables that have runs, in Markdown."""
    parts = []
    for data, pattern, title, digits, sign in TABLES:
        found = by_length(book.runs, data, pattern)
        if not found:
            continue
        said = verdicts(found, sign) if sign else {}
        names = sorted(dict.fromkeys(name for systems in found.values() for name in systems), key=lambda name: name != BASELINE)
        seeds = {name: max(len(systems.get(name, ())) for systems in found.values()) for name in names}
        lines = [f"| {title} | {'seeds' if sign else 'rounds'} | " + " | ".join(f"{length:,}" for length in found) + " |", "|---|---|" + "---|" * len(found)]
        for name in names:
            cells = (cell(systems.get(name), digits, said.get((length, name))) for length, systems in found.items())
            lines.append(f"| `{name}` | {seeds[name]} | " + " | ".join(cells) + " |")
        parts.append("\n".join(lines).replace("|  |", "| |"))
    return "\n\n".join(parts) or "No model is trained yet."

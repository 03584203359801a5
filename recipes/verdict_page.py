"""The tables of docs/results.md and of README.md, in Markdown, from what verdict_files.py finds."""
import collections
import re
import statistics

import verdict_files as files
import verdict_lengths
from verdict_files import APART, EARLY, EXACT, NOT_RUN, ONE, OTHER

SECTIONS = {"explicit": "E", "extremely": "X", "rela": "L", "routing": "R", "clause": "C"}
NAMES = {"explicit": "Explicit", "extremely": "Extremely", "rela": "ReLA", "routing": "Routing", "clause": "Clause"}
ORDER = ("holds", "does not hold", "undecided", EARLY, ONE, OTHER, EXACT, NOT_RUN, APART)
MEANING = {
    "holds": "by the rule below", "does not hold": "by the rule below", "undecided": "enough seeds, and the interval does not decide",
    EARLY: "enough seeds, but the models may be trained too little",
    ONE: "fewer seeds, models or pairs of timings than the rule needs: figures, but not a verdict",
    OTHER: "our models differ from the paper's in a condition that the claim names; the row says which, and the verdict there",
    EXACT: "arithmetic, or a property of the program that a test checks", NOT_RUN: "nobody has trained these models with Fovea yet",
    APART: "the list at the end says why"}
SHORT = {"multi30k-sweep": "sweep", "rectified-attention-in-the-sweep": "ReLA in the sweep", "multi30k": "Multi30k",
         "the-sweep-with-half-of-the-updates": "half of the updates", "speed-at-the-lengths-of-sentences": "speed",
         "translation-with-clauses": "clauses", "language-1200-updates": "language", "conll-2003": "CoNLL-2003",
         "ted-documents": "TED", "cifar-10": "CIFAR-10"}
MEASURES = {"BLEU-valid": "BLEU, validation", "bits-valid": "bits, validation", "decode-speed": "decoding", "decode-128-speed": "decoding in batches of 128", "train-speed": "training",
            "zeros": "zeros", "bits-per-dim": "bits per dim", "F1-signals": "F1 of signal words", "F1-weighted": "F1, mean of types by support",
            "F1": "F1, all names", **{f"F1-{kind}": f"F1 of {kind}" for kind in ("LOC", "ORG", "PER", "MISC")}}
BARE = ("BLEU", "d-BLEU", "bits", "divergence", "diversity", "zeros")  # measures that the setting makes clear
OF_README = ("E-1", "X-4", "L-4", "R-16", "C-3")


def signed(value, digits):
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def digits_of(measure):
    return 4 if measure in ("BERTScore", "accuracy") else 3 if measure.startswith(("bits", "zeros", "div", "null", "AER")) else 2


def system(name):
    """A system's name: the spec in code, our own words after it."""
    match = re.fullmatch(r"(\S*[(|;][^ ]*|full|sparsemax|rela-[gi]|relu)( .*)?", name)
    if not match:
        return name
    words = {" right": " (leaning right)"}.get(match[2], match[2] or "")
    return f"`{match[1]}`{words}".replace("|", "\\|")


def side(name, values, digits, planned=None):
    spread = f", SD {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    of = f" of {planned}" if planned and len(values) < int(planned) else ""
    return f"{system(name)} {statistics.fmean(values):.{digits}f} ({len(values)}{of}{spread})"


def interval(result, level, digits):
    """The interval over seeds, and with test lines if their variance is known."""
    plain = " to ".join(signed(end, digits) for end in result.found.interval(level, lines=False))
    if result.found.lines is None:
        return f"{plain}, on this test text"
    return f"{plain}; with test lines " + " to ".join(signed(end, digits) for end in result.found.interval(level))


def of_lines(book, row, digits):
    """The recorded intervals over test lines of single seeds."""
    found = [line for line in book.lines if (line["data"], line["measure"]) == (row["data"], row["measure"])
             and (line["system"], line["baseline"]) == (row["system"], row["baseline"])]
    return ", ".join(f"seed {line['seed']} {float(line['low']):+.{digits}f} to {float(line['high']):+.{digits}f}" for line in found)


def ours(book, result):
    """What our runs say of one comparison, or nothing."""
    row = result.row
    if result.status == NOT_RUN:
        return ""
    if row["kind"] == "arithmetic":
        return row["system"].replace("*", " x ").replace("^", "\\^") if len(row["system"]) < 60 else "the formulas give these figures"
    if row["kind"] == "test":
        return f"[a test](../{row['baseline']})"
    if result.ratio:
        names = f"{system(row['system'])} over {system(row['baseline'])}"
        more = f" ({result.ratio[1]:.2f} to {result.ratio[2]:.2f})" if len(result.ratio) > 1 else ""
        return f"{MEASURES.get(row['measure'], row['measure'])}, {names}: {result.ratio[0]:.2f}{more}"
    return difference(book, result)


def difference(book, result):
    row, digits = result.row, digits_of(result.row["measure"])
    label = row["source"] if row["kind"] == "analysis" else MEASURES.get(row["measure"], row["measure"])
    if row["kind"] == "analysis" and len(result.values) == 1:
        text = f"{system(row['system'])}, {label}: {signed(statistics.fmean(result.values[0]), digits)}"
    else:
        text = (f"{label}: " if label not in BARE else "") + sides(result, digits, book.settings[row["data"]].get("seeds"))
    if not result.found:
        lines = of_lines(book, row, digits)
        return text + (f" (test lines, {lines})" if lines else "")
    level = files.rule.TAIL if result.ps else files.rule.LEVEL
    margin = f"; margin {row['margin']}" if result.ps else ""
    return f"{text} ({level:.0%} interval {interval(result, level, digits)}{margin})"


def sides(result, digits, planned=None):
    """Both sides and their difference: means where there is a verdict, else pairs of the same seed if there are any."""
    names = (result.row["system"], result.row["baseline"])
    if result.found or not result.pairs:
        gap = statistics.fmean(result.values[0]) - statistics.fmean(result.values[1])
        return ", ".join(side(name, values, digits, planned) for name, values in zip(names, result.values)) + f", {signed(gap, digits)}"
    columns = [f"{system(name)} " + " ".join(f"{value:.{digits}f}" for value in values) for name, values in zip(names, zip(*result.pairs))]
    return f"{', '.join(columns)}: " + ", ".join(signed(first - second, digits) for first, second in result.pairs)


def grouped(results):
    """Results by setting and scope, in their order."""
    groups = collections.defaultdict(list)
    for result in results:
        groups[result.row["data"], result.row["scope"]].append(result)
    return list(groups.items())


def ours_cell(book, claim):
    parts = []
    for (data, scope), results in grouped(book.of(claim)):
        texts = [text for text in (ours(book, result) for result in results) if text]
        if texts:
            head = [part for part in (book.settings[data]["name"] if data else None, scope) if part]
            parts.append((", ".join(head) + ": " if head else "") + "; ".join(texts))
    return ". ".join(parts + ([claim["ours"]] if claim["ours"] else []))


def verdict_cell(book, claim):
    """The claim's verdict, then that of each setting, with the comparisons that differ from it or have a reason."""
    verdict, groups, parts = book.verdict(claim), grouped(book.of(claim)), {}
    for (data, scope), results in groups:
        place = [book.settings[data]["name"]] if len({data for (data, _), _ in groups}) > 1 else []
        label, status = ", ".join([*place, *([scope] if scope else [])]), files.together([result.status for result in results])
        cases = "; ".join(distinct(results))
        if status in (NOT_RUN, EXACT) or (status == verdict and not cases) or ((status, verdict) == (ONE, OTHER) and not cases):
            continue
        shown = status if label and not (status == verdict and len(groups) == 1) else ""
        parts.setdefault((f": {shown}" if shown else "") + (f" ({cases})" if cases else ""), []).append(f"; {label}" if shown else "")
    return verdict + "".join("".join(labels) + said for said, labels in parts.items())


def distinct(results):
    """The comparisons of a setting by what is said of them, as in "`topk(2)`: undecided": nothing if all say the same without a reason.
    Those that nobody has run are named where they alone leave the setting undecided."""
    found, statuses = {}, [result.status for result in results]
    only_for_them = files.together(statuses) == "undecided" and "undecided" not in statuses
    for result, name in zip(results, told_apart(results)):
        if result.status != EXACT and (result.status != NOT_RUN or only_for_them):
            found.setdefault((result.status, result.why), []).append(name)
    if len(found) == 1:
        return [why for _, why in found if why]
    return [f"{', '.join(dict.fromkeys(names))}: {status}" + (f", {why}" if why else "") for (status, why), names in found.items()]


def told_apart(results):
    """For each comparison of a setting, what tells it from the others: systems, baseline, measure, or what an analysis computes."""
    def marks(result):
        row = result.row
        baseline = f"against {system(row['baseline'])}" if row["baseline"] else ""
        what = row["source"] if row["kind"] == "analysis" else ""
        return [system(row["system"]), baseline, MEASURES.get(row["measure"], row["measure"]) or "", what or ""]

    if results[0].row["kind"] in ("test", "arithmetic"):
        return [""] * len(results)
    columns = [column for column in zip(*map(marks, results)) if len(set(column)) > 1]
    return [" ".join(mark for mark in row if mark) for row in zip(*columns)] or [system(result.row["system"]) for result in results]


def links(claim):
    return ", ".join(f"[{SHORT.get(anchor, anchor.replace('-', ' '))}](trainings.md#{anchor})" for anchor in (claim["training"] or "").split())


def of_section(book, section):
    found = [claim for claim in book.claims if claim["id"].startswith(SECTIONS[section] + "-")]
    return sorted(found, key=lambda claim: claim["rank"])


def plain(text):
    """Text of the files as Markdown."""
    return re.sub(r"([|^*])", r"\\\1", text or "-")


def section_table(book, section):
    lines = ["| | claim | published | ours | verdict | training |", "|---|---|---|---|---|---|"]
    notes = []
    for claim in of_section(book, section):
        if claim["note"]:
            notes.append(f"- {claim['id']}: {plain(claim['note'])}.")
        if book.verdict(claim) != APART:
            published = f"{claim['where']}: {plain(claim['published'])}"
            lines.append(f"| {claim['id']} | {plain(claim['claim'])} | {published} | {ours_cell(book, claim)} | {verdict_cell(book, claim)} "
                         f"| {links(claim)} |".replace("|  |", "| |"))
    return "\n".join([*lines, "", "Where the paper contradicts itself or leaves a condition open:", "", *notes])


def counts_table(book):
    lines = ["| verdict | " + " | ".join(NAMES.values()) + " | all | |", "|---|" + "---|" * (len(NAMES) + 2)]
    counts = {section: collections.Counter(book.verdict(claim) for claim in of_section(book, section)) for section in SECTIONS}
    for verdict in ORDER:
        row = [counts[section][verdict] for section in SECTIONS]
        lines.append(f"| {verdict} | " + " | ".join(str(count or "") for count in row) + f" | {sum(row)} | {MEANING[verdict]} |")
    return "\n".join(line.replace("|  |", "| |").replace("|  |", "| |") for line in lines)


def apart_list(book):
    lines = []
    for section in SECTIONS:
        for claim in of_section(book, section):
            if book.verdict(claim) == APART:
                lines.append(f"- {claim['id']} ({claim['where']}): {plain(claim['claim'])}. Reason: {claim['not-judged']}.")
    return "\n".join(lines)


def margins_table(book):
    lines = ["| claim | systems | margin | from the paper |", "|---|---|---|---|"]
    for row in book.comparisons:
        if row["kind"] in ("not-worse", "equal"):
            lines.append(f"| {row['claim']} | {system(row['system'])}, {system(row['baseline'])} | {row['margin']} | {row['source']} |")
    return "\n".join(dict.fromkeys(lines))


def families_table(book):
    """How many comparisons Holm's correction counts in each table with intervals, and what would change if it counted all."""
    full = files.Book(book.folder, book.root, count_all=True)
    lines = ["| table | with an interval | written down | verdicts if all of these counted |", "|---|---|---|---|"]
    for family, (judged, written) in book.families.items():
        pairs = [(now, then) for now, then in zip(book.results, full.results) if now.row["family"] == family and now.status != then.status]
        changes = "; ".join(f"{now.row['claim']}, {system(now.row['system'])} and {system(now.row['baseline'])}: {now.status} becomes {then.status}"
                            for now, then in pairs)
        lines.append(f"| {family} | {judged} | {written} | {changes or 'the same'} |")
    return "\n".join(lines)


def rates_table(rates, trials):
    lines = [f"| truth, {trials:,} trials each | false verdicts |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {rate:.1%} |" for name, rate in rates.items()])


def readme_table(book):
    count = collections.Counter(book.verdict(claim) for claim in book.claims)
    lines = [f"In small models, {count['holds']} hold, {count['does not hold']} do not, and {count['undecided'] + count[EARLY]} are undecided; "
             f"{count[EXACT]} are exact. The others have one training, other conditions, or no training yet. Five of them:", "",
             "| claim | published | ours, in small models | verdict |", "|---|---|---|---|"]
    for claim in (claim for name in OF_README for claim in book.claims if claim["id"] == name):
        judged = [result for result in book.of(claim) if result.status != NOT_RUN]
        best = next((result for result in judged if result.found), judged[0] if judged else None)
        text = short(book, best) if best else ""
        lines.append(f"| {plain(claim['claim'])} ({claim['id']}) | {plain(claim['published'])} | {text} | {book.verdict(claim)} |")
    return "\n".join(lines)


def short(book, result):
    """One comparison without its intervals."""
    row, digits = result.row, digits_of(result.row["measure"])
    values = result.values if result.found or not result.pairs else list(zip(*result.pairs))
    both = ", ".join(f"{system(name)} {statistics.fmean(side):.{digits}f}" for name, side in zip((row["system"], row["baseline"]), values))
    seeds = min(map(len, values))
    scope = f", {row['scope']}" if row["scope"] else ""
    measure = "" if row["measure"] in BARE else f", {MEASURES.get(row['measure'], row['measure'])}"
    return f"{book.settings[row['data']]['name']}{scope}{measure}: {both}, {seeds} seed{'s' if seeds > 1 else ''}"


def blocks(book):
    """{name of a marked block: its text}, without the rates, which take minutes."""
    found = {section: section_table(book, section) for section in SECTIONS}
    return found | {"counts": counts_table(book), "apart": apart_list(book), "margins": margins_table(book),
                    "families": families_table(book), "lengths": verdict_lengths.length_tables(book), "readme": readme_table(book)}


def rewritten(text, tables):
    """The page with the tables in their marked blocks, and the names of the blocks that it has."""
    found = []
    for name, table in tables.items():
        begin, end = f"<!-- verdicts: {name} -->\n", "<!-- end of verdicts -->"
        if begin in text:
            before, _, rest = text.partition(begin)
            inside, ended, after = rest.partition(end)
            if not ended or "<!-- verdicts: " in inside:
                raise files.Bad(f"the block '{name}' has no end; expected a line {end} before the next block")
            text = f"{before}{begin}{table}\n{end}{after}"
            found.append(name)
    return text, found

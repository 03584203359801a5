#!/usr/bin/env python3
"""Compares the reports of fovea_metrics with sacreBLEU's own, character by character, over texts of many scripts."""
import argparse
import json
import random
import subprocess
import sys

from corpora import WORDS, corpus, disturbed, sentence

VERSION = "2.6.0"
SKIPPED = 77

try:
    import numpy
    import sacrebleu
    from sacrebleu.metrics import BLEU, CHRF, TER
    from sacrebleu.significance import PairedTest, _bootstrap_resample
except ImportError as error:
    print(f"skipped: sacreBLEU cannot be imported ({error}); ./fovea.sh test installs sacrebleu=={VERSION} into .venv")
    sys.exit(SKIPPED)

def rstripped(lines):
    return [line.rstrip() for line in lines]


def bleu_case(rng):
    tokenize = rng.choice(["13a", "none", "char", "zh", "intl"])
    smooth = rng.choice(["exp", "exp", "floor", "add-k", "none"])
    value = rng.choice([None, None, 0.25, 2])
    lowercase = rng.random() < 0.3
    metric = dict(tokenize=tokenize, smooth_method=smooth, smooth_value=value, lowercase=lowercase)
    options = [["metrics", "bleu"], ["tokenize", tokenize], ["smooth-method", smooth], ["lowercase", str(lowercase).lower()]]
    if value is not None:
        options.append(["smooth-value", str(value)])
    return options, lambda sentences: BLEU(effective_order=sentences, **metric)


def chrf_case(rng):
    order = rng.choice([0, 2])
    lowercase = rng.random() < 0.3
    whitespace = rng.random() < 0.3
    options = [["metrics", "chrf++" if order else "chrf"], ["lowercase", str(lowercase).lower()],
               ["chrf-whitespace", str(whitespace).lower()]]
    return options, lambda sentences: CHRF(word_order=order, lowercase=lowercase, whitespace=whitespace)


def ter_case(rng):
    normalized, no_punct, case_sensitive = (rng.random() < 0.3 for _ in range(3))
    asian = (normalized or no_punct) and rng.random() < 0.5
    options = [["metrics", "ter"]] + [[f"ter-{name}", str(value).lower()] for name, value in (
        ("case-sensitive", case_sensitive), ("normalized", normalized), ("no-punct", no_punct), ("asian-support", asian))]
    return options, lambda sentences: TER(normalized=normalized, no_punct=no_punct, asian_support=asian,
                                          case_sensitive=case_sensitive)


def shuffled(rng, words):
    """The words with blocks moved, near and far, some dropped, doubled or replaced."""
    words = list(words)
    for _ in range(rng.choice([0, 1, 2, 5, 20])):
        if len(words) < 2:
            break
        start, size = rng.randrange(len(words)), rng.choice([1, 1, 2, 5, 10, 11, 30])
        block = words[start:start + size]
        del words[start:start + size]
        at = rng.randrange(len(words) + 1) if rng.random() < 0.5 else max(0, start + rng.randint(-60, 60))
        words[at:at] = block
    return [rng.choice(words) if rng.random() < 0.05 else word for word in words for _ in range(rng.choice([1] * 20 + [0, 2]))]


def hostile_pair(rng):
    """A hypothesis and references that come near the limits of tercom's search: lengths, distances, sizes, tries."""
    letters = rng.choice([1, 2, 3, 10, 100, 10000])
    words = lambda most: [f"w{rng.randrange(letters)}" for _ in range(rng.randint(0, most))]
    reference = words(rng.choice([5, 12, 30, 30, 80, 130]))
    draw = rng.random()
    if draw < 0.6:
        hypothesis = shuffled(rng, reference)
    elif draw < 0.8:
        hypothesis = words(rng.choice([0, 3, 60, 200]))
    else:
        hypothesis = shuffled(rng, reference)[:rng.choice([1, 2, 4, 10])]
    if rng.random() < 0.2:
        hypothesis, reference = reference, hypothesis
    return " ".join(hypothesis), " ".join(reference)


def make_hostile(rng):
    lines, others = rng.choice([1, 1, 2]), rng.choice([0, 0, 1, 2])
    pairs = [hostile_pair(rng) for _ in range(lines)]
    references = [[reference for _, reference in pairs]]
    references += [[" ".join(shuffled(rng, line.split())) if rng.random() < 0.9 else "" for line in references[0]]
                   for _ in range(others)]
    options = [["metrics", "ter"], ["width", "9"]]
    form = {"width": 9, "sentence-level": rng.random() < 0.3, "confidence": False, "score-only": False, "json": False}
    options.append(["sentence-level", str(form["sentence-level"]).lower()])
    hypotheses = [hypothesis for hypothesis, _ in pairs]
    return ({"options": options, "hypotheses": hypotheses, "references": references},
            expected(TER(), hypotheses, references, form))


def expected(metric, hypotheses, references, form):
    """The output of sacreBLEU's command."""
    if form["sentence-level"]:
        lines = []
        for hypothesis, *segment in zip(hypotheses, *references):
            score = metric.sentence_score(hypothesis, segment)
            lines.append(score.format(form["width"], False, metric.get_signature().format()))
        return "\n".join(lines) + "\n"
    score = metric.corpus_score(hypotheses, references, n_bootstrap=form["confidence-n"] if form["confidence"] else 1)
    signature = metric.get_signature().format()
    return score.format(form["width"], form["score-only"], signature, form["json"]) + "\n"


def make_case(rng):
    options, make_metric = rng.choice([bleu_case, bleu_case, chrf_case, ter_case])(rng)
    hypotheses, references = corpus(rng)
    sentences = rng.random() < 0.15
    confidence = not sentences and rng.random() < 0.05
    form = {"sentence-level": sentences, "width": rng.choice([1, 2, 2, 4]), "json": not sentences and rng.random() < 0.3,
            "confidence": confidence, "confidence-n": 100, "score-only": not sentences and rng.random() < 0.1}
    if confidence:
        # Resamples are scored in single precision there: the digits beyond the fourth are noise.
        form["width"] = min(form["width"], 2)
    lines = rstripped(hypotheses), [rstripped(stream) for stream in references]
    try:
        want = expected(make_metric(sentences), *lines, form)
    except TypeError:
        # sacreBLEU's bootstrap cannot average chrF's zeros (float) with other scores (numpy.float32).
        form["confidence"] = False
        want = expected(make_metric(sentences), *lines, form)
    options = options + [[name, str(value).lower()] for name, value in form.items()]
    return {"options": options, "hypotheses": hypotheses, "references": references}, want


# sacreBLEU's resamples are scored in single precision: relative errors of 1e-7 add up over a few operations.
PAIRED_TOLERANCE = 1e-3


def make_paired(rng):
    """A request that compares a system with a baseline, and the check of its report."""
    options, make_metric = rng.choice([bleu_case, bleu_case, bleu_case, chrf_case, chrf_case, ter_case])(rng)
    kinds = rng.sample(sorted(WORDS), rng.randint(1, 4))
    reference = [sentence(rng, kinds) for _ in range(rng.choice([5, 60, 200]))]
    system, baseline = ([disturbed(rng, line, kinds) for line in reference] for _ in range(2))
    samples = rng.choice([50, 200])
    options = options + [["json", "true"], ["width", "6"], ["confidence-n", str(samples)]]
    request = {"options": options, "hypotheses": system, "references": [reference], "baselines": {"old": baseline}}
    return request, lambda report: paired_problems(json.loads(report), make_metric(False), samples, *map(rstripped, (
        system, baseline, reference)))


def paired_problems(got, metric, samples, system, baseline, reference):
    """The differences between our report and sacreBLEU's own paired bootstrap."""
    _, table = PairedTest([("old", baseline), ("new", system)], {"metric": metric}, [reference], "bs", samples)()
    (theirs_old, theirs_new), = (results for name, results in table.items() if name != "System")
    old, = got["baselines"]
    scores = {name: numpy.array([score.score for score in _bootstrap_resample(
        metric._extract_corpus_statistics(lines, [reference]), metric, samples)[1]])
        for name, lines in (("new", system), ("old", baseline))}
    differences = numpy.sort(scores["new"] - scores["old"])
    cut = samples // 40
    pairs = {"score": (got["score"], theirs_new.score), "baseline": (old["score"], theirs_old.score),
             "mean": (got.get("confidence_mean", 0), theirs_new.mean),
             "half width": (got.get("confidence_var", theirs_new.ci), theirs_new.ci),
             "baseline's mean": (old["confidence_mean"], theirs_old.mean),
             "baseline's half width": (old["confidence_var"], theirs_old.ci),
             "difference": (old["difference"], theirs_new.score - theirs_old.score),
             "low": (old["difference_low"], differences[cut]), "high": (old["difference_high"], differences[-cut - 1])}
    problems = [f"{name}: {ours} and {theirs}" for name, (ours, theirs) in pairs.items()
                if abs(ours - theirs) > PAIRED_TOLERANCE]
    if numpy.all(numpy.abs(differences) < PAIRED_TOLERANCE):
        return problems  # our p is 1 there
    # Resamples that tie with the difference count or not by rounding.
    excess = numpy.abs(differences) - numpy.abs(differences).mean() - abs(theirs_new.score - theirs_old.score)
    low, high = ((numpy.sum(excess > tie) + 1) / (samples + 1) for tie in (PAIRED_TOLERANCE, -PAIRED_TOLERANCE))
    if not low - 1e-9 <= old["p_value"] <= high + 1e-9 or low == high and old["p_value"] != theirs_new.p_value:
        problems.append(f"p: {old['p_value']} and {theirs_new.p_value}, from {low} to {high}")
    return problems


def reports_of(program, requests):
    run = subprocess.run([program], input="".join(json.dumps(request) + "\n" for request in requests), text=True,
                         stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def check_paired(program, rng, count):
    cases = [make_paired(rng) for _ in range(count)]
    reports = reports_of(program, [request for request, _ in cases])
    failures = [(request, problems) for (request, check), report in zip(cases, reports) if (problems := check(report))]
    for request, problems in failures[:5]:
        print(f"{request['options']}, {len(request['hypotheses'])} segments: {'; '.join(problems)}")
    print(f"{len(cases) - len(failures)} of {len(cases)} comparisons equal sacreBLEU {VERSION}'s")
    return not failures and len(reports) == len(cases)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=1500)
    parser.add_argument("--hostile", type=int, default=60, help="texts at the limits of TER's search")
    parser.add_argument("--paired", type=int, default=60, help="comparisons with a baseline")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if sacrebleu.__version__ != VERSION:
        print(f"skipped: sacreBLEU {sacrebleu.__version__} is installed; the signatures are those of {VERSION}")
        return SKIPPED
    rng = random.Random(args.seed)
    cases = [make_case(rng) for _ in range(args.cases)] + [make_hostile(rng) for _ in range(args.hostile)]
    got = reports_of(args.program, [request for request, _ in cases])
    failures = [(case, want, report) for (case, want), report in zip(cases, got) if want != report]
    for case, want, report in failures[:5]:
        print(f"{json.dumps(case, ensure_ascii=False)}\nsacreBLEU {want!r}\nfovea     {report!r}\n")
    print(f"{len(cases) - len(failures)} of {len(cases)} reports equal sacreBLEU {VERSION}'s")
    paired = check_paired(args.program, rng, args.paired)
    return 1 if failures or len(got) != len(cases) or not paired else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""multi_bleu_test.py PROGRAM: compares the reports of fovea_metrics_report with multi-bleu by its definition, with and
without the split of compounds."""
import collections
import json
import math
import random
import re
import subprocess
import sys

from corpora import corpus

ORDER = 4
WITH_HYPHENS = ["state-of-the-art", "a-b", "a--b", "-", "--", "- -", "x- -y", "ü-ß", "1-2-3-4", "##AT##-##AT##", "北-京"]


def words(line, lowercase, split):
    text = line.encode()  # as the script reads it: white space is ASCII's
    if split:
        text = re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", text)
    found = [word.decode() for word in text.split()]
    return [word.lower() for word in found] if lowercase else found


def grams(tokens, n):
    return collections.Counter(tuple(tokens[i:i + n]) for i in range(len(tokens) - n + 1))


def multi_bleu(hypotheses, references, **options):
    """(score, the line without its score)"""
    correct, total, length, closest = [0] * ORDER, [0] * ORDER, 0, 0
    for line, *lines in zip(hypotheses, *references):
        tokens, others = words(line, **options), [words(other, **options) for other in lines]
        length += len(tokens)
        closest += min((abs(len(other) - len(tokens)), len(other)) for other in others)[1]
        for n in range(1, ORDER + 1):
            most = collections.Counter()
            for other in others:
                most |= grams(other, n)
            counted = grams(tokens, n)
            correct[n - 1] += sum((counted & most).values())
            total[n - 1] += sum(counted.values())
    if closest == 0:
        return 0, "0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)"
    precisions = [found / of if of else 0 for found, of in zip(correct, total)]
    penalty = 1 if length >= closest else math.exp(1 - closest / length) if length else 0
    score = 100 * penalty * math.prod(precisions) ** (1 / ORDER)
    shares = "/".join(f"{100 * precision:.1f}" for precision in precisions)
    return score, f"{shares} (BP={penalty:.3f}, ratio={length / closest:.3f}, hyp_len={length}, ref_len={closest})"


def make_case(rng):
    hypotheses, references = corpus(rng)
    sides = [hypotheses, *references]
    for side in sides:
        for i in range(len(side)):
            if rng.random() < 0.5:
                side[i] += " " + " ".join(rng.choices(WITH_HYPHENS, k=rng.randint(1, 5)))
    options = {"lowercase": rng.random() < 0.3, "split": rng.random() < 0.7}
    given = [["metrics", "multi-bleu"], ["width", "9"], ["lowercase", str(options["lowercase"]).lower()],
             ["compound-split", str(options["split"]).lower()]]
    return {"options": given, "hypotheses": hypotheses, "references": references}, multi_bleu(hypotheses, references, **options)


def differs(report, expected):
    score, rest = re.fullmatch(r"BLEU = ([0-9.]+), (.*)\n", report).groups()
    return abs(float(score) - expected[0]) > 1e-7 or rest != expected[1]  # nine digits are printed


def main():
    rng = random.Random(1)
    cases = [make_case(rng) for _ in range(600)]
    run = subprocess.run([sys.argv[1]], input="".join(json.dumps(request) + "\n" for request, _ in cases), text=True,
                         stdout=subprocess.PIPE, check=True)
    reports = [json.loads(line) for line in run.stdout.splitlines()]
    failures = [(case, report) for case, report in zip(cases, reports) if differs(report, case[1])]
    for (request, expected), report in sorted(failures, key=lambda failure: len(str(failure[0])))[:3]:
        print(f"{json.dumps(request, ensure_ascii=False)}\nexpected {expected}\ngot      {report!r}\n")
    positive = sum(expected[0] > 0 for _, expected in cases)
    print(f"{len(cases) - len(failures)} of {len(cases)} reports equal the definition; {positive} scores are above 0")
    return 1 if failures or len(reports) != len(cases) or positive < 50 else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""coco_test.py PROGRAM: compares the reports of fovea_metrics_report with COCO-BLEU and CIDEr by their definitions, and with
pip's pycocoevalcap where it is installed."""
import collections
import contextlib
import io
import json
import math
import random
import subprocess
import sys

from corpora import corpus

ORDER = 4


def grams(words, n):
    return collections.Counter(tuple(words[i:i + n]) for i in range(len(words) - n + 1))


def coco_bleu(captions, references):
    """BLEU-1 ... BLEU-4, from 0 to 100."""
    correct, total, length, closest = [0] * ORDER, [0] * ORDER, 0, 0
    for words, others in zip(captions, references):
        length += len(words)
        closest += min((abs(len(other) - len(words)), len(other)) for other in others)[1]
        for n in range(1, ORDER + 1):
            most = collections.Counter()
            for other in others:
                most |= grams(other, n)
            counted = grams(words, n)
            correct[n - 1] += sum((counted & most).values())
            total[n - 1] += sum(counted.values())
    ratio = (length + 1e-15) / (closest + 1e-9)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1
    precisions = [(found + 1e-15) / (of + 1e-9) for found, of in zip(correct, total)]
    return [100 * penalty * math.prod(precisions[:n]) ** (1 / n) for n in range(1, ORDER + 1)]


def ciders(captions, references):
    """CIDEr-D of each image, times 100."""
    images = collections.Counter(gram for others in references for gram in
                                 {gram for other in others for n in range(1, ORDER + 1) for gram in grams(other, n)})
    def weighted(words, n):
        return {gram: count * math.log(len(captions) / max(1, images[gram])) for gram, count in grams(words, n).items()}
    def norm(vector):
        return math.sqrt(sum(value * value for value in vector.values()))
    scores = []
    for words, others in zip(captions, references):
        total = 0
        for other in others:
            gap = max(0, len(words) - 1) - max(0, len(other) - 1)
            for n in range(1, ORDER + 1):
                ours, theirs = weighted(words, n), weighted(other, n)
                product = sum(min(value, theirs.get(gram, 0)) * theirs.get(gram, 0) for gram, value in ours.items())
                if product:
                    total += product / norm(ours) / norm(theirs) * math.exp(-gap * gap / 72) / ORDER
        scores.append(1000 * total / len(others))
    return scores


def pip_scores(captions, references):
    """The scores by pycocoevalcap; nothing if it is not installed."""
    try:
        from pycocoevalcap.bleu.bleu import Bleu
        from pycocoevalcap.cider.cider import Cider
    except ImportError:
        return None
    given = {i: [" ".join(words)] for i, words in enumerate(captions)}
    gold = {i: [" ".join(words) for words in others] for i, others in enumerate(references)}
    with contextlib.redirect_stdout(io.StringIO()):
        bleu, cider = Bleu(ORDER).compute_score(gold, given)[0], Cider().compute_score(gold, given)[1]
    return [100 * score for score in bleu], [100 * score for score in cider]


def make_case(rng):
    hypotheses, references = corpus(rng)
    lowercase = rng.random() < 0.3
    sides = [hypotheses, *references]
    for i in range(len(hypotheses)):
        for side in references[1:]:
            if rng.random() < 0.2:
                side[i] = rng.choice(["", " "])  # absent
        if not any(side[i].strip() for side in references):
            references[0][i] = "something"
    words = [[(line.lower() if lowercase else line).split() for line in side] for side in sides]
    others = [[side[i] for side in words[1:] if side[i]] for i in range(len(hypotheses))]
    options = [["metrics", "coco-bleu", "cider"], ["width", "9"], ["json", "true"], ["lowercase", str(lowercase).lower()]]
    return {"options": options, "hypotheses": hypotheses, "references": references}, words[0], others


def main():
    rng = random.Random(1)
    cases = [make_case(rng) for _ in range(400)]
    run = subprocess.run([sys.argv[1]], input="".join(json.dumps(request) + "\n" for request, _, _ in cases), text=True,
                         stdout=subprocess.PIPE, check=True)
    reports = [json.loads(json.loads(line)) for line in run.stdout.splitlines()]
    failures, positive, by_pip = 0, 0, 0
    for (request, captions, references), (bleu, cider) in zip(cases, reports):
        expected = [(coco_bleu(captions, references), ciders(captions, references))]
        other = pip_scores(captions, references)
        by_pip += other is not None
        for bleus, scores in expected + ([other] if other else []):
            mean = sum(scores) / len(scores)
            shown = "/".join(f"{score:.1f}" for score in bleus)
            # Nine digits are printed, and the scores are up to 1,000.
            if abs(bleu["score"] - bleus[-1]) > 1e-7 or abs(cider["score"] - mean) > 1e-6 or not bleu["verbose_score"].startswith(shown + " "):
                failures += 1
                if failures < 4:
                    print(f"{json.dumps(request, ensure_ascii=False)}\nexpected {bleus} {mean}\ngot {bleu} {cider}\n")
        positive += cider["score"] > 0 and bleu["score"] > 1
    print(f"{len(reports)} reports, {failures} differences from the definitions; {by_pip} compared with pycocoevalcap; {positive} "
          "scores are above 0")
    return 1 if failures or len(reports) != len(cases) or positive < 50 else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares the reports of fovea_metrics with sacreBLEU's own, character by character, over texts of many scripts."""
import argparse
import json
import random
import subprocess
import sys

VERSION = "2.6.0"
SKIPPED = 77

try:
    import sacrebleu
    from sacrebleu.metrics import BLEU, CHRF
except ImportError as error:
    print(f"skipped: sacreBLEU cannot be imported ({error}); ./fovea.sh test installs sacrebleu=={VERSION} into .venv")
    sys.exit(SKIPPED)

WORDS = {
    "latin": "the a cat dog's house-boat runs 3.14 1,000 e.g. U.S. co-operate don't naïve Straße ÉCOLE İstanbul ǅ ﬁn x² ½".split(),
    "marks": ". , ; : ! ? - -- ... ( ) [ ] { } \" ' ` ~ @ # $ % ^ & * + = / \\ | < > _ ., .. ,, 5- -5 5.-".split(),
    "entities": "&quot; &amp; &lt; &gt; &amp;lt; &apos; <skipped> &amp;quot; AT&T &".split(),
    "greek": "ΟΔΟΣ ΣΑΣ λόγος Σ. ΑΣ!".split(),
    "cyrillic": "Москва стол, ёж! «да» №5 — нет".split(),
    "chinese": "我们 喜欢 北京。 中国,人民 “你好” 3.5亿 𠀀𠀁 ，（全角） ㈠ ☃ ABC中文DEF".split(),
    "japanese": "カタカナ ひらがな 漢字、 ｶﾅ 「括弧」 ー".split(),
    "korean": "한국어 안녕하세요. ㅋㅋ".split(),
    "arabic": "مرحبا بالعالم، ١٢٣ ؟".split(),
    "hindi": "नमस्ते दुनिया। १२३".split(),
    "thai": "สวัสดี ชาวโลก".split(),
    "hebrew": "שלום עולם — טוב".split(),
    "emoji": "😀 👨‍👩‍👧 🇩🇪 ❤️ ✓ → € £5 ©".split(),
    "combining": "e\u0301 a\u0308 n\u0303o \u200bzero\u200dwidth ﷺ".split(),
}
SPACES = [" ", " ", " ", " ", "  ", "\t", "\u00a0", "\u3000", "\u2009", "\x1c", "\u2028", "\x85", ""]


def sentence(rng, kinds):
    count = rng.choice([0, 1, 2, 3, 4, 5, 8, 13, 30])
    text = "".join(rng.choice(WORDS[rng.choice(kinds)]) + rng.choice(SPACES) for _ in range(count))
    return rng.choice(["", "", " ", "\t"]) + text


def disturbed(rng, text, kinds):
    """The text with words dropped, doubled, exchanged, re-cased or replaced: a translation that is partly right."""
    words, out = text.split(" "), []
    for word in words:
        draw = rng.random()
        if draw < 0.08:
            continue
        if draw < 0.14:
            word = rng.choice(WORDS[rng.choice(kinds)])
        elif draw < 0.2:
            out.append(word)
        elif draw < 0.25:
            word = word.upper()
        out.append(word)
    if len(out) > 2 and rng.random() < 0.3:
        at = rng.randrange(len(out) - 1)
        out[at], out[at + 1] = out[at + 1], out[at]
    return " ".join(out)


def corpus(rng):
    kinds = rng.sample(sorted(WORDS), rng.randint(1, 4))
    lines = rng.choice([1, 2, 3, 10, 40])
    references = [[sentence(rng, kinds) for _ in range(lines)]]
    for _ in range(rng.choice([0, 0, 1, 2])):
        references.append([disturbed(rng, line, kinds) for line in references[0]])
    hypotheses = [disturbed(rng, line, kinds) for line in references[0]]
    return hypotheses, references


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


def expected(metric, hypotheses, references, form):
    """What sacreBLEU's command prints."""
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
    options, make_metric = rng.choice([bleu_case, bleu_case, chrf_case])(rng)
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
        # Its bootstrap cannot average chrF's zeros (float) with other scores (numpy.float32).
        form["confidence"] = False
        want = expected(make_metric(sentences), *lines, form)
    options = options + [[name, str(value).lower()] for name, value in form.items()]
    return {"options": options, "hypotheses": hypotheses, "references": references}, want


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if sacrebleu.__version__ != VERSION:
        print(f"skipped: sacreBLEU {sacrebleu.__version__} is installed; the signatures are those of {VERSION}")
        return SKIPPED
    rng = random.Random(args.seed)
    cases = [make_case(rng) for _ in range(args.cases)]
    run = subprocess.run([args.program], input="".join(json.dumps(request) + "\n" for request, _ in cases), text=True,
                         stdout=subprocess.PIPE, check=True)
    got = [json.loads(line) for line in run.stdout.splitlines()]
    failures = [(case, want, report) for (case, want), report in zip(cases, got) if want != report]
    for case, want, report in failures[:5]:
        print(f"{json.dumps(case, ensure_ascii=False)}\nsacreBLEU {want!r}\nfovea     {report!r}\n")
    print(f"{len(cases) - len(failures)} of {len(cases)} reports equal sacreBLEU {VERSION}'s")
    return 1 if failures or len(got) != len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())

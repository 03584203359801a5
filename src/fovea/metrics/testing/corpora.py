"""Made-up corpora for the comparisons with other implementations: many scripts, partly right translations."""

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

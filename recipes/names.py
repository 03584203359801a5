#!/usr/bin/env python3
"""Makes up sentences with names of persons, places and companies, in columns: a word and its label.

names.py FOLDER [--train N] [--valid N] [--test N] [--seed N]

Writes train.columns, valid.columns and test.columns. A name of the test text is new in most cases, so a tagger has to
learn what stands around names and how they are built."""
import argparse
import pathlib
import random

BEGINS = "B Br D Fr G H K L M N P R S St T V W".split()
MIDDLES = "a e i o u ei au al en or".split()
ENDS = "n r l s ld rt nd ck m".split()
PLACES = ["ville", "burg", "ford", "haven", "dale", "mouth"]
COMPANIES = ["Ltd", "Bank", "Motors", "Airlines", "Group"]
SENTENCES = """
PER lives in LOC .
PER , who was born in LOC , works for ORG .
ORG said on Monday that it will open an office in LOC .
PER met PER in LOC last week .
The train from LOC to LOC was late again .
Shares of ORG fell by three percent .
ORG and ORG will build a bridge near LOC .
It rained all day in LOC , PER said .
The new head of ORG is PER .
On Friday , PER left ORG after ten years .
Nobody knows why the old bridge fell .
The price of bread rose in May .
Most people in LOC have never heard of PER .
Is PER the owner of ORG ?
""".strip().splitlines()


def word(rng, syllables):
    return "".join(rng.choice(BEGINS).lower() + rng.choice(MIDDLES) for _ in range(syllables)) + rng.choice(ENDS)


def name(rng, kind):
    """The words of a name of this kind."""
    stem = word(rng, rng.choice((1, 1, 2))).capitalize()
    if kind == "LOC":
        return [stem + rng.choice(PLACES)] if rng.random() < 0.7 else ["New", stem]
    if kind == "ORG":
        return [stem, rng.choice(COMPANIES)]
    first = word(rng, 1).capitalize()
    return [first, stem] if rng.random() < 0.8 else [stem]


def sentence(rng):
    """Lines of columns."""
    lines = []
    for part in rng.choice(SENTENCES).split():
        if part not in ("PER", "LOC", "ORG"):
            lines.append(f"{part} O\n")
            continue
        for i, each in enumerate(name(rng, part)):
            lines.append(f"{each} {'I' if i else 'B'}-{part}\n")
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    for part, count in (("train", 4000), ("valid", 400), ("test", 400)):
        parser.add_argument(f"--{part}", type=int, default=count, help=f"sentences ({count})")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(("train", "valid", "test")):
        rng = random.Random(options.seed * 3 + number)
        text = "\n".join(sentence(rng) for _ in range(getattr(options, part)))
        (options.folder / f"{part}.columns").write_text(text + "\n")


if __name__ == "__main__":
    main()

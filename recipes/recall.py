#!/usr/bin/env python3
"""Associative recall among more and more text that does not matter: does attention still find one pair among 8,192 words if it
was trained among 256?

    recipes/recall.py make --length 256 --documents 1000 --queries 4 --seed 1 --output FILE
    recipes/recall.py answers --train-sets FILE --model RUN [options of fovea score]

An example is a document of --length units, a line: pairs of a letter and a digit, such as b7, between signs such as , and ; at
random, then questions about some of the letters with their answers, such as ?b =7 ?q =0. A letter has one digit in a document. A
pair is one word, so that one layer can find it; so models learn it in minutes. `make` writes the documents with empty lines
between them, as `fovea train --documents blank` reads them; its words are the units of a vocabulary of `fovea vocab --type word`.
--queries A-B draws the number of questions of each document, and --least-length the length.

`answers` scores the text with `fovea score --level unit`, each document at once, and prints the bits of the answers, and the
share that is answered: to which the model gives more than half of the probability. FOVEA names the program."""
import argparse
import math
import os
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIGNS = ",.;:-+*/"
PAIRS = 8


class Bad(Exception):
    pass


def span_of(text):
    """(least, greatest) of A or A-B."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not match or not 1 <= int(match[1]) <= int(match[2] or match[1]) <= PAIRS:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected one number from 1 to {PAIRS}, or two such as 1-{PAIRS}")
    return int(match[1]), int(match[2] or match[1])


def example(length, queries, draw):
    """One document of `length` units, of which the last is the line's end."""
    pairs = [letter + draw.choice("0123456789") for letter in draw.sample(LETTERS, PAIRS)]
    asked = [word for pair in draw.sample(pairs, queries) for word in ("?" + pair[0], "=" + pair[1])]
    words = draw.choices(SIGNS, k=length - 1 - len(asked))
    for place, pair in zip(draw.sample(range(len(words)), PAIRS), pairs):
        words[place] = pair
    return " ".join(words + asked) + "\n"


def make(options):
    least = options.least_length or options.length
    needed = 1 + PAIRS + 2 * options.queries[1]
    if not needed <= least <= options.length:
        raise Bad(f"--length: got {least} to {options.length} units; expected rising numbers of at least {needed}, "
                  f"for {PAIRS} pairs and {options.queries[1]} questions")
    draw = random.Random(options.seed)
    part = options.output.with_name(options.output.name + ".part")
    with part.open("w", encoding="ascii") as file:
        for number in range(options.documents):
            file.write("\n" if number else "")
            file.write(example(draw.randint(least, options.length), draw.randint(*options.queries), draw))
    part.replace(options.output)


def answers(options, more):
    """(bits of an answer, share of answers with a probability over 1/2)."""
    lines = pathlib.Path(options.train_sets).read_text(encoding="utf-8").splitlines()
    units = [unit for line in lines for unit in (*line.split(), "</s>")]
    if not any(unit.startswith("=") for unit in units):
        raise Bad(f"{options.train_sets}: got a text without questions; expected one of 'recall.py make'")
    program = os.environ.get("FOVEA", str(ROOT / "build/release/bin/fovea"))
    command = [program, "score", "--model", options.model, "--train-sets", options.train_sets, "--context", "0",
               "--stride", str(max(len(line.split()) for line in lines) + 2), "--level", "unit", "--quiet", "--log-level", "error", *more]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        raise Bad("fovea score failed")  # which has said why
    logs = [float(number) for number in found.stdout.split()]
    if len(logs) != len(units):
        raise Bad(f"{options.train_sets}: got {len(logs)} units; expected a model of words, and a text of 'recall.py make'")
    of_answers = [log for log, unit in zip(logs, units) if unit.startswith("=")]
    return -sum(of_answers) / len(of_answers) / math.log(2), sum(log > -math.log(2) for log in of_answers) / len(of_answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    made = verbs.add_parser("make")
    made.add_argument("--length", type=int, required=True)
    made.add_argument("--least-length", type=int)
    made.add_argument("--documents", type=int, required=True)
    made.add_argument("--queries", type=span_of, required=True)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--output", type=pathlib.Path, required=True)
    asked = verbs.add_parser("answers")
    asked.add_argument("--model", required=True)
    asked.add_argument("--train-sets", required=True)
    options, more = parser.parse_known_args()
    try:
        if options.verb == "make":
            if more:
                raise Bad(f"make: got {more[0]!r}; see recipes/recall.py --help")
            make(options)
        else:
            bits, share = answers(options, more)
            print(f"bits-per-answer {bits:.6f}\nanswered {share:.6f}")
    except (Bad, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()

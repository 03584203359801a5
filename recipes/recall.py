#!/usr/bin/env python3
"""Associative recall among more and more text that does not matter: does attention still find one pair among 8,192 bytes if it
was trained among 256?

    recipes/recall.py make --length 256 --documents 1000 --queries 4 --seed 1 --output FILE
    recipes/recall.py answers --train-sets FILE --model RUN [options of fovea score]

An example is a document of --length bytes: pairs of a letter and a digit, such as b7, in signs like ,.;: at random, then questions
about some of the letters, such as ?b7?Q0. A letter has one digit in a document. `make` writes the documents with empty lines
between them, as `fovea train --documents blank` reads them. --queries A-B draws the number of questions of each document, and
--least-length the length.

`answers` scores the text with `fovea score --level unit`, each document at once, and prints the bits of the digits that
answer, and the share that is answered: to which the model gives more than half of the probability. FOVEA names the
program."""
import argparse
import math
import os
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
SIGNS = ",.;:-+*/"
PAIRS = 16
ANSWER = re.compile(rb"\?[A-Za-z][0-9]")  # a question and the digit that answers it


class Bad(Exception):
    pass


def span_of(text):
    """(least, greatest) of A or A-B."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not match or not 1 <= int(match[1]) <= int(match[2] or match[1]) <= PAIRS:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected one number from 1 to {PAIRS}, or two such as 1-{PAIRS}")
    return int(match[1]), int(match[2] or match[1])


def example(length, queries, draw):
    """One document of `length` characters, its line's end included."""
    letters = draw.sample(LETTERS, PAIRS)
    pairs = [letter + draw.choice("0123456789") for letter in letters]
    asked = "".join("?" + pair for pair in draw.sample(pairs, queries))
    free = length - 1 - len(asked) - 2 * PAIRS
    places = sorted(draw.randrange(free + 1) for _ in pairs)  # of each pair, in signs before it
    signs = "".join(draw.choices(SIGNS, k=free))
    ends = [*places, free]
    text = signs[:places[0]] + "".join(pair + signs[ends[i]:ends[i + 1]] for i, pair in enumerate(pairs))
    return text + asked + "\n"


def make(options):
    least = options.least_length or options.length
    needed = 1 + 2 * PAIRS + 3 * options.queries[1]
    if not needed <= least <= options.length:
        raise Bad(f"--length: got {least} to {options.length} bytes; expected rising numbers of at least {needed}, "
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
    text = pathlib.Path(options.train_sets).read_bytes()
    documents = re.findall(rb".+\n(?:\n|$)", text)
    if not documents or not ANSWER.search(text):
        raise Bad(f"{options.train_sets}: got a text without questions; expected one of 'recall.py make'")
    program = os.environ.get("FOVEA", str(ROOT / "build/release/bin/fovea"))
    command = [program, "score", "--model", options.model, "--train-sets", options.train_sets, "--context", "0",
               "--stride", str(max(map(len, documents)) + 1), "--level", "unit", "--quiet", "--log-level", "error", *more]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        raise Bad("fovea score failed")  # which has said why
    logs = [float(number) for number in found.stdout.split()]
    if len(logs) != len(text) + len(documents) - 1:  # the end of each document but the last is a unit, too
        raise Bad(f"{options.train_sets}: got {len(logs)} units; expected a text of 'recall.py make' and a model of bytes")
    answer_logs, begin = [], 0
    for document in documents:
        answer_logs += [logs[begin + match.end() - 1] for match in ANSWER.finditer(document)]
        begin += len(document) + 1
    return -sum(answer_logs) / len(answer_logs) / math.log(2), sum(log > -math.log(2) for log in answer_logs) / len(answer_logs)


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

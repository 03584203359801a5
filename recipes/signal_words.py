#!/usr/bin/env python3
"""Adds a column to CoNLL columns on standard input: the signal word that a word is (Clause Attention's labels), or O.

    zcat eng.train.gz | recipes/signal_words.py > train.columns

The second column must be Penn Treebank parts of speech. PUNCT is punctuation, SCONJ a conjunction, PRON a relative or
interrogative word, ADP a preposition, TO the word "to", and PART a participle.
"""
import sys

SUBORDINATORS = {"after", "although", "as", "because", "before", "if", "once", "since", "so", "than", "that", "though",
                 "till", "unless", "until", "whereas", "whether", "while"}
PUNCTUATION = {",", ".", ":", "``", "''", "\"", "(", ")", "$", "#", "-LRB-", "-RRB-"}
TAGS = {"CC": "SCONJ", "WDT": "PRON", "WP": "PRON", "WP$": "PRON", "WRB": "PRON", "TO": "TO", "VBG": "PART", "VBN": "PART",
        "IN": "ADP"}


def signal(word, tag):
    if tag in PUNCTUATION:
        return "PUNCT"
    if tag == "IN" and word.lower() in SUBORDINATORS:
        return "SCONJ"
    return TAGS.get(tag, "O")


for line in sys.stdin:
    columns = line.split()
    if not columns:
        print()
    elif columns[0] == "-DOCSTART-":
        print(*columns, "O")
    else:
        print(*columns, signal(columns[0], columns[1]))

#!/usr/bin/env python3
"""Adds a column to CoNLL columns on standard input: the signal word that a word is (Clause Attention's labels), or O.

    zcat eng.train.gz | recipes/signal_words.py > train.columns

The second column must be Penn Treebank parts of speech. The labels are those of `fovea clauses --label`, which this recipe
runs: PUNCT is punctuation, SCONJ a conjunction, PRON a relative or interrogative word, ADP a preposition, TO the word "to"
before an infinitive, and PART a participle. Options of `fovea clauses` may follow, such as --corrections FILE. The
variable FOVEA names another program than build/release/bin/fovea.
"""
import os
import pathlib
import sys

program = os.environ.get("FOVEA") or str(pathlib.Path(__file__).resolve().parent.parent / "build/release/bin/fovea")
try:
    os.execv(program, [program, "clauses", "--label", "--tag-column", "2", *sys.argv[1:]])
except OSError as error:
    sys.exit(f"signal_words.py: cannot run '{program}': {error.strerror}; build Fovea, or set FOVEA to its program")

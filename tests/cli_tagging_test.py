#!/usr/bin/env python3
"""Taggers from the command line, as a newcomer uses and misuses them."""
import gzip
import os
import pathlib
import random
import re
import shutil
import tempfile
import unittest

from fovea_program import Workplace, checked, run

F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
SIZES = ["--dim-emb", 16, "--enc-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--mini-batch", 8,
         "--learn-rate", "0.01", "--lr-warmup", 5, "--lr-decay", "none", "--cpu-threads", 1]
DATA = pathlib.Path(os.environ.get("FOVEA_DATA", "")) / "conll2003"


def columns(count, seed):
    """Sentences in IOB1 with a column of parts of speech; "to" stands before each name."""
    draw, text = random.Random(seed), "-DOCSTART- -X- O\n\n"
    for _ in range(count):
        for _ in range(draw.randint(1, 5)):
            text += draw.choice(["ama", "bebi", "coco", "dada"]) + " V O\n"
            if draw.random() < 0.4:
                name = draw.choice(["Amax", "Bebix", "Cocoy"])
                label = "I-LOC" if name.endswith("y") else "I-PER"
                text += f"to TO O\n{name} N {label}\n" + draw.choice(["", ("City" if name.endswith("y") else "Zed") + f" N {label}\n"])
        text += ", , O\n\n"
    return text


def train(model, *options):
    return ["train", "--task", "tagging", "--model", model, "--train-sets", F / "train", "--vocabs", F / "v.spm", *SIZES,
            *options]


def error_of(*arguments, code=1, **options):
    result = run(*arguments, "--quiet", **options)
    assert result.returncode == code and result.stderr.count("\n") == 1, result.stderr
    return result.stderr


class Tagging(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (F / "train").write_text(columns(60, 1))
        (F / "valid").write_text(columns(20, 2))
        (F / "words").write_text("ama bebi coco dada to Amax Bebix Cocoy Zed City ,\n")
        checked("vocab", "--train-sets", F / "words", "--type", "word", "--output", F / "v.spm")
        cls.log = checked(*train(F / "run", "--valid-sets", F / "valid", "--valid-freq", 400, "--after-batches", 400,
                                 "--transformer-dropout", 0)).stderr

    def test_validation_and_score(self):
        self.assertRegex(self.log, r"\[valid\].*f1.*1\.0000")
        report = checked("score", "--model", F / "run", "--train-sets", F / "valid").stdout.splitlines()
        self.assertRegex(report[0], r"^processed \d+ tokens with (\d+) phrases; found: \1 phrases; correct: \1\.$")
        self.assertEqual(report[1], "accuracy: 100.00%; precision: 100.00%; recall: 100.00%; FB1: 100.00")
        self.assertRegex(report[2], r"^              LOC: precision: 100\.00%; recall: 100\.00%; FB1: 100\.00  \d+$")
        self.assertEqual(report[-1], "F1 100.00")

    def test_columns_come_back_with_one_more(self):
        text = (F / "valid").read_text()
        output = checked("tag", "--model", F / "run", stdin=text).stdout
        expected = "".join(f"{line} {line.split()[-1]}\n" if line else "\n" for line in text.splitlines())
        self.assertEqual(output, expected)

    def test_running_text(self):
        output = checked("tag", "--model", F / "run", "--input-format", "text", stdin="ama to Amax, coco\n").stdout
        self.assertEqual(output, "ama O\nto O\nAmax I-PER\n, O\ncoco O\n\n")

    def test_clause_attention(self):
        spec = ["--attention-encoder", "mix(full,clause(1),clause(2))", "--clause-tag-column", 2]
        checked(*train(F / "mixed", *spec, "--valid-sets", F / "valid", "--valid-freq", 40, "--after-batches", 40))
        self.assertTrue((F / "mixed" / "last" / "clauses.txt").exists())
        checked("score", "--model", F / "mixed", "--train-sets", F / "valid")
        output = checked("tag", "--model", F / "mixed", stdin="ama V\n, ,\ncoco V\n").stdout
        self.assertEqual(output.count("\n"), 3)
        message = error_of("tag", "--model", F / "mixed", "--input-format", "text", stdin="ama\n", code=2)
        self.assertIn("finds clauses by the part-of-speech tags of column 2, and text has no tags", message)
        text = ["tag", "--model", F / "mixed", "--input-format", "text", "--clause-tag-column", 0]
        self.assertEqual(checked(*text, stdin="ama, coco\n").stdout.count("\n"), 4)
        self.assertIn("line 1: got 1 column; expected at least 2, the --clause-tag-column",
                      error_of("tag", "--model", F / "mixed", stdin="ama\n"))
        self.assertIn("the model has no clauses", error_of("score", "--model", F / "run", "--train-sets", F / "valid",
                                                           "--clause-tag-column", 2, code=2))
        self.assertIn("holds the labels", error_of(*train(F / "leak", *spec, "--label-column", 2)))
        self.assertIn("attends within clauses of tagged words", error_of("embed", "--model", F / "mixed", stdin="ama\n"))
        log = checked("train", "--task", "tagging", "--model", F / "grown", "--train-sets", F / "train", "--pretrained-model",
                      F / "run", *spec, "--after-batches", 2, "--cpu-threads", 1).stderr
        self.assertIn("start with little weight on the clauses: encoder.layers.0.self_attention.clause_mix", log)

    def test_any_column_is_the_label(self):
        log = checked(*train(F / "pos", "--valid-sets", F / "valid", "--label-column", 2, "--after-batches", 100,
                             "--valid-freq", 100, "--transformer-dropout", 0)).stderr
        self.assertRegex(log, r"\[valid\].*accuracy.*1\.0000")
        report = checked("score", "--model", F / "pos", "--train-sets", F / "valid", "--label-column", 2).stdout
        self.assertIn("accuracy: 100.00%", report)
        self.assertIn("               TO: precision: 100.00%", report)
        output = checked("tag", "--model", F / "pos", stdin="-DOCSTART-\n\nAmax\n").stdout
        self.assertEqual(output, "-DOCSTART- -X-\n\nAmax N\n")

    def test_names_and_other_labels_in_one_model(self):
        text = re.sub(r" (TO|,) O\n", r" \1 O \1\n", (F / "train").read_text())
        text = re.sub(r"^(\S+ \S+ \S+)$", r"\1 O", text, flags=re.M)
        (F / "fused").write_text(text)
        checked("train", "--task", "tagging", "--model", F / "fusion", "--train-sets", F / "fused", "--vocabs", F / "v.spm",
                *SIZES, "--label-column", 3, 4, "--after-batches", 400, "--transformer-dropout", 0)
        report = checked("score", "--model", F / "fusion", "--train-sets", F / "fused", "--label-column", 3, 4).stdout
        self.assertEqual(report.splitlines()[-3:], ["F1 100.00", "F1-names 100.00", "F1-words 100.00"])
        output = checked("tag", "--model", F / "fusion", stdin="to\nAmax\n,\n").stdout
        self.assertEqual(output, "to TO\nAmax I-PER\n, ,\n")

    def test_a_run_resumes_and_averages(self):
        options = ["--valid-sets", F / "valid", "--valid-freq", 10, "--save-freq", 10]
        checked(*train(F / "resumed", *options, "--after-batches", 10))
        log = checked(*train(F / "resumed", *options, "--after-batches", 20)).stderr
        self.assertIn("resuming after update 10", log)
        checked("average", "--model", F / "resumed", "--last", 2, "--output", F / "average")
        self.assertIn("F1 ", checked("score", "--model", F / "average", "--train-sets", F / "valid").stdout)

    def test_attention_of_a_trained_model_can_be_replaced(self):
        for spec in ("topk(2)", "1*full;1*window(3)"):
            checked("score", "--model", F / "run", "--train-sets", F / "valid", "--attention-encoder", spec)
        self.assertIn("--attention-decoder", error_of("score", "--model", F / "run", "--train-sets", F / "valid",
                                                      "--attention-decoder", "full", code=2))
        self.assertIn("the model has no decoder, only encoder",
                      error_of(*train(F / "never", "--attention-layers", "decoder.1=full"), code=2))

    def test_says_what_is_wrong(self):
        (F / "ragged").write_text("a N O\nb O\n")
        ragged = f"{F / 'ragged'}', line 2: got 2 columns; expected 3 as in line 1"
        self.assertIn(ragged, error_of("score", "--model", F / "run", "--train-sets", F / "ragged"))
        self.assertIn(ragged, error_of("train", "--task", "tagging", "--model", F / "never", "--train-sets", F / "ragged",
                                       "--vocabs", F / "v.spm"))
        self.assertIn("got 3 columns; expected at least 5, the --label-column",
                      error_of(*train(F / "never", "--label-column", 5)))
        self.assertIn("--label-column: expected numbers from 2", error_of(*train(F / "never", "--label-column", 1), code=2))
        self.assertIn("--vocabs is missing", error_of("train", "--task", "tagging", "--model", F / "never", "--train-sets",
                                                      F / "train", code=2))
        self.assertIn("--train-sets is missing", error_of("score", "--model", F / "run", code=2))
        self.assertIn("is not UTF-8", error_of("tag", "--model", F / "run", stdin=b"\xff\xfe\n"))
        place = Workplace()
        self.assertIn("is a model of the task translation; expected one of the task tagging",
                      error_of("tag", "--model", place.model(), stdin=""))
        self.assertIn("is a model of the task tagging; expected one of the task translation",
                      error_of("translate", "--model", F / "run", stdin=""))
        self.assertIn("is a model of the task translation; expected one of the tasks tagging, bert",
                      error_of(*train(F / "never", "--pretrained-model", place.model())))
        damaged = F / "damaged"
        shutil.copytree((F / "run" / "last").resolve(), damaged)
        (damaged / "labels.txt").write_text("O\nB-PER\n")
        self.assertIn("labels.txt", error_of("tag", "--model", damaged, stdin="a\n"))
        self.assertFalse((F / "never").exists())


@unittest.skipUnless(DATA.is_dir(), "FOVEA_DATA names no folder with conll2003")
class Conll2003(unittest.TestCase):
    def test_names_are_learned(self):
        training = gzip.open(DATA / "eng.train.gz", "rt").read().split("\n\n")[:3000]
        (F / "conll").write_text("\n\n".join(training) + "\n")
        (F / "conll.words").write_text("\n".join(line.split()[0] for part in training for line in part.split("\n") if line))
        checked("vocab", "--train-sets", F / "conll.words", "--dim-vocabs", 2000, "--output", F / "conll.spm")
        checked("train", "--task", "tagging", "--model", F / "conll-run", "--train-sets", F / "conll", "--vocabs",
                F / "conll.spm", "--dim-emb", 64, "--enc-depth", 1, "--transformer-heads", 4, "--transformer-dim-ffn", 128,
                "--learn-rate", 0.003, "--lr-warmup", 50, "--after-batches", 200)
        report = checked("score", "--model", F / "conll-run", "--train-sets", DATA / "eng.testa.gz").stdout
        self.assertGreater(float(re.search(r"^F1 (\S+)$", report, re.M).group(1)), 15, report)


if __name__ == "__main__":
    unittest.main(verbosity=2)

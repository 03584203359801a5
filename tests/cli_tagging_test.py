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


def chunks(labels):
    """The chunks of labels PREFIX-TYPE by the rules of conlleval, as triples of type, begin and end."""
    found, before = [], ("O", "")
    for place, label in enumerate(labels):
        prefix, _, kind = label.partition("-")
        begins = prefix in "BSUW" or before[0] in "OELSUW" or before[1] != kind
        if prefix != "O" and begins:
            found.append([kind, place, place + 1])
        elif prefix != "O":
            found[-1][2] = place + 1
        before = (prefix, kind)
    return set(map(tuple, found))


def f1(gold, found):
    """In percent, of sentences of labels."""
    wanted, got, right = 0, 0, 0
    for one, other in zip(gold, found, strict=True):
        wanted, got, right = wanted + len(chunks(one)), got + len(chunks(other)), right + len(chunks(one) & chunks(other))
    return f"{200 * right / (wanted + got):.2f}"


def chunk_labels(types, letters):
    """The labels of neighbouring chunks, pairs of a type and a number of words ("O": outside of chunks)."""
    single, first, inner, last = letters
    labels = []
    for kind, size in types:
        marks = [single] if size == 1 else [first, *inner * (size - 2), last]
        labels += ["O"] * size if kind == "O" else [f"{mark}-{kind}" for mark in marks]
    return labels


def random_chunks(seed, sentences):
    draw = random.Random(seed)
    return [[(draw.choice(["PER", "O"]), draw.randint(1, 3)) for _ in range(draw.randint(1, 4))] for _ in range(sentences)]


class LabelForms(unittest.TestCase):
    """Labels of chunks in the usual dialects and forms are counted as conlleval counts them, and written as the data's."""

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(dir=F))
        (cls.place / "words").write_text("ama bebi coco dada Amax Bebix # \u7532 \u4e59 \u3002\n")
        checked("vocab", "--train-sets", cls.place / "words", "--type", "word", "--output", cls.place / "v.spm")

    def command(self, name, *options, model=None):
        return ["train", "--task", "tagging", "--model", model or self.place / f"{name}.run", "--train-sets",
                self.place / name, "--vocabs", self.place / "v.spm", *SIZES, "--transformer-dropout", 0, *options]

    def train(self, name, *options, updates=40, **others):
        return checked(*self.command(name, "--after-batches", updates, *options, **others)).stderr

    def text(self, labels, seed, spell=str, outside="O"):
        draw, lines = random.Random(seed), []
        for sentence in labels:
            for label in sentence:
                word = draw.choice(["ama", "bebi", "coco"] if label == "O" else ["dada", "Amax", "Bebix"])
                lines.append(f"{word} {outside if label == 'O' else spell(label)}")
            lines.append("")
        return "\n".join(lines) + "\n"

    def check_form(self, name, letters, spell, outside="O", kind="PER"):
        gold = [chunk_labels(types, letters) for types in random_chunks(2, 30)]
        (self.place / name).write_text(
            self.text([chunk_labels(types, letters) for types in random_chunks(1, 60)], 1, spell, outside))
        (self.place / "gold").write_text(self.text(gold, 2, spell, outside))
        log = self.train(name, "--valid-sets", self.place / "gold", "--valid-freq", 40)
        words = re.sub(r" \S+$", "", (self.place / "gold").read_text(), flags=re.M)
        output = checked("tag", "--model", self.place / f"{name}.run", stdin=words).stdout
        spelled = {outside: "O"} | {spell(f"{letter}-{kind}"): f"{letter}-{kind}" for letter in "BIESLUMW"}
        found = [[spelled[line.split()[1]] for line in sentence.split("\n")] for sentence in output.strip("\n").split("\n\n")]
        report = checked("score", "--model", self.place / f"{name}.run", "--train-sets", self.place / "gold").stdout
        self.assertEqual(report.splitlines()[-1], f"F1 {f1(gold, found)}")
        self.assertIn(f" {float(f1(gold, found)) / 100:.4f}", re.search(r".*\[valid\].*f1.*", log)[0])
        self.assertEqual(found, [chunk_labels(self.types_of(one), letters) for one in found], "all chunks in the dialect")
        self.assertGreater(float(f1(gold, found)), 0)
        return log

    @staticmethod
    def types_of(labels):
        """The chunks of labels as chunk_labels() takes them."""
        spans = sorted(chunks(labels), key=lambda chunk: chunk[1])
        types, place = [], 0
        for kind, begin, end in spans:
            types += [("O", 1)] * (begin - place) + [(kind, end - begin)]
            place = end
        return types + [("O", 1)] * (len(labels) - place)

    def test_without_types(self):
        log = self.check_form("bare", "BBII", lambda label: label[0])
        self.assertRegex(log, r"labels mark \d+ chunks of 1 type; the model writes them in iob2 as B ")
        self.assertEqual((self.place / "bare.run" / "last" / "labels.txt").read_text(), "O\nB\nI\n")

    def test_other_letters(self):
        self.assertIn("in bmewo as B-TYPE", self.check_form("bmewo", "WBME", str))
        self.assertIn("in ioe2 as B-TYPE", self.check_form("ioe2", "EIIE", str))

    def test_other_forms(self):
        self.assertIn("in iob2 as B_TYPE", self.check_form("low_line", "BBII", lambda label: label.replace("-", "_")))
        self.assertIn("in bilou as TYPE-B", self.check_form("behind", "UBIL", lambda label: f"{label[2:]}-{label[0]}"))
        self.assertIn("in iob2 as b-TYPE", self.check_form("small", "BBII", str.lower, "o"))

    def test_a_stray_label_changes_nothing(self):
        (self.place / "stray").write_text("Amax B-PER\ndada I-PER\nama O\n\n" * 100 + "ama O\nBebix I-LOC\n")
        log = self.train("stray", updates=60)
        self.assertRegex(log, r"--train-sets: 1 of 101 chunks is not written in iob2, the dialect of most \(first: I-LOC in "
                              r"'.*stray', line 402\)")
        output = checked("tag", "--model", self.place / "stray.run", stdin="Amax\ndada\nama\n").stdout
        self.assertEqual(output, "Amax B-PER\ndada I-PER\nama O\n")
        log = self.train("stray", "--label-dialect", "iob1", updates=1, model=self.place / "iob1.run")
        self.assertNotIn("dialect of most", log)

    def test_labels_that_only_look_like_chunks(self):
        (self.place / "odd").write_text("Amax B-PER\ndada I-PER\nama O\n\n" * 100 + "ama B_LOC\n")
        self.assertRegex(self.train("odd"), r"--train-sets: 1 word has a label like those of chunks or O that is read as "
                                            r"neither: B_LOC \(first: '.*odd', line 401\)")
        (self.place / "pos").write_text("Amax N\ndada V\nama B\ncoco I\nbebi O\n\n" * 50)
        log = self.train("pos")
        self.assertNotIn("labels mark", log)
        self.assertNotIn("like those of chunks", log)
        self.assertEqual((self.place / "pos.run" / "last" / "labels.txt").read_text(), "O\nB\nI\nN\nV\n")
        never = self.place / "never"
        self.assertIn("--label-form: no label of --train-sets has the form B_TYPE; expected labels such as B_TYPE",
                      error_of(*self.command("pos", "--label-form", "B_TYPE", model=never)))
        for wrong in (["--label-form", "X"], ["--label-form", "B-TYPE", "--label-dialect", "words"]):
            self.assertIn("--label-form: ", error_of(*self.command("pos", *wrong, model=never), code=2))

    def test_comments_are_no_words(self):
        sentence = "ama _ _ O\nAmax _ _ B-PER\n# _ _ O\n\n# _ _ O\nama _ _ O\n\n"
        comments = sentence * 5 + "".join(f"# id s{i}\tdomain=en\n{sentence}" for i in range(20))
        (self.place / "comments").write_text(comments)
        (self.place / "none").write_text(sentence * 25)
        log = self.train("comments")
        self.assertIn("20 comment lines are left out", log)
        self.train("none")
        models = [(self.place / f"{name}.run" / "last" / "model.safetensors").read_bytes() for name in ("comments", "none")]
        self.assertEqual(*models)
        for name in ("comments", "none"):
            report = checked("score", "--model", self.place / "none.run", "--train-sets", self.place / name).stdout
            self.assertTrue(report.startswith("processed 125 tokens"), report)
        tagged = checked("tag", "--model", self.place / "none.run", stdin=comments).stdout.splitlines()
        for before, after in zip(comments.splitlines(), tagged, strict=True):
            is_word = before and "domain" not in before
            self.assertEqual(len(after.split()), 5 if is_word else len(before.split()), after)
        labelled = checked("clauses", "--label", stdin="# x = 1\nama NN\n# NN\n\n-DOCSTART- -X-\n\n").stdout
        self.assertEqual(labelled, "# x = 1\nama NN O\n# NN O\n\n-DOCSTART- -X- O\n\n")

    def test_conll_u(self):
        rest = "\t_\t_\t_\t_\t_\t_\n"
        conll_u = (f"# sent_id = 1\n# text = ama Amax\n1-2\tamax\t_\t_{rest}1\tama\t_\tVERB{rest}"
                   f"2\tAmax\t_\tNOUN{rest}2.1\tx\t_\tX{rest}\n") * 10
        (self.place / "u").write_text(conll_u)
        self.assertIn("last column holds no labels; expected --label-column, such as 4",
                      error_of(*self.command("u", model=self.place / "never")))
        log = self.train("u", "--label-column", 4)
        self.assertIn("20 lines of CoNLL-U without a word of the text (1-2, 1.1) are left out", log)
        self.assertEqual((self.place / "u.run" / "last" / "labels.txt").read_text(), "NOUN\nVERB\n")
        tagged = checked("tag", "--model", self.place / "u.run", stdin=conll_u).stdout.splitlines()
        self.assertEqual([line.split("\t")[-1] for line in tagged[:7]],
                         ["# sent_id = 1", "# text = ama Amax", "_", "VERB", "NOUN", "_", ""])
        labels = ["clauses", "--label", "--tag-column", 4]
        self.assertIn("give --word-column 2", error_of_plain(*labels, stdin=conll_u))
        labelled = checked(*labels, "--word-column", 2, stdin=conll_u).stdout.splitlines()
        self.assertEqual([line.split("\t")[-1] for line in labelled[:7]],
                         ["# sent_id = 1", "# text = ama Amax", "_", "O", "O", "_", ""])

    def test_running_text_without_blanks(self):
        (self.place / "zh").write_text("\u7532 B-PER\n\u4e59 I-PER\n\u3002 O\n\n" * 50)
        self.train("zh", updates=60)
        tag = ["tag", "--model", self.place / "zh.run"]
        as_text = checked(*tag, "--input-format", "text", stdin="\u7532\u4e59\u3002\n").stdout
        self.assertEqual(as_text, checked(*tag, stdin="\u7532\n\u4e59\n\u3002\n\n").stdout)
        self.assertEqual(as_text, "\u7532 B-PER\n\u4e59 I-PER\n\u3002 O\n\n")
        thai = checked(*tag, "--input-format", "text", stdin="\u0e01" * 40 + "\n").stderr
        self.assertIn("is read as one word, because its script has no blanks between words", thai)

    def test_plain_text_is_no_columns(self):
        (self.place / "text").write_text("Amax B-PER\nama O\n\n" * 20)
        self.train("text", updates=2)
        tag = ["tag", "--model", self.place / "text.run"]
        for text in ("Amax saw the dada today.\n", "Amax saw the dada .\nWhat was it ?\n\nNobody knew at all .\n",
                     "\u7532\u4e59\u7532\u3002\n"):
            self.assertIn(f"line 1: '{text.splitlines()[0]}' looks like running text, but the input is read as columns",
                          checked(*tag, stdin=text).stderr)
        for columns in ("Amax NN Amax\nsaw VBD see\n", "Amax\nsaw\n", "\u7532\u4e59\n\u3002\n"):
            self.assertNotIn("looks like", checked(*tag, stdin=columns).stderr)


def error_of_plain(*arguments, **options):
    """The error of a command that has no --quiet."""
    result = run(*arguments, **options)
    assert result.returncode == 1 and result.stderr.count("\n") == 1, result.stderr
    return result.stderr


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

#!/usr/bin/env python3
"""Documents and clauses from the command line: corpus, train, translate, evaluate, clauses."""
import json
import re
import unittest

from fovea_program import Workplace, checked, run

PLACE = Workplace()


def write(name, text):
    path = PLACE.folder / name
    path.write_text(text, encoding="utf-8")
    return path


def document_text(words, documents, sentences):
    lines = []
    for d in range(documents):
        lines.append("<d>")
        lines += [" ".join(words[(d * 7 + i * 3 + j) % len(words)] for j in range(3 + (d + i) % 3)) + " ." for i in range(sentences)]
    return "\n".join(lines) + "\n"


EN = ["the", "cat", "sees", "a", "dog", "and", "it", "runs"]
DE = ["die", "Katze", "sieht", "einen", "Hund", "und", "er", "rennt"]


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.source, cls.target = write("d.en", document_text(EN, 12, 5)), write("d.de", document_text(DE, 12, 5))
        cls.vocabs = [PLACE.folder / "en.spm", PLACE.folder / "de.spm"]
        for text, vocab in zip((cls.source, cls.target), cls.vocabs):
            checked("vocab", "--train-sets", text, "--type", "word", "--output", vocab)
        cls.small = ["--dim-emb", 32, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--enc-depth", 1, "--dec-depth", 1,
                     "--mini-batch-words", 200, "--lr-warmup", 5, "--quiet", "--cpu-threads", 1]

    def train(self, name, *options):
        model = PLACE.folder / name
        checked("train", "--train-sets", self.source, self.target, "--vocabs", *self.vocabs, "--model", model, *self.small,
                "--after-batches", 6, *options)
        return model

    def test_lines_in_are_lines_out(self):
        model = self.train("documents", "--documents", "--document-length", 40, "--valid-sets", self.source, self.target,
                           "--valid-metrics", "ce-mean-words", "bleu")
        text = "<d>\nthe cat\na dog\n\n\nit runs\n<d>\n<d>\n"
        result = run("translate", "--model", model, "--documents", "--document-length", 10, "--max-length-factor", 2, stdin=text)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.split("\n")
        self.assertEqual(len(lines), len(text.split("\n")))
        for i in (0, 6, 7):
            self.assertEqual(lines[i], "<d>")
        for i in (3, 4):
            self.assertEqual(lines[i], "")
        self.assertIn("2 documents, 2 blocks", result.stderr)
        self.assertIn("with another number of sentences", result.stderr)
        refused = run("translate", "--model", model, "--document-length", 10, stdin=text)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--document-length is for --documents", refused.stderr)
        refused = run("train", "--train-sets", self.source, self.target, "--vocabs", *self.vocabs, "--model",
                      PLACE.folder / "never", "--document-length", 10)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--document-length is for --documents", refused.stderr)
        long = "<d>\n" + "cat " * 30 + "\ndog\n"
        result = run("translate", "--model", model, "--documents", "--document-length", 10, "--max-length-factor", 2, stdin=long)
        self.assertIn("line 2 has 30 tokens; cut to 9 (--document-length)", result.stderr)
        self.assertEqual(result.stdout.count("\n"), 3)
        result = run("translate", "--model", model, "--documents", "--document-length", 10, "--max-length", 6, stdin=long)
        self.assertIn("line 2 has 30 tokens; cut to 5 (--max-length)", result.stderr)
        result = run("translate", "--model", model, "--documents", "--n-best", stdin="a\n")
        self.assertIn("--documents prints a translation per line", result.stderr)

    def test_boundaries_of_both_sides_must_agree(self):
        other = write("other.de", self.target.read_text(encoding="utf-8").replace("<d>\n", "die .\n", 2))
        result = run("train", "--train-sets", self.source, other, "--vocabs", *self.vocabs, "--model", PLACE.folder / "x", *self.small,
                     "--documents")
        self.assertEqual(result.returncode, 1)
        self.assertIn("line 1:", result.stderr)
        self.assertIn("expected documents to begin at the same lines of both", result.stderr)

    def test_evaluate(self):
        reference = write("r", "<d>\nThe cat sat on the mat .\nIt slept .\n<d>\nA dog barked at the cat .\n")
        hypothesis = write("h", "<d>\nThe cat sat on a mat .\nIt slept .\n<d>\nA dog barked .\n")
        plain = run("evaluate", "--reference", reference, "--input", hypothesis, "--documents", "--json")
        records = json.loads(plain.stdout)
        self.assertEqual([record["name"] for record in records], ["d-BLEU", "BLEU"])
        joined = [write(n, t) for n, t in (("rj", "The cat sat on the mat . It slept .\nA dog barked at the cat .\n"),
                                           ("hj", "The cat sat on a mat . It slept .\nA dog barked .\n"))]
        alone = json.loads(run("evaluate", "--reference", joined[0], "--input", joined[1], "--json").stdout)
        self.assertEqual(records[0]["score"], alone["score"])
        without = write("w", hypothesis.read_text().replace("<d>\n", ""))
        again = run("evaluate", "--reference", reference, "--input", without, "--documents", "--json")
        self.assertEqual(again.stdout, plain.stdout)
        wrong = write("v", hypothesis.read_text().replace("<d>\nA", "so\nA"))
        result = run("evaluate", "--reference", reference, "--input", wrong, "--documents")
        self.assertEqual(result.returncode, 1)
        self.assertIn("line 4:", result.stderr)
        result = run("evaluate", "--reference", reference, "--input", hypothesis, "--documents", "--sentence-level")
        self.assertEqual(result.returncode, 2)

    def test_evaluate_agrees_with_sacrebleu(self):
        try:
            import sacrebleu
        except ImportError:
            self.skipTest("sacrebleu is not installed: d-BLEU was not compared with it")
        reference, hypothesis = "The cat sat on the mat .\nIt slept .\n", "The cat sat on a mat .\nIt slept .\n"
        more = "<d>\nA dog barked at the cat .\n"
        files = [write("sr", "<d>\n" + reference + more), write("sh", "<d>\n" + hypothesis + more.replace(" at the cat", ""))]
        record = json.loads(checked("evaluate", "--reference", files[0], "--input", files[1], "--documents", "--json").stdout)[0]
        texts = [[" ".join(part.split("\n")).strip() for part in path.read_text().split("<d>\n")[1:]] for path in files]
        self.assertAlmostEqual(record["score"], sacrebleu.corpus_bleu(texts[1], [texts[0]]).score, delta=0.0051)

    def test_clause_attention(self):
        model = self.train("mixed", "--attention-encoder", "mix(full,clause(1),clause(2))")
        self.assertTrue((model / "last" / "clauses.txt").exists())
        text = "the cat , and a dog .\nit runs\n\n"
        mixed = run("translate", "--model", model, stdin=text)
        self.assertEqual(mixed.returncode, 0, mixed.stderr)
        self.assertEqual(mixed.stdout.count("\n"), 3)
        for spec in ("full", "clause(2)", "mix(full,clause(1),constant(0.5))"):
            self.assertEqual(run("translate", "--model", model, "--attention-encoder", spec, stdin=text).returncode, 0)
        plain = self.train("plain")
        result = run("translate", "--model", plain, "--attention-encoder", "mix(full,clause(1))", stdin=text)
        self.assertEqual(result.returncode, 1)
        self.assertIn("the weights of its mixture", result.stderr)
        grown = self.train("grown", "--attention-encoder", "mix(full,clause(1),token)", "--pretrained-model", plain)
        self.assertEqual(run("translate", "--model", grown, stdin=text).returncode, 0)
        for option, says in (("--attention", "encoder's self-attention alone"), ("--attention-decoder", "encoder's self-attention alone")):
            result = run("train", "--train-sets", self.source, self.target, "--vocabs", *self.vocabs, "--model", PLACE.folder / "y",
                         *self.small, option, "clause(1)")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(says, result.stderr)
        bad = write("bad.txt", "conjunction\tand\nrelativ\twho\n")
        result = run("train", "--train-sets", self.source, self.target, "--vocabs", *self.vocabs, "--model", PLACE.folder / "z", *self.small,
                     "--attention-encoder", "clause(1)", "--clause-dictionary", bad)
        self.assertEqual(result.returncode, 1)
        self.assertIn("line 2: got the kind 'relativ'", result.stderr)

    def test_clauses_by_a_tagger(self):
        labels = {"and": "SCONJ", ".": "PUNCT"}
        columns = write("signals", "".join("".join(f"{word} {labels.get(word, 'O')}\n" for word in line.split()) + "\n"
                                           for line in self.source.read_text().splitlines() if line != "<d>"))
        tagger = PLACE.folder / "signal-words"
        checked("train", "--task", "tagging", "--train-sets", columns, "--vocabs", self.vocabs[0], "--model", tagger, "--dim-emb", 16,
                "--transformer-heads", 2, "--enc-depth", 1, "--transformer-dim-ffn", 16, "--after-batches", 2, "--quiet")
        options = ["--attention-encoder", "mix(full,clause(1),clause(2))", "--clause-tagger"]
        model = self.train("studied", *options, tagger)
        tagger.rename(PLACE.folder / "elsewhere")
        self.assertEqual((model / "last" / "clause-tagger.task").read_text(), "tagging")
        text = "the cat , and a dog .\n\nit runs\n"
        result = run("translate", "--model", model, stdin=text)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("\n"), 3)
        checked("score", "--model", model, "--train-sets", self.source, self.target, "--summary")
        result = run("train", "--train-sets", self.source, self.target, "--vocabs", *self.vocabs, "--model", PLACE.folder / "w", *self.small,
                     *options, model)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "--clause-tagger: '.*studied.*' is a model of the task translation; expected one of the task tagging")

    def test_clause_flags(self):
        plain = self.train("unflagged")
        vocabs = [PLACE.folder / "flags.spm", self.vocabs[1]]
        checked("vocab", "--train-sets", self.source, "--type", "word", "--clause-flags", "--output", vocabs[0])
        model = PLACE.folder / "flagged"
        data = ["--train-sets", self.source, self.target]
        train = ["train", *data, "--model", model, *self.small, "--after-batches", 6, "--clause-flags"]
        result = run(*train, "--vocabs", *self.vocabs)
        self.assertEqual(result.returncode, 1)
        self.assertIn("en.spm': the vocabulary has no piece <c1>, which --clause-flags needs; make it with `fovea vocab --clause-flags`",
                      result.stderr)
        checked(*train, "--vocabs", *vocabs, "--valid-sets", self.source, self.target, "--valid-freq", 6, "--valid-metrics",
                "ce-mean-words")
        self.assertTrue((model / "last" / "clauses.txt").exists())
        # Validation and score read the same pieces.
        events = [json.loads(line) for line in (model / "log.jsonl").read_text().splitlines()]
        found = [event["value"] for event in events if event["event"] == "valid"][-1]
        summary = checked("score", "--model", model / "last", *data, "--summary").stdout
        self.assertAlmostEqual(float(re.search(r"ce-mean-words ([0-9.]+)", summary)[1]), found, delta=1e-5, msg=summary)
        text = "the cat , and a dog .\n"
        cut = run("translate", "--model", model, "--max-length", 5, stdin=text)
        self.assertIn("has 10 tokens; cut to 5", cut.stderr)
        self.assertIn("has 7 tokens; cut to 5", run("translate", "--model", plain, "--max-length", 5, stdin=text).stderr)
        pairs = [write("f.en", text), write("f.de", "die Katze , und ein Hund .\n")]
        links = checked("align", "--model", model, "--train-sets", *pairs).stdout.split()
        self.assertTrue(links and all(0 <= int(side) < 7 for link in links for side in link.split("-")), links)
        pieces = checked("embed", "--model", model, "--pieces", stdin="cat and\n").stdout
        self.assertEqual(pieces, "\u2581cat <c2> \u2581and </s>\n")
        again = run(*train, "--vocabs", *vocabs, "--pretrained-model", plain, "--overwrite")
        self.assertEqual(again.returncode, 1)
        self.assertIn("has another source.spm than this run", again.stderr)

    def test_clauses_by_a_tagger(self):
        columns = write("pos", "that DT O\nsong NN O\n, , PUNCT\nsinging VBG O\n\n" * 30)
        words = write("pos.words", "that song , singing\n")
        checked("vocab", "--train-sets", words, "--type", "word", "--output", PLACE.folder / "pos.spm")
        for model, column in (("postagger", 2), ("signals", 3)):
            checked("train", "--task", "tagging", "--model", PLACE.folder / model, "--train-sets", columns, "--label-column", column,
                    "--vocabs", PLACE.folder / "pos.spm", "--dim-emb", 16, "--enc-depth", 1, "--transformer-heads", 2,
                    "--transformer-dim-ffn", 16, "--learn-rate", 0.01, "--lr-warmup", 5, "--after-batches", 200, "--transformer-dropout",
                    0, "--quiet", "--cpu-threads", 1)
        text = "that song, singing\n\nsong singing\n"
        by_tags = run("clauses", "--level", 6, "--tagger", PLACE.folder / "postagger", "--cpu-threads", 1, stdin=text)
        self.assertEqual(by_tags.stdout, "that song, \tsinging\n\nsong \tsinging\n", by_tags.stderr)
        by_labels = run("clauses", "--level", 6, "--tagger", PLACE.folder / "signals", stdin=text)
        self.assertEqual(by_labels.stdout, "that song, \tsinging\n\nsong singing\n", by_labels.stderr)
        labelled = checked("clauses", "--label", "--tagger", PLACE.folder / "postagger", stdin="song\nsinging\n").stdout
        self.assertEqual(labelled, "song O\nsinging PART\n\n")
        flagged = checked("clauses", "--flags", "--tagger", PLACE.folder / "postagger", stdin="song singing\n").stdout
        self.assertEqual(flagged, "song <c6> singing\n")
        for options, says in ((["--tagger", PLACE.folder / "none"], "none"),
                              (["--tagger", PLACE.folder / "postagger", "--tag-column", 2], "both say where tags come from"),
                              (["--window", 3], "--window: it is for --tagger")):
            result = run("clauses", *options, stdin=text)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(says, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        translation = self.train("notagger")
        result = run("clauses", "--tagger", translation, stdin=text)
        self.assertIn("tagging", result.stderr)

    def test_clauses(self):
        self.assertEqual(run("clauses", "--level", 2, stdin="He came, and left.\n\n").stdout, "He came, \tand left.\n\n")
        result = run("clauses", "--label", stdin="a NN\nb\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard input line 2: got 1 column; expected at least 2", result.stderr)
        result = run("clauses", "--level", 7, stdin="a\n")
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""`fovea report` and the pictures of `fovea spec` from the command line: forms, sizes, and bad input."""
import base64
import json
import re
import unittest
import xml.etree.ElementTree
import zlib

from fovea_program import TINY, Workplace, checked, run, without_privilege

PLACE = Workplace()
F = PLACE.folder
SOURCE, TARGET = PLACE.sides["test"]
MEBIBYTE = 1 << 20
PAIRS = 50


def element(page, name):
    return re.search(rf'<script type="[a-z/]*" id="{name}">(.*?)</script>', page, re.DOTALL)[1]


def report(*options, model=None, output=F / "page.html"):
    checked("report", "--model", model or PLACE.model(), *options, "--output", output, "--cpu-threads", 1, "--quiet")
    return output.read_text()


def data_of(page):
    return json.loads(element(page, "data"))


def codes_of(page, entry):
    return zlib.decompress(base64.b64decode(element(page, entry["weights"])))


def language_model():
    path = F / "language"
    if not path.exists():
        checked("train", "--task", "language", "--model", path, "--train-sets", SOURCE, "--vocabs", PLACE.vocab, "--dim-emb", 16,
                "--dec-depth", 2, "--transformer-heads", 2, "--transformer-dim-ffn", 16, "--segment-length", 32,
                "--after-batches", 2, "--cpu-threads", 1, "--quiet")
    return path


class Page(unittest.TestCase):
    def test_forms_of_input(self):
        pair = data_of(report("--train-sets", SOURCE, TARGET, "--sentences", 3))
        lines = [path.read_text().splitlines()[:3] for path in (SOURCE, TARGET)]
        self.assertEqual([[text for _, text in sentence["texts"]] for sentence in pair["sentences"]],
                         [list(both) for both in zip(*lines)])
        self.assertEqual(data_of(report("--input", SOURCE, "--reference", TARGET, "--sentences", 3)), pair)
        alone = data_of(report("--source", lines[0][0], "--target", lines[1][0]))
        self.assertEqual(alone["models"][0]["passes"][0], pair["models"][0]["passes"][0])
        own = data_of(report("--input", SOURCE, "--sentences", 2))
        translated = checked("translate", "--model", PLACE.model(), "--beam-size", 5, "--cpu-threads", 1,
                             stdin="\n".join(lines[0][:2]) + "\n").stdout.splitlines()
        self.assertEqual([sentence["texts"][1] for sentence in own["sentences"]],
                         [["The model's translation", text] for text in translated])

    def test_shapes_of_a_translation_model(self):
        page = report("--train-sets", SOURCE, TARGET, "--sentences", 1)
        entry = data_of(page)["models"][0]["passes"][0]
        source, target = len(entry["source"]), len(entry["outputs"])
        self.assertEqual((entry["source"][-1], entry["outputs"][-1], entry["inputs"]),
                         ("</s>", "</s>", ["</s>", *entry["outputs"][:-1]]))
        self.assertEqual([(a["sublayer"], a["layer"], a["heads"], a["rows"], a["columns"]) for a in entry["attentions"]],
                         [(0, 1, 2, source, source), (1, 1, 2, target, target), (2, 1, 2, target, source)])
        self.assertEqual(len(codes_of(page, entry)), 2 * (source * source + target * (target + 1) // 2 + target * source))

    def test_zeros_are_those_of_the_mechanism(self):
        """topk(2) keeps two keys of a row, ties aside, and the figures count the rest."""
        page = report("--train-sets", SOURCE, TARGET, "--sentences", 2, "--attention", "topk(2)")
        model = data_of(page)["models"][0]
        self.assertEqual(model["details"][1], ["Mechanism", "topk(2)"])
        for entry in model["passes"]:
            codes, begin = codes_of(page, entry), 0
            for attention in entry["attentions"]:
                for head in range(attention["heads"]):
                    zeros = pairs = 0
                    for row in range(attention["rows"]):
                        length = row + 1 if attention["sublayer"] == 1 else attention["columns"]
                        kept = length - codes[begin:begin + length].count(0)
                        self.assertGreaterEqual(kept, min(2, length))
                        self.assertLessEqual(kept, 4)
                        zeros, pairs, begin = zeros + length - kept, pairs + length, begin + length
                    self.assertAlmostEqual(attention["figures"][head][0], zeros / pairs, delta=6e-5)  # four digits
            self.assertEqual(begin, len(codes))

    def test_comparisons(self):
        options = ("--train-sets", SOURCE, TARGET, "--sentences", 2)
        other = data_of(report(*options, "--compare-attention", "topk(1)"))
        names = [model["name"] for model in other["models"]]
        self.assertEqual(names, [str(PLACE.model()), f"{PLACE.model()} with topk(1)"])
        self.assertEqual(other["models"][0], data_of(report(*options))["models"][0])
        same = data_of(report(*options, "--compare", PLACE.model()))["models"]
        for entry, twin in zip(same[0]["passes"], same[1]["passes"]):
            self.assertEqual(entry["attentions"], twin["attentions"])

    def test_language_models(self):
        page = report("--input", SOURCE, "--sentences", 2, model=language_model())
        entry = data_of(page)["models"][0]["passes"][0]
        length = len(entry["outputs"])
        self.assertEqual((entry["source"], entry["inputs"]), ([], ["</s>", *entry["outputs"][:-1]]))
        self.assertEqual([(a["sublayer"], a["layer"], a["rows"]) for a in entry["attentions"]], [(1, 1, length), (1, 2, length)])
        self.assertEqual(len(codes_of(page, entry)), 2 * 2 * length * (length + 1) // 2)

    def test_sweep(self):
        """The losses are those that `analyze --sweep` finds for the same sentences."""
        specs, sides = ["full", "topk(2)", "topk(1)", "cross=topk(1)"], []
        for path in (SOURCE, TARGET):
            sides.append(F / f"first-{path.name}")
            sides[-1].write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
        page = data_of(report("--train-sets", SOURCE, TARGET, "--sentences", 4, "--sweep", *specs))["sweep"]
        found = json.loads(checked("analyze", "--model", PLACE.model(), "--train-sets", *sides, "--sweep", *specs, "--json",
                                   "--cpu-threads", 1, "--quiet").stdout)
        self.assertEqual((page["unit"], page["units"]), ("target token", found["units"]))
        self.assertEqual([spec for spec, _ in page["points"]], specs)
        for (spec, loss), record in zip(page["points"], found["records"]):
            self.assertAlmostEqual(loss, record["loss"], places=9, msg=spec)
        losses = dict(page["points"])
        curves = {curve["name"]: (curve["level"], curve["points"]) for curve in page["curves"]}
        self.assertEqual(curves["topk(k)"], (False, [[1, losses["topk(1)"]], [2, losses["topk(2)"]]]))
        self.assertEqual(curves["full"], (True, [[1, losses["full"]], [2, losses["full"]]]))
        self.assertNotIn("sweep", data_of(report("--train-sets", SOURCE, TARGET, "--sentences", 1)))

    def test_sweep_of_a_language_model(self):
        line = F / "line"
        line.write_text("a b c\n")
        page = data_of(report("--input", line, "--sweep", "full", "topk(1)", model=language_model()))["sweep"]
        found = json.loads(checked("analyze", "--model", language_model(), "--train-sets", line, "--sweep", "full", "topk(1)",
                                   "--json", "--cpu-threads", 1, "--quiet").stdout)
        self.assertEqual((page["unit"], page["units"]), ("unit", found["units"]))
        for (_, loss), record in zip(page["points"], found["records"]):
            self.assertAlmostEqual(loss, record["loss"], places=6)

    def test_spans(self):
        """In the model that sees zeros before the text, all heads have spans; in the other one the first head."""
        for cold, heads in (("none", "1*span({},4);1*full"), ("zeros", "2*span({},4)")):
            model = F / f"span-{cold}"
            checked("train", "--task", "language", "--model", model, "--train-sets", SOURCE, "--vocabs", "bytes", "--dim-emb", 16,
                    "--dec-depth", 2, "--transformer-heads", 2, "--transformer-dim-ffn", 16, "--segment-length", 32,
                    "--attention", heads.format(16), "--span-start", "0.4", "--span-cold-cache", cold, "--memory-length", 0,
                    "--transformer-positions", "none", "--after-batches", 2, "--cpu-threads", 1, "--quiet")
            known = {(r["layer"], r["head"]): r["span"]
                     for r in json.loads(checked("analyze", "--model", model, "--json").stdout)["records"]}
            data = data_of(report("--input", SOURCE, "--sentences", 1, model=model))
            for place in data["models"][0]["statistics"]:
                for head, span in enumerate(place["spans"], 1):
                    if (place["layer"], head) in known:
                        self.assertAlmostEqual(span, known[place["layer"], head], delta=0.051)
                    else:
                        self.assertIsNone(span)
            length = len(data["models"][0]["passes"][0]["inputs"])
            self.assertEqual({(a["rows"], a["columns"]) for a in data["models"][0]["passes"][0]["attentions"]}, {(length, length)})
            shorter = data_of(report("--input", SOURCE, "--sentences", 1, "--attention", heads.format(4), model=model))
            spans = [place["spans"] for place in shorter["models"][0]["statistics"]]
            self.assertEqual(spans, [[4, 4 if cold == "zeros" else None]] * 2)
        plain = data_of(report("--input", SOURCE, "--sentences", 1, model=language_model()))
        self.assertEqual([place["spans"] for place in plain["models"][0]["statistics"]], [[], []])

    def test_clauses(self):
        """At each level, the page has the clauses that `fovea clauses` finds."""
        model, text, vocab = F / "clauses", F / "clauses.txt", F / "clauses.spm"
        line = "she said that he came , and when they left , it rained ."
        text.write_text(f"{line}\n" * 50)
        checked("vocab", "--train-sets", text, "--type", "word", "--dim-vocabs", 17, "--output", vocab, "--quiet")
        checked("train", "--model", model, "--train-sets", text, text, "--vocabs", vocab, vocab, *TINY, "--after-batches", 1,
                "--quiet", "--attention-encoder", "mix(full,clause(1),clause(3))")
        entry = data_of(report("--source", line, "--target", line, model=model))["models"][0]["passes"][0]
        self.assertEqual(len(entry["clauses"]), len(entry["source"]))
        for level in (1, 3):
            clauses = checked("clauses", "--level", level, stdin=line + "\n").stdout.rstrip("\n").split("\t")
            begins = [i for i, own in enumerate(entry["clauses"]) if 0 < own <= level]
            words = [entry["source"][first:last] for first, last in zip(begins, [*begins[1:], -1])]
            self.assertEqual([" ".join(word.lstrip("\u2581") for word in clause) for clause in words],
                             [clause.strip() for clause in clauses], level)
        self.assertEqual(set(entry["clauses"]), {0, 1, 3})
        plain = data_of(report("--source", "a", "--target", "a b"))["models"][0]["passes"][0]
        self.assertEqual(plain["clauses"], [])

    def test_sizes(self):
        """20 sentences of 100 tokens with 4 + 4 layers of 4 heads; dense weights that are neither equal nor sparse."""
        model, text = F / "four", F / "long.txt"
        sizes = {"--enc-depth": 4, "--dec-depth": 4, "--transformer-heads": 4, "--dim-emb": 32}
        options = [sizes.get(before, value) for before, value in zip(["", *TINY], TINY)]
        checked("train", "--model", model, "--train-sets", *PLACE.sides["train"], "--vocabs", PLACE.vocab, PLACE.vocab,
                *options, "--learn-rate", "0.01", "--lr-warmup", 5, "--after-batches", 40, "--quiet")
        # Lines of the test set, joined until they have 99 pieces or a few more, and </s>.
        shown = data_of(report("--input", SOURCE, "--reference", SOURCE, "--sentences", PAIRS, model=model))
        sizes = [len(entry["source"]) - 1 for entry in shown["models"][0]["passes"]]
        lines = []
        for i in range(20):
            parts, size = [], 0
            while size < 99:
                place = (i * 7 + len(parts)) % PAIRS
                parts.append(SOURCE.read_text().splitlines()[place])
                size += sizes[place]
            lines.append(" ".join(parts))
        text.write_text("\n".join(lines) + "\n")
        page = report("--input", text, "--reference", text, model=model)
        lengths = [len(entry["source"]) for entry in data_of(page)["models"][0]["passes"]]
        self.assertGreaterEqual(min(lengths), 100)
        self.assertLess(len(page), 5 * MEBIBYTE)


class BadInput(unittest.TestCase):
    def said(self, *options, code=1, **more):
        result = run("report", *options, "--cpu-threads", 1, **more)
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def test_in_one_line(self):
        model, page = ("--model", PLACE.model()), ("--output", F / "bad.html")
        self.assertIn("no text to show; give --input FILE, --source TEXT or --train-sets", self.said(*model, *page, code=2))
        self.assertIn("choose one", self.said(*model, *page, "--input", SOURCE, "--source", "a", code=2))
        self.assertIn("--output is missing; expected a name that ends in .html", self.said(*model, "--source", "a", code=2))
        self.assertIn("expected a name that ends in .html", self.said(*model, "--source", "a", "--output", F / "a.txt", code=2))
        self.assertIn("expected a name that ends in .html", self.said(*model, "--source", "a", "--output", F / "a.htm", code=2))
        self.assertIn("--sweep: got 'cross='", self.said(*model, *page, "--source", "a", "--sweep", "cross=", code=2))
        self.assertIn("which this model (trained with", self.said(*model, *page, "--source", "a", "--sweep", "rela-g"))
        self.assertIn("a language model has no cross-attention", self.said("--model", language_model(), *page, "--source", "a",
                                                                            "--sweep", "cross=full", code=2))
        self.assertIn("--reference needs --input", self.said(*model, *page, "--source", "a", "--reference", TARGET, code=2))
        self.assertIn("--target needs --source", self.said(*model, *page, "--input", SOURCE, "--target", "a", code=2))
        self.assertIn("--compare and --compare-attention", self.said(*model, *page, "--source", "a", "--compare", "m",
                                                                      "--compare-attention", "full", code=2))
        self.assertIn("--source: got no words", self.said(*model, *page, "--source", " ", code=2))
        self.assertIn("--input", self.said(*model, *page, "--input", F / "nowhere"))
        self.assertFalse((F / "bad.html").exists())

    def test_files_of_different_lengths(self):
        short = F / "short"
        short.write_text("".join(TARGET.read_text().splitlines(keepends=True)[:3]))
        error = self.said("--model", PLACE.model(), "--input", SOURCE, "--reference", short, "--output", F / "bad.html")
        self.assertIn(str(short), error)
        self.assertIn("3 lines", error)
        # Lines that the page does not show count too.
        for files in (("--input", SOURCE, "--reference", short), ("--train-sets", short, TARGET)):
            self.assertIn("3 lines", self.said("--model", PLACE.model(), *files, "--sentences", 2, "--output", F / "bad.html"))

    def test_long_sentences(self):
        error = self.said("--model", PLACE.model(), "--source", "x " * 60, "--max-length", 50, "--output", F / "bad.html")
        self.assertRegex(error, r"--source: got [0-9]+ tokens; expected at most 50; shorten the sentence or raise --max-length")

    def test_other_tasks(self):
        error = self.said("--model", PLACE.model(), "--source", "a", "--compare", language_model(), "--output", F / "bad.html")
        self.assertIn(f"--compare: '{language_model()}' is a model of the task language; expected one of the task translation", error)

    def test_unwritable_output(self):
        folder = F / "locked"
        folder.mkdir()
        folder.chmod(0o500)
        error = self.said("--model", PLACE.model(), "--source", "a", "--output", folder / "a.html", before=without_privilege())
        self.assertIn("--output", error)
        self.assertIn("--output", self.said("--model", PLACE.model(), "--source", "a", "--output", F / "no" / "a.html"))
        error = self.said("--model", PLACE.model(), "--input", SOURCE, "--output", PLACE.folder / "x.html", "--log", PLACE.folder / "x.html")
        self.assertIn("--log", error)

    def test_texts_without_words(self):
        blank = F / "blank"
        blank.write_text("\n \n")
        self.assertIn("has no line with words", self.said("--model", PLACE.model(), "--input", blank, "--output", F / "bad.html",
                                                           "--log-level", "error"))


class Spec(unittest.TestCase):
    def test_picture(self):
        picture = F / "spec.svg"
        result = checked("spec", "2*window(3)|global(1);2*local(4)", "--length", 9, "--causal", "--output", picture)
        self.assertEqual(result.stdout, "2*window(3)|global(1);2*local(4)\n")
        root = xml.etree.ElementTree.parse(picture).getroot()
        texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts.count("queries"), 2)
        self.assertIn("later key", texts)

    def test_bad_output(self):
        for name, text in (("a.png", "expected a name that ends in .svg"), ("no/a.svg", "--output")):
            result = run("spec", "full", "--output", F / name)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

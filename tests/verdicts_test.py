#!/usr/bin/env python3
"""recipes/verdicts.py: the verdicts that the files of results give, and the pages with them."""
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from results_tables import ROOT, ResultTables  # which makes the modules of recipes known

import verdict_files as files
import verdict_page as page
import verdict_rule as rule
import verdicts


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.book = files.Book()
        cls.text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")

    def test_every_verdict(self):
        """Each claim has one row with the verdict that the runs give, or stands in the list of claims that are not judged."""
        rows = dict(re.findall(r"^\| ([EXLRC]-\d+) \| .* \| (.*?) \| [^|]*\|$", self.text, re.MULTILINE))
        apart = re.findall(r"^- ([EXLRC]-\d+) \(.*Reason: ", self.text, re.MULTILINE)
        self.assertEqual(sorted([*rows, *apart]), sorted(claim["id"] for claim in self.book.claims))
        for claim in self.book.claims:
            with self.subTest(claim=claim["id"]):
                verdict = self.book.verdict(claim)
                self.assertEqual(claim["id"] in apart, verdict == files.APART)
                if claim["id"] in rows:
                    self.assertEqual(rows[claim["id"]], page.verdict_cell(self.book, claim))
                    self.assertTrue(rows[claim["id"]].startswith(verdict))

    def test_tables(self):
        tables = page.blocks(self.book)
        for name in verdicts.PAGES:
            text = (ROOT / name).read_text(encoding="utf-8")
            self.assertEqual(page.rewritten(text, tables)[0], text, f"{name}: run recipes/verdicts.py page")

    def test_rates(self):
        """The page has the rates of the simulation; the first is computed again."""
        shown = re.findall(r"^\| ([^|]+) \| ([\d.]+)% \|$", self.text, re.MULTILINE)
        names = [name for name, _ in rule.simulations()]
        self.assertEqual([name for name, _ in shown], names)
        name, errs = next(rule.simulations())
        rng = random.Random(f"{verdicts.SEED} {name}")
        self.assertEqual(shown[0][1], f"{sum(errs(rng) for _ in range(verdicts.TRIALS)) / verdicts.TRIALS:.1%}".rstrip("%"))

    def test_claims(self):
        ids = [claim["id"] for claim in self.book.claims]
        wanted = [f"{letter}-{i}" for letter, count in (("E", 15), ("X", 33), ("L", 38), ("R", 27), ("C", 15)) for i in range(1, count + 1)]
        self.assertEqual(ids, wanted)

    def test_families(self):
        """The family of a comparison is the first table or figure that its claim names."""
        where = {claim["id"]: claim["where"] for claim in self.book.claims}
        papers = {mark: page.NAMES[section] for section, mark in page.SECTIONS.items()}
        for row in self.book.comparisons:
            place = re.search(r"\b[TF]\d+", where[row["claim"]])
            wanted = f"{papers[row['claim'][0]]} {place[0]}" if place and row["kind"] not in ("every", "test", "arithmetic") else None
            self.assertEqual(row["family"], wanted, row)

    def test_seeds_of_a_sweep(self):
        """A seed counts when all systems of the sweep have it, and nobody skips one."""
        seeds = {}
        for run in self.book.runs:
            if self.book.settings[run["data"]]["seeds"] and run["measure"] == "F1":
                seeds.setdefault((run["data"], run["system"]), []).append(int(run["seed"]))
        self.assertEqual(len({tuple(found) for found in seeds.values()}), 1)
        for found in seeds.values():
            self.assertEqual(found, list(range(1, len(found) + 1)))

    def test_trainings(self):
        """Each training that a claim names is a section of its page."""
        headings = re.findall(r"^##+ (.*)", (ROOT / "docs" / "trainings.md").read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        named = {anchor for claim in self.book.claims for anchor in (claim["training"] or "").split()}
        self.assertLessEqual(named | {setting["training"] for setting in self.book.settings.values()}, anchors)


class Pictures(unittest.TestCase):
    def test_lengths(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "lengths.svg"
            for name, *what in (("recall", "recall"), ("update-time", "bytes-time", "--measure", "ms-*")):
                command = [sys.executable, ROOT / "recipes" / "draw_results.py", "lengths", "--output", picture, "--data", *what]
                subprocess.run(command, check=True)
                self.assertEqual(picture.read_text(), (ROOT / "docs" / f"results-{name}.svg").read_text())

    def test_runs(self):
        """The picture of the sweep has a dot for each k, and a line from the last dot of each mechanism to its name."""
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "k.svg"
            command = [sys.executable, ROOT / "recipes" / "draw_results.py", "runs", "--data", "multi30k-sweep", "--output", picture]
            subprocess.run([*command, "--processor", "the sweep's"], check=True)
            self.assertEqual(picture.read_text(), (ROOT / "docs" / "results-multi30k.svg").read_text())
            result = subprocess.run([*command, "--processor", "none"], capture_output=True, text=True)
            self.assertIn("found no runs of the data 'multi30k-sweep' with BLEU on the processor 'none'", result.stderr)
            root = xml.etree.ElementTree.fromstring(picture.read_text())
        shapes = {tag: [found.attrib for found in root.iter(f"{{http://www.w3.org/2000/svg}}{tag}")] for tag in ("circle", "path", "text")}
        names = [text for text in shapes["text"] if text["text-anchor"] == "start"]
        leaders = [path for path in shapes["path"] if path.get("class") == "leader"]
        self.assertEqual((len(names), len(leaders)), (8, 8))
        dots = {(dot["cx"], dot["cy"]) for dot in shapes["circle"]}
        for name, leader in zip(names, leaders):
            x, y, row = re.match(r"M(\S+) (\S+)L\S+ ([\d.]+)h8", leader["d"]).groups()
            self.assertAlmostEqual(float(row) + 4, float(name["y"]), delta=0.11)
            self.assertTrue((x, y) in dots or leader["stroke"] == "#333")


class Files(ResultTables):
    def test_verdicts(self):
        above, below = [40.1, 40.0, 39.9], [39.1, 39.0, 38.9]
        for rows, wanted in (
                ([], "not run"),
                ([("d", "a", above, "p"), ("d", "b", below, "p"), *self.HALF], "holds"),
                ([("d", "b", above, "p"), ("d", "a", below, "p"), ("h", "a", [39], "p"), ("h", "b", [40], "p")], "does not hold"),
                ([("d", "a", above, "p"), ("d", "b", [39.8, 39.9, 40.1], "p"), *self.HALF], "undecided"),
                ([("d", "a", above, "p"), ("d", "b", below[:2], "p"), *self.HALF], "one training"),
                ([("d", "a", above, "p"), ("d", "b", below, "-"), *self.HALF], "one training"),
                ([("d", "a", above, "p"), ("d", "b", below, "q"), *self.HALF], "one training")):
            self.runs(rows)
            self.assertEqual(self.verdict()[0], wanted, rows)

    def test_early(self):
        above, below = ("d", "a", [40.1, 40.0, 39.9], "p"), ("d", "b", [39.1, 39.0, 38.9], "p")
        lower = [("d", "a", [38.1, 38.0, 37.9], "p"), ("d", "b", [30.1, 30.0, 29.9], "p")]
        for rows, why in (([*lower, *self.HALF], "both sides are more than 2 BLEU"), ([above, below], "no figures of both sides after half"),
                          ([above, below, ("h", "a", [30], "p"), ("h", "b", [39], "p")], "the sign is another"),
                          ([above, below, ("h", "a", [39], "p"), ("h", "b", [37], "p")], "it has shrunk by more than a third")):
            self.runs(rows)
            verdict, reason = self.verdict()
            self.assertEqual(verdict, "undecided, early")
            self.assertIn(why, reason)

    def test_loss_is_no_excuse(self):
        """A side that is near the best known model makes a large loss of the other one count; so it is with a margin."""
        lost = [("d", "b", [40.1, 40.0, 39.9], "p"), ("d", "a", [30.1, 30.0, 29.9], "p"), ("h", "b", [38], "p"), ("h", "a", [28], "p")]
        self.runs(lost)
        self.assertEqual(self.verdict(), ("does not hold", ""))
        self.comparisons([["Z-1", "d", "not-worse", "a", "b", "BLEU", "+", "9"]])
        self.assertEqual(self.verdict(), ("does not hold", ""))
        self.runs(lost[:3] + [("h", "a", [26], "p")])  # beyond the margin by 1 in the end and by 3 at half
        self.assertEqual(self.verdict()[0], "undecided, early")

    def test_models_are_early_by_every_measure(self):
        """Models far from the best BLEU are early by their BERTScore, too; an analysis and CIDEr are not judged by it."""
        far = [("d", "a", [30.1, 30.0, 29.9], "p"), ("d", "b", [29.1, 29.0, 28.9], "p")]
        for measure, wanted in (("BERTScore", "undecided, early"), ("accuracy", "undecided, early"), ("CIDEr", "holds")):
            self.runs(far)
            path = self.results / "runs.tsv"
            first, *rows = path.read_text().splitlines()
            path.write_text("\n".join([first, *rows, *(row.replace("BLEU", measure) for row in rows)]) + "\n")
            self.comparisons([["Z-1", "d", "difference", "a", "b", measure, "+"]])
            self.assertEqual(self.verdict()[0], wanted, measure)
        self.assertEqual([files.yardsticks({"measure": measure}) for measure in ("F1-ORG", "BLEU-valid", "bits-per-dim", "d-BLEU", "AER")],
                         [("F1", "F1-ORG"), ("BLEU", "BLEU-valid"), ("bits-per-dim",), ("d-BLEU",), ()])

    def test_lines_widen(self):
        """The difference of 1 holds over seeds alone; test lines that reach by 2 leave it open."""
        self.runs([("d", "a", [40.1, 40.0, 39.9], "p"), ("d", "b", [39.1, 39.0, 38.9], "p"), *self.HALF])
        self.assertEqual(self.verdict()[0], "holds")
        self.table("lines", [["data", "system", "baseline", "seed", "measure", "low", "high", "p", "recorded"],
                             ["d", "b", "a", "1", "BLEU", "-3", "1", "-", "-"]])
        self.assertEqual(self.verdict()[0], "undecided")

    def test_family(self):
        """2.57 errors, with six degrees, are p = .042: enough alone, and not as the smaller of two."""
        self.runs([("d", "a", [40.0, 40.1, 40.2], "p"), ("d", "b", [39.79, 39.89, 39.99], "p"), ("d", "c", [39.9, 40.0, 40.1], "p"),
                   ("h", "a", [39.3], "p"), ("h", "b", [39.1], "p"), ("h", "c", [39.1], "p")])
        row = lambda baseline: ["Z-1", "d", "difference", "a", baseline, "BLEU", "+", "-", "-", "T"]
        self.comparisons([row("b")])
        alone = files.Book(self.results).results[0]
        self.assertAlmostEqual(alone.p, 0.042, delta=5e-4)
        self.assertEqual(alone.status, "holds")
        self.comparisons([row("b"), row("b"), row("c")])  # a comparison of two claims counts once
        first = files.Book(self.results).results[0]
        self.assertAlmostEqual(first.p, 2 * alone.p)
        self.assertEqual(first.status, "undecided")
        self.comparisons([row("b"), row("later")])  # one that nobody has run counts only where it is asked for
        self.assertEqual([files.Book(self.results, count_all=every).results[0].status for every in (False, True)], ["holds", "undecided"])
        book = files.Book(self.results)
        self.assertEqual(book.families, {"T": (1, 2)})
        self.assertIn("| T | 1 | 2 | Z-1, a and b: holds becomes undecided |", page.families_table(book))

    def test_speed_is_in_the_family(self):
        """Five ratios whose p is .043 alone, and .086 beside one more."""
        ratios = [1.0, 1.02, 1.04, 1.06, 1.08]
        found = rule.speed(ratios, 1.11)
        self.assertTrue(0.025 < found.two_sided() < 0.05)
        self.runs([("d", "a", ratios, "p"), ("d", "b", [1.0] * 5, "p"), ("d", "c", [1.02] * 5, "p")])
        row = lambda baseline: ["Z-1", "d", "as-fast", "a", baseline, "BLEU", "+", "1.11", "-", "T"]
        self.comparisons([row("b")])
        self.assertEqual(self.verdict()[0], "holds")
        self.comparisons([row("b"), row("c")])
        self.assertEqual(files.Book(self.results).results[0].status, "undecided")

    def test_scope_is_not_the_claim(self):
        self.runs([("d", "a", [40.1, 40.0, 39.9], "p"), ("d", "b", [39.1, 39.0, 38.9], "p"), *self.HALF])
        self.comparisons([["Z-1", "d", "difference", "a", "b", "BLEU", "+", "-", "-", "-", "-", "another start"]])
        book = files.Book(self.results)
        self.assertEqual((book.results[0].status, book.verdict(book.claims[0])), ("holds", "other conditions"))
        self.assertEqual(page.verdict_cell(book, book.claims[0]), "other conditions; another start: holds")
        self.assertIn("a 40.00 (3 of 4, SD 0.10)", page.ours_cell(book, book.claims[0]))

    def test_one_verdict_of_a_setting(self):
        """A comparison that fails decides for its setting, and the cell names it: by its measure, baseline or system."""
        self.runs([("d", "a", [40.1, 40.0, 39.9], "p"), ("d", "b", [39.1, 39.0, 38.9], "p"), ("d", "c", [40.6, 40.5, 40.4], "p"), *self.HALF,
                   ("h", "c", [40.6], "p")])
        row = lambda system, baseline: ["Z-1", "d", "difference", system, baseline, "BLEU", "+", "-", "-", "-", "-", "another start"]
        for rows, wanted in (([row("a", "b"), row("a", "c")], "does not hold (against b: holds; against c: does not hold)"),
                             ([row("a", "b"), row("b", "c")], "does not hold (a against b: holds; b against c: does not hold)"),
                             ([row("a", "b"), row("c", "b")], "holds")):
            self.comparisons(rows)
            book = files.Book(self.results)
            self.assertEqual(page.verdict_cell(book, book.claims[0]), "other conditions; another start: " + wanted)

    def test_told_apart(self):
        row = {"kind": "difference", "system": "a", "baseline": "b", "source": None}
        by = lambda **changes: page.told_apart([files.Result(row | {"measure": "F1-ORG"}), files.Result(row | {"measure": "F1-ORG"} | changes)])
        self.assertEqual(by(measure="F1-LOC"), ["F1 of ORG", "F1 of LOC"])
        self.assertEqual(by(baseline="c"), ["against b", "against c"])
        self.assertEqual(by(system="c", measure="F1-LOC"), ["a F1 of ORG", "c F1 of LOC"])
        self.assertEqual(by(), ["a", "a"])

    def test_analysis(self):
        """Slopes of three models, 1, 2 and 3 per layer: 2 +- 4.303 / sqrt(3)."""
        self.runs([("d", "a", [f"0 {slope} {2 * slope}" for slope in (1, 2, 3)], "p")])
        self.comparisons([["Z-1", "d", "analysis", "a", "-", "BLEU", "+", "-", "slope", "-", "-1/2 0 1/2"]])
        found = files.Book(self.results).results[0]
        self.assertEqual(found.found.difference, 2)
        self.assertAlmostEqual(found.found.interval()[0], 2 - 4.302653 / math.sqrt(3), places=5)
        self.assertEqual(found.status, "undecided")

    def test_exact(self):
        self.assertEqual([files.is_exact(text) for text in ("512/64 = 8; 2^3 = 8", "512/64 = 9", "0.1 + 0.2 = 0.3")], [True, False, True])
        for text in ("__import__('os') = 1", "x = 1"):
            with self.assertRaisesRegex(files.Bad, "is not arithmetic"):
                files.is_exact(text)
        self.comparisons([["Z-1", "-", "test", "Suite Name", "own_test.cc", "-", "+"]])
        (self.folder / "own_test.cc").write_text("TEST(Suite, Other) {}\n")
        judge = lambda: files.Book(self.results, self.folder).results[0].status
        self.assertEqual(judge(), "does not hold")
        (self.folder / "own_test.cc").write_text("TEST_F(Suite, Name) {}\n")
        self.assertEqual(judge(), "exact")

    def test_mistakes(self):
        self.runs([("nowhere", "a", [1], "p")])
        with self.assertRaisesRegex(files.Bad, "got the data 'nowhere'; expected one of settings.tsv"):
            files.Book(self.results)
        self.runs([("d", "a", [1], "p"), ("d", "a", [1], "p")])
        with self.assertRaisesRegex(files.Bad, "stands 2 times; expected once"):
            files.Book(self.results)
        self.runs([("d", "a", [1, 2], "p"), ("d", "b", [1, 2, 3], "p")])
        self.table("lines", [["data", "system", "baseline", "seed", "measure", "low", "high", "p", "recorded"],
                             ["d", "a", "b", "1-2", "BLEU", "-3", "1", "-", "-"]])
        with self.assertRaisesRegex(files.Bad, "got the seeds 1-2; expected those of 'b' in runs.tsv, 1 2 3"):
            files.Book(self.results)
        (self.results / "runs.tsv").write_text("data\tsystem\nd\n")
        with self.assertRaisesRegex(files.Bad, "line 2 has 1 columns; expected the 2"):
            files.Book(self.results)


if __name__ == "__main__":
    unittest.main(verbosity=2)

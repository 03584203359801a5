#!/usr/bin/env python3
"""recipes/verdicts.py and speed_pairs.py: the files of results, the verdicts on the pages, and the commands that add runs."""
import csv
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "recipes"))
import verdict_files as files  # noqa: E402
import verdict_lengths  # noqa: E402
import verdict_lines as lines  # noqa: E402
import verdict_page as page  # noqa: E402
import verdict_rule as rule  # noqa: E402
import verdicts  # noqa: E402


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


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.results = self.folder / "results"
        self.results.mkdir()
        empty = "-"
        self.table("claims", [["id", "rank", "where", "claim", "published", "note", "training", "ours", "not-judged"],
                              ["Z-1", "1", "T1", "a beats b", "1", empty, "here", empty, empty]])
        self.table("settings", [["data", "name", "training", "unit", "best", "source", "half", "seeds"],
                                ["d", "D", "here", "BLEU", "41", "-", "h", "4"], ["h", "H", "here", "BLEU", "-", "-", "-", "-"]])
        self.comparisons([["Z-1", "d", "difference", "a", "b", "BLEU", "+"]])
        self.runs([])
        self.table("lines", [["data", "system", "baseline", "seed", "measure", "low", "high", "p", "recorded"]])

    def table(self, name, rows):
        with open(self.results / f"{name}.tsv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None).writerows(rows)

    def comparisons(self, rows):
        head = ["claim", "data", "kind", "system", "baseline", "measure", "better", "margin", "source", "family", "weights", "scope"]
        self.table("comparisons", [head, *(row + ["-"] * (len(head) - len(row)) for row in rows)])

    def runs(self, rows):
        """Rows of (data, system, values of seeds 1, 2, ..., processor)."""
        head = ["data", "system", "seed", "measure", "value", "updates", "cpu-seconds", "processor", "precision", "recorded", "share"]
        self.table("runs", [head, *([data, system, seed, "BLEU", value, 1, "-", place, "-", "-", "-"]
                                    for data, system, values, place in rows for seed, value in enumerate(values, 1))])

    def verdict(self):
        book = files.Book(self.results)
        return book.verdict(book.claims[0]), book.results[0].why

    HALF = [("h", "a", [40], "p"), ("h", "b", [39], "p")]

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

    def call(self, *arguments, program=None):
        environment = os.environ | ({"FOVEA": str(program)} if program else {})
        return subprocess.run([sys.executable, ROOT / "recipes" / "verdicts.py", "--results", self.results, *map(str, arguments)],
                              capture_output=True, text=True, env=environment)

    def refused(self, *arguments, says):
        result = self.call(*arguments)
        self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
        self.assertIn(says, result.stderr)

    def finished_run(self, name, seed, **figures):
        run = self.folder / name
        run.mkdir()
        (run / "train.yml").write_text(f'seed: {seed}\nprecision: "bfloat16"\nafter-batches: 400\n')
        events = [{"event": "train", "updates": 100}, {"event": "end", "updates": 200, "cpu_seconds": 7.5}]
        (run / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        for file, text in figures.items():
            (run / file.replace("_", ".")).write_text(text)
        return run

    def test_add(self):
        window = self.finished_run("window-k2-seed3", 3, test_bleu="39.50\n")
        (window / "test-all-keys.bleu").write_text("38.10\n")
        (window / "test.bertscore").write_text("0.812345 encoder 3\n")
        # 6 of 7 names found are right, and 8 are in the text: two digits would give 80.00 for every F1.
        f1 = ("processed 99 tokens with 8 phrases; found: 7 phrases; correct: 6.\naccuracy:  95.02%; precision:  85.71%; recall:  75.00%; FB1:  80.00\n"
              "   LOC: precision:  83.33%; recall:  83.33%; FB1:  83.33  6\n   PER: precision: 100.00%; recall:  50.00%; FB1:  66.67  1\n")
        names = self.finished_run("full-tagged-seed1", 1, f1=f1)
        result = self.call("add", "--data", "d", "--processor", "P", window, names)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = {(run["system"], run["seed"], run["measure"]): run for run in files.table("runs", self.results)}
        self.assertEqual({key: run["value"] for key, run in rows.items()}, {
            ("window(2)", "3", "BLEU"): "39.50", ("window(2)", "3", "BERTScore"): "0.812345", ("window-train(2)", "3", "BLEU"): "38.10", ("full-tagged", "1", "P"): "85.7143",
            ("full-tagged", "1", "R"): "75.0000", ("full-tagged", "1", "F1"): "80.0000", ("full-tagged", "1", "F1-LOC"): "83.3333",
            ("full-tagged", "1", "F1-PER"): "66.6667", ("full-tagged", "1", "F1-weighted"): "79.1667"})
        run = rows["window(2)", "3", "BLEU"]
        self.assertEqual([run[key] for key in ("updates", "cpu-seconds", "processor", "precision", "share")], ["200", "7.5", "P", "bfloat16", "0.5"])
        before = (self.results / "runs.tsv").read_bytes()
        self.refused("add", "--data", "d", "--processor", "P", names, says="stands in runs.tsv already")
        self.refused("add", "--data", "x", names, says="--data: got 'x'; expected one of d, h")
        self.refused("add", "--data", "d", self.finished_run("other-seed1", 1), says="found no f1, test.bleu, valid.bleu, test.bits or other figures")
        self.refused("add", "--data", "d", "--measure", "AER", names, says="got one of them; expected both")
        self.assertEqual((self.results / "runs.tsv").read_bytes(), before)

    def test_lengths(self):
        """Means by length, and verdicts against full attention with enough seeds; bits are better if they are fewer."""
        with open(self.results / "settings.tsv", "a", encoding="utf-8") as file:
            file.write("recall\tR\there\tshare\t-\t-\t-\t3\nbytes-1024\tB\there\tbits\t-\t-\t-\t3\n")
        near = self.finished_run("topk-4-seed2", 2, system="topk(4)\n", **{"1024_bits": "1.500\n"})
        (near / "1024-4.answers").write_text("bits-per-answer 1.5\nanswered 0.440000\n")
        (near / "256-4.answers").write_text("bits-per-answer 0.5\nanswered 0.900000\n")
        self.assertEqual(self.call("add", "--data", "recall", "--processor", "p", near).stdout,
                         "added topk(4), seed 2: bits-1024 1.500\nadded topk(4), seed 2: answered-256-4 0.900000\n"
                         "added topk(4), seed 2: answered-1024-4 0.440000\n")
        head, spread = files.table("runs", self.results)[0].keys(), (-0.01, 0, 0.01)
        rows = [(data, name, seed, measure, f"{value + spread[seed - 1]:.3f}") for data, name, measure, value in (
            ("recall", "full", "answered-256-4", 0.9), ("recall", "full", "answered-1024-4", 0.2), ("recall", "relu", "answered-1024-4", 0.21),
            ("bytes-1024", "full", "bits-1024", 2.0), ("bytes-1024", "topk(4)", "bits-1024", 2.5)) for seed in (1, 2, 3)]
        rows += [("recall", "topk(4)", seed, "answered-1024-4", "0.440") for seed in (1, 3)]
        with open(self.results / "runs.tsv", "a", encoding="utf-8") as file:
            for row in rows:
                cells = dict(zip(("data", "system", "seed", "measure", "value"), row)) | {"processor": "p"}
                file.write("\t".join(str(cells.get(key, "-")) for key in head) + "\n")
        recall, of_bytes = verdict_lengths.length_tables(files.Book(self.results, self.folder)).split("\n\n")
        self.assertEqual(recall.splitlines()[2:], [
            "| `full` | 3 | 0.90 (0.01) | 0.20 (0.01) |", "| `topk(4)` | 3 | 0.90 | 0.44 (0.00), better |", "| `relu` | 3 | | 0.21 (0.01) |"])
        self.assertEqual(of_bytes.splitlines()[2:], ["| `full` | 3 | 2.000 (0.010) |", "| `topk(4)` | 3 | 2.500 (0.010), worse |"])

    def test_lines(self):
        """A stand-in for fovea prints the number of reference lines as the difference: 6, and 4 without one of three documents."""
        program = self.folder / "fovea"
        program.write_text('#!/bin/sh\nwhile [ "$1" != --reference ]; do shift; done\nn=$(wc -l < "$2")\n'
                           'echo "  d-BLEU  1 (x); difference +$n.00, 95% interval -1.00 to +3.00, p = 0.0100"\n')
        program.chmod(0o755)
        for name in ("ref", "out", "base"):
            (self.folder / name).write_text("<d>\n1\n<d>\n2\n<d>\n3\n")
        command = ["lines", "--data", "d", "--system", "a", "--baseline", "b", "--seed", "1", "--reference", self.folder / "ref",
                   "--input", self.folder / "out", "--baseline-input", self.folder / "base"]
        self.assertEqual(self.call(*command, program=program).returncode, 0)
        self.assertEqual(self.call(*command, "--documents", program=program).returncode, 0)
        first, second = files.table("lines", self.results)
        self.assertEqual([first[key] for key in ("measure", "low", "high", "p")], ["BLEU", "-1.00", "+3.00", "0.0100"])
        self.assertEqual([second[key] for key in ("measure", "low", "high", "p")], ["d-BLEU", "6.00", "6.00", None])
        program.write_text("#!/bin/sh\necho 'Error: no' >&2\nexit 1\n")
        result = self.call(*command, program=program)
        self.assertIn("fovea evaluate failed: Error: no", result.stderr)

    def test_phrases(self):
        """IOB1 and IOB2 mark the same names."""
        self.assertEqual(lines.phrases("I-PER I-PER O B-LOC I-LOC B-LOC I-ORG".split()),
                         {(0, 2, "PER"), (3, 5, "LOC"), (5, 6, "LOC"), (6, 7, "ORG")})
        self.assertEqual(lines.phrases(["O", "O"]), set())

    def test_lines_of_f1(self):
        """One model finds the name in each of n sentences, the other in the first half: F1 of 100 and of 200/3, over sentences
        that are drawn again. With the share s of the first half, the difference is 100 - 200 s / (1 + s), of slope -200 / (1 + s)^2 at
        s = 1/2, whose deviation is 1 / (2 sqrt n)."""
        n, sentence = 400, "-DOCSTART- O O\n\n" + "".join("A I-PER {}\nb O O\n\n".format("I-PER" if i < 200 else "O") for i in range(400))
        half, all_names = self.folder / "half", self.folder / "all"
        half.write_text(sentence)
        all_names.write_text(sentence.replace("PER O", "PER I-PER"))
        middle, low, high = lines.of_f1([all_names], [half], "F1")
        self.assertAlmostEqual(middle, 100 / 3)
        self.assertAlmostEqual((high - low) / 2 / 1.96, 200 / 2.25 / (2 * math.sqrt(n)), delta=0.2)  # a tenth: 1,000 resamples
        self.assertEqual(lines.of_f1([half, half], [half], "F1", 5), (0, 0, 0))
        self.assertEqual(lines.of_f1([all_names], [half], "F1-LOC", 5), (0, 0, 0))
        command = ["lines", "--data", "d", "--system", "a", "--baseline", "b", "--seed", "1-2", "--measure", "F1"]
        self.assertEqual(self.call(*command, "--input", all_names, all_names, "--baseline-input", half, half).returncode, 0)
        row, = files.table("lines", self.results)
        self.assertEqual([row[key] for key in ("seed", "measure", "low", "high", "p")], ["1-2", "F1", f"{low:.2f}", f"{high:.2f}", None])
        self.assertEqual(self.call(*command[:-3], "1-3", *command[-2:], "--input", *[all_names] * 3, "--baseline-input", *[half] * 3).returncode, 0)
        self.assertEqual([row["seed"] for row in files.table("lines", self.results)], ["1-3"])  # more seeds take the place of fewer
        half.write_text("a O\n")
        self.refused(*command, "--input", all_names, "--baseline-input", half, says="got the line 'a O'; expected a word")
        half.write_text("a O O\n")
        self.refused(*command, "--input", all_names, "--baseline-input", half, says="different numbers of sentences")
        self.refused(*command[:-2], "--input", all_names, "--baseline-input", half, says="expected one file each and --reference")

    def test_weighted_f1(self):
        """Types with 3 and 1 names and F1 of 100 and 0 give 75; with the second sentence twice, 3 and 2 give 60."""
        types = [([3, 0], [3, 0], [3, 0]), ([0, 0], [0, 1], [0, 0])]
        self.assertEqual([lines.weighted_f1(types), lines.weighted_f1(types, [1, 2]), lines.weighted_f1(types[:1])], [75, 60, 100])
        text = self.folder / "text"
        text.write_text("A I-PER I-PER\nB O O\nC I-LOC O\n\n")
        self.assertEqual(lines.types_of([text]), ["LOC", "PER"])
        self.assertEqual(lines.of_f1([text], [text], "F1-weighted", 3), (0, 0, 0))

    def test_speed_pairs(self):
        """A stand-in for fovea, in which a model named 30 has the speeds 30 and 31, and the order of the calls."""
        calls, program = self.folder / "calls", self.folder / "fovea"
        program.write_text(f"""#!/bin/sh
echo "$1 $3" >> '{calls}'
case $1 in
analyze) for i in 1 2 3; do echo "trained  $i  5-9  2  $(($3 + i - 2))  $(($3 + 1))"; done ;;
translate) while [ "$1" != --output ]; do shift; done; echo a b c > "$2" ;;
esac
""")
        program.chmod(0o755)
        command = [sys.executable, ROOT / "recipes" / "speed_pairs.py", "--models", "full=30", "topk(8)=60", "--train-sets", "a", "b",
                   "--output", self.folder / "speeds", "--results", self.results]
        call = lambda *more: subprocess.run([*map(str, [*command, *more])], capture_output=True, text=True, cwd=self.folder,
                                            env=os.environ | {"FOVEA": str(program)})
        first = call("--pairs", 2, "--data", "d")
        self.assertRegex(first.stdout, r"topk\(8\) +train-speed +2\.00 \(2\.00 to 2\.00\)\ntopk\(8\) +decode-speed +1\.97 ", first.stderr)
        self.assertEqual(calls.read_text().split(), "analyze 30 translate 30 analyze 60 translate 60 "
                         "analyze 60 translate 60 analyze 30 translate 30".split())
        rows = [(run["system"], run["seed"], run["value"]) for run in files.table("runs", self.results) if run["measure"] == "train-speed"]
        self.assertEqual(rows, [("full", "1", "30"), ("full", "2", "30"), ("topk(8)", "1", "60"), ("topk(8)", "2", "60")])
        calls.unlink()
        self.assertEqual(call("--pairs", 2).stdout, first.stdout)  # nothing is measured twice
        self.assertFalse(calls.exists())
        self.assertEqual({run["precision"] for run in files.table("runs", self.results)}, {"float32"})
        self.assertRegex(first.stdout, r"^Target tokens per second: .* 2 rounds\n\n +train-speed +decode-speed +decode-128-speed\n"
                                       r"full +30 +31 +\d+\ntopk\(8\) +60 +61 +\d+\n\nSpeed over that of full")
        for more, says in ((["--precision", "bfloat16"], "holds the speed of 'full, 2 threads, on cpu, in float32"),
                           (["--pairs", 0], "expected two models or more"), (["--data", "d"], "stands in runs.tsv already"),
                           (["--data", "x"], "--data: got 'x'")):
            result = call("--pairs", 2, *more)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
            self.assertIn(says, result.stderr)

    def test_show(self):
        self.runs([("d", "a", [40.1, 40.0, 39.9], "p"), ("d", "b", [39.1, 39.0, 38.9], "p"), *self.HALF])
        shown = self.call("show", "Z-1").stdout
        self.assertIn("verdict: holds", shown)
        self.assertIn("system a, seed 2, value 40.0", shown)
        self.refused("show", "Z-9", says="got the claim 'Z-9'")

    def test_blocks(self):
        text = "a\n<!-- verdicts: one -->\n<!-- end of verdicts -->\nb\n<!-- verdicts: two -->\nold\n<!-- end of verdicts -->\nc\n"
        new, found = page.rewritten(text, {"one": "1", "two": "2", "three": "3"})
        self.assertEqual(found, ["one", "two"])
        self.assertEqual(new, "a\n<!-- verdicts: one -->\n1\n<!-- end of verdicts -->\nb\n<!-- verdicts: two -->\n2\n<!-- end of verdicts -->\nc\n")
        with self.assertRaisesRegex(files.Bad, "the block 'one' has no end"):
            page.rewritten(text.replace("<!-- end of verdicts -->\nb", "b"), {"one": "1"})


if __name__ == "__main__":
    unittest.main(verbosity=2)

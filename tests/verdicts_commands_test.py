#!/usr/bin/env python3
"""recipes/verdicts.py and speed_pairs.py: the commands that add runs, intervals and speeds, and what they refuse."""
import json
import math
import os
import subprocess
import sys
import unittest

from results_tables import ROOT, ResultTables  # which makes the modules of recipes known

import verdict_files as files
import verdict_lengths
import verdict_lines as lines
import verdict_page as page
import verdicts


class Commands(ResultTables):
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

    def test_add_heads(self):
        """A number for each layer, of all of its heads; without the other tau, that measure is left out."""
        heads = [{"kind": "encoder", "head": 0, "mean_zeros": 0.25, "diversity": 1.0, "mean_null_rate": 0.125, "null_rate": 0},
                 {"kind": "encoder", "head": 1, "mean_zeros": 0.5, "diversity": None, "mean_null_rate": 0.5, "null_rate": 0.5},
                 {"kind": "cross", "head": 0, "mean_zeros": 0.75, "diversity": 0.5, "mean_null_rate": 0.0, "null_rate": 0}]
        run = self.finished_run("rela-g-seed2", 2, heads_json=json.dumps({"records": heads}))
        (run / "null-shuffled.json").write_text('{"auc": 0.51116}')
        self.assertEqual(self.call("add", "--data", "d", run).stdout,
                         "added rela-g, seed 2: zeros 0.2500 0.7500\nadded rela-g, seed 2: diversity 1.0000 0.5000\n"
                         "added rela-g, seed 2: nulls 0.1250 0.0000\nadded rela-g, seed 2: null-layer 0.0000 0.0000\n"
                         "added rela-g, seed 2: null-auc-shuffled 0.511\n")

    def test_lengths(self):
        """Means by length, and verdicts against full attention with enough seeds; bits are better if they are fewer."""
        with open(self.results / "settings.tsv", "a", encoding="utf-8") as file:
            file.writelines(f"{data}\tT\there\tx\t-\t-\t-\t3\n" for data in ("recall", "bytes-1024", "bytes-time"))
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
        # A seed of another processor counts if all systems have it; its times never do.
        rows = [(*row, "q" if row[0] == "bytes-1024" and row[2] == 3 else "p") for row in rows]
        rows += [("bytes-1024", "full", 4, "bits-1024", "9", "q")]
        rows += [("bytes-time", "full", seed, "ms-1024", str(seed), place) for seed, place in ((1, "p"), (2, "p"), (3, "q"))]
        with open(self.results / "runs.tsv", "a", encoding="utf-8") as file:
            for row in rows:
                cells = dict(zip(("data", "system", "seed", "measure", "value", "processor"), row))
                file.write("\t".join(str(cells.get(key, "-")) for key in head) + "\n")
        recall, of_bytes, times = verdict_lengths.length_tables(files.Book(self.results, self.folder)).split("\n\n")
        self.assertEqual(recall.splitlines()[2:], [
            "| `full` | 3 | 0.90 (0.01) | 0.20 (0.01) |", "| `topk(4)` | 3 | 0.90 | 0.44 (0.00), better |", "| `relu` | 3 | | 0.21 (0.01) |"])
        self.assertEqual(of_bytes.splitlines()[2:], ["| `full` | 3 | 2.000 (0.010) |", "| `topk(4)` | 3 | 2.500 (0.010), worse |"])
        self.assertEqual(times.splitlines()[2:], ["| `full` | 2 | 2 (1) |"])

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

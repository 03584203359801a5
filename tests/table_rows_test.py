#!/usr/bin/env python3
"""recipes/language-rows.sh, topk-rows.sh and length-rows.sh: the models that they train, their tables, the average that validation chooses,
that they stop at Ctrl-C and continue, and what they refuse. recipes/rela_analysis.py: its tables."""
import gzip
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from fovea_program import TINY, Workplace, checked

RECIPES = pathlib.Path(__file__).resolve().parent.parent / "recipes"
PLACE = Workplace()
TEXT = PLACE.folder / "text.txt"
TEXT.write_bytes((PLACE.sides["train"][0].read_bytes() * 9)[:9000])
SMALL_LANGUAGE = ["--dim-emb", 16, "--dec-depth", 2, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--segment-length", 32,
                  "--mini-batch", 4, "--cpu-threads", 1, "--quiet", "--disp-freq", 1, "--valid-freq", 1, "--save-freq", 1]
SMALL_TRANSLATION = [*TINY, "--optimizer-delay", 1, "--quiet"]


def run(script, *arguments):
    return subprocess.run([RECIPES / script, *map(str, arguments)], capture_output=True, text=True, timeout=600)


class Rows(unittest.TestCase):
    def refused(self, script, *arguments, says):
        result = run(script, *arguments)
        self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), result.stderr)
        self.assertIn(says, result.stderr)

    def setting(self, model, name):
        return re.search(rf'^{name}: "?(.*?)"?$', (model / "train.yml").read_text(), re.M)[1]

    def stopped(self, command, begun):
        """Stops the script by Ctrl-C once the path `begun` is there; its exit code and errors."""
        default = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # as from a terminal
        script = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                  preexec_fn=default)
        while script.poll() is None and not begun.exists():
            time.sleep(0.05)
        os.killpg(script.pid, signal.SIGINT)
        errors = script.communicate(timeout=120)[1]
        self.assertEqual(script.returncode, 130, errors)
        self.assertIn("stopped; run the same command again to continue", errors)


class Language(Rows):
    SPLIT = ["--split-bytes", 7000, 1000, 1000, "--span", 64]

    def call(self, output, *arguments):
        return [RECIPES / "language-rows.sh", "--output", output, *self.SPLIT, *arguments, "--options", *SMALL_LANGUAGE]

    def test_tables(self):
        output = PLACE.folder / "language"
        command = self.call(output, "--enwik8", TEXT, "--rows", "block", "xl", "xl-topk4", "span", "span-topk8", "--updates", 1, "--bits", 9.5, 1)
        first = run(*command)
        self.assertEqual(first.returncode, 0, first.stderr)
        bits = r" +\d\.\d{3}\n"
        spans = "".join(rf"\S+enwik8/{row}-seed1 +32\.0 +-\n" for row in ("span", "span-topk8"))
        self.assertRegex(first.stdout, r"^Table 3: keys .*\n\n +enwik8: keys +bits\nTransformer \(full\) +1000 +-\n"
                                       rf"Transformer \(block\) +32{bits}Transformer-XL +512{bits}\+ topk\(4\) in xl +4{bits}"
                                       rf"  keys saved, times +128\.00\nadaptive span +32{bits}\+ topk\(8\) in span +8{bits}"
                                       rf"  keys saved, times +4\.00\n\nTable 4: .*\n\nbits per byte +9\.5 +1\n{spans}$")
        self.assertEqual([len((output / "enwik8" / f"{part}.txt").read_bytes()) for part in ("train", "valid", "test")], [7000, 1000, 1000])
        models = {row: output / "enwik8" / f"{row}-seed1" for row in ("block", "xl", "xl-topk4", "span", "span-topk8")}
        self.assertEqual([self.setting(model, "attention") for model in models.values()],
                         ["full", "full", "topk(4)", "span(64,32)", "span(64,32)+topk(8)"])
        self.assertEqual(self.setting(models["xl"], "transformer-positions"), "transformer-xl")

        # Each row is scored like its recipe's header says.
        test = output / "enwik8" / "test.txt"
        for row, how in (("block", ["--context", 0, "--stride", 32]), ("span", []), ("span-topk8", []),
                         ("xl-topk4", ["--stride", 80, "--memory-length", 2100, "--same-length", "--transformer-positions",
                                       "transformer-xl(clamp=820)"])):
            scored = checked("score", "--model", models[row], "--train-sets", test, *how, "--quiet").stdout
            self.assertIn(f"bits-per-byte {(models[row] / 'test.bits').read_text()}", scored)

        # A second call trains and measures nothing, and takes the mean span from its file; a second text begins beside.
        (models["span"] / "keys").write_text("390.04\n")
        (models["block"] / "test.bits").write_text("1.2345\n")
        times = [path.stat().st_mtime_ns for path in sorted(output.glob("*/*/checkpoints/*"))]
        again = run(*command[:-len(SMALL_LANGUAGE) - 1], "--finished", "--seeds", 1, 2, "--text8", TEXT, *command[-len(SMALL_LANGUAGE) - 1:])
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertRegex(again.stdout, r"2 seeds \(as far as they are finished; - is none\)\n\n.*\n.*\nTransformer \(block\) +32 +1\.23[45] +- +-\n")
        self.assertRegex(again.stdout, r"adaptive span +390 +\d\.\d{3} +- +-\n.*\n  keys saved, times +48\.75 +-\n")
        self.assertEqual([path.stat().st_mtime_ns for path in sorted(output.glob("*/*/checkpoints/*"))], times)

    def test_rows_of_each_text(self):
        """Without --rows, the rows that the paper has: text8 has no Transformer-XL, and its spans have other updates."""
        output = PLACE.folder / "default-rows"
        done = [f"enwik8/{row}" for row in ("block", "xl", "xl-topk64", "span", "span-topk8")] + [f"text8/{row}" for row in ("block", "span-topk8")]
        for name in done:
            (output / f"{name}-seed1").mkdir(parents=True)
            for file, text in (("done", ""), ("test.bits", "1.5\n"), ("keys", "64\n"), ("log.jsonl", "")):
                (output / f"{name}-seed1" / file).write_text(text)
        result = run(*self.call(output, "--text8", TEXT, "--enwik8", TEXT), "--stop-after-seconds", 1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.setting(output / "text8" / "span-seed1", "after-batches"), "900000")
        self.assertRegex(result.stdout, r"Transformer-XL +64 +1\.500 +- +-\n\+ topk\(64\) in xl +64 +1\.500 +- +-\n  keys saved, times +1\.00 +-\n"
                                        r"adaptive span +64 +1\.500 +32 +\d\.\d{3}\n")
        self.assertEqual([path.parent.name for path in output.glob("*/*/checkpoints")], ["span-seed1"])

    def test_stops_and_continues(self):
        output = PLACE.folder / "language-stopped"
        command = [*map(str, self.call(output, "--enwik8", TEXT, "--rows", "block", "--updates", 200))]
        self.stopped(command, output / "enwik8" / "block-seed1" / "checkpoints")
        self.assertFalse((output / "enwik8" / "block-seed1" / "done").exists())
        continued = run(*command)
        self.assertEqual(continued.returncode, 0, continued.stderr)
        self.assertRegex(continued.stdout, r"Transformer \(block\) +32 +\d\.\d{3}\n$")

    def test_mistakes(self):
        self.refused("language-rows.sh", says="--enwik8 and --text8: got no file; expected one of them, or both")
        self.refused("language-rows.sh", "--text8", PLACE.folder / "none", says="none'; expected a file")
        self.refused("language-rows.sh", "--enwik8", TEXT, "--rows", "xl-topk", says="got 'xl-topk'; expected some of block, xl")
        self.refused("language-rows.sh", "--enwik8", TEXT, "--rows", "span-topk0", says="k of topk is 0; it must be at least 1")
        self.refused("language-rows.sh", "--enwik8", TEXT, "--split-bytes", 1, 2, says="--split-bytes: got 2 numbers")
        self.refused("language-rows.sh", "--enwik8", TEXT, "--bits", "few", says="--bits: got 'few'; expected a number")


class Lengths(Rows):
    """recipes/length-rows.sh and recall.py."""

    SMALL = ["--dim-emb", 16, "--transformer-dim-ffn", 32, "--transformer-heads", 2, "--mini-batch", 4, "--cpu-threads", 1, "--quiet"]

    def test_tables(self):
        output = PLACE.folder / "lengths"
        command = [RECIPES / "length-rows.sh", "--output", output, "--text", TEXT, TEXT, TEXT, "--recall", "--rows", "full", "topk(4)",
                   "--seeds", 1, 2, "--lengths", 64, 128, "--recall-lengths", 100, 300, "--made", 50, "--asked", 3, "--updates", 2,
                   "--rounds", 2, "--options", *self.SMALL]
        first = run(*command)
        self.assertEqual(first.returncode, 0, first.stderr)
        number = r" +\d+\.\d{3} \(\d+\.\d{3}\)"
        whole = r"(?: +\d+ \(\d+\)){2}\n"
        cost = "".join(rf"\n{title} .*\n\n +64 +128\nfull{whole}topk\(4\){whole}" for title in ("Milliseconds of an update", "MiB of memory"))
        answers = "".join(rf"\n\nShare of answers by length, {asked} asked at the end: mean and .* 2 seeds\n\n +100 +300\n"
                          rf"full{number}{number}\ntopk\(4\){number}{number}" for asked in (1, 4))
        self.assertRegex(first.stdout, rf"^Bits per byte by length: .*\n\n +64 +128\nfull{number}{number}\ntopk\(4\){number}{number}\n{cost}\n"
                                       rf"Work of a sequence\n\nspec +length .*\n(?:(?:full|topk\(4\)) +(?:64|128) .*\n){{4}}(?:.*\n)+?.*{answers}\n$")
        model = output / "text" / "topk-4-seed2"
        self.assertEqual((model / "system").read_text(), "topk(4)\n")
        self.assertEqual([self.setting(model, name) for name in ("attention", "transformer-positions", "seed")], ["topk(4)", "alibi", "2"])
        scored = checked("score", "--model", model, "--train-sets", TEXT, "--context", 64, "--stride", 64, "--quiet").stdout
        self.assertIn(f"bits-per-byte {(model / '128.bits').read_text()}", scored)

        # Five updates were timed, with as many bytes as in training, and their model is not kept.
        timing = output / "timing" / "topk-4-seed2"
        self.assertEqual(sorted(file.name for file in timing.iterdir()), ["128.MiB", "128.ms", "64.MiB", "64.ms", "log.jsonl", "system", "train.yml"])
        self.assertGreater(int((timing / "128.MiB").read_text()), 50)  # the libraries alone have more
        self.assertEqual([self.setting(timing, name) for name in ("segment-length", "mini-batch", "seed")], ["128", "32", "2"])

        # The answers are those of the units that fovea score prints, counted here by their places: a document has 300 units and
        # an empty line.
        asked, model = output / "recall" / "300-4.txt", output / "recall" / "full-seed1"
        documents = [line.split() for line in asked.read_text().splitlines() if line]
        self.assertEqual([len(document) + 1 for document in documents], [300] * 3)
        units = checked("score", "--model", model, "--train-sets", asked, "--context", 0, "--stride", 301, "--level", "unit", "--quiet").stdout.split()
        answers = [float(units[301 * number + place]) for number, document in enumerate(documents)
                   for place in (292, 294, 296, 298) if document[place - 1][0] == "?"]
        self.assertEqual(len(answers), 12)
        bits = -sum(answers) / 12 / math.log(2)
        self.assertEqual((model / "300-4.answers").read_text().split()[:2], ["bits-per-answer", f"{bits:.6f}"])
        for document in documents:  # every question has one answer before it
            pairs = dict(word for word in document if re.fullmatch("[a-z][0-9]", word))
            self.assertEqual(sum(word[0].isalpha() for word in document), len(pairs))
            self.assertEqual([pairs[word[1]] for word in document[-8::2]], [word[1] for word in document[-7::2]])
        again = run(*command[:-len(self.SMALL) - 1], "--finished", *command[-len(self.SMALL) - 1:])
        self.assertEqual(again.stdout, first.stdout.replace(" 2 seeds\n", " 2 seeds (as far as they are finished; - is none)\n"))

    def test_refused(self):
        self.refused("length-rows.sh", says="--text and --recall: got neither")
        self.refused("length-rows.sh", "--text", TEXT, says="--text: got 1 files; expected three files")
        self.refused("length-rows.sh", "--recall", "--rows", "topk(0)", says="--rows: ")
        result = run("recall.py", "make", "--length", 12, "--documents", 1, "--queries", 4, "--output", PLACE.folder / "none")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1))
        self.assertIn("got 12 to 12 units; expected rising numbers of at least 17", result.stderr)
        model = PLACE.folder / "lengths" / "recall" / "full-seed1"
        self.assertIn("got ", run("recall.py", "answers", "--model", model, "--train-sets", TEXT).stderr)


def corpora(name, source, target, compressed=False):
    """A folder with train, valid and test of both sides."""
    folder = PLACE.folder / name
    folder.mkdir()
    for part in ("train", "valid", "test"):
        for side, path in zip((source, target), PLACE.sides[part]):
            data = path.read_bytes()
            (folder / (f"{part}.{side}" + (".gz" if compressed else ""))).write_bytes(gzip.compress(data) if compressed else data)
    return folder


class TopK(Rows):
    def call(self, output, *arguments, options=()):
        return [RECIPES / "topk-rows.sh", "--output", output, "--dim-vocabs", 300, *arguments, "--options", *SMALL_TRANSLATION, *options]

    def finished(self, folder, seeds, **bleu):
        """Runs whose BLEU is given, in validation and on the test set."""
        for name, values in bleu.items():
            for seed, value in zip(seeds, values):
                place = folder / f"{name.replace('_', '-')}-seed{seed}"
                place.mkdir(parents=True)
                for file, text in (("done", ""), ("valid.bleu", f"{value + 1:.2f}\n"), ("test.bleu", f"{value:.2f}\n"),
                                   ("test.out", PLACE.sides["test"][1].read_text())):
                    (place / file).write_text(text)

    def test_tables_and_speeds(self):
        """One model of each kind of row is trained; with the others, the tables have known values."""
        output = PLACE.folder / "topk"
        self.finished(output / "de-en", (1, 2), full=(30, 32), entmax=(33, 31), entmax_alpha=(28, 29))
        (output / "de-en" / "topk-k8-seed2").mkdir()
        for name in ("done", "valid-all-keys.out", "test.out", "test-all-keys.out"):
            (output / "de-en" / "topk-k8-seed2" / name).write_text(PLACE.sides["test"][1].read_text())
        for name in ("valid", "test", "valid-all-keys", "test-all-keys"):
            (output / "de-en" / "topk-k8-seed2" / f"{name}.bleu").write_text("0.00\n")
        data = corpora("iwslt14", "de", "en")
        command = self.call(output, "--de-en", data, "--seeds", 1, 2, "--rows", "full", "entmax", "entmax-alpha", "topk8", "topk8-train",
                            "--updates", 2, "--pairs", 0)
        result = run(*command)
        self.assertEqual(result.returncode, 0, result.stderr)
        number, mean = r"\d+\.\d\d", r" +\d+\.\d\d \(\d+\.\d\d\)\n"
        self.assertRegex(result.stdout, rf"^Table 4: BLEU .*, the highest of seeds 1 2\n\n +de-en\nfull +32\.00\nentmax +33\.00\n"
                                        rf"entmax-alpha +29\.00\ntopk8 +{number}\ntopk8-train +{number}\n\n"
                                        rf"BLEU of the test sets, mean of seeds 1 2\n\n +de-en\nfull +31\.00 \(1\.41\)\n(?:\S+{mean}){{4}}\n"
                                        rf"Figure 3 and table 5: .*\n\n +de-en\nfull +32\.00 \(1\.41\)\n(?:\S+{mean}){{4}}\n"
                                        r"Difference of BLEU from full on \S+test.en, .*\n\n +seed 1 +seed 2\n"
                                        r"entmax +\+0\.00 \(1\.0000\) +\+0\.00 \(1\.0000\)\n(?:\S+(?: +[+-]\d+\.\d\d \([01]\.\d{4}\)){2}\n){3}$")
        model = output / "de-en" / "topk-k8-seed1"
        self.assertEqual(self.setting(model, "attention"), "topk(8)")
        self.assertTrue((model / "test-all-keys.out").exists())
        score = checked("evaluate", "--reference", data / "test.en", "--input", model / "test.out", "--metrics", "multi-bleu",
                        "--lowercase", "--score-only").stdout
        self.assertEqual((model / "test.bleu").read_text(), score)

    def test_speeds(self):
        """Two models and a pair of measurements: the table has the medians that recipes/speed_pairs.py keeps."""
        output = PLACE.folder / "topk-speeds"
        command = self.call(output, "--de-en", corpora("small", "de", "en"), "--seeds", 3, "--rows", "full", "topk4", "--updates", 1, "--pairs", 1,
                            "--precision", "bfloat16", "--cpu-threads", 1)
        result = run(*command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^Table 4: .*; target tokens per second of de-en, medians of 1\n\n +de-en +training +decoding\n"
                                        r"full +\d+\.\d\d +\d+ +\d+\ntopk4 +\d+\.\d\d +\d+ +\d+\n")
        self.assertRegex(result.stdout, r"\n\nSpeed over that of full: .*\n(?:topk\(4\) +(?:train|decode|decode-128)-speed +\d+\.\d\d\n){3}$")
        places = list(output.glob("speeds-*/2-round1.txt"))
        self.assertEqual(len(places), 1)
        row = re.search(r"^topk4 .*", result.stdout, re.M)[0].split()
        title, numbers = places[0].read_text().splitlines()
        self.assertEqual(title, "topk(4), 1 threads, on cpu, in bfloat16, with beam 5")
        train, _, decode = map(float, numbers.split())
        self.assertEqual([int(value) for value in row[2:]], [round(train), round(decode)])
        self.assertEqual(run(*command).stdout, result.stdout)

    def test_validation_chooses_the_average(self):
        """The averages end at updates 21, 16 and 11, of ten each. Known BLEU of two of them decides."""
        output = PLACE.folder / "averages"
        model = output / "de-en" / "full-seed1"
        (model / "averages").mkdir(parents=True)
        (model / "averages" / "16.bleu").write_text("50.00\n")
        (model / "averages" / "16.out").write_text("a line\n")
        (model / "averages" / "11.bleu").write_text("9.00\n")
        command = self.call(output, "--de-en", corpora("chosen", "de", "en", compressed=True), "--seeds", 1, "--rows", "full", "--updates", 21,
                            "--pairs", 0, options=["--save-freq", 1])
        result = run(*command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(path.name for path in (model / "averages").iterdir()), ["11.bleu", "16.bleu", "21.bleu"])
        self.assertEqual((model / "valid.bleu").read_text(), "50.00\n")
        self.assertEqual((model / "valid.out").read_text(), "a line\n")
        expected = PLACE.folder / "expected"
        checked("average", "--model", model, "--last", 10, "--until", 16, "--output", expected)
        self.assertEqual((model / "averaged" / "model.safetensors").read_bytes(), (expected / "model.safetensors").read_bytes())

    def test_other_pairs(self):
        """English-Vietnamese has words of each side and the average of the last 20 alone; English-German one vocabulary."""
        output = PLACE.folder / "other-pairs"
        own = [word for word in SMALL_TRANSLATION if word != "--tied-embeddings-all"]  # En-Vi has a vocabulary of each side
        result = run(RECIPES / "topk-rows.sh", "--output", output, "--dim-vocabs", 300, "--en-vi", corpora("iwslt15", "en", "vi"), "--en-de",
                     corpora("wmt14", "en", "de"), "--seeds", 1, "--rows", "topk8", "--updates", 22, "--pairs", 0, "--options", *own, "--save-freq", 1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^Table 4: .*\n\n +en-vi +en-de\ntopk8 +\d+\.\d\d +\d+\.\d\d\n")
        averages = {pair: sorted(path.stem for path in (output / pair / "topk-k8-seed1" / "averages").iterdir()) for pair in ("en-vi", "en-de")}
        self.assertEqual(averages, {"en-vi": ["22"], "en-de": ["12", "17", "22"]})
        self.assertEqual(sorted(path.name for path in output.glob("*/*.spm")), ["joint.spm", "source.spm", "target.spm"])

    def test_stops_and_continues(self):
        output = PLACE.folder / "topk-stopped"
        command = [*map(str, self.call(output, "--de-en", corpora("stopped", "de", "en"), "--seeds", 1, "--rows", "full", "--updates", 200,
                                       "--pairs", 0, options=["--save-freq", 20]))]
        self.stopped(command, output / "de-en" / "full-seed1" / "checkpoints")
        self.assertFalse((output / "de-en" / "full-seed1" / "done").exists())
        continued = run(*command)
        self.assertEqual(continued.returncode, 0, continued.stderr)
        self.assertRegex(continued.stdout, r"\nfull +\d+\.\d\d\n")

    def test_mistakes(self):
        data = corpora("mistakes", "de", "en")
        self.refused("topk-rows.sh", says="--de-en, --en-vi and --en-de: got no folder; expected one or more of them")
        self.refused("topk-rows.sh", "--en-vi", data, says=f"cannot find '{data}/train.vi' or '{data}/train.vi.gz'")
        self.refused("topk-rows.sh", "--de-en", data, "--rows", "topk", says="--rows: got 'topk'; expected some of full, sparsemax")
        self.refused("topk-rows.sh", "--de-en", data, "--pairs", "some", says="--pairs: got 'some'; expected a whole number")
        self.refused("topk-rows.sh", "--de-en", data, "--devices", "gpu", says="--devices: got 'gpu'; expected cpu, or the number of a CUDA device")
        self.refused("topk-rows.sh", "--de-en", data, "--precision", "float16", says="--precision: got 'float16'; expected float32 or bfloat16")
        self.refused("topk-rows.sh", "--de-en", data, "--data", "no-key", says="--data: got 'no-key'; expected a key of")
        self.refused("topk-rows.sh", "--de-en", data, "--data", "speed", "--pairs", 0, says="--data: got --pairs 0 or --finished")


class Analysis(unittest.TestCase):
    def table(self, text, title):
        """{name of the row: its numbers} of the table under this title."""
        lines = text.split(f"\n{title}", 1)[1].split("\n\n")[1].splitlines()
        return {row[:28].strip(): row[28:].split() for row in lines}

    def test_figures_and_tables(self):
        output, gold = PLACE.folder / "rela", PLACE.folder / "gold"
        texts, own = PLACE.sides["test"], [word for word in TINY if word != "--tied-embeddings-all"]
        gold.write_text("0-0 1-1 2p2\n" * texts[0].read_text().count("\n"))
        trained = run("rela-rows.sh", "--train-sets", *PLACE.sides["train"], "--test-sets", *texts, "--dim-vocabs", 300, "--rows", "full",
                      "rela-g", "--seeds", 1, 2, "--updates", 1, "--output", output, "--options", *own, "--dec-depth", 2, "--quiet")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        command = [output, "--test-sets", *texts, "--align-sets", *texts, "--gold", gold, "--rows", "full", "rela-g", "rela-i", "--cpu-threads", 1]
        result = run("rela_analysis.py", *command)
        self.assertEqual(result.returncode, 0, result.stderr)
        # The one command, which trains nothing again: the options of the training are those of the folder.
        whole = run("rela-analysis.sh", "--train-sets", *PLACE.sides["train"], "--dim-vocabs", 300, "--seeds", 1, 2, "--updates", 1,
                    *command[1:-6], "--rows", "full", "rela-g", "--cpu-threads", 1, "--output", output, "--options", *own, "--dec-depth", 2,
                    "--quiet")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertTrue(whole.stdout.endswith(result.stdout), whole.stdout)
        self.assertIn("BLEU on", whole.stdout)
        self.assertRegex(result.stdout, r"^Analyses of full \(2\), rela-g \(2\)")

        averaged = {seed: output / f"rela-g-seed{seed}" / "averaged" for seed in (1, 2)}
        common = ["--train-sets", *texts, "--cpu-threads", 1, "--quiet"]
        figures = json.loads(checked("analyze", "--model", *averaged.values(), *common, "--json", "--unit", "piece").stdout)["records"]
        layers = {figure: [record[figure] for record in figures if (record["kind"], record["head"]) == ("cross", 0)]
                  for figure in ("mean_zeros", "mean_null_rate", "null_variance")}
        for title, row, figure in (("Figure 3", "rela-g, cross", "mean_zeros"), ("Figure 6", "rela-g, cross", "mean_null_rate"),
                                   ("Figure 6", "rela-g, cross, variance", "null_variance")):
            one, two = layers[figure]
            self.assertEqual(self.table(result.stdout, title)[row], [f"{value:.4f}" for value in (one, two, (one + two) / 2)])
        self.assertEqual(self.table(result.stdout, "Figure 3")["full, cross"], ["0.0000"] * 3)
        self.assertEqual(list(self.table(result.stdout, "Table 6")), ["", "full", *(f"rela-g (tau {tau})" for tau in ("1", "0.5", "0.25", "0.1"))])

        # Table 5 has the means of what fovea align says of each seed.
        searches = [checked("align", "--model", model, *common, "--gold", gold, "--search").stdout for model in averaged.values()]
        for place, pattern in enumerate((r"normal: AoL (\S+)", r"normal: AoL \S+ AoH (\S+),", r"shifted: AoL (\S+)", r"shifted: AoL \S+ AoH (\S+),")):
            mean = sum(float(re.search(pattern, text)[1].strip(",")) for text in searches) / 2
            self.assertAlmostEqual(float(self.table(result.stdout, "Table 5")["rela-g"][place]), 100 * mean, delta=0.011)

        # Nothing is computed twice, except for what another text or model asks for.
        again = run("rela_analysis.py", *command)
        self.assertEqual((again.stdout, again.stderr), (result.stdout, ""))
        gold.write_text(gold.read_text().replace("1-1", "1-2"))
        other = run("rela_analysis.py", *command)
        self.assertEqual([line.removeprefix("==> ").rpartition("-seed")[0] for line in other.stderr.splitlines()], ["align-full"] * 2 + ["align-rela-g"] * 2)
        tagged = PLACE.folder / "tags"
        tagged.write_text(re.sub(r"\S+", "X", texts[1].read_text()))
        by_tags = run("rela_analysis.py", *command, "--tags", tagged, "--layer", 2)
        self.assertEqual(list(self.table(by_tags.stdout, "Figure 7")), ["head", "all", "X", "<s>"])

        for more, says in ((["--layer", 3], "--layer: got 3; expected 1 to 2, a layer of the models"),
                           (["--gold", PLACE.folder / "none"], "none' (No such file or directory); expected a text")):
            refused = run("rela_analysis.py", *command, *more)
            self.assertEqual((refused.returncode, refused.stderr.count("\n")), (1, 1), refused.stderr)
            self.assertIn(says, refused.stderr)

    def test_mistakes(self):
        texts, empty = PLACE.sides["test"], PLACE.folder / "empty"
        empty.mkdir()
        refused = run("rela-analysis.sh", "--gold", "g")
        self.assertEqual((refused.returncode, refused.stderr), (2, "Error: --test-sets: got 0 files; expected source and target\n"))
        for arguments, says in (([empty, "--test-sets", *texts], "found no finished run of full, sparsemax, entmax, rela-g"),
                                ([empty, "--test-sets", *texts, "--gold", "g"], "--gold and --align-sets: got one of them; expected both")):
            result = run("rela_analysis.py", *arguments)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
            self.assertIn(says, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

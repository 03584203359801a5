#!/usr/bin/env python3
"""recipes/routing-cells.sh, rela-rows.sh, clause-attention.sh and multi30k-sweep.sh: the models that they train, their
tables, and that they resume; recipes/span_at.py, help_pairs.py and draw_results.py."""
import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import unittest
import xml.etree.ElementTree

from fovea_program import TINY, Workplace, checked

RECIPES = pathlib.Path(__file__).resolve().parent.parent / "recipes"
PLACE = Workplace()
OWN_VOCABS = [word for word in TINY if word != "--tied-embeddings-all"]  # of each side its own
SMALL_LANGUAGE = ["--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--segment-length", 32,
                  "--cpu-threads", 1, "--quiet"]
SMALL_IMAGE = ["--dim-emb", 16, "--dec-depth", 3, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--crop", 4, 4,
               "--mini-batch", 2, "--cpu-threads", 1, "--quiet"]


def run(script, *arguments):
    return subprocess.run([RECIPES / script, *map(str, arguments)], capture_output=True, text=True, timeout=600)


def images(name):
    path = PLACE.folder / f"{name}.bin"
    path.write_bytes(b"".join(b"\0" + random.Random(f"{name}{i}").randbytes(3072) for i in range(2)))
    return path


class Sweeps(unittest.TestCase):
    def refused(self, script, *arguments, says):
        result = run(script, *arguments)
        self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), result.stderr)
        self.assertIn(says, result.stderr)

    def attention_of(self, model):
        lines = (model / "config.yml").read_text().splitlines()
        return [line for line in lines if line.startswith(("attention:", "attention-encoder:", "attention-layers:"))]


class Cells(Sweeps):
    def test_cells(self):
        output = PLACE.folder / "cells"
        command = ["--train-sets", images("train"), "--valid-sets", images("valid"), "--layers", 2, "--heads", 1, 2, "--windows", 4,
                   "--clusters", 3, "--baselines", "local", "random", "--updates", 1, "--output", output, "--options", *SMALL_IMAGE]
        first = run("routing-cells.sh", *command)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stdout, r"^After 1 updates\n\nbits-per-dim, window 4\n\nheads = +1 +2\n2 layers +\d+\.\d{3} +\d+\.\d{3}\n\n"
                                       r"Updates per second, window 4\n\nheads = +1 +2\n2 layers +\d+\.\d{3} +\d+\.\d{3}\n\n"
                                       r" +bits-per-dim +updates per second\nlocal +\d+\.\d{3} +\d+\.\d{3}\nrandom +\d+\.\d{3} +\d+\.\d{3}\n$")
        for name, spec in (("2x1w4", "decoder.2-3=1*blocks(256,1);1*routed(3,4)"), ("2x2w4", "decoder.2-3=routed(3,4)"),
                           ("local", "decoder.1-3=blocks(256,1)"), ("random", "decoder.2-3=1*blocks(256,1);1*routed(3,4,random)")):
            self.assertIn(spec, "".join(self.attention_of(output / f"{name}-seed1" / "last")))

        # A second call trains and measures nothing.
        (output / "2x1w4-seed1" / "measure").write_text("2.5\n")
        times = [path.stat().st_mtime_ns for path in sorted(output.glob("*/checkpoints/*"))]
        again = run("routing-cells.sh", *command)
        self.assertRegex(again.stdout, r"2 layers +2\.500 +\d")
        self.assertEqual([path.stat().st_mtime_ns for path in sorted(output.glob("*/checkpoints/*"))], times)

    def test_whole_recipes(self):
        text = PLACE.sides["valid"][0]
        result = run("routing-cells.sh", "--recipes", RECIPES / "pg19-local.yml", "--train-sets", text, "--valid-sets", text,
                     "--updates", 1, "--output", PLACE.folder / "speeds", "--options", "--vocabs", PLACE.vocab, "--dim-emb", 16,
                     "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--segment-length", 64, "--quiet",
                     "--cpu-threads", 1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^After 1 updates\n\n +perplexity-per-word +updates per second\npg19-local +\d+\.\d{3} +\d+\.\d{3}\n$")

    def test_mistakes(self):
        files = ["--train-sets", images("train"), "--valid-sets", images("valid")]
        self.refused("routing-cells.sh", says="--train-sets: got 0 files; expected at least 1")
        self.refused("routing-cells.sh", *files, "--layers", 13, says="--layers: got 13; the model has 12 layers")
        self.refused("routing-cells.sh", *files, "--baselines", "none", says="got 'none'; expected some of full local random")


class Rows(Sweeps):
    ROWS = {"full": "full", "rela-g": "rela-g", "layernorm": "relu+gated-layernorm", "gelu": "gelu+gated-rmsnorm",
            "leaky": "leaky-relu(0.01)+gated-rmsnorm"}

    def test_rows(self):
        output = PLACE.folder / "rows"
        result = run("rela-rows.sh", "--train-sets", *PLACE.sides["train"], "--test-sets", *PLACE.sides["test"], "--dim-vocabs", 300,
                     "--rows", *self.ROWS, "encoder", "--updates", 1, "--output", output, "--options", *OWN_VOCABS, "--quiet")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^BLEU on \S+test.trg after 1 updates\n\n(?:[a-z-]+ +\d+\.\d\d\n){6}\nDifference of BLEU from full .*\n\n"
                                        r" +seed 1\n(?:[a-z-]+ +[+-]\d+\.\d\d \([01]\.\d{4}\)\n){5}"
                                        r"(?:\nFigure 6: null rates .*, (?:rela-g|layernorm), seed 1\nAUC [01]\.\d{4}\n"
                                        r"null-rate by layer\n +layer +good +bad +AUC\n(?: +\d+(?: +-?[01]\.\d{4}){3}\n)+){2}$")
        for row, spec in self.ROWS.items():
            self.assertEqual(self.attention_of(output / f"{row}-seed1" / "averaged")[0], f'attention: "{spec}"')
        self.assertIn('attention-encoder: "rela-g"', self.attention_of(output / "encoder-seed1" / "averaged"))

    def test_mistakes(self):
        files = ["--train-sets", *PLACE.sides["train"], "--test-sets", *PLACE.sides["test"]]
        self.refused("rela-rows.sh", *files, "--rows", "swish", says="--rows: got 'swish'; expected some of full sparsemax")
        self.refused("rela-rows.sh", *files[:3], says="--test-sets: got 0 files; expected source and target")


def columns(name, sentences):
    """Words, parts of speech, chunks and names."""
    draw, path = random.Random(name), PLACE.folder / name
    names = {"Rome": "LOC", "Anna": "PER"}
    text = ""
    for _ in range(sentences):
        place = draw.choice(list(names))
        text += f"the DT O O\n{draw.choice(['dog', 'cat'])} NN O O\n, , O O\nand CC O O\nin IN O O\n{place} NNP O I-{names[place]}\n. . O O\n\n"
    path.write_text(text)
    return path


class Clauses(Sweeps):
    def test_all(self):
        output, tagger = PLACE.folder / "clauses", PLACE.folder / "tagger.yml"
        tagger.write_text("dim-emb: 16\nenc-depth: 1\ntransformer-heads: 2\ntransformer-dim-ffn: 32\nafter-epochs: 1\ncpu-threads: 1\n"
                          "quiet: true\n")
        sides = [word for name in ("train", "valid", "test") for word in (f"--{name}-sets", *PLACE.sides[name])]
        command = ["--tag-sets", columns("tags.train", 40), columns("tags.test", 5), "--tag-config", tagger, "--dim-tag-vocab", 40,
                   *sides, "--dim-vocabs", 300, "--tokenize", "13a", "--output", output, "--options", *OWN_VOCABS, "--quiet",
                   "--after-epochs", 0, "--after-batches", 1]
        result = run("clause-attention.sh", *command)
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in (r"signal-words all \d+\.\d\d", r"fusion names \d+\.\d\d", r"fusion words \d+\.\d\d", r"names all \d+\.\d\d",
                     r"names-with-clauses LOC \d+\.\d\d", r"study +0\.\d{4} +\d+\.\d\d", r"study +[+-]\d+\.\d\d \([01]\.\d{4}\)",
                     r"longformer(?: +\d+\.\d\d){4}"):
            self.assertRegex(result.stdout, rf"(?m)^{line}$")
        self.assertEqual((output / "train.columns").read_text().split("\n")[2:5], [", , O O PUNCT", "and CC O O SCONJ", "in IN O O ADP"])
        self.assertIn('attention-encoder: "mix(full,clause(1),clause(2))"', self.attention_of(output / "rule-seed1" / "averaged"))
        self.assertEqual([len(list((output / f"{name}-seed1" / "averaged").glob("clause-tagger.*"))) > 0 for name in ("rule", "study")], [False, True])
        source, target = PLACE.sides["test"]
        scores = checked("evaluate", "--reference", target, "--input", output / "study-seed1" / "test.out", "--bands", 4, "--bands-by",
                         source, "--score-only").stdout.split()
        self.assertRegex(result.stdout, r"(?m)^study +" + " +".join(map(re.escape, scores[1:])) + "$")

        # More seeds: what is done is not trained again, and the rows name the seed.
        time = (output / "study-seed1" / "averaged").stat().st_mtime_ns
        both = run("clause-attention.sh", "--seeds", 1, 2, *command)
        self.assertEqual(both.returncode, 0, both.stderr)
        self.assertEqual((output / "study-seed1" / "averaged").stat().st_mtime_ns, time)
        for line in (r"names seed 1 all \d+\.\d\d", r"names seed 2 all \d+\.\d\d", r"study seed 2 +0\.\d{4} +\d+\.\d\d",
                     r"study(?: +[+-]\d+\.\d\d \([01]\.\d{4}\)){2}", r"longformer seed 2(?: +\d+\.\d\d){4}"):
            self.assertRegex(both.stdout, rf"(?m)^{line}$")
        seeds = [(output / f"{name}-seed{seed}" / "train.yml").read_text() for name in ("names", "rule") for seed in (1, 2)]
        self.assertEqual([re.search(r"^seed: (.*)", text, re.M)[1] for text in seeds], ["1", "2"] * 2)

    def test_mistakes(self):
        self.refused("clause-attention.sh", says="--tag-sets: got 0 files; expected columns for training and for the test")


class Spans(unittest.TestCase):
    def test_when_bits_are_reached(self):
        """A training that resumed from update 4 repeats update 6 with other values."""
        folder = PLACE.folder / "spans"
        folder.mkdir()
        train = lambda updates, span: {"event": "train", "updates": updates, "notes": {"span-with-ramp": span}}
        valid = lambda updates, value: {"event": "valid", "updates": updates, "metric": "bits-per-byte", "value": value}
        start = lambda updates: {"event": "start", "updates": updates}
        lines = [start(0), train(2, 100.25), valid(2, 1.41), train(4, 120), valid(4, 1.4), train(6, 200), valid(6, 1.1), start(4),
                 train(6, 140), valid(6, 1.25), {"event": "save", "updates": 6}]
        (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = run("span_at.py", folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual([line.split()[1:] for line in result.stdout.splitlines()[1:]], [["120.0", "140.0", "-", "-"]])
        self.assertEqual(result.stdout.splitlines()[0].split(), ["bits", "per", "byte", "1.4", "1.3", "1.2", "1.1"])

        with (folder / "log.jsonl").open("a") as log:  # a validation between two lines of training
            log.write(json.dumps(valid(7, 1.15)) + "\n")
        result = run("span_at.py", folder, "--bits", 1.2)
        self.assertEqual((result.returncode, result.stdout.split()[-1], result.stderr.count("\n")), (0, "140.0", 1))
        self.assertIn("the span at 1.2 bits is that of update 6, and the validation that of update 7", result.stderr)

    def test_of_a_training(self):
        model = PLACE.folder / "span-model"
        checked("train", "--task", "language", "--model", model, "--train-sets", PLACE.sides["train"][0], "--valid-sets",
                PLACE.sides["valid"][0], "--vocabs", "bytes", *SMALL_LANGUAGE, "--attention", "span(32,8)", "--span-start", 0.25,
                "--span-loss", 0, "--after-batches", 2, "--valid-freq", 1, "--disp-freq", 1)
        found = run("span_at.py", model, "--bits", 99).stdout.split()
        self.assertAlmostEqual(float(found[-1]), 16, delta=1)  # a quarter of 32, the ramp of 8, and one update
        result = run("span_at.py", PLACE.folder)
        self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1))
        self.assertIn("cannot read its log.jsonl", result.stderr)


class HelpPairs(unittest.TestCase):
    def pages(self, folder, pages):
        help_folder = PLACE.folder / folder / "usr" / "share" / "libreoffice" / "help"
        for name, text in pages.items():
            (help_folder / name).parent.mkdir(parents=True, exist_ok=True)
            (help_folder / name).write_text(text)
        return PLACE.folder / folder

    def pairs(self, folder, language):
        output = PLACE.folder / "pairs"
        result = run("help_pairs.py", folder, language, output)
        self.assertEqual(result.returncode, 0, result.stderr)
        return list(zip(*((PLACE.folder / f"pairs.{suffix}").read_text().splitlines() for suffix in ("en", language))))

    def test_paragraphs_pair_by_id_and_occurrence(self):
        page = ('<html><body><h1 id="hd_id1" dir="auto"><a name="x"></a>Title</h1><p id="bm_module">no</p>'
                '<p id="par_id2" class="paragraph">Click <span class="ui">File &amp; Open</span><br/>now.</p>'
                '<p id="par_id3" class="code">x = 1</p><p id="par_id4">first</p><p id="par_id4">second</p>'
                '<p id="par_id5">only English</p></body></html>')
        translation = ('<html><body><p id="par_id4">erster</p><p id="par_id4">zweiter</p><h1 id="hd_id1">Titel</h1>'
                       '<p id="par_id2">Typ\n&#233; &lt;b&gt; &no; &ampnbsp</p><p id="par_id3" class="code">x = 1</p></body></html>')
        folder = self.pages("help", {"en-US/text/a/p.html": page, "en-US/text/a/q.html": page, "pt-BR/text/a/p.html": translation})
        self.assertEqual(self.pairs(folder, "pt-br"), [("Title", "Titel"), ("Click File & Open now.", "Typ é <b> &no; &ampnbsp"),
                                                       ("first", "erster"), ("second", "zweiter")])
        refused = run("help_pairs.py", folder, "fr", PLACE.folder / "none")
        self.assertEqual((refused.returncode, refused.stderr.count("\n")), (1, 1), refused.stderr)
        self.assertIn("has no help in 'fr'; it has en-us, pt-br; unpack libreoffice-help-fr into it", refused.stderr)

    def test_broken_pages_have_what_is_whole(self):
        folder = self.pages("broken", {"en-US/text/p.html": '<p id="par_1">good</p><p id="par_2">not closed',
                                       "de/text/p.html": '<p id="par_1">gut</p><p id="par_2'})
        self.assertEqual(self.pairs(folder, "de"), [("good", "gut")])


class Multi30k(unittest.TestCase):
    def test_the_whole_sweep(self):
        data = PLACE.folder / "data" / "multi30k"
        data.mkdir(parents=True)
        for name, part in (("train", "train"), ("val", "valid"), ("test_2016_flickr", "test")):
            for side, path in zip(("en", "de"), PLACE.sides[part]):
                (data / f"{name}.lc.norm.tok.{side}.gz").write_bytes(gzip.compress(path.read_bytes()))
        folder = PLACE.folder / "multi30k-sweep"
        folder.mkdir()
        (folder / "joint.spm").symlink_to(PLACE.vocab)  # the text is too small for 10,000 pieces
        with_seeds = ("full", "topk-k8", "window-k8", "topk-k2", "window-k2", "rela-g")
        runs = [f"{name}-seed{seed}" for seed in (1, 2, 3) for name in with_seeds]
        runs += [f"{name}-seed1" for name in ("block-k2", "dilated-k2", "global-k2", "random-k2", "sparsemax", "entmax", "rela-i")]
        for name in runs:  # all but two are finished
            if name in ("full-seed1", "topk-k2-seed3"):
                continue
            (folder / "runs" / name).mkdir(parents=True)
            for file in ("done", "valid.out", "test.out"):
                (folder / "runs" / name / file).touch()
            for file in ("valid", "test", *(["valid-all-keys", "test-all-keys"] if name.startswith("topk") else [])):
                (folder / "runs" / name / f"{file}.bleu").write_text("20.00\n")
                (folder / "runs" / name / f"{file}.out").write_text("a\n" * 50)
        command = [RECIPES / "multi30k-sweep.sh", "--updates", "1", folder, *TINY, "--quiet"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=600,
                                env=os.environ | {"FOVEA_DATA": str(data.parent)})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(path.parent.name for path in (folder / "runs").glob("*/averaged")), ["full-seed1", "topk-k2-seed3"])
        self.assertRegex(result.stdout, r"^BLEU on \S+test_2016_flickr\S+ after 1 updates: .* 3 seeds.*\n\nk = +8 +2 +AVG\n"
                                        r"full +\d+\.\d\d \(\d+\.\d\d\)\nrela-g +20\.00 \(0\.00\)\n"
                                        r"rela-i +20\.00\nsparsemax +20\.00\nentmax +20\.00\ntopk +20\.00 \(0\.00\) +\d+\.\d\d \(\d+\.\d\d\) +\d+\.\d\d\n"
                                        r"topk-train .*\nwindow .*\nblock +- +20\.00 +-\n")
        again = subprocess.run([command[0], "--finished", *command[1:]], capture_output=True, text=True, timeout=600,
                               env=os.environ | {"FOVEA_DATA": str(data.parent)})
        self.assertEqual((again.stdout, again.stderr), (result.stdout, ""))

        some = subprocess.run([*command[:3], "--finished", "--mechanisms", "full window", *command[3:]], capture_output=True, text=True,
                              timeout=600, env=os.environ | {"FOVEA_DATA": str(data.parent)})
        self.assertEqual((some.returncode, some.stderr), (0, ""))
        self.assertRegex(some.stdout, r"^BLEU on \S+ after 1 updates .*\n\nk = +8 +2 +AVG\nfull +\d+\.\d\d\nwindow(?: +20\.00){3}\n\n")
        seeds = subprocess.run([*command[:3], "--finished", "--mechanisms", "full window", "--k", "2", "--seeds", "2 3", *command[3:]],
                               capture_output=True, text=True, timeout=600, env=os.environ | {"FOVEA_DATA": str(data.parent)})
        self.assertEqual((seeds.returncode, seeds.stderr), (0, ""))
        self.assertRegex(seeds.stdout, r"2 seeds.*\n\nk = +2\nfull +20\.00 \(0\.00\)\nwindow +20\.00 \(0\.00\)\n\n")
        alone = subprocess.run([*command[:3], "--seeds", "2 3"], capture_output=True, text=True, timeout=600,
                               env=os.environ | {"FOVEA_DATA": str(data.parent)})
        self.assertEqual((alone.returncode, alone.stdout), (1, ""))
        self.assertIn("Error: --seeds: got no --mechanisms; expected both", alone.stderr)
        without = subprocess.run([command[0], "--mechanisms"], capture_output=True, text=True, timeout=600,
                                 env=os.environ | {"FOVEA_DATA": str(data.parent)})
        self.assertEqual((without.returncode, without.stdout), (1, ""))
        self.assertIn("got no value for --mechanisms", without.stderr)


class Pictures(unittest.TestCase):
    SVG = "{http://www.w3.org/2000/svg}"

    def drawn(self, *arguments):
        path = PLACE.folder / "drawn.svg"
        result = run("draw_results.py", *arguments, "--output", path)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        return xml.etree.ElementTree.parse(path).getroot()

    def elements(self, root, tag, **attributes):
        return [found for found in root.iter(self.SVG + tag) if attributes.items() <= found.attrib.items()]

    def test_k(self):
        """Heights follow from the values by one linear rule, which the marks of the axis show."""
        folder = PLACE.folder / "drawn-sweep"
        values = {"full": {0: (30, 34)}, "topk": {8: (31, 33), 2: (20,)}, "window": {8: (25,)}}
        for name, of_k in values.items():
            for k, of_seed in of_k.items():
                for seed, value in enumerate(of_seed, 1):
                    run_folder = folder / (f"{name}-k{k}-seed{seed}" if k else f"{name}-seed{seed}")
                    run_folder.mkdir(parents=True)
                    (run_folder / "test.bleu").write_text(f"{value}.00\n")
        (folder / "topk-k2-seed1" / "test-all-keys.bleu").write_text("22.00\n")
        root = self.drawn("k", folder)
        marks = {float(text.text): float(text.get("y")) - 4 for text in self.elements(root, "text", **{"text-anchor": "end"})}
        (low, low_y), (high, high_y) = min(marks.items()), max(marks.items())
        value_of = lambda y: low + (float(y) - low_y) * (high - low) / (high_y - low_y)
        dots = sorted(round(value_of(dot.get("cy")), 1) for dot in self.elements(root, "circle"))
        self.assertEqual(dots, [20, 22, 25, 32])
        level, = self.elements(root, "line", **{"class": "level"})
        self.assertAlmostEqual(value_of(level.get("y1")), 32, delta=0.05)
        band, = self.elements(root, "rect", **{"class": "deviation"})
        self.assertAlmostEqual(value_of(band.get("y")), 32 + 8**0.5, delta=0.05)
        bar, = self.elements(root, "path", **{"class": "deviation"})
        top, bottom = re.match(r"M\S+ (\S+)V([^M]+)M", bar.get("d")).groups()
        self.assertAlmostEqual(value_of(top) - value_of(bottom), 2 * 2**0.5, delta=0.05)
        names = [text.text for text in self.elements(root, "text", **{"text-anchor": "start"})]
        self.assertEqual(sorted(names), ["full", "topk", "topk-train", "window"])

    def test_spans(self):
        folder = PLACE.folder / "drawn-spans"
        folder.mkdir()
        lines = []
        for updates, span, bits in ((1, 100, 1.4), (2, 300, 1.3)):
            lines += [{"event": "train", "updates": updates, "notes": {"span-with-ramp": span}},
                      {"event": "valid", "updates": updates, "metric": "bits-per-byte", "value": bits}]
        (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        root = self.drawn("spans", folder)
        first, second = (float(dot.get("cy")) for dot in self.elements(root, "circle"))
        self.assertGreater(first, second)
        self.assertEqual(len(self.elements(root, "polyline")), 1)

    def test_mistakes(self):
        for arguments, says in ((["k", PLACE.folder / "nothing"], "found 0 measures of the test set"),
                                (["spans", PLACE.folder], "cannot read its log.jsonl")):
            result = run("draw_results.py", *arguments, "--output", PLACE.folder / "none.svg")
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
            self.assertIn(says, result.stderr)
            self.assertFalse((PLACE.folder / "none.svg").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)

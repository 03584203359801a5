#!/usr/bin/env python3
"""recipes/k-sweep.sh: its tables and tests, documents, language models, that it resumes, stops at Ctrl-C, and refuses what it
cannot use."""
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from fovea_program import TINY, Workplace, checked

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "recipes" / "k-sweep.sh"
PLACE = Workplace()
FILES = ["--train-sets", *PLACE.sides["train"], "--valid-sets", *PLACE.sides["valid"], "--vocabs", PLACE.vocab, PLACE.vocab]


LANGUAGE = ["--task", "language", "--train-sets", PLACE.sides["train"][0], "--valid-sets", PLACE.sides["valid"][0], "--vocabs", "bytes"]
SMALL_LANGUAGE = ["--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--segment-length", 32,
                  "--cpu-threads", 1, "--quiet"]


def sweep(*arguments, files=FILES, options=(*TINY, "--quiet")):
    return [str(argument) for argument in (SCRIPT, *files, *arguments, "--options", *options)]


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


class KSweep(unittest.TestCase):
    def refused(self, *arguments, says):
        result = run(sweep(*arguments))
        self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), result.stderr)
        self.assertIn(says, result.stderr)

    def test_tables(self):
        output = PLACE.folder / "tables"
        command = sweep("--k", 8, 2, "--mechanisms", "full", "entmax", "random", "topk", "--updates", 2, "--output", output)
        first = run(command)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stdout, r"^BLEU on \S+valid.trg after 2 updates\n\nk = +8 +2 +AVG\nfull +\d+\.\d\d\n"
                                       r"entmax +\d+\.\d\d\nrandom(?: +\d+\.\d\d){3}\ntopk(?: +\d+\.\d\d){3}\n\n"
                                       r"Difference of BLEU from full on \S+valid.trg, and \(p\) of .*\n\n +seed 1\n"
                                       r"entmax +[+-]\d+\.\d\d \([01]\.\d{4}\)\n"
                                       r"(?:(?:random|topk) k=[82] +[+-]\d+\.\d\d \([01]\.\d{4}\)\n){4}\nThe same of topk by k\n\n"
                                       r"topk\(2\) +\d+\.\d\d\ntopk\(8\) +\d+\.\d\d\nfull +\d+\.\d\d\n$")
        order = re.findall(r"model \d of 6: (\S+)", re.sub(r"\x1b\[\d*m", "", first.stderr))
        self.assertEqual(order, [f"{name}-seed1" for name in ("full", "entmax", "random-k8", "topk-k8", "random-k2", "topk-k2")])
        config = (output / "entmax-seed1" / "averaged" / "config.yml").read_text()
        self.assertIn('attention: "entmax(1.5)"', config)
        self.assertIn('attention-cross: ""', config)
        self.assertIn('attention: "random(8)"', (output / "random-k8-seed1" / "averaged" / "config.yml").read_text())

        # Finished models are neither trained nor scored again; their scores are what the table shows.
        for mechanism, bleu in (("full", "30.00"), ("topk-k8", "31.25"), ("topk-k2", "7.50")):
            (output / f"{mechanism}-seed1" / "valid.bleu").write_text(bleu + "\n")
        (output / "topk-k2-seed1" / "valid.out.paired").write_text("-22.50 (0.0010)\n")
        models = sorted(output.glob("*/averaged"))
        times = [model.stat().st_mtime_ns for model in models]
        again = run(command)
        self.assertRegex(again.stdout, r"\ntopk +31\.25 +7\.50 +19\.3[78]\n(.*\n)*topk\(2\) +7\.50\ntopk\(8\) +31\.25\nfull +30\.00\n$")
        self.assertIn("\ntopk k=2          -22.50 (0.0010)\n", again.stdout)
        self.assertEqual([model.stat().st_mtime_ns for model in models], times)
        self.refused("--k", 8, 2, "--updates", 3, "--output", output, says="holds runs with other files or options")

    def test_seeds_and_test_set(self):
        output = PLACE.folder / "seeds"
        command = sweep("--k", 4, "--mechanisms", "window", "--seeds", 1, 2, "--updates", 1, "--output", output,
                        "--test-sets", *PLACE.sides["test"])
        self.assertEqual(run(command).returncode, 0)
        for seed, bleu in ((1, "20.00"), (2, "21.00")):
            (output / f"window-k4-seed{seed}" / "test.bleu").write_text(bleu + "\n")
        self.assertRegex(run(command).stdout, r"BLEU on \S+test.trg .*: mean and \(standard deviation\) of 2 seeds\n\nk = +4\n"
                                              r"window +20\.50 \(0\.71\)\n\nBLEU on \S+valid.trg")
        config = (output / "window-k4-seed1" / "averaged" / "config.yml").read_text()
        self.assertIn('attention: "window(4)"', config)
        self.assertIn('attention-cross: "full"', config)

    def test_paired_tests_take_full_of_the_same_seed(self):
        """Translations that are the reference, and translations that share no word with it: the difference is 100."""
        output = PLACE.folder / "paired"
        command = sweep("--k", 4, "--mechanisms", "full", "bigbird", "--seeds", 1, 2, "--updates", 1, "--output", output)
        reference = PLACE.sides["valid"][1].read_text()
        texts = {"right": reference, "wrong": "zzz\n" * reference.count("\n")}
        for name, text in (("full-seed1", "right"), ("full-seed2", "wrong"), ("bigbird-k4-seed1", "wrong"), ("bigbird-k4-seed2", "right")):
            folder = output / name
            folder.mkdir(parents=True)
            (folder / "done").touch()
            (folder / "valid.out").write_text(texts[text])
            (folder / "valid.bleu").write_text("100.00\n" if text == "right" else "0.00\n")
        result = run(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"full +50\.00 \(70\.71\)\nbigbird +50\.00 \(70\.71\)\n(?s:.*)\n +seed 1 +seed 2\n"
                                        r"bigbird k=4 +-100\.00 \(0\.0010\) +\+100\.00 \(0\.0010\)\n")

    def test_finished_runs_alone(self):
        output = PLACE.folder / "finished"
        for name, text in (("full-seed1", "30.00"), ("topk-k8-seed1", "31.00"), ("topk-k8-seed2", "33.00")):
            (output / name).mkdir(parents=True)
            (output / name / "valid.bleu").write_text(f"{text}\n")
            (output / name / "valid.out").write_text(PLACE.sides["valid"][1].read_text())
        result = run(sweep("--k", 8, 2, "--mechanisms", "full", "topk", "--seeds", 1, 2, "--output", output, "--finished"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"^BLEU on \S+ after 4000 updates: mean and .* of 2 seeds \(as far as they are finished; - is none\)\n\nk = .*\n"
                                        r"full +30\.00\ntopk +32\.00 \(1\.41\) +- +-\n(?s:.*)\n +seed 1 +seed 2\n"
                                        r"topk k=8 +\+0\.00 \(1\.0000\) +-\ntopk k=2 +- +-\n")
        self.assertEqual(list(output.glob("*/checkpoints")), [])
        self.assertFalse((output / "settings").exists(), "a training with other options may follow")

    def test_bertscore(self):
        """Translations that are the reference have 1; the encoder is a model of the sweep, whose source side reads the words."""
        output = PLACE.folder / "bertscore"
        plain = sweep("--k", 4, "--mechanisms", "full", "topk", "--updates", 1, "--output", PLACE.folder / "encoder")
        self.assertEqual(run(plain).returncode, 0)
        encoder = PLACE.folder / "encoder" / "full-seed1" / "averaged"
        command = sweep("--k", 4, "--mechanisms", "full", "topk", "--updates", 1, "--output", output, "--bertscore", encoder, 1)
        (output / "topk-k4-seed1").mkdir(parents=True)
        for name, text in (("done", ""), ("valid.out", PLACE.sides["valid"][1].read_text()), ("valid.bleu", "100.00\n")):
            (output / "topk-k4-seed1" / name).write_text(text)
        result = run(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"topk +100\.00\n\nBERTScore, F1\n\nk = +4\nfull +0\.\d{4}\ntopk +1\.0000\n\nDifference of BLEU")
        score = checked("evaluate", "--metrics", "bertscore", "--bertscore-model", encoder, "--bertscore-layer", 1, "--reference",
                        PLACE.sides["valid"][1], "--input", output / "full-seed1" / "valid.out").stdout
        value, *rest = (output / "full-seed1" / "valid.bertscore").read_text().split()
        self.assertIn(f"F1 {value}\n", score)
        self.assertEqual(rest, [str(encoder), "1"])

        # Another layer is computed again, the same one is not.
        (output / "full-seed1" / "valid.bertscore").write_text(f"0.2500 {encoder} 1\n")
        self.assertRegex(run(command).stdout, r"full +0\.2500\n")
        command[command.index("--bertscore") + 2] = "0"
        self.assertNotRegex(run(command).stdout, r"full +0\.2500\n")
        self.refused("--bertscore", "a", 1, 2, says="--bertscore: got 3 values; expected a folder and the number of a layer")

    def test_documents(self):
        texts = []
        for side in PLACE.sides["valid"]:
            lines = side.read_text().splitlines(keepends=True)
            texts.append(PLACE.folder / f"documents{side.suffix}")
            texts[-1].write_text("".join(("<d>\n" if i % 10 == 0 else "") + line for i, line in enumerate(lines)))
        output = PLACE.folder / "documents"
        files = ["--train-sets", *texts, "--valid-sets", *texts, "--vocabs", PLACE.vocab, PLACE.vocab, "--documents"]
        result = run(sweep("--k", 4, "--mechanisms", "oow", "--updates", 1, "--output", output, files=files,
                           options=[*TINY, "--document-length", 8]))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"wrote \S+averaged\n(?s:.*)cut to 7 \(--document-length\)")  # translate has it too
        self.assertRegex(result.stdout, r"^d-BLEU on \S+documents.trg after 1 updates\n\nk = +4\noow +\d+\.\d\d\n$")
        self.assertEqual((output / "oow-k4-seed1" / "valid.out").read_text().count("<d>\n"), 5)

        # BERTScore is that of the sentences, without the lines that begin documents.
        encoder = output / "oow-k4-seed1" / "averaged"
        scored = run(sweep("--k", 4, "--mechanisms", "oow", "--updates", 1, "--output", output, "--bertscore", encoder, 1, files=files,
                           options=[*TINY, "--document-length", 8]))
        self.assertEqual(scored.returncode, 0, scored.stderr)
        kept = []
        for text in (texts[1], output / "oow-k4-seed1" / "valid.out"):
            kept.append(PLACE.folder / f"{len(kept)}.sentences")
            kept[-1].write_text("".join(line for line in text.read_text().splitlines(keepends=True) if line != "<d>\n"))
        score = checked("evaluate", "--metrics", "bertscore", "--bertscore-model", encoder, "--bertscore-layer", 1, "--reference", kept[0],
                        "--input", kept[1]).stdout
        self.assertIn(f"F1 {(output / 'oow-k4-seed1' / 'valid.bertscore').read_text().split()[0]}\n", score)
        config = (output / "oow-k4-seed1" / "averaged" / "config.yml").read_text()
        self.assertIn('attention: "oow(4)"', config)
        self.assertIn('attention-cross: "full"', config)

    def test_language(self):
        output = PLACE.folder / "language"
        command = sweep("--k", 4, "--mechanisms", "full", "topk", "topk-train", "--updates", 2, "--output", output, files=LANGUAGE,
                        options=SMALL_LANGUAGE)
        result = run(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^Bits per byte on \S+valid.src after 2 updates\n\nk = +4\nfull +\d\.\d{3}\ntopk +\d\.\d{3}\n"
                                        r"topk-train +\d\.\d{3}\n\nThe same of topk by k\n\ntopk\(4\) +\d\.\d{3}\nfull +\d\.\d{3}\n$")

        # The row topk-train is what --sparsify train gives.
        model = PLACE.folder / "topk-train"
        checked("train", "-c", SCRIPT.parent / "demo-language.yml", *LANGUAGE, *SMALL_LANGUAGE, "--model", model, "--seed", 1,
                "--attention", "topk(4)", "--sparsify", "train", "--after-batches", 2)
        scored = checked("score", "--model", model, "--train-sets", PLACE.sides["valid"][0], "--quiet").stdout
        bits = {name: (output / "topk-k4-seed1" / f"{name}.bits").read_text() for name in ("valid", "valid-all-keys")}
        self.assertIn(f"bits-per-byte {bits['valid-all-keys']}", scored)
        self.assertNotEqual(bits["valid"], bits["valid-all-keys"])

    def test_validation_chooses_the_average(self):
        """Averages of two checkpoints end at updates 7 and 4, whose BLEU is given and high: its translations stay."""
        output = PLACE.folder / "averages"
        model = output / "full-seed1"
        (model / "averages").mkdir(parents=True)
        (model / "averages" / "4.bleu").write_text("60.00\n")
        (model / "averages" / "4.out").write_text("a line\n" * PLACE.sides["valid"][1].read_text().count("\n"))
        result = run(sweep("--k", 4, "--mechanisms", "full", "--updates", 7, "--averages", 2, 3, "--output", output,
                           options=[*TINY, "--quiet", "--save-freq", 1, "--keep-last", 9]))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("\nfull               60.00\n", result.stdout)
        self.assertEqual(sorted(path.name for path in (model / "averages").iterdir()), ["4.bleu", "7.bleu"])
        self.assertEqual((model / "valid.out").read_text().split("\n")[0], "a line")
        expected = PLACE.folder / "expected-average"
        checked("average", "--model", model, "--last", 2, "--until", 4, "--output", expected)
        self.assertEqual((model / "averaged" / "model.safetensors").read_bytes(), (expected / "model.safetensors").read_bytes())

    def test_stops_and_continues(self):
        output = PLACE.folder / "stopped"
        command = sweep("--k", 2, "--mechanisms", "topk", "--updates", 400, "--output", output)
        default = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # as from a terminal
        script = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=default)
        checkpoints = output / "topk-k2-seed1" / "checkpoints"
        while script.poll() is None and not checkpoints.exists():
            time.sleep(0.05)
        os.killpg(script.pid, signal.SIGINT)
        errors = script.communicate(timeout=120)[1]
        self.assertEqual(script.returncode, 130, errors)
        self.assertIn("stopped; run the same command again to continue", errors)
        self.assertFalse((output / "topk-k2-seed1" / "done").exists())
        continued = run(command)
        self.assertEqual(continued.returncode, 0, continued.stderr)
        self.assertTrue(re.search(r"topk\(2\) +\d", continued.stdout))

    def test_mistakes(self):
        self.refused("--mechanisms", "widow", says="--mechanisms: got 'widow'; expected some of full sparsemax")
        self.refused("--k", "two", says="got 'two'; expected a whole number of at least 1")
        self.refused("--k", 6, "--mechanisms", "bigbird", says="k of bigbird is 6; it must be a multiple of 4")
        self.refused("--task", "image", says="--task: got 'image'; expected translation or language")
        self.refused("--task", "language", says="--train-sets: got 2 files; expected one text")
        self.refused("--averages", 5, says="--averages: got 1 numbers; expected those of N and EVERY")
        self.refused("--averages", 5, 0, says="--averages: got '0'; expected a whole number of at least 1")
        self.refused("--seeds", says="--seeds: got no value")
        self.refused("--seed", 1, says="unknown option '--seed'")
        self.refused("--test-sets", "a", says="--test-sets: got 1 files; expected source and target")


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""The main job on real text: Multi30k English-German out of the folder that FOVEA_DATA names. Where there is none it says
so and exits with 77, which CTest reports as skipped."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from fovea_program import TINY, checked

DATA = pathlib.Path(os.environ.get("FOVEA_DATA", "")) / "multi30k"

# sacreBLEU's command cannot print a paired test as JSON (2.6.0: float32 is not serialisable).
PAIRED = """
import json, sys
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest
base, system, reference = ([line.rstrip() for line in open(path, newline="\\n")] for path in sys.argv[1:])
_, table = PairedTest([("base", base), ("system", system)], {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}, [reference], "bs", 1000)()
print(json.dumps({name: [{key: float(value) for key, value in vars(result).items() if value is not None} for result in results]
                  for name, results in table.items() if name != "System"}))
"""


def text(name, side):
    return DATA / f"{name}.{side}.gz"


def lines_of(path):
    return gzip.decompress(path.read_bytes()).decode().splitlines()


class Multi30k(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-real-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def test_from_text_to_score(self):
        corpus = self.folder / "corpus"
        report = checked("corpus", text("train", "en"), text("train", "de"), "--valid", 100, "--test", 100,
                         "--output", corpus).stderr
        sides = {name: [corpus / f"{name}.{side}" for side in ("en", "de")] for name in ("train", "valid", "test")}
        counts = {name: len(paths[0].read_text().splitlines()) for name, paths in sides.items()}
        self.assertEqual((counts["valid"], counts["test"]), (100, 100), report)
        self.assertGreater(counts["train"], 0.95 * 29000, report)
        for paths in sides.values():
            self.assertEqual(*(len(path.read_text().splitlines()) for path in paths))
        held_out = set(sides["test"][0].read_text().splitlines()) | set(sides["valid"][0].read_text().splitlines())
        self.assertFalse(held_out & set(sides["train"][0].read_text().splitlines()))

        vocab, model = self.folder / "joint.spm", self.folder / "model"
        checked("vocab", "--train-sets", text("val", "en"), text("val", "de"), "--dim-vocabs", 1000, "--output", vocab)
        log = checked("train", "--model", model, "--train-sets", *sides["train"], "--valid-sets", *sides["valid"],
                      "--vocabs", vocab, vocab, *TINY, "--attention", "topk(4)", "--after-batches", 60, "--valid-freq",
                      30, "--learn-rate", 0.005, "--lr-warmup", 10, "--log-format", "json").stderr
        events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        losses = [event["value"] for event in events if event.get("metric") == "ce-mean-words"]
        self.assertEqual(len(losses), 2, log)
        self.assertLess(losses[1], losses[0])

        translated = checked("translate", "--model", model, "--input", text("test_2016_flickr", "en"), "--beam-size", 2,
                             "--max-length-factor", 1).stdout
        self.assertEqual(len(translated.splitlines()), 1000)
        scores = checked("score", "--model", model, "--train-sets", *sides["test"]).stdout.split()
        self.assertEqual(len(scores), 100)
        self.assertTrue(all(float(score) < 0 for score in scores))

    def test_evaluation_is_sacrebleus(self):
        """Real German against other real German, some of it equal: every n-gram order has matches."""
        reference, hypothesis = lines_of(text("test_2016_flickr", "de")), lines_of(text("test_2016_flickr", "de"))
        hypothesis[::2] = lines_of(text("val", "de"))[:500]
        hypothesis[1::4] = [" ".join(line.split()[1:]) for line in hypothesis[1::4]]
        (self.folder / "ref").write_text("\n".join(reference) + "\n")
        ours = checked("evaluate", "--reference", self.folder / "ref", "--metrics", "bleu", "chrf", "ter",
                       stdin="\n".join(hypothesis) + "\n").stdout.splitlines()
        (self.folder / "hyp").write_text("\n".join(hypothesis) + "\n")
        command = [os.environ.get("PYTHON", sys.executable), "-m", "sacrebleu", self.folder / "ref", "-i",
                   self.folder / "hyp", "-m", "bleu", "chrf", "ter", "--format", "text", "--width", "2"]
        theirs = subprocess.run(command, capture_output=True, text=True)
        if "No module named" in theirs.stderr:
            self.skipTest("sacrebleu is not installed: the evaluation of real text was not compared with it")
        self.assertEqual(theirs.returncode, 0, theirs.stderr)
        self.assertEqual(ours, theirs.stdout.splitlines())
        self.compare_with_baseline(hypothesis)

    def compare_with_baseline(self, hypothesis):
        """Against the same text with the last word of every fifth line missing: one metric sees a difference."""
        baseline = [line if i % 5 else " ".join(line.split()[:-1]) for i, line in enumerate(hypothesis)]
        (self.folder / "base").write_text("\n".join(baseline) + "\n")
        ours = json.loads(checked("evaluate", "--reference", self.folder / "ref", "--input", self.folder / "hyp", "--baseline",
                                  self.folder / "base", "--metrics", "bleu", "chrf", "ter", "--json", "--width", 6).stdout)
        command = [os.environ.get("PYTHON", sys.executable), "-c", PAIRED, *(self.folder / name for name in ("base", "hyp", "ref"))]
        theirs = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        self.assertEqual({metric["name"] for metric in ours}, theirs.keys())
        for metric in ours:
            baseline, = metric["baselines"]
            for own, expected in zip((baseline, metric), theirs[metric["name"]]):
                # sacreBLEU scores resamples in single precision.
                self.assertAlmostEqual(own["score"], expected["score"], delta=1e-4)
                self.assertAlmostEqual(own["confidence_mean"], expected["mean"], delta=1e-3)
                self.assertAlmostEqual(own["confidence_var"], expected["ci"], delta=1e-3)
            self.assertEqual(baseline["p_value"], theirs[metric["name"]][1]["p_value"])


if __name__ == "__main__":
    if not os.environ.get("FOVEA_DATA") or not DATA.is_dir():
        print("skipped: FOVEA_DATA names no folder with multi30k/ in it: nothing was tested on real text")
        sys.exit(77)
    unittest.main(verbosity=2)

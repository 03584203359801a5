#!/usr/bin/env python3
"""Language models from the command line, as a newcomer uses and misuses them."""
import json
import math
import os
import re
import subprocess
import unittest

from fovea_program import PROGRAM, Refusals, checked, run
from language_models import F, PLACE, TEST, TEXT, VALID, generate, made, of_bytes, of_pieces, score, training, write


class Use(unittest.TestCase):
    def test_train_score_and_generate(self):
        for model, vocabs, unit, measure in ((F / "use-bytes", "bytes", "byte", "bits-per-byte"),
                                             (F / "use-pieces", PLACE.vocab, "piece", "perplexity")):
            log = checked(*training(model, "--after-batches", 12, "--valid-sets", VALID, "--valid-freq", 6, vocabs=vocabs)).stderr
            self.assertRegex(log, rf"\[data\] [\d,]+ {unit}s from '{re.escape(str(TEXT))}' \([\d,]+ bytes, 1,900 lines, ")
            self.assertEqual(log.count(f" : {measure} : "), 2, log)
            self.assertTrue((model / "best").is_symlink())
            self.assertIn("\nmechanism: full\n", checked("info", model).stdout)
            said = score("--model", model, "--train-sets", TEST)
            self.assertEqual(said.stderr, "")
            names = [line.split(" ")[0] for line in said.stdout.splitlines()]
            self.assertEqual(names, ["bits-per-byte", "bits-per-unit", "perplexity", "perplexity-per-word", "accuracy", "signature"])
            size, words = TEST.stat().st_size, len(TEST.read_text().split())
            self.assertRegex(said.stdout.splitlines()[-1],
                             rf"^signature unit:{unit}\|vocab:\d+\|context:16\|stride:16\|documents:no\|units:\d+\|bytes:{size}"
                             rf"\|words:{words}\|version:\d+\.\d+\.\d+$")
            text = generate("--model", model, "--prompt", "un ", "--max-length", 10)
            self.assertEqual((text.returncode, text.stderr), (0, ""))
            self.assertTrue(text.stdout.startswith("un "), text.stdout)

    def test_the_log_speaks_the_units_that_it_counts(self):
        characters = F / "characters.spm"
        checked("vocab", "--train-sets", TEXT, "--type", "char", "--dim-vocabs", 100, "--output", characters, "--quiet")
        for name, vocabs, speed in (("bytes", "bytes", "bytes/s"), ("characters", characters, "characters/s"),
                                    ("pieces", PLACE.vocab, "pieces/s")):
            model = F / f"units-{name}"
            log = checked(*training(model, "--after-batches", 2, "--disp-freq", 1, "--valid-sets", VALID, vocabs=vocabs)).stderr
            self.assertEqual((log.count(f" {speed} : "), log.count("words/s")), (2, 0), log)
            lines = [json.loads(line) for line in (model / "log.jsonl").read_text().splitlines()]
            updates = [line for line in lines if line["event"] == "train"]
            self.assertEqual(["bits_per_byte" in line for line in updates], 2 * [name == "bytes"])
            if name == "bytes":
                for line in updates:
                    self.assertAlmostEqual(line["bits_per_byte"], line["cost"] / math.log(2), places=9)
                    self.assertIn(f" : {line['bits_per_byte']:.4f} bits/byte\n", log)
            measures = {line["metric"] for line in lines if line["event"] == "valid"}
            self.assertEqual(measures, {"perplexity", "perplexity-per-word"} if name == "pieces" else {"bits-per-byte"})
        smoothed = checked(*training(F / "units-smoothed", "--after-batches", 1, "--disp-freq", 1, "--label-smoothing", 0.1)).stderr
        self.assertNotIn("bits/byte", smoothed, "the cost is not the text's alone")

    def test_score_levels_and_options(self):
        whole = dict(line.split(" ") for line in score("--model", of_bytes(), "--train-sets", TEST).stdout.splitlines())
        bits = float(whole["bits-per-byte"]) * TEST.stat().st_size
        for level, count in (("unit", TEST.stat().st_size), ("line", 50)):
            said = score("--model", of_bytes(), "--train-sets", TEST, "--level", level, "--mini-batch", 5).stdout
            values = [float(line) for line in said.splitlines()]
            self.assertEqual(len(values), count)
            self.assertAlmostEqual(-sum(values) / 0.6931471805599453 / bits, 1, places=5)
        as_before = score("--model", of_bytes(), "--train-sets", TEST, "--mini-batch", 3).stdout.splitlines()
        self.assertEqual(as_before, [f"{name} {value}" for name, value in whole.items()])
        given = score("--model", of_bytes(), "--train-sets", "-", "--words", 7, "--context", 8, "--stride", 4, stdin=TEST.read_bytes())
        self.assertIn("|context:8|stride:4|", given.stdout)
        self.assertIn("|words:7(given)|", given.stdout)
        wide = checked("score", "--model", of_bytes(), "--train-sets", TEST, "--context", 60, "--attention", "window(4)")
        self.assertIn("a pass reads 61 units (--context and --stride); the model's segments have 32", wide.stderr)
        self.assertIn("|attention:window(4)|", wide.stdout)
        log = checked("score", "--model", of_bytes(), "--train-sets", TEST, "--level", "line", "--output", F / "lines").stderr
        self.assertIn("unit:byte|vocab:257|", log, "the signature goes to the log")

    def test_routed(self):
        heads = lambda routed: ("--attention", f"1*blocks(8,1);1*{routed}")
        best, causal = made("routed", *heads("routed(3,8)")), made("routed-causal", *heads("routed(3,8,causal)+topk(2)"))
        warning = "routed(c,w) chooses the members of a cluster in the whole segment, so probabilities are optimistic"
        said = checked("score", "--model", best, "--train-sets", TEST)
        self.assertEqual(said.stderr.count(warning), 1, said.stderr)
        self.assertIn("|routing:whole-segment|version:", said.stdout)
        strict = checked("score", "--model", best, "--train-sets", TEST, *heads("routed(3,8,causal)"))
        self.assertNotIn(warning, strict.stderr)
        self.assertNotIn("routing:", strict.stdout)
        said = score("--model", causal, "--train-sets", TEST)
        self.assertEqual(said.stderr, "")
        self.assertNotIn("routing:", said.stdout)
        for model in best, causal:
            self.assertTrue(generate("--model", model, "--prompt", "un ", "--max-length", 40).stdout.startswith("un "))
        log = checked(*training(F / "routed-log", "--after-batches", 2, "--disp-freq", 1, "--valid-sets", VALID, *heads("routed(3,8)"))).stderr
        self.assertEqual(log.count(warning), 1, log)
        for note in ("commitment", "none", "several", "largest", "smallest"):
            self.assertRegex(log, rf"routing-{note} [0-9.e-]+")

    def test_routed_with_memory(self):
        model = made("routed-memory", "--attention", "1*local(6);1*routed(3,8,causal)", "--memory-length", 20,
                     "--transformer-positions", "shaw(9)")
        whole = score("--model", model, "--train-sets", TEST)
        self.assertEqual((whole.returncode, whole.stderr), (0, ""))
        self.assertIn("|memory:20|", whole.stdout)
        self.assertNotIn("routing:", whole.stdout)
        bits = [float(score("--model", model, "--train-sets", TEST, "--memory-length", length).stdout.split()[1]) for length in (0, 20)]
        self.assertEqual(bits[1], float(whole.stdout.split()[1]))
        self.assertNotEqual(bits[0], bits[1])
        text = generate("--model", model, "--prompt", "un ", "--max-length", 70, "--temperature", 0).stdout
        self.assertTrue(text.startswith("un "), text)
        self.assertGreaterEqual(len(text.encode().rstrip(b"\n")), 73)

    def test_another_clamp(self):
        model = made("xl", "--attention", "topk(6)", "--memory-length", 20, "--transformer-positions", "transformer-xl(clamp=9)")
        clamp = lambda number: ("--transformer-positions", f"transformer-xl(clamp={number})")
        bits = lambda *options: float(checked("score", "--model", model, "--train-sets", TEST, *options).stdout.split()[1])
        # With a stride of 8 and a memory of 20 units, no distance is above 27.
        cut = ("--stride", 8, "--memory-length", 20, "--same-length")
        self.assertEqual(bits(*cut), bits(*cut, *clamp(9)))
        self.assertEqual(bits(*cut, *clamp(0)), bits(*cut, *clamp(27)))
        self.assertNotEqual(bits(*cut), bits(*cut, *clamp(27)))
        said = score("--model", model, "--train-sets", TEST, *clamp(27)).stdout
        self.assertIn("|positions:transformer-xl(clamp=27)|version:", said)
        text = generate("--model", model, "--prompt", "un ", "--max-length", 40, *clamp(27))
        self.assertTrue(text.stdout.startswith("un "), text.stderr)
        for given, says in (("shaw(9)", "expected the same with another clamp=N of transformer-xl"),
                            ("transformer-xl(clamp=5)+alibi", "expected the same with another clamp=N of transformer-xl"),
                            ("transformer-xl(camp=5)", "--transformer-positions: got ")):
            said = score("--model", model, "--train-sets", TEST, "--transformer-positions", given)
            self.assertIn(says, said.stderr)
            self.assertEqual(len(said.stderr.splitlines()), 1, said.stderr)
        said = score("--model", of_bytes(), "--train-sets", TEST, *clamp(5))
        self.assertEqual(said.returncode, 1)
        self.assertIn("only the clamp of transformer-xl can differ from training, so leave the option out", said.stderr)

    def test_routed_with_own_keys(self):
        for spec, memory in (("routed(3,8)", 0), ("routed(3,8,causal)+topk(4)", 20)):
            model = made(f"own-{memory}", "--attention", f"1*local(6);1*{spec}", "--routing-keys", "own", "--memory-length", memory,
                         "--transformer-positions", "shaw(9)")
            said = checked("score", "--model", model, "--train-sets", TEST).stdout
            self.assertEqual("routing:whole-segment" in said, memory == 0)
            text = generate("--model", model, "--prompt", "un ", "--max-length", 40)
            self.assertTrue(text.stdout.startswith("un "), text.stderr)

    def test_spans(self):
        heads = ("--attention", "1*span(40,4);1*span(20,4)+topk(3)", "--transformer-positions", "none", "--span-start", 0.5)
        log = checked(*training(F / "span-log", "--after-batches", 2, "--disp-freq", 1, "--valid-sets", VALID, *heads)).stderr
        mean, ramp, largest = (float(re.findall(rf"span-{note} ([0-9.]+)", log)[0]) for note in ("mean", "with-ramp", "largest"))
        self.assertLess(abs(mean - 15), 1)  # 20 and 10, moved by one update
        self.assertAlmostEqual(ramp, mean + 4, places=2)
        self.assertLess(abs(largest - 20), 1)
        model = made("span", *heads)
        lines = checked("analyze", "--model", model).stdout.splitlines()
        self.assertEqual(lines[:2], ["span in tokens", "layer       mean  with ramp     head 1     head 2"])
        shown = [float(word) for word in lines[2].split()]
        self.assertEqual(len(lines), 3)
        refused = run("analyze", "--model", model, "--precision", "bfloat16").stderr
        self.assertEqual(refused, "Error: --source is missing; expected a sentence, or text files in --train-sets\n")
        records = json.loads(checked("analyze", "--model", model, "--json").stdout)["records"]
        self.assertEqual([(r["kind"], r["layer"], r["head"]) for r in records], [("decoder", 1, head) for head in (0, 1, 2)])
        spans = [r["span"] for r in records]
        self.assertAlmostEqual(spans[0], (spans[1] + spans[2]) / 2, places=4)
        self.assertAlmostEqual(records[1]["span_with_ramp"], spans[1] + 4, places=6)
        for number, span in zip(shown[1:], [spans[0], records[0]["span_with_ramp"], *spans[1:]]):
            self.assertLess(abs(number - span), 0.06)
        self.assertIn("|memory:40|", checked("score", "--model", model, "--train-sets", TEST, "--quiet").stdout)
        self.assertIn("memory-length: 40", (model / "last" / "config.yml").read_text())
        text = checked("generate", "--model", model, "--prompt", "un ", "--max-length", 70, "--temperature", 0, "--quiet").stdout
        self.assertTrue(text.startswith("un "), text)
        self.assertGreaterEqual(len(text.encode().rstrip(b"\n")), 73)  # a byte that is no text is written as three
        checked("average", "--model", model, "--last", 1, "--output", F / "span-average")
        self.assertEqual(checked("analyze", "--model", F / "span-average").stdout.splitlines(), lines)

    def test_span_misuse(self):
        for options, says in (
                (("--attention", "span(8,0)"), "ramp of span is 0; it must be at least 1"),
                (("--attention", "span(0,2)"), "limit of span is 0; it must be at least 1"),
                (("--attention", "span(8,2)", "--transformer-positions", "alibi"), "'span' brings its own table of distances; got "),
                (("--attention", "span(8,2)|local(2)"), "'span' joins no other pattern"),
                (("--attention", "1*span(8,2);1*full", "--span-cold-cache", "zeros"), "needs span(limit,ramp) in all heads"),
                (("--attention", "span(8,2)", "--order", "shuffled"), "--memory-length 8 (the limit of span) with --order shuffled"),
                (("--span-start", 2), "--span-start")):
            with self.subTest(options=options):
                said = run(*training(F / "x", *options))
                self.assertNotEqual(said.returncode, 0)
                self.assertIn(says, said.stderr)
        said = run(*PLACE.training(F / "x", "--attention", "span(8,2)"))
        self.assertIn("so it needs causal self-attention", said.stderr)
        self.assertIn("(set --attention-encoder)", said.stderr)
        self.assertFalse((F / "x").exists())
        said = run("analyze", "--model", of_bytes())
        self.assertIn("--source is missing", said.stderr)
        said = score("--model", made("bytes"), "--train-sets", TEST, "--attention", "span(8,2)")
        self.assertIn("it needs learned spans of these heads, limits and ramps, which this model", said.stderr)

    def test_routed_misuse(self):
        said = run(*training(F / "x", "--attention", "routed(3,8)+topk(2,keep=local(2))", "--routing-keys", "own"))
        self.assertEqual(said.returncode, 2)
        self.assertIn("expected topk(2) or --routing-keys shared", said.stderr)
        said = score("--model", made("routed", "--attention", "1*blocks(8,1);1*routed(3,8)"), "--train-sets", TEST,
                     "--attention", "routed(4,8)")
        self.assertIn("it needs centroids of its clusters, which this model", said.stderr)
        self.assertEqual((said.returncode, len(said.stderr.splitlines())), (1, 1))
        said = run(*training(F / "x", "--attention", "1*local(8);1*routed(3,8)", "--memory-length", 20))
        self.assertEqual((said.returncode, len(said.stderr.splitlines())), (2, 1))
        self.assertIn("choose among the tokens of a segment and have no memory; use routed(3,8,causal), or --memory-length 0", said.stderr)
        said = run(*training(F / "x", "--attention", "1*local(8);1*routed(3,8,causal)", "--memory-length", 20,
                             "--transformer-positions", "rotary"))
        self.assertEqual((said.returncode, len(said.stderr.splitlines())), (2, 1))
        self.assertIn("whose clusters depend on the turn of rotary positions", said.stderr)
        said = score("--model", made("routed-memory", "--attention", "1*local(6);1*routed(3,8,causal)", "--memory-length", 20,
                                     "--transformer-positions", "shaw(9)"), "--train-sets", TEST, "--same-length")
        self.assertEqual((said.returncode, len(said.stderr.splitlines())), (2, 1))
        self.assertIn("which counts members of a cluster, not units; leave --same-length out", said.stderr)

    def test_prompts(self):
        model = ["--model", of_bytes(), "--max-length", 12]
        one = generate(*model, "--prompt", "ab").stdout
        self.assertTrue(one.startswith("ab") and one.endswith("\n"), one)
        self.assertGreaterEqual(len(one.encode(errors="surrogateescape")), 2 + 12 + 1)
        self.assertEqual(generate(*model, stdin="ab\n").stdout, one)
        self.assertEqual(generate(*model, "--input", write("prompt", "ab")).stdout, one)
        self.assertTrue(generate(*model).stdout, "an empty standard input begins a text")
        several = generate(*model, "--prompt", "ab", "cd", "--count", 2).stdout
        self.assertEqual(re.findall("^==> .*", several, re.MULTILINE), [f"==> {i} of 4 <==" for i in range(1, 5)])
        self.assertTrue(several.startswith("==> 1 of 4 <==\n" + one), "other texts change nothing")
        single = generate(*model, stdin="ab\ncd\n").stdout
        texts, more = ([text.split(" <==\n")[1].rstrip("\n") for text in said.split("==> ")[1:]] for said in (single, several))
        self.assertEqual(texts, [more[0], more[2]], "--count changes nothing")
        self.assertEqual(generate(*model, "--prompt", "ab", "cd", "--count", 2, "--mini-batch", 3).stdout, several)
        self.assertEqual(run("generate", *model, "--cpu-threads", 2, "--quiet", "--prompt", "ab", "cd", "--count", 2).stdout, several)
        self.assertNotEqual(generate(*model, "--prompt", "ab", "cd", "--count", 2, "--seed", 2).stdout, several)
        generate(*model, "--prompt", "ab", "cd", "--count", 2, "--output", F / "texts")
        self.assertEqual((F / "texts").read_bytes().decode(errors="replace"), several)
        for precision in ("bfloat16", "int8"):
            self.assertTrue(generate(*model, "--prompt", "ab", "--precision", precision).stdout.startswith("ab"))
        greedy = [generate(*model, "--prompt", "ab", "--temperature", 0, "--seed", seed).stdout for seed in (1, 2)]
        self.assertEqual(*greedy)

    def test_a_prompt_of_any_bytes(self):
        for prompt in (b"a\xff\xfe", b"a\xe6\xbc"):  # not UTF-8; the beginning of a character
            result = subprocess.run([PROGRAM, "generate", "--model", of_bytes(), "--prompt", prompt, "--max-length", "1",
                                     "--quiet", "--cpu-threads", "1"], capture_output=True, timeout=600)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(result.stdout.startswith(prompt), result.stdout)
            self.assertLessEqual(len(result.stdout), len(prompt) + len("x\n"), result.stdout)

    def test_help_tells_the_tasks_apart(self):
        said = checked("train", "--help-all").stdout
        for text in ("--task translation: one language to another", "--task language: text, unit by unit", "With --task language",
                     "--segment-length N", "--attention-encoder TEXT", "fovea train --task NAME --help shows the options of one"):
            self.assertIn(text, said)
        own = checked("train", "--task", "language", "--help-all").stdout
        self.assertIn("Task language:", own)
        self.assertLess(own.index("--segment-length"), own.index("With --task translation"))
        self.assertGreater(own.index("--attention-encoder"), own.index("With --task translation"))
        self.assertIn("For models of the tasks translation, language, image, tagging.", checked("score", "--help").stdout)
        self.assertIn("For models of the tasks language, image.", checked("generate", "--help").stdout)


class BadInput(Refusals):
    def test_options_of_another_task(self):
        self.refuse(2, "--task: got 'langauge'; expected one of translation, language, image, tagging, caption; did you mean 'language'?",
                    "train", "--task", "langauge", "--model", F / "no")
        self.refuse(2, "'--segment-length' is an option of --task language", *PLACE.training(F / "no", "--segment-length", 32))
        for option in ("--attention-encoder", "--attention-cross"):
            self.refuse(2, f"'{option}' is an option of --task translation", *training(F / "no", option, "full"))
        config = write("config.yml", "segment-length: 32\n")
        self.refuse(1, "config.yml:1: unknown key 'segment-length'; it is an option of --task language", *PLACE.training(F / "no", "--config", config))
        config = write("config.yml", "task: language\nsegment-length: 32\nenc-depth: 2\n")
        self.refuse(1, "config.yml:3: unknown key 'enc-depth'; it is an option of --task translation",
                    "train", "--config", config, "--model", F / "no", "--vocabs", "bytes", "--train-sets", TEXT)
        self.refuse(2, "--valid-metrics: got 'bleu'; expected some of bits-per-byte", *training(F / "no", "--valid-metrics", "bleu"))
        self.refuse(2, "got 'encoder' in 'encoder.1=window(4)'; the model has no encoder", *training(F / "no", "--attention-layers", "encoder.1=window(4)"))
        self.refuse(2, "'--summary' is an option of a model of the task translation",
                    "score", "--model", of_bytes(), "--train-sets", TEST, "--summary")
        self.assertFalse((F / "no").exists())

    def test_model_of_another_task(self):
        other = PLACE.model()
        self.refuse(1, "a model of the task language", "translate", "--model", of_bytes(), stdin="a\n")
        self.refuse(1, "a model of the task translation", "generate", "--model", other)
        self.refuse(1, "a model of the task language", "align", "--model", of_bytes(), "--train-sets", TEST, TEST)
        self.refuse(1, "task", *training(other, "--after-batches", 30))
        self.refuse(2, "'--context' is an option of a model of the task language",
                    "score", "--model", other, "--train-sets", *PLACE.sides["test"], "--context", 4)
        self.refuse(1, "no such", "score", "--model", F / "gone", "--train-sets", TEST, TEST)
        self.refuse(1, "no such", "generate", "--model", F / "gone")

    def test_texts(self):
        cases = [("empty", b"", "no text in"), ("binary", b"abc\n\0\1\2\nabc\n", "line 2 (after 4 bytes): has a NUL byte"),
                 ("latin1", b"abc\n\xe4\xf6\xfc\n", "line 2 (after 4 bytes): is not UTF-8")]
        for name, content, expected in cases:
            path = write(name, content)
            self.refuse(1, expected, *training(F / "no", vocabs=PLACE.vocab, text=path))
            self.refuse(1, expected, *training(F / "no", "--valid-sets", path, vocabs=PLACE.vocab))
            self.refuse(1, expected, "score", "--model", of_pieces(), "--train-sets", path)
        self.refuse(1, "no text in", *training(F / "no", text=F / "empty"))
        for name in ("binary", "latin1"):
            made("of-" + name, text=F / name)
            self.assertEqual(score("--model", F / ("of-" + name), "--train-sets", F / name).returncode, 0)
        self.refuse(1, "--train-sets: no such file", *training(F / "no", text=F / "gone"))
        self.refuse(1, "--valid-sets: no such file", *training(F / "no", "--valid-sets", F / "gone"))
        self.refuse(1, "gone", *training(F / "no", vocabs=F / "gone"))
        self.refuse(1, "--train-sets: no such file", "score", "--model", of_bytes(), "--train-sets", F / "gone")
        self.refuse(1, "--input: no such file", "generate", "--model", of_bytes(), "--input", F / "gone")
        self.refuse(2, "--train-sets is missing", "train", "--task", "language", "--model", F / "no", "--vocabs", "bytes")
        self.refuse(2, "--vocabs is missing", "train", "--task", "language", "--model", F / "no", "--train-sets", TEXT)
        self.refuse(1, "is not a SentencePiece model", *training(F / "no", vocabs=TEXT))
        self.assertFalse((F / "no").exists())

    def test_a_text_shorter_than_a_segment(self):
        said = checked(*training(F / "short", "--after-batches", 3, text=write("short.txt", "un stelli"))).stderr
        self.assertIn("fewer than one segment of 32 (--segment-length)", said)
        self.assertIn("Training finished after 3 updates", said)

    def test_prompts(self):
        self.refuse(1, "--prompt: got bytes that are not UTF-8", "generate", "--model", of_pieces(), "--prompt", os.fsdecode(b"a\xff"))
        self.refuse(1, "standard input, line 2: got bytes that are not UTF-8", "generate", "--model", of_pieces(), stdin=b"a\nb\xff\n")
        learned = made("learned", "--transformer-positions", "learned", "--max-positions", 40)
        self.refuse(1, "learned positions for 40 units; expected at most 36", "generate", "--model", learned, "--prompt", "abcd")
        self.assertEqual(generate("--model", learned, "--prompt", "abcd", "--max-length", 36).returncode, 0)
        self.refuse(1, "learned positions for 40 units", "generate", "--model", learned, "--prompt", "a" * 50, "--max-length", 1)
        self.refuse(1, "learned positions for 40 units", "score", "--model", learned, "--train-sets", TEST, "--context", 40, "--stride", 1)
        self.refuse(1, "--stride: got 41; the model has learned positions for 40 units", "score", "--model", learned, "--train-sets", TEST,
                    "--memory-length", 8, "--stride", 41)
        self.refuse(2, "needs as many learned positions",
                    *training(F / "no", "--transformer-positions", "learned", "--max-positions", 31))
        for option, value in (("--top-p", 0), ("--top-p", 1.5), ("--temperature", -1), ("--max-length", 0), ("--count", 0), ("--top-k", -1)):
            self.refuse(2, option, "generate", "--model", of_bytes(), option, value)
        for option, value in (("--stride", -1), ("--context", -2), ("--level", "word"), ("--words", -1)):
            self.refuse(2, option, "score", "--model", of_bytes(), "--train-sets", TEST, option, value)

    def test_resuming_with_something_else(self):
        model = F / "resumed"
        checked(*training(model, "--after-batches", 3, "--quiet"))
        before = (model / "last" / "model.safetensors").read_bytes()
        self.refuse(1, "units.", *training(model, "--after-batches", 5, vocabs=PLACE.vocab))
        self.refuse(1, "segment-length", *training(model, "--after-batches", 5, segment=16))
        self.refuse(1, "documents", *training(model, "--after-batches", 5, "--documents", "blank"))
        self.assertEqual((model / "last" / "model.safetensors").read_bytes(), before)
        said = checked(*training(model, "--after-batches", 5, text=VALID)).stderr
        self.assertIn("the training data, its batches or the seed differ from those of the run so far; epoch 1 starts again", said)

    def test_full_disk(self):
        self.refuse(1, "cannot write", "generate", "--model", of_bytes(), "--output", "/dev/full")
        self.refuse(1, "cannot write", "score", "--model", of_bytes(), "--train-sets", TEST, "--output", "/dev/full")
        with open("/dev/full", "wb") as full:
            for command in (["generate", "--model", of_bytes()], ["score", "--model", of_bytes(), "--train-sets", TEST]):
                result = subprocess.run([PROGRAM, *map(str, command)], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=600)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(b"cannot write", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

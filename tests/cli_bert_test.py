#!/usr/bin/env python3
"""BERT's weights and BERTScore from the command line, against a reference of our own and, if they can be imported, against
`transformers` and `bert-score`."""
import gzip
import json
import lzma
import os
import pathlib
import shutil
import tempfile
import unittest

from bert_commands import embedded, error_of, lacks
from bert_folder import layers, pieces, read_safetensors, write_bert, write_safetensors
from fovea_program import Workplace, checked, run

try:
    import torch
except ImportError:
    torch = None

F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
WORDS = ["the", "cat", "sat", "##ting", "mat", "on", "Paris", "paris", "##s", "un", "##want", "##ed"]
LINES = ["The cat sat on the mat.", "Paris, unwanted; sitting!", "", "caf\u00e9 \u535a\u63a8 A\u200bB \u00bfno?",
         "x " * 50]
DATA = pathlib.Path(os.environ.get("FOVEA_DATA", ""))


@lacks("torch")
class Convert(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.config, cls.tensors = write_bert(F / "uncased", WORDS)
        checked("convert", "--from", "bert", F / "uncased", "--output", F / "model")
        write_bert(F / "cased", WORDS, cased=True)

    def ids(self, line, cased=False):
        vocabulary = pieces(WORDS, cased)
        text = checked("embed", "--model", F / ("cased" if cased else "model"), "--pieces", stdin=line + "\n").stdout
        return [vocabulary.index(piece) for piece in text.split()]

    def test_every_layer_equals_the_reference(self):
        for layer in range(4):
            vectors = embedded(F / "model", LINES, layer)
            for i, line in enumerate(LINES):
                expected = layers(self.config, self.tensors, self.ids(line))[layer]
                # float32 against double, after sums of at most 40 terms near 1
                self.assertLess((vectors[str(i)] - expected).abs().max().item(), 1e-5, (layer, line))

    def test_pieces(self):
        text = checked("embed", "--model", F / "model", "--pieces", stdin="\n".join(LINES)).stdout.splitlines()
        self.assertEqual(text[0], "[CLS] the cat sat on the mat . [SEP]")
        self.assertEqual(text[1], "[CLS] paris , un ##want ##ed ; s ##i ##t ##ting ! [SEP]")
        self.assertEqual(text[2], "[CLS] [SEP]")
        self.assertEqual(text[3], "[CLS] c ##a ##f ##e [UNK] [UNK] a ##b [UNK] no ? [SEP]".replace("no", "n ##o"))
        self.assertEqual(len(text[4].split()), 40, "learned positions end")
        cased = checked("embed", "--model", F / "cased", "--pieces", stdin="The Paris\n").stdout
        self.assertEqual(cased, "[CLS] T ##h ##e Paris [SEP]\n")

    def test_heads_and_old_names_are_known(self):
        config, tensors = write_bert(F / "head", WORDS, prefix="bert.",
                                     more={"pooler.dense.weight": torch.zeros(24, 24), "cls.bias": torch.zeros(3)})
        log = checked("convert", "--from", "bert", F / "head", "--output", F / "head-model").stderr
        self.assertIn("left out: tensors that do not belong to the encoder: cls.bias, pooler.dense.weight", log)
        first, second = (embedded(F / name, LINES, 3)["0"] for name in ("head-model", "model"))
        self.assertTrue(torch.equal(first, second))

    def test_weights_in_several_files(self):
        shutil.copytree(F / "uncased", F / "parts")
        (F / "parts" / "model.safetensors").unlink()
        places = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(sorted(self.tensors))}
        for file in set(places.values()):
            write_safetensors(F / "parts" / file, {name: self.tensors[name] for name in places if places[name] == file})
        (F / "parts" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        checked("convert", "--from", "bert", F / "parts", "--output", F / "parts-model")
        self.assertEqual((F / "parts-model" / "model.safetensors").read_bytes(),
                         (F / "model" / "model.safetensors").read_bytes())

    def test_the_way_back_gives_the_same_tensors(self):
        checked("convert", "--to", "bert", F / "model", "--output", F / "again")
        again = read_safetensors(F / "again" / "model.safetensors")
        self.assertEqual(set(again), set(self.tensors))
        for name, tensor in self.tensors.items():
            self.assertTrue(torch.equal(again[name], tensor), name)
        config = json.loads((F / "again" / "config.json").read_text())
        self.assertEqual({name: config[name] for name in self.config}, self.config)
        self.assertEqual((F / "again" / "vocab.txt").read_bytes(), (F / "uncased" / "vocab.txt").read_bytes())
        self.assertIn("exists already", error_of("convert", "--to", "bert", F / "model", "--output", F / "again"))

    def test_says_what_is_wrong(self):
        def problem(name, change):
            folder = F / name
            shutil.copytree(F / "uncased", folder)
            change(folder)
            return error_of("convert", "--from", "bert", folder, "--output", F / "never")

        def config(**changes):
            return lambda folder: (folder / "config.json").write_text(
                json.dumps({key: value for key, value in {**self.config, **changes}.items() if value is not None}))
        weights = "model.safetensors"
        self.assertIn("config.json: is not a JSON object", problem("a", lambda f: (f / "config.json").write_text("[" * 9999)))
        self.assertIn("model_type: got 'roberta'; expected bert", problem("b", config(model_type="roberta")))
        self.assertIn("hidden_act: got 'gelu_new'; expected gelu or relu", problem("c", config(hidden_act="gelu_new")))
        self.assertIn("hidden_size: got 1e+30; expected a whole number", problem("d", config(hidden_size=1e30)))
        self.assertIn("num_hidden_layers is missing", problem("e", config(num_hidden_layers=None)))
        self.assertIn("hidden_size 24 is not a multiple of num_attention_heads 5",
                      problem("f", config(num_attention_heads=5)))
        self.assertIn("tensor 'encoder.layer.3.attention.self.query.weight' is missing",
                      problem("g", config(num_hidden_layers=4)))
        self.assertIn("tensor 'embeddings.position_embeddings.weight' has the shape [40, 24], config.json needs [41, 24]",
                      problem("h", config(max_position_embeddings=41)))
        self.assertIn("has no model.safetensors and no pytorch_model.bin; expected one of them", problem("i", lambda f: (f / weights).unlink()))
        self.assertIn(weights, problem("j", lambda f: (f / weights).write_bytes(b"\xff" * 100)))
        self.assertIn("the piece [UNK] is missing", problem("k", lambda f: (f / "vocab.txt").write_text("a\nb\n")))
        self.assertIn("vocab_size is", problem("l", config(vocab_size=5)))
        self.assertIn("do_lower_case: got 3; expected true or false", problem(
            "m", lambda f: (f / "tokenizer_config.json").write_text('{"do_lower_case": 3}')))
        (F / "file").mkdir()
        self.assertIn("is not a checkpoint; name a new folder",
                      error_of("convert", "--from", "bert", F / "uncased", "--output", F / "file"))
        self.assertEqual(run("convert", F / "uncased", "--output", F / "x").returncode, 2)

    def test_a_tagger_starts_from_it(self):
        (F / "ner").write_text("The O\ncat B-CAT\nsat O\n\nParis B-LOC\n\n" * 4)
        log = checked("train", "--task", "tagging", "--model", F / "tagger", "--train-sets", F / "ner", "--after-batches", 2,
                      "--learn-rate", "1e-30", "--pretrained-model", F / "model", "--attention", "topk(2)", "--cpu-threads", 1).stderr
        self.assertIn("has no labels; the output layer starts with new weights", log)
        tagger = read_safetensors(F / "tagger" / "last" / "model.safetensors")
        name = "layers.2.feed_forward.in.weight"
        self.assertTrue(torch.equal(tagger["encoder." + name], read_safetensors(F / "model" / "model.safetensors")[name]))
        self.assertIn("topk(2)", (F / "tagger" / "last" / "config.yml").read_text())
        self.assertIn("which BERT does not have", error_of("convert", "--to", "bert", F / "tagger", "--output", F / "no"))
        output = checked("tag", "--model", F / "tagger", stdin="The\ncat\n\n").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in output if line], ["The", "cat"])


def cosine_score(config, tensors, hypothesis, reference, layer, weight):
    """P, R and F1 of one pair by the definition; hypothesis and reference are lists of ids."""
    h, r = (torch.nn.functional.normalize(layers(config, tensors, ids)[layer], dim=1) for ids in (hypothesis, reference))
    similar = h @ r.T

    def mean(values, ids):
        weights = torch.tensor([weight(i) for i in ids], dtype=torch.double)
        return (values * weights).sum().item() / weights.sum().item()
    p, q = mean(similar.max(1).values, hypothesis), mean(similar.max(0).values, reference)
    return p, q, 2 * p * q / (p + q)


@lacks("torch")
class BertScore(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.config, cls.tensors = write_bert(F / "scorer", WORDS)
        cls.hypotheses = ["The cat sat.", "Paris on the mat", "unwanted", ""]
        cls.references = ["A cat sat on the mat.", "the mat, Paris", "wanted cats", "the"]
        (F / "ref").write_text("\n".join(cls.references) + "\n")

    def ids(self, line):
        text = checked("embed", "--model", F / "scorer", "--pieces", stdin=line + "\n").stdout
        return [pieces(WORDS, False).index(piece) for piece in text.split()]

    def scores(self, *options):
        output = checked("evaluate", "--metrics", "bertscore", "--bertscore-model", F / "scorer", "--reference", F / "ref",
                         "--sentence-level", *options, stdin="\n".join(self.hypotheses) + "\n").stdout
        return [[float(value) for value in line.split()] for line in output.splitlines()]

    def test_equals_the_definition(self):
        import math
        ids = {line: self.ids(line) for line in self.hypotheses + self.references}
        counts = {}
        for line in self.references:
            for token in set(ids[line]):
                counts[token] = counts.get(token, 0) + 1
        weights = {(): lambda token: 0 if token in (2, 3) else 1,
                   ("--bertscore-idf",): lambda token: math.log(5 / (counts.get(token, 0) + 1))}
        for options, weight in weights.items():
            for layer in (1, 3):
                got = self.scores("--bertscore-layer", layer, *options)
                self.assertEqual(got[3], [0, 0, 0], "an empty text")
                for i in range(3):
                    expected = cosine_score(self.config, self.tensors, ids[self.hypotheses[i]], ids[self.references[i]],
                                            layer, weight)
                    for a, b in zip(got[i], expected):
                        self.assertAlmostEqual(a, b, delta=2e-6)

    def test_baselines_and_several_references(self):
        (F / "baseline.tsv").write_text("LAYER,P,R,F\n0,0.1,0.1,0.1\n1,0.5,0.25,0.2\n2,0,0,0\n3,0,0,0\n")
        raw = self.scores("--bertscore-layer", 1)
        rescaled = self.scores("--bertscore-layer", 1, "--bertscore-baseline", F / "baseline.tsv")
        for a, b in zip(raw, rescaled):
            for value, own, base in zip(a, b, (0.5, 0.25, 0.2)):
                self.assertAlmostEqual((value - base) / (1 - base), own, delta=3e-6)
        (F / "ref2").write_text("\n".join(self.hypotheses) + "\n")
        best = self.scores("--reference", F / "ref", F / "ref2")
        for value in best[:3]:
            self.assertEqual(value, [1, 1, 1])

    def test_report(self):
        arguments = ["evaluate", "--metrics", "bertscore", "--bertscore-model", F / "scorer", "--reference", F / "ref"]
        text = checked(*arguments, stdin="\n".join(self.references) + "\n").stdout
        self.assertRegex(text, r"^P 1\.000000\nR 1\.000000\nF1 1\.000000\nsignature BERTScore\|nrefs:1\|model:scorer\|"
                               r"layer:3\|idf:no\|rescaled:no\|version:")
        object_ = json.loads(checked(*arguments, "--json", stdin="\n".join(self.references) + "\n").stdout)
        self.assertEqual((object_["name"], object_["f1"]), ("BERTScore", 1))
        quoted = F / 'a "scorer"'
        shutil.copytree(F / "scorer", quoted)
        arguments[4] = quoted
        text = checked(*arguments, "--json", stdin="\n".join(self.references) + "\n").stdout
        self.assertIn('|model:a "scorer"|', json.loads(text)["signature"])
        lines = checked(*arguments, "--json", "--sentence-level", stdin="\n".join(self.references) + "\n").stdout
        self.assertEqual({json.loads(line)["f1"] for line in lines.splitlines()}, {1})
        lines = checked(*arguments, "--score-only", "--sentence-level", stdin="\n".join(self.references) + "\n").stdout
        self.assertEqual(set(lines.splitlines()), {"1.000000"})

    def test_an_encoder_of_a_translation_model(self):
        place = Workplace()
        lines = place.sides["test"][0].read_text()
        text = checked("evaluate", "--metrics", "bertscore", "--bertscore-model", place.model(), "--reference",
                       place.sides["test"][0], stdin=lines).stdout
        self.assertIn("F1 1.000000\n", text)
        self.assertIn("|model:model|layer:1|", text)
        clauses = F / "with-clauses"
        checked(*place.training(clauses, "--after-batches", 1, "--quiet", "--attention-encoder", "mix(full,clause(1))"))
        pieces = checked("embed", "--model", clauses, "--pieces", stdin=lines).stdout
        self.assertEqual(len(pieces.splitlines()), len(lines.splitlines()), "it splits each line as in training")
        language = F / "a-language-model"
        checked("train", "--task", "language", "--model", language, "--train-sets", place.sides["test"][0], "--vocabs", "bytes",
                "--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 16, "--after-batches", 1, "--quiet")
        self.assertIn("is a model of the task language; expected one of the tasks bert, tagging, translation",
                      run("embed", "--model", language, "--output", F / "never", stdin=lines).stderr)

    def test_says_what_is_wrong(self):
        def problem(*options, stdin="a\nb\nc\nd\n"):
            result = run("evaluate", "--metrics", "bertscore", "--reference", F / "ref", *options, stdin=stdin)
            self.assertIn(result.returncode, (1, 2))
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            return result.stderr
        model = ["--bertscore-model", F / "scorer"]
        self.assertIn("--bertscore-model is missing", problem())
        self.assertIn("--bertscore-layer: got 9, but the encoder has 3 layers", problem(*model, "--bertscore-layer", 9))
        self.assertIn("got 1 translations and 4 references", problem(*model, stdin="a\n"))
        self.assertIn("bertscore is computed alone", problem(*model, "--metrics", "bertscore", "bleu"))
        self.assertIn("bertscore has no intervals", problem(*model, "--confidence"))
        for option in (["--documents"], ["--lowercase"], ["--width", 3], ["--tokenize", "zh"], ["--meteor-jar", "x"]):
            self.assertIn(f"{option[0]}: bertscore does not read it; leave it out", problem(*model, *option))
        (F / "short.tsv").write_text("LAYER,P,R,F\n0,x,0,0\n")
        self.assertIn("has 1 rows; expected one for layer 3", problem(*model, "--bertscore-baseline", F / "short.tsv"))
        self.assertIn("line 2: got '0,x,0,0'; expected 0,P,R,F with numbers", problem(*model, "--bertscore-baseline", F / "short.tsv",
                                                              "--bertscore-layer", 0))


def real_lines():
    """10,000 lines of real text, or of made-up text with all of Unicode's planes where FOVEA_DATA has none."""
    import random
    lines = []
    if (DATA / "multi30k").is_dir():
        for name in ("train.en", "train.de"):
            lines += gzip.open(DATA / "multi30k" / f"{name}.gz", "rt").read().split("\n")[:3000]
    for path in sorted((DATA / "lm").glob("*.xz")) if (DATA / "lm").is_dir() else []:
        lines += [line for line in lzma.open(path, "rt").read(2_000_000).split("\n") if line.strip()][:2000]
    generator = random.Random(1)
    ranges = [(32, 126), (160, 0x24f), (0x370, 0x5ff), (0x900, 0x97f), (0x2000, 0x206f), (0x3040, 0x30ff), (0x4e00, 0x9fff),
              (0xac00, 0xd7a3), (0x1f300, 0x1f64f)]
    while len(lines) < 10000:
        low, high = generator.choice(ranges)
        line = "".join(chr(generator.choice([32, generator.randint(low, high)])) for _ in range(generator.randint(1, 60)))
        lines.append(line.encode("utf-8", "ignore").decode().replace("\n", " "))
    return [line.replace("\r", " ") for line in lines[:10000]]


@lacks("torch", "transformers")
class AgainstTransformers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import collections
        cls.lines = real_lines()
        cls.folders = {}
        for cased in (False, True):
            counts = collections.Counter(w if cased else w.lower() for line in cls.lines for w in line.split() if w.isalpha())
            words = [w for w, _ in counts.most_common(3000)]
            ends = collections.Counter(w[-n:] for w in words for n in (2, 3) if len(w) > n + 1)
            words += ["##" + end for end, _ in ends.most_common(300)]
            words += [c for c in "\u00e4\u00f6\u00fc\u00df\u00e9\u535a\u2019\u20ac\u00bf" if cased or c not in "\u00e4\u00f6\u00fc\u00e9"]
            folder = F / f"hf-{cased}"
            write_bert(folder, words, cased=cased)
            (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": not cased}))
            cls.folders[cased] = folder

    def test_tokens_of_ten_thousand_lines(self):
        from transformers import BertTokenizer, BertTokenizerFast
        for cased, folder in self.folders.items():
            text = checked("embed", "--model", folder, "--pieces", stdin="\n".join(self.lines) + "\n").stdout
            got = [line.split(" ") for line in text.split("\n")]
            for kind in (BertTokenizer, BertTokenizerFast):
                tokenizer = kind(str(folder / "vocab.txt"), do_lower_case=not cased)
                for i, line in enumerate(self.lines):
                    expected = ["[CLS]", *tokenizer.tokenize(line)[:38], "[SEP]"]
                    self.assertEqual(got[i], expected, (kind.__name__, cased, line))

    def test_every_layer(self):
        from transformers import BertConfig, BertModel
        torch.manual_seed(3)
        folder = F / "random"
        config = BertConfig(vocab_size=len((self.folders[False] / "vocab.txt").read_text().split("\n")) - 1, hidden_size=48,
                            num_hidden_layers=4, num_attention_heads=4, intermediate_size=96, max_position_embeddings=64)
        model = BertModel(config).eval()
        model.save_pretrained(folder, safe_serialization=True)
        shutil.copy(self.folders[False] / "vocab.txt", folder)
        checked("convert", "--from", "bert", folder, "--output", F / "random-model")
        from transformers import BertTokenizer
        tokenizer = BertTokenizer(str(folder / "vocab.txt"))
        lines = self.lines[:20]
        for layer in range(5):
            vectors = embedded(F / "random-model", lines, layer)
            for i, line in enumerate(lines):
                ids = tokenizer.encode(line, truncation=True, max_length=64)
                with torch.no_grad():
                    expected = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0]
                self.assertLess((vectors[str(i)] - expected).abs().max().item(), 1e-5)
        # the way back loads in transformers
        checked("convert", "--to", "bert", F / "random-model", "--output", F / "random-again")
        again = BertModel.from_pretrained(F / "random-again").eval()
        ids = torch.tensor([tokenizer.encode(lines[0])])
        with torch.no_grad():
            self.assertTrue(torch.equal(again(ids).last_hidden_state, model(ids).last_hidden_state))


@lacks("torch", "transformers", "bert_score")
class AgainstBertScore(unittest.TestCase):
    def test_scores(self):
        import bert_score
        lines = [line for line in real_lines() if line.strip()][:200]
        references = [" ".join(reversed(line.split(" "))) for line in lines]
        config, _ = write_bert(F / "bs", sorted({w.lower() for line in lines for w in line.split() if w.isascii() and w.isalpha()}))
        (F / "bs" / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 40}))
        (F / "bs.tsv").write_text("LAYER,P,R,F\n" + "".join(f"{i},0.{i}1,0.{i}2,0.{i}3\n" for i in range(4)))
        (F / "bs.ref").write_text("\n".join(references) + "\n")
        for idf in (False, True):
            for baseline in (False, True):
                # one pair a batch: in larger ones bert-score's padding is a match of similarity 0
                expected = bert_score.score(lines, references, model_type=str(F / "bs"), num_layers=2, idf=idf, batch_size=1,
                                            nthreads=0, lang="en", rescale_with_baseline=baseline,
                                            baseline_path=str(F / "bs.tsv") if baseline else None, device="cpu")
                options = (["--bertscore-idf"] if idf else []) + (["--bertscore-baseline", F / "bs.tsv"] if baseline else [])
                output = checked("evaluate", "--metrics", "bertscore", "--bertscore-model", F / "bs", "--bertscore-layer", 2,
                                 "--reference", F / "bs.ref", "--sentence-level", *options, stdin="\n".join(lines) + "\n").stdout
                got = torch.tensor([[float(value) for value in line.split()] for line in output.splitlines()])
                difference = (got - torch.stack(expected, 1)).abs().max().item()
                self.assertLess(difference, 1e-4, (idf, baseline))


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Figures of attention, sweeps and costs from the command line. The oracle computes the first layer's attention from the
files of a checkpoint, in double precision and in plain Python."""
import json
import math
import re
import struct
import subprocess
import unittest

from fovea_program import PROGRAM, TINY, Workplace, checked, run, without_privilege

PLACE = Workplace()
F = PLACE.folder
SOURCE, TARGET = PLACE.sides["test"]
PAIRS, HEADS, WIDTH, SEGMENT, EOS = 50, 2, 16, 24, 256


def translation(name="model", *options):
    """The folder of a translation model trained for a few updates, once."""
    path = F / name
    if not path.exists():
        checked(*PLACE.training(path, "--after-batches", 20, "--quiet", *options))
    return path


def language(attention, *options):
    path = F / ("language-" + re.sub(r"\W", "-", attention))
    if not path.exists():
        checked("train", "--task", "language", "--model", path, "--train-sets", TARGET, "--vocabs", "bytes",
                "--segment-length", SEGMENT, "--dim-emb", WIDTH, "--dec-depth", 2, "--transformer-norm", "post", "--transformer-heads", HEADS,
                "--transformer-dim-ffn", 16, "--mini-batch", 8, "--learn-rate", "0.02", "--lr-warmup", 2, "--cpu-threads", 1,
                "--after-batches", 8, "--quiet", "--attention", attention, "--transformer-positions", "learned", *options)
    return path


def analyze(model, *options, **more):
    return checked("analyze", "--model", *(model if isinstance(model, list) else [model]), "--cpu-threads", 1, "--quiet",
                   *options, **more).stdout


def records(model, *options, sides=(SOURCE, TARGET)):
    found = json.loads(analyze(model, "--train-sets", *sides, "--json", *options))
    return {(r["kind"], r["layer"], r["head"]): r for r in found["records"]}


def tensors(model):
    """name -> (shape, numbers) of model.safetensors."""
    path = model / "last" / "model.safetensors"
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32", entry
        found[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end]))
    return found


def transform(scores, attention):
    """Weights of one row's scores, in double precision."""
    if attention == "relu":
        return [max(s, 0.0) for s in scores]
    if attention == "sparsemax":
        order = sorted(scores, reverse=True)
        threshold, total = 0, 0
        for count, s in enumerate(order, 1):
            total += s
            if 1 + count * s > total:
                threshold = (total - 1) / count
        return [max(s - threshold, 0.0) for s in scores]
    kept = sorted(scores, reverse=True)[:4][-1] if attention == "topk(4)" else -math.inf
    most = max(scores)
    powers = [math.exp(s - most) if s >= kept else 0.0 for s in scores]
    return [p / sum(powers) for p in powers]


def first_layer(model, attention, text):
    """Of each segment: its inputs' bytes, its outputs', and weights [query][head][key] of keys up to the query."""
    found = tensors(model)
    weight = lambda name: found[name][1]
    embedding, place = weight("embeddings.weight"), weight("positions.weight")
    projection, bias = weight("layers.0.self_attention.qkv.weight"), weight("layers.0.self_attention.qkv.bias")
    depth = WIDTH // HEADS
    segments = []
    for begin in range(0, len(text), SEGMENT):
        outputs = list(text[begin:begin + SEGMENT])
        inputs = [text[begin - 1] if begin else EOS] + outputs[:-1]
        rows = []
        for i, byte in enumerate(inputs):
            x = [math.sqrt(WIDTH) * embedding[byte * WIDTH + c] + place[i * WIDTH + c] for c in range(WIDTH)]
            rows.append([bias[r] + sum(projection[r * WIDTH + c] * x[c] for c in range(WIDTH)) for r in range(3 * WIDTH)])
        weights = []
        for i, q in enumerate(rows):
            heads = []
            for h in range(HEADS):
                own = range(h * depth, (h + 1) * depth)
                heads.append(transform([sum(q[c] * rows[j][WIDTH + c] for c in own) / math.sqrt(depth) for j in range(i + 1)],
                                       attention))
            weights.append(heads)
        segments.append((inputs, outputs, weights))
    return segments


def as_pieces(segments):
    return [(i, heads) for _, _, weights in segments for i, heads in enumerate(weights)]


def words_of(text):
    """The number of each byte's word: a word begins at white space behind none."""
    numbers, blank, number = [], True, 0
    for byte in text:
        is_blank = byte in b" \t\n\r\v\f"
        if not numbers or (is_blank and not blank):
            number += 1
        numbers.append(number)
        blank = is_blank
    return numbers


def as_words(segments, text):
    """Sums over the bytes of a key's word, means over those of a query's word; word 0 is the beginning of the text."""
    word, rows, begin = words_of(text), [], 0
    for inputs, outputs, weights in segments:
        of_query = word[begin:begin + len(outputs)]
        of_key = [word[begin - 1] if begin else 0] + of_query[:-1]
        begin += len(outputs)
        for number in sorted(set(of_query)):
            tokens = [t for t, w in enumerate(of_query) if w == number]
            keys = sorted(set(of_key[:tokens[-1] + 1]))
            merged = [[sum(w for t in tokens for w, k in zip(weights[t][h], of_key) if k == key) / len(tokens) for key in keys]
                      for h in range(HEADS)]
            rows.append((number - 1 - keys[0], merged))
    return rows


def entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0)


def figures(rows):
    """zeros, null_rate, entropy, kept and distance of one head's rows, [(position, weights)]."""
    pairs = sum(len(w) for _, w in rows)
    seen = [(i, [x / sum(w) for x in w]) for i, w in rows if sum(w) > 0]
    return {"zeros": sum(w.count(0) for _, w in rows) / pairs,
            "null_rate": 1 - len(seen) / len(rows),
            "kept": sum(len(w) - w.count(0) for _, w in rows) / len(rows),
            "entropy": sum(entropy(w) for _, w in seen) / len(seen),
            "distance": sum(x * abs(i - j) for i, w in seen for j, x in enumerate(w)) / len(seen),
            "rows": len(rows), "pairs": pairs, "rows_with_weight": len(seen)}


def diversity(rows, rectified, tau):
    total = 0
    for _, heads in rows:
        outcomes = []
        for w in heads:
            if sum(w) == 0:
                outcomes.append([0.0] * len(w) + [1.0])
            elif rectified:
                powers = [math.exp(x ** tau if x else 0) for x in w]
                outcomes.append([p / sum(powers) for p in powers] + [0.0])
            else:
                outcomes.append([x / sum(w) for x in w] + [0.0])
        mean = [sum(p) / len(outcomes) for p in zip(*outcomes)]
        total += entropy(mean) - sum(map(entropy, outcomes)) / len(outcomes)
    return total / len(rows)


class Oracle(unittest.TestCase):
    def test_figures_of_the_first_layer(self):
        text = b"a bird, then another one.\nIt sings; they sing again and again,\n\nand that is all of it: no more\n"
        path = F / "oracle.txt"
        path.write_bytes(text)
        for attention in ("full", "topk(4)", "relu", "sparsemax"):
            model = language(attention)
            segments = first_layer(model, attention, text)
            for unit, rows in (("piece", as_pieces(segments)), ("word", as_words(segments, text))):
                found = records(model, "--unit", unit, "--tau", 1, "0.5", sides=[path])
                mean = [(i, [sum(w) / HEADS for w in zip(*heads)]) for i, heads in rows]
                nulls = []
                for head in range(HEADS + 1):
                    own = mean if head == 0 else [(i, heads[head - 1]) for i, heads in rows]
                    expected = figures(own)
                    record = found["decoder", 1, head]
                    for name, value in expected.items():
                        # float32 products against double; a score that rounds to another side of 0 moves one pair
                        self.assertAlmostEqual(record[name], value, delta=2e-5 * max(1, value),
                                               msg=f"{attention}, {unit}, head {head}, {name}")
                    if head:
                        nulls.append(expected["null_rate"])
                layer = found["decoder", 1, 0]
                self.assertAlmostEqual(layer["mean_null_rate"], sum(nulls) / HEADS, delta=1e-6)
                variance = sum(n * n for n in nulls) / HEADS - (sum(nulls) / HEADS) ** 2
                self.assertAlmostEqual(layer["null_variance"], variance, delta=1e-6)
                for name, tau in (("diversity", 1), ("diversity_tau_0.5", 0.5)):
                    self.assertAlmostEqual(layer[name], diversity(rows, attention == "relu", tau), delta=2e-5,
                                           msg=f"{attention}, {unit}, {name}")


class Laws(unittest.TestCase):
    def test_top_k_rows(self):
        """Every row keeps min(k, its keys): of the trained pieces, without ties."""
        found = records(translation(), "--unit", "piece", "--attention", "topk(3)")
        for (kind, _, head), record in found.items():
            if head == 0:
                continue
            self.assertLessEqual(record["kept"], 3 + 1e-9)
            self.assertAlmostEqual(record["zeros"], 1 - record["kept"] * record["rows"] / record["pairs"], places=9)
            self.assertEqual(record["null_rate"], 0)
            self.assertEqual(record["underflow"], 0)
            self.assertEqual("on_eos" in record, kind == "cross")
        whole = records(translation(), "--unit", "piece")
        for key, record in whole.items():
            self.assertEqual(record["zeros"], 0)
            self.assertEqual(record["rows"], found[key]["rows"])
            self.assertGreater(record["entropy"], found[key]["entropy"])

    def test_words_are_fewer_than_pieces(self):
        words, pieces = records(translation()), records(translation(), "--unit", "piece")
        count = sum(len(line.split()) + 1 for line in TARGET.read_text().splitlines())
        self.assertEqual(words["cross", 1, 1]["rows"], count, "</s> is a unit too")
        self.assertLess(count, pieces["cross", 1, 1]["rows"])
        self.assertTrue(0 < words["cross", 1, 1]["on_eos"] < 1 and 0 < words["cross", 1, 1]["on_last_word"] < 1)

    def test_null_rows_of_rela(self):
        found = records(translation("rela", "--attention", "rela-g"))
        cross = [found["cross", 1, head] for head in range(3)]
        self.assertAlmostEqual(cross[0]["mean_null_rate"], (cross[1]["null_rate"] + cross[2]["null_rate"]) / 2)
        self.assertAlmostEqual(cross[0]["null_variance"], ((cross[1]["null_rate"] - cross[2]["null_rate"]) / 2) ** 2)
        self.assertLessEqual(cross[0]["null_rate"], min(cross[1]["null_rate"], cross[2]["null_rate"]))

    def test_by_label(self):
        """Labels split the rows of a head: their sums are the head's."""
        column = F / "column"
        column.write_text("".join(" ".join("long" if len(w) > 4 else "short" for w in line.split()) + "\n"
                                  for line in TARGET.read_text().splitlines()))
        for by in ("previous", f"column:{column}"):
            found = json.loads(analyze(translation("rela", "--attention", "rela-g"), "--train-sets", SOURCE, TARGET, "--json",
                                       "--by", by))
            whole = {(r["kind"], r["layer"], r["head"]): r for r in found["records"]}
            labels = {r["label"] for r in found["labels"]}
            if by != "previous":
                self.assertEqual(labels, {"<s>", "long", "short"})
            for key in (("cross", 1, 1), ("decoder", 1, 2)):
                own = [r for r in found["labels"] if (r["kind"], r["layer"], r["head"]) == key]
                self.assertEqual(sum(r["rows"] for r in own), whole[key]["rows"])
                self.assertAlmostEqual(sum(r["rows"] * r["null_rate"] for r in own), whole[key]["rows"] * whole[key]["null_rate"])
                self.assertAlmostEqual(sum(r["pairs"] * r["zeros"] for r in own), whole[key]["pairs"] * whole[key]["zeros"])
                self.assertEqual({r["rows"] for r in own if r["label"] == "<s>"}, {PAIRS})
        self.assertIn("column", analyze(translation("rela"), "--train-sets", SOURCE, TARGET, "--by", by))

    def test_several_models(self):
        other = translation("other", "--seed", 7)
        first, second = records(translation()), records(other)
        both = records([translation(), other])
        for key, record in both.items():
            a, b = first[key]["entropy"], second[key]["entropy"]
            self.assertAlmostEqual(record["entropy"], (a + b) / 2)
            self.assertAlmostEqual(record["entropy_deviation"], abs(a - b) / 2, places=7)
        self.assertIn("±", analyze([translation(), other], "--train-sets", SOURCE, TARGET))

    def test_one_sentence(self):
        one = F / "one.src", F / "one.trg"
        for path, side in zip(one, (SOURCE, TARGET)):
            path.write_text(side.read_text().splitlines()[0] + "\n")
        source, target = (path.read_text().strip() for path in one)
        given = json.loads(analyze(translation(), "--source", source, "--target", target, "--json"))
        of_files = json.loads(analyze(translation(), "--train-sets", *one, "--json"))
        self.assertEqual(given["records"], of_files["records"])
        self.assertIn("exactly zero: ", analyze(translation(), "--source", source, "--target", target))

    def test_mixed_heads(self):
        model = language("1*local(4);1*routed(2,8)")
        found = json.loads(analyze(model, "--train-sets", TARGET, "--json", "--unit", "piece"))
        self.assertEqual({r["heads"] for r in found["head_pairs"]}, {"local-routed"})
        for record in found["head_pairs"]:
            self.assertTrue(0 < record["divergence"] <= math.log(2))
            self.assertEqual(record["draws"], 10)
        heads = {r["head"]: r for r in found["records"] if r["layer"] == 1}
        self.assertNotIn("no_cluster", heads[1])
        self.assertTrue(0 <= heads[2]["no_cluster"] < 1 and 0 <= heads[2]["several_clusters"] < 1)
        self.assertTrue(0 < heads[2]["cluster_size"] <= 8)
        self.assertLessEqual(heads[1]["kept"], 4)
        table = analyze(model, "--train-sets", TARGET)
        self.assertIn("local-routed", table)
        self.assertIn("cluster size", table)


class Sweeps(unittest.TestCase):
    def test_the_own_mechanism_has_the_score(self):
        summary = checked("score", "--model", translation(), "--train-sets", SOURCE, TARGET, "--summary", "--quiet",
                          "--cpu-threads", 1).stdout
        loss = float(re.search(r"ce-mean-words (\S+)", summary)[1])
        picture = F / "curve.svg"
        table = analyze(translation(), "--train-sets", SOURCE, TARGET, "--sweep", "full", "topk(2)", "topk(4)", "cross=topk(1)",
                        "--output", picture).splitlines()
        self.assertEqual(table[0].split(), ["spec", "loss", "perplexity"])
        rows = {line.split()[0]: float(line.split()[1]) for line in table[1:5]}
        self.assertEqual(list(rows), ["full", "topk(2)", "topk(4)", "cross=topk(1)"])
        self.assertAlmostEqual(rows["full"], loss, places=6)
        scored = checked("score", "--model", translation(), "--train-sets", SOURCE, TARGET, "--summary", "--quiet",
                         "--attention-cross", "topk(1)", "--cpu-threads", 1).stdout
        self.assertAlmostEqual(rows["cross=topk(1)"], float(re.search(r"ce-mean-words (\S+)", scored)[1]), places=6)
        self.assertNotEqual(rows["topk(2)"], rows["full"])
        self.assertIn("topk(k)", picture.read_text())

    def test_bleu(self):
        found = json.loads(analyze(translation(), "--train-sets", SOURCE, TARGET, "--sweep", "full", "--beam-size", 2, "--json"))
        checked("translate", "--model", translation(), "--input", SOURCE, "--output", F / "hypotheses", "--beam-size", 2,
                "--cpu-threads", 1, "--quiet")
        text = checked("evaluate", "--reference", TARGET, "--metrics", "bleu", stdin=(F / "hypotheses").read_bytes()).stdout
        self.assertAlmostEqual(found["records"][0]["bleu"], float(re.search(r"= ([\d.]+)", text)[1]), delta=0.0051)
        self.assertAlmostEqual(math.log(found["records"][0]["perplexity"]), found["records"][0]["loss"])

    def test_of_a_language_model(self):
        model = language("full")
        scored = checked("score", "--model", model, "--train-sets", TARGET, "--quiet", "--cpu-threads", 1).stdout
        bits = float(re.search(r"bits-per-unit (\S+)", scored)[1])
        found = json.loads(analyze(model, "--train-sets", TARGET, "--sweep", "full", "decoder=topk(2)", "--json"))
        self.assertEqual([r["spec"] for r in found["records"]], ["full", "decoder=topk(2)"])
        self.assertAlmostEqual(found["records"][0]["loss"] / math.log(2), bits, places=5)

    def test_refused(self):
        for spec in ("rela-g", "entmax(learned)", "routed(2,4)"):
            result = run("analyze", "--model", translation(), "--train-sets", SOURCE, TARGET, "--sweep", "full", f"encoder={spec}")
            self.assertEqual(result.returncode, 1, spec)
            self.assertIn("which this model (trained with", result.stderr)
            self.assertEqual(result.stdout, "")


class Costs(unittest.TestCase):
    def test_operations(self):
        found = json.loads(analyze(translation(), "--cost", "--sweep", "full", "topk(4)", "--lengths", 10, "--json"))
        by = {(r["spec"], r["kind"]): r for r in found["records"]}
        self.assertEqual(len(by), 6)
        self.assertEqual(by["full", "encoder"]["scored"], 2 * 100)
        self.assertEqual(by["full", "decoder"]["scored"], 2 * 55)
        self.assertEqual(by["topk(4)", "cross"]["weighted"], 2 * 40)
        self.assertEqual(by["full", "cross"]["score_flops"], 2 * 8 * 2 * 100)
        self.assertNotIn("speeds", found)
        self.assertIn("FLOPs", analyze(language("full"), "--cost", "--lengths", 10, 20))

    def test_speeds(self):
        found = json.loads(analyze(translation(), "--cost", "--train-sets", SOURCE, TARGET, "--json", "--beam-size", 1))
        self.assertEqual([r["group"] for r in found["speeds"]], list(range(1, 11)))
        self.assertEqual(sum(r["pairs"] for r in found["speeds"]), PAIRS)
        for before, after in zip(found["speeds"], found["speeds"][1:]):
            self.assertLessEqual(before["longest"], after["shortest"])
        self.assertTrue(all(r["training"] > 0 and r["decoding"] > 0 for r in found["speeds"]))
        self.assertIn("tenth", analyze(translation(), "--cost", "--train-sets", SOURCE, TARGET, "--beam-size", 1))


class BadInput(unittest.TestCase):
    def refused(self, *arguments, says, code=1, before=()):
        result = run("analyze", *arguments, before=before)
        errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertIn(says, errors[0])
        self.assertEqual(result.stdout, "")

    def test_options(self):
        model = ["--model", translation()]
        text = ["--train-sets", SOURCE, TARGET]
        self.refused(*model, says="--source is missing; expected a sentence, or text files in --train-sets", code=2)
        self.refused(*model, *text, "--source", "un", says="--source and --train-sets: expected one of them", code=2)
        self.refused(*model, *text, "--unit", "letter", says="--unit", code=2)
        self.refused(*model, *text, "--tau", 0, says="--tau: expected numbers above 0", code=2)
        self.refused(*model, *text, "--by", "tag", says="--by: got 'tag'; expected previous or column:FILE", code=2)
        self.refused(*model, *text, "--by", "previous", "--unit", "piece", says="--by needs --unit word", code=2)
        self.refused(*model, "--sweep", "full", says="--sweep needs --train-sets", code=2)
        self.refused(*model, *text, "--sweep", "cross=", says="--sweep: got 'cross='", code=2)
        self.refused(*model, translation(), *text, "--cost", says="give one --model", code=2)
        self.refused(*model, "--train-sets", SOURCE, says="--train-sets", code=2)
        self.refused(*model, *text, "--output", F / "no" / "folder", says="--output")
        self.refused("--model", language("full"), "--train-sets", TARGET, "--sweep", "cross=full", says="a language model has no",
                     code=2)

    def test_output_in_a_folder_that_may_not_change(self):
        folder = F / "fixed"
        folder.mkdir()
        folder.chmod(0o555)
        self.refused("--model", translation(), "--train-sets", SOURCE, TARGET, "--output", folder / "x", says="--output",
                     before=without_privilege())

    def test_text(self):
        empty, short = F / "empty", F / "short"
        empty.write_text("")
        short.write_text("a b\n")
        model = ["--model", translation()]
        self.refused(*model, "--train-sets", empty, empty, says="--train-sets: the text has no lines")
        self.refused(*model, "--cost", "--train-sets", short, short, says="expected 10 pairs at least")
        self.refused(*model, "--train-sets", SOURCE, TARGET, "--by", f"column:{F / 'none'}", says="none")
        self.refused(*model, "--train-sets", SOURCE, TARGET, "--by", f"column:{empty}", says="ends after line 0")
        wrong = F / "wrong"
        wrong.write_text("".join("X\n" for _ in range(PAIRS)))
        self.refused(*model, "--train-sets", SOURCE, TARGET, "--by", f"column:{wrong}", says=" entries; expected ")
        self.refused(*model, "--train-sets", short, short, "--by", f"column:{TARGET}", says="")

    def test_models(self):
        deeper = F / "deeper"
        arguments = PLACE.training(deeper, "--after-batches", 1, "--quiet")
        arguments[arguments.index("--dec-depth") + 1] = 2
        checked(*arguments)
        self.refused("--model", translation(), deeper, "--train-sets", SOURCE, TARGET,
                     says="expected models of one shape")
        self.refused("--model", translation(), language("full"), "--train-sets", SOURCE, TARGET, says="task")
        routed = translation("mixed", "--attention-encoder", "1*full;1*window(3)")
        self.refused("--model", translation(), routed, "--train-sets", SOURCE, TARGET, says="expected models of one shape")


if __name__ == "__main__":
    unittest.main()

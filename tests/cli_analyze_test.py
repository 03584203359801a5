#!/usr/bin/env python3
"""Figures of attention from the command line: those of the first layer against an oracle, and laws for all layers."""
import json
import math
import re
import unittest
import xml.etree.ElementTree

from analyzed_models import F, PAIRS, SOURCE, TARGET, analyze, language, records, translation
from fovea_program import checked
from attention_oracle import HEADS, as_pieces, as_words, diversity, figures, first_layer


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

    def test_keys_behind_a_span_are_zeros(self):
        for unit in ("piece", "word"):
            for record in records(language("span(6,2)"), "--unit", unit, sides=[TARGET]).values():
                self.assertEqual(record["underflow"], 0)
                self.assertAlmostEqual(record["zeros"], 1 - record["kept"] * record["rows"] / record["pairs"], places=9)

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

    def test_the_picture_goes_where_output_says(self):
        output = F / "picture.txt"
        arguments = ["--source", SOURCE.read_text().splitlines()[0], "--target", TARGET.read_text().splitlines()[0]]
        shown = analyze(translation(), *arguments)
        self.assertEqual(analyze(translation(), *arguments, "--output", output), "")
        self.assertEqual(output.read_text(), shown)
        self.assertRegex(shown, r"\n░ ▒ ▓ █ quarters of the greatest weight, 0\.\d+\nexactly zero: ")

    def test_the_picture_is_of_the_sharpest_head(self):
        arguments = ["--source", SOURCE.read_text().splitlines()[0], "--target", TARGET.read_text().splitlines()[0]]
        model = translation("sparse", "--attention", "topk(3)")
        own = analyze(model, *arguments)
        place = re.search(r"shown: head (\d) of layer 1, the sharpest of 2; --layer N --head N draw another, --head 0 the mean of "
                          r"all 2 \(exactly zero: (\d+\.\d)%\)\n$", own)
        heads = [analyze(model, *arguments, "--layer", 1, "--head", head) for head in (1, 2)]
        pictures = [text.split("\nexactly zero")[0] for text in heads]
        self.assertNotEqual(pictures[0], pictures[1])
        self.assertEqual(own.split("\nexactly zero")[0], pictures[int(place[1]) - 1])
        mean = analyze(model, *arguments, "--head", 0)
        self.assertIn(f"exactly zero: {place[2]}% of the weights shown", mean)
        self.assertTrue(mean.endswith("shown: the mean of all 2 heads\n"), mean)
        zeros = [float(re.search(r"exactly zero: (\S+)%", text)[1]) for text in heads]
        self.assertLess(float(place[2]), min(zeros), "the mean of sparse heads is denser than each")

    def test_the_picture_as_a_file(self):
        arguments = ["--source", SOURCE.read_text().splitlines()[0], "--target", TARGET.read_text().splitlines()[0]]
        model, picture = translation("sparse", "--attention", "topk(3)"), F / "head.svg"
        self.assertEqual(analyze(model, *arguments, "--output", picture), "")
        svg = xml.etree.ElementTree.fromstring(picture.read_text())
        texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
        shown = analyze(model, *arguments)
        zeros = re.search(r"exactly zero: (\S+)% of", shown)[1]
        self.assertIn(f"cross-attention, head {re.search('head ([0-9])', shown)[1]} of layer 1; exactly zero: {zeros}%", texts)
        self.assertIn("</s>", texts)
        self.assertIn("exactly 0", texts)

    def test_the_folder_of_a_run_stands_for_its_option(self):
        arguments = ["--source", "un", "--quiet", "--cpu-threads", 1]
        self.assertEqual(checked("analyze", translation(), *arguments).stdout, analyze(translation(), "--source", "un"))

    def test_a_picture_of_weights_above_one(self):
        model = translation("relu", "--attention", "relu")
        shown = analyze(model, "--source", SOURCE.read_text().splitlines()[0], "--target", TARGET.read_text().splitlines()[0])
        self.assertIn("quarters of the greatest weight, ", shown)
        self.assertIn("██", shown)

    def test_costs_need_no_parameters(self):
        for model in (translation(), language("full")):
            found = json.loads(analyze(model, "--cost", "--sweep", "full", "rela-g", "--lengths", 50, "--json"))["records"]
            costs = {spec: [r for r in found if r["spec"] == spec] for spec in ("full", "rela-g")}
            self.assertEqual(len(costs["full"]), len(costs["rela-g"]))
            self.assertTrue(all(r["mechanism"].endswith("relu+gated-rmsnorm") for r in costs["rela-g"]))
            for full, rela in zip(costs["full"], costs["rela-g"]):
                self.assertEqual(full["scored"], rela["scored"])
            own = json.loads(analyze(model, "--cost", "--attention", "rela-g", "--lengths", 50, "--json"))["records"][0]
            self.assertTrue(own["mechanism"].endswith("relu+gated-rmsnorm"))

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


if __name__ == "__main__":
    unittest.main(verbosity=2)

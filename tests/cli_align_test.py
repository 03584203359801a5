#!/usr/bin/env python3
"""Word alignments and pair scores from the command line: align, filter, translate --alignment, and their bad input."""
import gzip
import json
import os
import random
import re
import subprocess
import unittest

from fovea_program import PROGRAM, TINY, Refusals, Workplace, checked, run, without_privilege

PLACE = Workplace()
F = PLACE.folder
SOURCE, TARGET = PLACE.sides["test"]
PAIRS = 50
SIZES = [2 if before == "--dec-depth" else value for before, value in zip(["", *TINY], TINY)]


def made(name, *options, sides=PLACE.sides["train"]):
    """The folder of a model trained for a few updates, once."""
    path = F / name
    if not path.exists():
        vocab = F / "words.spm"
        if not vocab.exists():  # with words for pieces, a text has one encoding only
            checked("vocab", "--train-sets", *PLACE.sides["train"], "--type", "word", "--dim-vocabs", 3000,
                    "--output", vocab, "--quiet")
        checked("train", "--model", path, "--train-sets", *sides, "--vocabs", vocab, vocab, *SIZES,
                "--learn-rate", "0.01", "--lr-warmup", 5, "--after-batches", 20, "--quiet", *options)
    return path


def forward():
    return made("forward")


def backward():
    return made("backward", sides=PLACE.sides["train"][::-1])


def rela():
    return made("rela", "--attention", "rela-g")


def write(name, lines):
    path = F / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def lines_of(path):
    return path.read_text().splitlines()


def parsed(text):
    return [[tuple(map(int, link.split("-"))) for link in line.split()] for line in text.splitlines()]


def align(*options, model=None, sides=(SOURCE, TARGET), **more):
    return checked("align", "--model", model or forward(), "--train-sets", *sides, "--cpu-threads", 1, "--quiet",
                   *options, **more).stdout


def filtered(*options, model=None, sides=(SOURCE, TARGET)):
    return checked("filter", "--model", model or forward(), "--train-sets", *sides, "--cpu-threads", 1, *options)


def scores_of(text):
    return [float(line.split()[0]) for line in text.splitlines() if re.match(r"-?\d", line)]


class Learned(unittest.TestCase):
    def test_a_dictionary_is_found(self):
        """Word by word, the i-th from the i-th: after 400 updates nearly all links are right, and not shifted ones."""
        draw, words = random.Random(1), [("ama", "xux"), ("bebi", "yoy"), ("coco", "zuzu"), ("dada", "wiwi"), ("efe", "vov"), ("fifi", "kik")]
        text = [[draw.choice(words) for _ in range(draw.randint(1, 6))] for _ in range(1000)]
        sides = [write(f"dictionary.{side}", [" ".join(word[side] for word in line) for line in text]) for side in (0, 1)]
        gold = write("dictionary.gold", [" ".join(f"{i}-{i}" for i in range(len(line))) for line in text])
        vocab, model = F / "dictionary.spm", F / "dictionary"
        checked("vocab", "--train-sets", *sides, "--type", "word", "--output", vocab, "--quiet")
        checked("train", "--model", model, "--train-sets", *sides, "--vocabs", vocab, vocab, "--tied-embeddings-all", "--dim-emb", 32,
                "--enc-depth", 1, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 64, "--mini-batch-words", 200,
                "--learn-rate", 0.01, "--lr-warmup", 20, "--after-batches", 400, "--cpu-threads", 1, "--quiet")
        aer = lambda *options: json.loads(align("--gold", gold, "--json", *options, model=model, sides=sides))["aer"]
        self.assertLess(aer(), 0.2)
        self.assertGreater(aer("--shifted"), 0.5)
        for kind in ("shuffled", "swapped", "halved", "untranslated"):
            tested = json.loads(filtered("--test", kind, "--json", "--test-pairs", 200, model=model, sides=sides).stdout)
            self.assertGreater(tested["auc"], 0.95, kind)


class Align(unittest.TestCase):
    def test_each_pair_has_a_line_of_links_between_its_words(self):
        links = parsed(align())
        self.assertEqual(len(links), PAIRS)
        for found, source, target in zip(links, lines_of(SOURCE), lines_of(TARGET)):
            self.assertEqual(found, sorted(set(found)))
            self.assertEqual({j for _, j in found}, set(range(len(target.split()))))  # with softmax, every word
            self.assertTrue(all(i < len(source.split()) for i, _ in found))

    def test_batches_and_files_make_no_difference(self):
        expected = align()
        self.assertEqual(align("--mini-batch", 1), expected)
        self.assertEqual(align("--mini-batch", 7, "--maxi-batch", 1), expected)
        packed = F / "target.gz"
        packed.write_bytes(gzip.compress(TARGET.read_bytes()))
        self.assertEqual(align(sides=("-", packed), stdin=SOURCE.read_text()), expected)
        align("--output", F / "links.gz")
        self.assertEqual(gzip.decompress((F / "links.gz").read_bytes()).decode(), expected)

    def test_options_choose_what_is_read(self):
        texts = {align(*options) for options in ([], ["--shifted"], ["--layer", 1], ["--layer", 2], ["--layer", 2, "--head", 1],
                                                 ["--layer", 2, "--head", 2])}
        self.assertEqual(len(texts), 6)
        self.assertEqual(align("--subword", "soft"), align())  # one piece per word
        pieces = [align("--subword", how, model=PLACE.model()) for how in ("hard", "soft")]
        self.assertNotEqual(*pieces)

    def test_pairs_without_words_have_no_links(self):
        source, target = write("some.src", ["", "ke muro", " ", ""]), write("some.trg", ["drum", "", "\t", ""])
        self.assertEqual(align(sides=(source, target)), "\n\n\n\n")
        nothing = write("nothing", [])
        self.assertEqual(align(sides=(nothing, nothing)), "")

    def test_null_rows_have_no_links(self):
        found = parsed(align("--layer", 1, "--head", 1, model=rela()))
        words = sum(len(line.split()) for line in lines_of(TARGET))
        self.assertLess(sum(map(len, found)), words)

    def test_json(self):
        object = json.loads(align("--json"))
        self.assertEqual(object["pairs"], PAIRS)
        self.assertEqual([item["pair"] for item in object["alignments"]], list(range(1, PAIRS + 1)))
        self.assertEqual([[(link["source"], link["target"]) for link in item["links"]] for item in object["alignments"]],
                         parsed(align()))

    def test_both_directions(self):
        here = [set(links) for links in parsed(align())]
        back = [{(i, j) for j, i in links} for links in parsed(align(model=backward(), sides=(TARGET, SOURCE)))]
        joined = {how: [set(links) for links in parsed(align("--reverse-model", backward(), "--symmetrize", how))]
                  for how in ("intersect", "union", "grow-diag-final-and")}
        self.assertEqual(joined["intersect"], [a & b for a, b in zip(here, back)])
        self.assertEqual(joined["union"], [a | b for a, b in zip(here, back)])
        for low, middle, high in zip(joined["intersect"], joined["grow-diag-final-and"], joined["union"]):
            self.assertTrue(low <= middle <= high)
        self.assertEqual([set(links) for links in parsed(align("--reverse-model", backward()))],
                         joined["grow-diag-final-and"])
        other = align("--layer", 1, "--reverse-model", backward(), "--symmetrize", "union", "--reverse-layer", 2)
        self.assertNotEqual(other, align("--layer", 1, "--reverse-model", backward(), "--symmetrize", "union"))


class Gold(Refusals):
    def gold(self):
        path = F / "gold"
        if not path.exists():
            draw = random.Random(1)
            lines = []
            for source, target in zip(lines_of(SOURCE), lines_of(TARGET)):
                links = [f"{i}{draw.choice('--p?')}{j}" for i in range(len(source.split()))
                         for j in range(len(target.split())) if draw.random() < 0.3]
                lines.append(" ".join(links))
            write("gold", lines)
        return path

    def expected(self, found):
        """The definitions, on text."""
        a = s = p = in_s = in_p = 0
        for links, line in zip(found, lines_of(self.gold())):
            gold = [(tuple(map(int, re.split("[-p?]", link))), "-" in link) for link in line.split()]
            sure, possible = {link for link, is_sure in gold if is_sure}, {link for link, _ in gold}
            a, s, p = a + len(links), s + len(sure), p + len(possible)
            in_s, in_p = in_s + len(sure & set(links)), in_p + len(possible & set(links))
        return 1 - (in_s + in_p) / (a + s), in_p / a, in_s / s, a, s, p

    def test_aer_precision_and_recall(self):
        for options in ([], ["--shifted"], ["--layer", 2, "--head", 1]):
            aer, precision, recall, links, sure, possible = self.expected(parsed(align(*options)))
            self.assertEqual(align(*options, "--gold", self.gold()),
                             f"AER {aer:.4f} precision {precision:.4f} recall {recall:.4f} pairs {PAIRS} "
                             f"links {links} sure {sure} possible {possible}\n")
            object = json.loads(align(*options, "--gold", self.gold(), "--json"))
            self.assertAlmostEqual(object["aer"], aer, places=12)
            self.assertAlmostEqual(object["recall"], recall, places=12)
        align("--gold", self.gold(), "--output", F / "beside")
        self.assertEqual((F / "beside").read_text(), align())

    def test_forms_of_gold(self):
        expected = align("--gold", self.gold())
        other = write("gold-1-reversed", [re.sub(r"(\d+)(\D)(\d+)", lambda m: f"{int(m[3]) + 1}{m[2]}{int(m[1]) + 1}", line)
                                          for line in lines_of(self.gold())])
        self.assertEqual(align("--gold", other, "--gold-base", 1, "--gold-reversed"), expected)
        own = write("own", align().splitlines())
        self.assertTrue(align("--gold", own).startswith("AER 0.0000 precision 1.0000 recall 1.0000 "))

    def test_search(self):
        object = json.loads(align("--gold", self.gold(), "--search", "--json"))
        self.assertEqual(len(object["records"]), 2 * (1 + 2 * 3))
        aer = {}
        for record in object["records"]:
            place = (record["layer"], record["head"], record["shifted"])
            options = ["--layer", place[0], "--head", place[1], *(["--shifted"] if place[2] else [])]
            if place in ((0, 0, False), (1, 0, True), (2, 1, False), (2, 2, True)):
                self.assertEqual(record["aer"], json.loads(align(*options, "--gold", self.gold(), "--json"))["aer"])
            aer[place] = record["aer"]
        for means in object["means"]:
            layers = [aer[layer, 0, means["shifted"]] for layer in (1, 2)]
            heads = [min(aer[layer, head, means["shifted"]] for head in (1, 2)) for layer in (1, 2)]
            self.assertAlmostEqual(means["layers"], sum(layers) / 2, places=12)
            self.assertAlmostEqual(means["heads"], sum(heads) / 2, places=12)
        table = align("--gold", self.gold(), "--search").splitlines()
        self.assertEqual(len(table), 1 + 7 + 2 + 1)
        self.assertTrue(table[1].startswith(f"mean   mean   {aer[0, 0, False]:.4f} "), table)

    def test_bad_gold(self):
        command = ["align", "--model", forward(), "--train-sets", SOURCE, TARGET, "--quiet", "--gold"]
        lines = lines_of(self.gold())
        self.refused(*command, write("short", lines[:-1]), says=["short' ends after 49 lines, --train-sets has more"])
        self.refused(*command, write("long", lines + ["0-0"]), says="long' has more lines than --train-sets, which has 50")
        self.refused(*command, write("outside", ["0-99", *lines[1:]]), says=["outside' line 1: link 0-99 is outside of the sentences"])
        self.refused(*command, write("slash", [lines[0], "0/0", *lines[2:]]), says=["slash' line 2: got '0/0'; expected links such as"])
        self.refused(*command, write("empty", [""] * PAIRS), says="empty' has no links; expected at least one")
        self.refused(*command, F / "none", says=["--gold", "none"])
        self.refused(*command, self.gold(), "--output", self.gold(), says="is read too and would be changed")

    def test_gold_without_sure_links(self):
        possible = write("possible", ["0p0"] * PAIRS)
        self.assertRegex(align("--gold", possible),
                         r"^AER 0\.\d{4} precision 0\.\d{4} recall - pairs 50 links \d+ sure 0 possible 50\n$")
        self.assertIsNone(json.loads(align("--gold", possible, "--json"))["recall"])


class Filter(Refusals):
    def test_a_score_per_pair(self):
        scores = filtered("--score", "log-probability").stdout.splitlines()
        sums = checked("score", "--model", forward(), "--train-sets", SOURCE, TARGET, "--quiet").stdout.splitlines()
        self.assertEqual(len(scores), PAIRS)
        for score, total, target in zip(scores, sums, lines_of(TARGET)):
            self.assertAlmostEqual(float(score), float(total) / (len(target.split()) + 1), places=5)
        self.assertEqual(filtered().stdout.splitlines(), scores)  # the default, with ReLA too
        self.assertEqual(filtered(model=rela()).stdout, filtered("--score", "log-probability", model=rela()).stdout)
        nulls = filtered("--score", "null-rate", model=rela()).stdout
        self.assertTrue(all(-1 <= score <= 0 for score in scores_of(nulls)))
        self.assertGreater(len(set(scores_of(nulls))), 5)
        self.assertNotIn("-0.000000", nulls)

    def test_the_best_are_kept_in_their_order(self):
        scores = scores_of(filtered().stdout)
        kept = F / "kept.src", F / "kept.trg"
        threshold = sorted(scores)[PAIRS // 2]
        chosen = [i for i, score in enumerate(scores) if score >= threshold]
        for options, expected in ((["--keep", 0.5], chosen), ([f"--threshold={threshold:.9f}"], None), (["--keep", 1], range(PAIRS))):
            said = filtered(*options, "--output", *kept)
            self.assertEqual(scores_of(said.stdout), scores)
            for path, side in zip(kept, (SOURCE, TARGET)):
                if expected is not None:
                    self.assertEqual(lines_of(path), [lines_of(side)[i] for i in expected])
            self.assertIn(f"kept {len(lines_of(kept[0]))} of 50 pairs", said.stderr)
            self.assertEqual(len(lines_of(kept[0])), len(lines_of(kept[1])))
        filtered("--threshold", -1, "--output", *kept)  # a negative number is a value
        self.assertEqual(lines_of(kept[0]), [])
        object = json.loads(filtered("--keep", 0.1, "--output", *kept, "--json").stdout)
        self.assertEqual((object["kept"], object["pairs"], len(object["scores"])), (5, PAIRS, PAIRS))

    def test_shown_pairs(self):
        lines = filtered("--show", 3, "--seed", 2).stdout.splitlines()
        scores, shown = [float(line) for line in lines[:PAIRS]], [line.split(" ||| ") for line in lines[PAIRS:]]
        self.assertEqual([line[0] for line in shown], ["best"] * 3 + ["worst"] * 3)
        order = sorted(scores, reverse=True)
        pairs = list(zip(lines_of(SOURCE), lines_of(TARGET)))
        for tenth, score, source, target in shown:
            self.assertEqual(scores[pairs.index((source, target))], float(score))
            self.assertIn(float(score), order[:5] if tenth == "best" else order[-5:])

    def test_the_histogram_is_in_the_log(self):
        said = filtered().stderr
        counts = [int(count) for count in re.findall(r"\[ *-[\d.]+, +-[\d.]+[)\]] +(\d+)", said)]
        self.assertEqual((len(counts), sum(counts)), (10, PAIRS), said)

    def test_how_well_scores_tell_pairs_apart(self):
        for kind in ("shuffled", "neighbour", "halved", "swapped", "inserted", "untranslated"):
            text = filtered("--test", kind, "--score", "null-rate", model=rela()).stdout
            self.assertRegex(text, r"^AUC [01]\.\d{4}\n" + kind + r" by null-rate: 50 pairs of the text's 50, ")
            self.assertEqual(scores_of(text), [])
            object = json.loads(filtered("--test", kind, "--score", "null-rate", "--json", model=rela()).stdout)
            self.assertEqual(f"{object['auc']:.4f}", text.split()[1])
            self.assertEqual((object["good"]["count"], object["bad"]["count"]), (PAIRS, PAIRS))
        self.assertIn("20 pairs of the text's 50", filtered("--test", "shuffled", "--test-pairs", 20).stdout)

    def test_bad_input(self):
        command = ["filter", "--model", forward(), "--train-sets", SOURCE, TARGET]
        self.refused(*command, "--score", "null-rate", says=["the model's cross-attention is 2*full", "use --score log-probability"])
        self.refused(*command, "--keep", 0.5, says="--output has 0 files; expected two", code=2)
        self.refused(*command, "--keep", 1.5, says="--keep: got '1.5'", code=2)
        self.refused(*command, "--test", "mixed", says="expected one of none, shuffled", code=2)
        self.refused(*command, "--keep", 0.5, "--output", F / "a", F / "a", says="for both sides; expected two files")
        self.refused(*command, "--keep", 0.5, "--output", F / "a", SOURCE, says="is read too and would be changed")
        self.refused(*command, "--keep", 0.5, "--output", F / "a", F / "no" / "b", says="--output: ")
        self.refused(*command, "--keep", 0.5, "--output", F / "a", "-", says="got '-', but this option cannot use standard input", code=2)
        self.refused("filter", "--model", forward(), "--train-sets", "-", TARGET, "--show", 1, says="can be read only once", code=2)
        short = write("short.src", lines_of(SOURCE)[:-1])
        self.refused("filter", "--model", forward(), "--train-sets", short, TARGET, says="parallel files need equally many")
        one = write("x.src", ["un"]), write("x.trg", ["enu"])
        self.refused("filter", "--model", forward(), "--train-sets", *one, "--test", "shuffled",
                     says="none of the 1 pairs of --train-sets can be made wrong this way")


class Translate(Refusals):
    def test_links_are_those_of_align(self):
        source = write("first.src", lines_of(SOURCE)[:12] + [""])
        for options in ([], ["layer", 2, "head", 1], ["layer", 1, "shifted", None]):
            def named(prefix):
                return [part for i, part in enumerate(f"--{prefix}{o}" if isinstance(o, str) else o for o in options)
                        if part is not None]
            said = checked("translate", "--model", forward(), "--beam-size", 3, "--quiet", "--cpu-threads", 1, "--alignment",
                           *named("alignment-"), "--max-length-factor", 1.5, "--input", source).stdout
            texts, links = zip(*(line.split(" ||| ") for line in said.splitlines()))
            self.assertEqual(len(texts), 13)
            self.assertEqual((texts[-1], links[-1]), ("", ""))
            target = write("first.trg", texts)
            self.assertEqual(list(links), align(*named(""), sides=(source, target)).splitlines())

    def test_where_the_links_stand(self):
        def translated(*options):
            return checked("translate", "--model", forward(), "--beam-size", 2, "--quiet", "--max-length-factor", 1.5,
                           "--alignment", *options, stdin="un stelli .\n").stdout.splitlines()

        links = r"(\d+-\d+( \d+-\d+)*)?"
        number = r"-\d+\.\d{6}"
        self.assertRegex(translated()[0], rf"^.* \|\|\| {links}$")
        self.assertRegex(translated("--scores")[0], rf"^{number} \|\|\| .* \|\|\| {links}$")
        self.assertEqual(len(translated("--n-best")), 2)
        for line in translated("--n-best"):
            self.assertRegex(line, rf"^0 \|\|\| .* \|\|\| {links} \|\|\| F0= {number} \|\|\| {number}$")


class BadInput(Refusals):
    def test_models_layers_and_options(self):
        command = ["align", "--model", forward(), "--train-sets", SOURCE, TARGET]
        self.refused(*command, "--layer", 3, says="--layer: got 3; the model's decoder has 2 layers")
        self.refused(*command, "--head", 3, says="--head: got 3; the model has 2 heads")
        self.refused(*command, "--reverse-model", backward(), "--reverse-layer", 3, says="--reverse-layer: got 3")
        self.refused(*command, "--symmetrize", "union", says="needs a second model; name it with --reverse-model", code=2)
        self.refused(*command, "--symmetrize", "both", "--reverse-model", backward(), code=2,
                     says="--symmetrize: got 'both'; expected one of intersect, union, grow-diag-final-and")
        self.refused(*command, "--search", says="--search needs --gold", code=2)
        self.refused(*command, "--gold-base", 1, says="--gold-base and --gold-reversed need --gold", code=2)
        self.refused("align", "--model", forward(), "--train-sets", SOURCE, says="--train-sets has 1 file", code=2)
        self.refused("align", "--model", forward(), "--train-sets", SOURCE, F / "none", says="none")
        self.refused("translate", "--model", forward(), "--alignment-layer", 1, says="need --alignment", code=2)
        self.refused("translate", "--model", forward(), "--alignment", "--alignment-head", 9, says="--alignment-head: got 9")

    def test_a_model_of_another_task(self):
        language = F / "language"
        checked("train", "--task", "language", "--model", language, "--train-sets", TARGET, "--vocabs", "bytes", "--dim-emb", 16,
                "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--after-batches", 1, "--quiet")
        for command in ("align", "filter"):
            self.refused(command, "--model", language, "--train-sets", SOURCE, TARGET,
                         says="is a model of the task language; expected one of the task translation")
        self.refused("align", "--model", forward(), "--reverse-model", language, "--train-sets", SOURCE, TARGET,
                     says="is a model of the task language; expected one of the task translation")

    def test_output_that_cannot_be_written(self):
        command = ["align", "--model", forward(), "--train-sets", SOURCE, TARGET, "--output"]
        self.refused(*command, F / "no" / "links", says=["--output", "no"])
        self.refused(*command, F, says="is a folder")
        protected = F / "protected"
        protected.mkdir(exist_ok=True)
        protected.chmod(0o555)
        self.refused(*command, protected / "links", says="--output", before=without_privilege())
        self.refused("filter", *command[1:6], "--keep", 0.5, "--output", protected / "a", protected / "b", says="--output",
                     before=without_privilege())
        for full in (command[:-1], ["filter", *command[1:6]]):
            with open("/dev/full", "w") as sink:
                result = subprocess.run([PROGRAM, *map(str, full)], stdout=sink, stderr=subprocess.PIPE, text=True, timeout=600,
                                        env=os.environ)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(result.stderr.count("Error: "), 1, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""The text that counts, for every command that reads it: byte order marks, lines without visible text, and characters that
normalisation would change."""
import gzip
import json
import pathlib
import re
import unittest

from array_file import npy
from fovea_program import Refusals, Workplace, checked, run

PLACE = Workplace()
F = PLACE.folder
MARK = b"\xef\xbb\xbf"
UNSEEN = [" \t", "\u3000\u00a0", "\u200b", "\u00ad\u00ad", "\ufeff", "\u200e\u202a", "\ufe0f", "\u2028\u0085", "\u2581"]
SIZES = ["--dim-emb", 16, "--enc-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--cpu-threads", 1,
         "--after-batches", 2, "--quiet"]


def write(name, content):
    path = F / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def once(name, make):
    """The path of that name, which `make` makes if it is not there."""
    path = F / name
    if not path.exists():
        make(path)
    return path


def translator(kind):
    """A model over characters, words or pieces, hardly trained."""
    def vocab(path):
        size = ["--dim-vocabs", 300] if kind in ("unigram", "bpe") else []
        marks = write("marks", "".join(f"a{mark}b\n" for mark in UNSEEN))
        checked("vocab", "--type", kind, "--train-sets", *PLACE.sides["train"], marks, *size, "--output", path, "--quiet")

    def train(path):
        spm = once(f"{kind}.spm", vocab)
        checked("train", "--model", path, "--train-sets", *PLACE.sides["train"], "--vocabs", spm, spm, "--dec-depth", 1,
                "--mini-batch-words", 500, *SIZES)
    return once(f"model-{kind}", train)


def tagger():
    write("columns", "ama V O\nAmax N B-PER\n\nbebi V O\n\n" * 20)
    def train(path):
        checked("vocab", "--type", "word", "--train-sets", write("words", "ama bebi Amax\n"), "--output", F / "w.spm", "--quiet")
        checked("train", "--task", "tagging", "--model", path, "--train-sets", F / "columns", "--vocabs", F / "w.spm", *SIZES)
    return once("tagger", train)


def language(vocabs):
    def train(path):
        checked("train", "--task", "language", "--model", path, "--train-sets", PLACE.sides["train"][1], "--vocabs", vocabs,
                "--dec-depth", 1, "--segment-length", 32, *[x for x in SIZES if x != "--enc-depth"][:2], *SIZES[4:])
    return once(f"lm-{pathlib.Path(vocabs).name}", train)


class ByteOrderMarks(unittest.TestCase):
    """A mark at the beginning of any one text file of a command, or of standard input, does not change the answer."""

    def same(self, arguments, texts, stdin=None, outputs=(), name=""):
        """`arguments` is a function of the paths of `texts`, {name: content}."""
        def answer(marked):
            paths = {}
            for text, content in texts.items():
                data = content if isinstance(content, bytes) else content.encode()
                paths[text] = write("bom-" + text, (MARK if text == marked else b"") + data)
            given = None if stdin is None else (MARK if marked == "-" else b"") + stdin.encode()
            result = checked(*arguments(paths), stdin=given or "")
            return [result.stdout, *[(F / output).read_bytes() for output in outputs]]

        plain = answer(None)
        for marked in [*texts, *(["-"] if stdin is not None else [])]:
            self.assertEqual(answer(marked), plain, f"{name or arguments({t: t for t in texts})[0]}: a mark before {marked}")

    def test_text_and_vocabularies(self):
        lines = "".join(PLACE.sides["test"][0].read_text().splitlines(keepends=True)[:30])
        other = "".join(PLACE.sides["test"][1].read_text().splitlines(keepends=True)[:30])
        for kind in ("unigram", "bpe", "word", "char"):
            size = ["--dim-vocabs", 60] if kind in ("unigram", "bpe") else []
            self.same(lambda f: ["vocab", "--type", kind, *size, "--train-sets", f["a"], "--output", F / "bom.spm", "--quiet"],
                      {"a": lines * 3}, outputs=["bom.spm"], name=f"vocab {kind}")
        sides = {"s": lines, "t": other}
        self.same(lambda f: ["corpus", f["s"], f["t"], "--languages", "xx", "yy", "--valid", 2, "--test", 2, "--output", F / "bom",
                             "--quiet"], sides, outputs=["bom/train.xx", "bom/train.yy", "bom/test.xx"])
        tsv = "".join(f"{a}\t{b}\n" for a, b in zip(lines.splitlines(), other.splitlines()))
        po = "".join(f'msgid "{a}"\nmsgstr "{b}"\n\n' for a, b in zip(lines.splitlines(), other.splitlines()))
        tmx = '<?xml version="1.0" encoding="utf-8"?><tmx version="1.4"><header/><body>' + "".join(
            f'<tu><tuv xml:lang="xx"><seg>{a}</seg></tuv><tuv xml:lang="yy"><seg>{b}</seg></tuv></tu>'
            for a, b in zip(lines.splitlines(), other.splitlines())) + "</body></tmx>"
        for name, text in (("x.tsv", tsv), ("x.po", po), ("x.tmx", tmx)):
            self.same(lambda f: ["corpus", f[name], "--languages", "xx", "yy", "--valid", 2, "--test", 2, "--output", F / "bom",
                                 "--quiet"], {name: text}, outputs=["bom/train.xx", "bom/train.yy"], name=name)
        model = translator("char")
        few = {"s": "un stelli .\n\nke\n", "t": "un .\n\nke\n"}
        machine = ["--model", model, "--cpu-threads", 1, "--quiet"]
        self.same(lambda f: ["translate", *machine, "--beam-size", 1, "--max-length-factor", 1], {}, stdin=few["s"])
        self.same(lambda f: ["translate", *machine, "--beam-size", 1, "--max-length-factor", 1, "--input", f["s"]], {"s": few["s"]})
        self.same(lambda f: ["translate", "--documents", *machine, "--beam-size", 1, "--max-length-factor", 1],
                  {}, stdin="<d>\nun\n<d>\nke\n", name="documents")
        for command in ("score", "filter"):
            self.same(lambda f: [command, *machine, "--train-sets", f["s"], f["t"]], few)
        gold = {"s": "un stelli\n", "t": "ke un\n", "gold": "0-0 1-1\n"}
        self.same(lambda f: ["align", *machine, "--train-sets", f["s"], f["t"], "--gold", f["gold"]], gold)
        self.same(lambda f: ["analyze", *machine, "--train-sets", f["s"], f["t"], "--by", f"column:{f['by']}"],
                  {"s": "un stelli\n", "t": "ke un\n", "by": "A B\n"})
        self.same(lambda f: ["evaluate", "--reference", f["r"], "--baseline", f["b"], "--confidence-n", 10],
                  {"r": "\uff08a\uff09 b c d e\n", "b": "a b c x\n"}, stdin="\uff08a\uff09 b c d\n")

    def test_options_in_a_file(self):
        self.same(lambda f: ["train", "-c", f["c"], "--dump-config", "--model", F / "none"],
                  {"c": f"train-sets: [{PLACE.sides['train'][0]}, {PLACE.sides['train'][1]}]\nvocabs: [{PLACE.vocab}, {PLACE.vocab}]\n"})
        self.same(lambda f: ["translate", "-c", f["c"], "--quiet"],
                  {"c": f"model: {translator('char')}\nbeam-size: 1\nmax-length-factor: 1\ncpu-threads: 1\n"}, stdin="un\n")

    def test_columns_labels_and_clauses(self):
        model = ["--model", tagger(), "--cpu-threads", 1, "--quiet"]
        columns = (F / "columns").read_text()
        self.same(lambda f: ["score", *model, "--train-sets", f["c"]], {"c": columns})
        self.same(lambda f: ["tag", *model], {}, stdin="ama V\nAmax N\n\n")
        self.same(lambda f: ["tag", *model, "--input-format", "text"], {}, stdin="ama Amax\n")
        def train(f):
            return ["train", "--task", "tagging", "--model", F / "bom-tagger", "--overwrite", "--train-sets", f["c"],
                    "--valid-sets", f["v"], "--valid-freq", 2, "--vocabs", F / "w.spm", *SIZES]
        self.same(train, {"c": columns, "v": columns}, outputs=["bom-tagger/last/labels.txt", "bom-tagger/last/model.safetensors"])
        dictionary = "subordinating\tbecause\nsubordinating\twhen\n"
        text = "because we went home, we slept\n"
        kinds = run("clauses", "--dictionary", write("wrong", "x\ty\n")).stderr
        kind = re.search(r"expected one of ([^,]+)", kinds)[1].strip(" '")
        dictionary = dictionary.replace("subordinating", kind)
        self.same(lambda f: ["clauses", "--level", 6, "--dictionary", f["d"]], {"d": dictionary}, stdin=text)
        self.same(lambda f: ["clauses", "--level", 6, "--tag-column", 2, "--input", f["i"]], {"i": "because IN\nwe PRP\nwent VBD\n"})
        self.same(lambda f: ["clauses", "--label", "--corrections", f["k"]], {"k": "because IN O\n"}, stdin="because IN\nwe PRP\n")

    def test_captions_and_ids(self):
        features = write("features.npy", npy((2, 3, 4), b"\0\0\x80\x3f" * 24, "<f4"))
        def train(f, captions):
            return ["train", "--task", "caption", "--model", F / "bom-caption", "--overwrite", "--features", features,
                    "--image-ids", f["ids"], "--captions", f[captions], "--vocabs", once("char.spm", lambda _: translator("char")),
                    "--dec-depth", 1, *SIZES]
        tsv = "a\tun ke\nb\tke\n"
        coco = json.dumps({"annotations": [{"image_id": "a", "caption": "un ke"}, {"image_id": "b", "caption": "ke"}]})
        for name, text in (("tsv", tsv), ("json", coco)):
            self.same(lambda f: train(f, name), {name: text, "ids": "a\nb\n"}, outputs=["bom-caption/last/model.safetensors"], name=name)

    def test_language_models(self):
        pieces, text = language(PLACE.vocab), "un stelli .\nke\n"
        self.same(lambda f: ["score", "--model", pieces, "--cpu-threads", 1, "--quiet", "--train-sets", f["a"]], {"a": text})
        self.same(lambda f: ["generate", "--model", pieces, "--cpu-threads", 1, "--quiet", "--max-length", 4], {}, stdin="un\n")
        # With bytes, the text is its bytes.
        units = [re.search(r"units:(\d+)", checked("score", "--model", language("bytes"), "--cpu-threads", 1, "--quiet",
                                                   "--train-sets", write("a", mark + text.encode())).stdout)[1] for mark in (b"", MARK)]
        self.assertEqual(int(units[1]), int(units[0]) + 3)

    def test_compressed_and_later_marks(self):
        packed = write("packed.gz", gzip.compress(MARK + b"un\n" + MARK + b"ke\n"))
        plain = write("plain", b"un\n" + MARK + b"ke\n")
        out = [checked("translate", "--model", translator("char"), "--beam-size", 1, "--max-length-factor", 1, "--cpu-threads", 1,
                       "--quiet", "--input", path).stdout for path in (packed, plain)]
        self.assertEqual(out[0], out[1])
        self.assertEqual(checked("corpus", "--split-bytes", 3, 1, 1, write("bytes", MARK + b"ab"), "--output", F / "cut",
                                 "--quiet").stdout, "")
        self.assertEqual((F / "cut/train.txt").read_bytes(), MARK, "bytes are copied as they are")


class EmptyLines(Refusals):
    def test_training_leaves_pairs_out(self):
        source = write("e.src", "".join(f"{mark}\n" for mark in UNSEEN) + "un\n" * 3)
        target = write("e.trg", "un\n" * len(UNSEEN) + f"{UNSEEN[2]}\nke\nke\n")
        for kind in ("char", "word", "unigram", "bpe"):
            translator(kind)
            spm = F / f"{kind}.spm"
            log = checked("train", "--model", F / "e", "--overwrite", "--train-sets", source, target, "--vocabs", spm, spm,
                          "--dec-depth", 1, *SIZES[:-1]).stderr
            self.assertIn(f"2 sentence pairs from {source} and {target}", log, kind)
            self.assertIn(f"left out {len(UNSEEN) + 1} with an empty side", log, kind)

    def test_a_translation_is_empty(self):
        lines = "".join(f"{mark}\n" for mark in UNSEEN)
        for kind in ("char", "word", "unigram", "bpe"):
            model = ["--model", translator(kind), "--beam-size", 2, "--cpu-threads", 1, "--quiet"]
            self.assertEqual(checked("translate", *model, stdin=lines).stdout, "\n" * len(UNSEEN), kind)
            best = checked("translate", *model, "--n-best", stdin=lines).stdout.splitlines()
            self.assertEqual(best, [f"{i} |||  ||| F0= 0.000000 ||| 0.000000" for i in range(len(UNSEEN))], kind)
            scores = checked("translate", *model, "--scores", stdin=lines).stdout
            self.assertEqual(scores, "0.000000 ||| \n" * len(UNSEEN), kind)
            self.assertEqual(checked("translate", "--documents", *model, stdin=lines).stdout, "\n" * len(UNSEEN), kind)

    def test_a_score_is_that_of_the_empty_line(self):
        for kind in ("char", "unigram"):
            model = ["--model", translator(kind), "--cpu-threads", 1, "--quiet"]
            marks = write("m.src", "".join(f"{mark}\nun\n" for mark in UNSEEN))
            others = write("m.trg", "".join(f"ke\n{mark}\n" for mark in UNSEEN))
            empty = write("n.src", "\nun\n" * len(UNSEEN))
            nothing = write("n.trg", "ke\n\n" * len(UNSEEN))
            for command in (["score"], ["filter"], ["align"]):
                with_marks = checked(*command, *model, "--train-sets", marks, others).stdout
                self.assertEqual(with_marks, checked(*command, *model, "--train-sets", empty, nothing).stdout, command)

    def test_filter_keeps_no_empty_side(self):
        source, target = write("f.src", "un\n\nke\n\u200b\nun ke\n"), write("f.trg", "\u3000\nke\nke\n\u00ad\nke un\n")
        for how in (["--keep", 1], ["--threshold", -1000]):
            log = checked("filter", "--model", translator("char"), "--train-sets", source, target, *how, "--output", F / "k.src",
                          F / "k.trg", "--cpu-threads", 1).stderr
            self.assertIn("kept 2 of 5 pairs; left out 3 with an empty side", log)
            self.assertEqual((F / "k.src").read_text(), "ke\nun ke\n")
            self.assertEqual((F / "k.trg").read_text(), "ke\nke un\n")

    def test_corpus_drops_them(self):
        good = [(f"a fine line {i} ama", f"eine gute zeile {i} bebi") for i in range(10)]
        pairs = [(mark, "one here") for mark in UNSEEN if mark != "\u2028\u0085"] + [("one there", "\u200d\ufe0f"), *good]
        out = checked("corpus", write("c.en", "".join(a + "\n" for a, _ in pairs)), write("c.de", "".join(b + "\n" for _, b in pairs)),
                      "--valid", 1, "--test", 1, "--output", F / "c").stderr
        self.assertRegex(out, rf"empty +-{len(UNSEEN)}\b")

    def test_columns_end_a_sentence(self):
        text = "ama V O\n{}\nAmax N B-PER\n{}\n"
        for mark in UNSEEN[:4]:
            report = checked("score", "--model", tagger(), "--cpu-threads", 1, "--quiet", "--train-sets",
                             write("t", text.format(mark, mark))).stdout
            self.assertTrue(report.startswith("processed 2 tokens with 1 phrases"), report)
            tagged = checked("tag", "--model", tagger(), "--cpu-threads", 1, "--quiet", stdin=f"ama\n{mark}\nAmax\n").stdout
            self.assertEqual([len(line.split(" ")) for line in (tagged.split("\n")[0], tagged.split("\n")[2])], [2, 2], tagged)
            self.assertEqual(checked("tag", "--model", tagger(), "--cpu-threads", 1, "--quiet", "--input-format", "text",
                                     stdin=f"{mark}\n").stdout, "\n")

    def test_captions_are_left_out(self):
        features = write("two.npy", npy((2, 3, 4), b"\0\0\x80\x3f" * 24, "<f4"))
        captions = write("two.tsv", "0\tun\n" + "".join(f"1\t{mark}\n" for mark in UNSEEN))
        translator("char")
        log = checked("train", "--task", "caption", "--model", F / "cap", "--features", features, "--captions", captions,
                      "--vocabs", F / "char.spm", "--dec-depth", 1, *SIZES[:-1]).stderr
        self.assertIn(f"left out {len(UNSEEN)} empty captions", log)
        self.assertIn("left out 1 image without captions", log)


class Normalisation(Refusals):
    LINES = ["\u4ed6\u8bf4\uff0c\u201c\u662f\uff01\u201d", "\u3000\u4ed6\u662f\u8c01\uff1f\uff08\u738b\uff09", "\u4ed6\u662f\u738b\u3002", "\u8c01\u8bf4\uff1a\u4e0d\uff1b"]

    def corpus(self):
        return write("zh.src", "a b c\n" * 20), write("zh.trg", "\n".join(self.LINES * 5) + "\n")

    def vocab(self, *options):
        return checked("vocab", "--train-sets", *self.corpus(), "--dim-vocabs", 24, "--output", F / "zh.spm", *options).stderr

    def train(self, *options):
        source, target = self.corpus()
        return checked("train", "--model", F / "zh", "--overwrite", "--train-sets", source, target, "--vocabs", F / "zh.spm",
                       F / "zh.spm", "--dec-depth", 1, *SIZES[:-1], *options).stderr

    def test_text_is_kept_without_a_word(self):
        for options in ([], ["--normalization", "identity"], ["--type", "bpe"]):
            self.assertNotIn("changes", self.vocab(*options))
            self.assertNotIn("changes", self.train())

    def test_a_change_of_many_lines_is_told(self):
        said = self.vocab("--normalization", "nfkc")
        self.assertRegex(said, r"--normalization nfkc changes 37\.50% of 40 lines, such as '.*\uff0c.*' to '.*,")
        said = self.train()
        self.assertRegex(said, r"\(nfkc\) changes target lines: 75\.00% of 20 lines, such as '.*\uff0c.*' to '.*,.*--normalization identity")
        said = self.train("--documents")
        self.assertIn("changes target lines: 75.00% of 20 lines", said)
        said = checked("train", "--task", "language", "--model", F / "zh-lm", "--overwrite", "--train-sets", self.corpus()[1],
                       "--vocabs", F / "zh.spm", "--dec-depth", 1, "--segment-length", 32, *SIZES[:2], *SIZES[4:-1]).stderr
        self.assertIn("changes lines: 75.00% of 20 lines", said)
        features = write("one.npy", npy((1, 3, 4), b"\0\0\x80\x3f" * 12, "<f4"))
        said = checked("train", "--task", "caption", "--model", F / "zh-cap", "--overwrite", "--features", features, "--captions",
                       write("zh.tsv", "".join(f"0\t{line}\n" for line in self.LINES)), "--vocabs", F / "zh.spm", "--dec-depth", 1,
                       *SIZES[:-1]).stderr
        self.assertIn("changes captions: 75.00% of 4 lines", said)

    def test_a_wrong_name_is_refused(self):
        command = ["vocab", "--train-sets", *self.corpus(), "--output", F / "no.spm"]
        self.refused(*command, "--normalization", "nfc", says=["'nfc'", "identity"], code=2)
        self.refused(*command, "--type", "word", "--normalization", "nfkc", says="--normalization nfkc: is for --type unigram and bpe")

    def test_evaluate_hints_at_the_tokenizer(self):
        zh, ja, en = write("r.zh", self.LINES[0] + "\n"), write("r.ja", "\u3053\u308c\u306f\u672c\u3067\u3059\u3002\n"), write("r.en", "a b c d e\n")
        for path, better in ((zh, "zh"), (ja, "char")):
            told = checked("evaluate", "--reference", path, "--input", path).stderr
            self.assertIn(f"BLEU needs --tokenize {better}", told)
            result = checked("evaluate", "--reference", path, "--input", path, "--tokenize", better, "--score-only")
            self.assertEqual((result.stdout, result.stderr), ("100.00\n", ""))
            self.assertEqual(checked("evaluate", "--reference", path, "--input", path, "--metrics", "chrf").stderr, "")
        self.assertEqual(checked("evaluate", "--reference", en, "--input", en).stderr, "")

    def test_validation_too(self):
        self.vocab()
        valid = ["--valid-sets", *self.corpus(), "--valid-freq", 2]
        self.assertIn("BLEU needs --valid-tokenize zh", self.train(*valid))
        self.assertNotIn("BLEU needs", self.train(*valid, "--valid-tokenize", "zh"))
        self.assertNotIn("BLEU needs", self.train(*valid, "--valid-metrics", "chrf"))


if __name__ == "__main__":
    unittest.main(verbosity=1)

#!/usr/bin/env python3
"""corpus, vocab and evaluate: what they make and what they refuse."""
import gzip
import os
import resource
import shutil
import subprocess
import unittest

from fovea_program import PROGRAM, Refusals, Workplace, checked

PLACE = Workplace()


class Corpus(Refusals):
    def test_evaluate_and_corpus(self):
        reference = PLACE.sides["test"][1]
        evaluate = ["evaluate", "--reference", reference]
        self.refused(*evaluate, says=["50", "1"], stdin="one line\n")
        self.refused(*evaluate, "--compound-split", says="got the metric bleu; expected multi-bleu", code=2)
        self.refused(*evaluate, "--baseline", PLACE.folder / "none", says="--baseline: no such file", code=1)
        compared = checked(*evaluate, "--input", reference, "--baseline", PLACE.sides["test"][0]).stdout
        self.assertRegex(compared, r"\n\nbaseline .*test.src:\n  BLEU  .*; difference \+\d.*, p = 0\.\d{4}\n$")
        self.refused("corpus", PLACE.folder / "none.tsv", "--output", PLACE.folder / "c", says="no such file")
        tmx = PLACE.folder / "bad.tmx"
        tmx.write_text("<tmx><body><tu>")
        self.refused("corpus", tmx, "--languages", "en", "de", "--output", PLACE.folder / "c", says="bad.tmx")
        self.refused("corpus", "--generate", 10, "--output", PLACE.folder / "c", "--log", PLACE.folder / "c" / "train.src",
                     says="would be a file of the corpus", code=2)
        self.refused("corpus", "-l", "en", "de", tmx, "--output", PLACE.folder / "c", says="bad.tmx")
        self.refused("corpus", "-l", "en", "de", "-l", "fr", says="--languages: got 3 values; expected at most 2", code=2)
        tmx.write_text("<?xml version='1.0' encoding='x-klingon'?><tmx/>")
        self.refused("corpus", tmx, "--output", PLACE.folder / "c", says=["'x-klingon'", "iconv"])
        self.assertFalse((PLACE.folder / "c").exists(), "an empty folder was left")
        checked("corpus", "--generate", 10, "--valid", 1, "--test", 1, "--output", PLACE.folder / "c", "--log",
                PLACE.folder / "c" / "corpus.log")
        self.assertIn("pairs read", (PLACE.folder / "c" / "corpus.log").read_text())

    def test_a_file_is_cut_by_bytes(self):
        text, output = PLACE.folder / "bytes.txt", PLACE.folder / "cut"
        text.write_bytes(b"0123456789\n")
        command = ["corpus", "--split-bytes", 5, 3, 2, text, "--output", output]
        self.assertIn("has more bytes, which are in none of them", checked(*command).stderr)
        self.assertEqual([(output / f"{part}.txt").read_bytes() for part in ("train", "valid", "test")], [b"01234", b"567", b"89"])
        self.refused("corpus", "--split-bytes", 5, 5, 5, text, "--output", output, says=["has 11 bytes", "at least 15"])
        self.refused(*command, "--languages", "en", "de", says="--languages: is for parallel text; got it beside --split-bytes", code=2)
        self.refused(*command, text, says="got 2 files; expected one", code=2)
        self.refused("corpus", "--split-bytes", 5, text, "--output", output, says="--split-bytes", code=2)

    def test_a_corpus_is_replaced_as_a_whole(self):
        output = PLACE.folder / "replaced"
        command = ["corpus", "--generate", 1000, "--valid", 5, "--test", 5, "--output", output, "--seed"]
        checked(*command, 1)
        before = {path.name: path.read_bytes() for path in output.iterdir()}
        sizes = sorted(len(before[f"train.{side}"]) for side in ("src", "trg"))
        limit = sum(sizes) // 2
        self.refused(*command, 2, says="File too large",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual({path.name: path.read_bytes() for path in output.iterdir()}, before)

    def test_an_earlier_corpus_is_named_before_it_is_replaced(self):
        output = PLACE.folder / "earlier"
        command = ["corpus", "--generate", 100, "--valid", 5, "--test", 5, "--output", output, "--languages", "en", "de", "--seed"]
        self.assertNotIn("replacing", checked(*command, 1).stderr)
        said = checked(*command, 2).stderr
        files = ", ".join(f"{output}/{part}.{side}" for part in ("train", "valid", "test") for side in ("en", "de", "align"))
        self.assertIn(f"replacing an earlier corpus: {files}\n", said)

    def test_markup_that_goes_is_told(self):
        sides = [PLACE.folder / f"tags.{side}" for side in ("en", "de")]
        sides[0].write_text("Use List<String> here now.\nR&amp;D is a word here.\nThe old house is red today.\n")
        sides[1].write_text("Nimm jetzt List<String> hier.\nR&amp;D ist hier ein Wort.\nDas alte Haus ist heute rot.\n")
        said = checked("corpus", *sides, "--valid", 0, "--test", 0, "--output", PLACE.folder / "tags").stderr
        self.assertRegex(said, r"markup removed; --keep-markup keeps it +1\n")
        self.assertRegex(said, r"entities decoded; --keep-markup keeps them +1\n")

    def test_a_corpus_does_not_follow_links_in_its_folder(self):
        output, mine = PLACE.folder / "theirs", PLACE.folder / "mine.txt"
        mine.write_text("precious")
        text = PLACE.folder / "ten.txt"
        text.write_text("0123456789")
        for command, name in ((["--generate", 100, "--valid", 5, "--test", 5], "valid.trg"), (["--split-bytes", 5, 3, 2, text], "test.txt")):
            output.mkdir()
            (output / name).symlink_to(mine)
            self.refused("corpus", *command, "--output", output, says=[f"--output: '{output / name}' is a link to '{mine}'"])
            self.assertEqual(mine.read_text(), "precious")
            shutil.rmtree(output)

    def test_archives_that_fill_the_memory_are_refused(self):
        bomb = PLACE.folder / "bomb.gz"
        bomb.write_bytes(gzip.compress(b"\0" * (110 << 20), 6))
        command = ["vocab", "--output", PLACE.folder / "bomb.spm", "--train-sets", bomb]
        self.refused(*command, says="grows to more than 500 times its size")
        bomb.write_bytes(b"")
        os.truncate(bomb, 130 << 20)  # zeros that take no place on the disk
        self.refused(*command, says="line 1: has more than 134,217,728 bytes")
    def test_the_corpus_before_is_named(self):
        output = PLACE.folder / "again"
        names = lambda: sorted(path.name for path in output.iterdir())
        parts = lambda *sides: [f"{part}.{side}" for part in ("test", "train", "valid") for side in sides]
        checked("corpus", "--generate", 100, "--valid", 5, "--test", 5, "--output", output, "--languages", "en", "de")
        for part in ("train", "valid", "test"):
            shutil.copy(output / f"{part}.de", output / f"{part}.tok")
            (output / f"{part}.nl").write_text("of another corpus\n" * 7)
        po = PLACE.folder / "messages.fr.po"
        po.write_text("".join(f'msgid "The {word} house is old."\nmsgstr "La maison {word} est vieille."\n\n'
                              for word in ("red", "green", "blue", "small", "large")))
        command = ["corpus", po, "--valid", 1, "--test", 1, "--output", output]
        said = checked(*command).stderr
        self.assertIn("does not say its language; its name says fr", said)
        others = ", ".join(f"{part}.{side}" for side in ("align", "de", "nl", "tok") for part in ("train", "valid", "test"))
        self.assertIn(f"also has {others}, which this call did not write", said)
        self.assertEqual(names(), sorted(parts("align", "de", "en", "fr", "nl", "tok")))
        text = PLACE.folder / "bytes.cut"
        text.write_bytes(b"0123456789")
        self.assertIn("also has train.align", checked("corpus", "--split-bytes", 5, 3, 2, text, "--output", output).stderr)
        self.assertEqual(names(), sorted(parts("align", "de", "en", "fr", "nl", "tok", "txt")))

    def test_options_that_are_not_read(self):
        generate = ["corpus", "--generate", 10, "--valid", 1, "--test", 1, "--output", PLACE.folder / "unread"]
        for option in (["--format", "po"], ["--min-words", 2], ["--keep-markup"], ["--sentences", "split"], ["--source-column", 3]):
            self.refused(*generate, *option, says=f"{option[0]}: is for text that is read", code=2)
        self.refused("corpus", *PLACE.sides["train"], "--target-column", 3, "--output", PLACE.folder / "unread",
                     says="--target-column: is for TSV files; got none", code=2)

    def test_columns_of_tsv_are_told(self):
        table, output = PLACE.folder / "columns.tsv", PLACE.folder / "columns"
        pairs = list(zip(*(path.read_text().splitlines() for path in PLACE.sides["train"])))[:40]
        table.write_text("".join(f"doc-{number}\t{source}\t{target}\n" for number, (source, target) in enumerate(pairs)))
        command = ["corpus", table, "--languages", "en", "de", "--valid", 2, "--test", 2, "--output", output]
        said = checked(*command).stderr
        self.assertIn("has 3 columns; source is column 1 and target column 2 (--source-column, --target-column)", said)
        self.assertIn("column 1 looks like ids, not text, for example 'doc-0'; --source-column names another column", said)
        said = checked(*command, "--source-column", 2, "--target-column", 3).stderr
        self.assertIn("source is column 2 and target column 3", said)
        self.assertNotIn("looks like ids", said)
        table.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
        self.assertNotIn(" columns;", checked(*command).stderr)

    def test_vocab_says_how_many_pieces(self):
        said = checked("vocab", "--train-sets", *PLACE.sides["train"], "--dim-vocabs", 1000, "--output", PLACE.folder / "big.spm").stderr
        self.assertIn(": 1,000 pieces", said)

    def test_vocab_of_words_and_characters(self):
        text, output = PLACE.folder / "counted.txt", PLACE.folder / "counted.spm"
        text.write_text("the  cat @-@ sat\nthe cat\n")
        command = ["vocab", "--train-sets", text, "--output", output]
        said = checked(*command, "--type", "word").stderr
        self.assertIn("taking 4 of 4 different words, which make up 100.00% of the text's 6\n", said)
        self.assertIn(": 6 pieces\n", said)
        said = checked(*command, "--type", "word", "--dim-vocabs", 4).stderr
        self.assertIn("taking 2 of 4 different words, which make up 66.67% of the text's 6\n", said)
        self.assertIn("taking 9 of 9 different characters", checked(*command, "--type", "char", "--dim-vocabs", 8000).stderr)
        self.refused(*command, "--type", "char", "--byte-fallback", says="--byte-fallback: is for --type unigram and bpe; got --type char")
        self.refused(*command, "--type", "word", "--dim-vocabs", 2, says="--dim-vocabs: got 2; expected 0, the default, or at least 3")
        self.refused(*command, "--type", "words", says="expected one of unigram, bpe, word, char; did you mean 'word'?", code=2)
        text.write_bytes(b"a\nb\xff\n")
        self.refused(*command, "--type", "char", says="counted.txt', line 2: is not UTF-8")

    def test_vocab_into_a_pipe(self):
        command = ["vocab", "--train-sets", *PLACE.sides["train"], "--dim-vocabs", 300, "--output"]
        with subprocess.Popen([PROGRAM, *map(str, command), "/dev/stdout"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as vocab:
            try:
                model = vocab.communicate(timeout=60)[0]
            finally:
                vocab.kill()
        self.assertEqual(model, PLACE.vocab.read_bytes())


if __name__ == "__main__":
    unittest.main(verbosity=2)

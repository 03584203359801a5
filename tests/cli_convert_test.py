#!/usr/bin/env python3
"""Translation models of Marian. tests/formats holds tiny models that Marian 1.12 trained on made-up text, with self-attention
and with an SSRU in the decoder: of those with norms after the blocks the three best translations that Marian gave, and their
scores, of those with norms before them the cross-entropy that it printed."""
import json
import shutil
import unittest

from foreign_models import F, HERE, PIECES, SOURCE, SPM, best, changed, from_marian, pieces_of, spm_pieces, translated, with_option
from fovea_program import TINY, Refusals, checked
from served_program import Served


class Marian(Refusals):
    def test_translations_and_scores_are_marians(self):
        ours, theirs = best(translated(from_marian("post", F / "post"))), best((HERE / "marian-post.txt").read_text())
        # The third hypothesis of the last sentence is another one: Marian ends a search at another moment.
        self.assertEqual([row[:2] for row in ours][:-1], [row[:2] for row in theirs][:-1])
        for mine, his in zip(ours[:-1], theirs):
            # Marian prints six digits of a sum of about ten numbers that float32 rounds.
            self.assertAlmostEqual(mine[2], his[2], delta=1e-5 * abs(his[2]))

    def test_cross_entropy_is_marians(self):
        """Norms before the blocks, and no tied table. Marian printed: cross-entropy : 8.06584."""
        self.assertAlmostEqual(self.cross_entropy(from_marian("pre", F / "pre")), 8.06584, delta=5e-5)

    @staticmethod
    def cross_entropy(model, *options):
        scores = checked("score", "--model", model, "--train-sets", HERE / "valid.src", HERE / "valid.trg", "--cpu-threads",
                         1, "--quiet", *options).stdout.split()
        return -sum(map(float, scores)) / len(scores)

    def test_recurrent_decoders_are_marians(self):
        model = from_marian("ssru-post", F / "ssru-post")
        ours, theirs = best(translated(model)), best((HERE / "marian-ssru-post.txt").read_text())
        # The best ones are the same. Behind them this model, whose training was short, has short translations far from
        # long ones, and Marian ends its search at another moment; but a translation that both list has one score.
        self.assertEqual([row[:2] for row in ours[::3]], [row[:2] for row in theirs[::3]])
        marian = {row[:2]: row[2] for row in theirs}
        common = [row for row in ours if row[:2] in marian]
        self.assertGreater(len(common), 0.8 * len(ours))
        for row in common:
            self.assertAlmostEqual(row[2], marian[row[:2]], delta=1e-5 * abs(row[2]))
        # Norms before the blocks; Marian printed: cross-entropy : 17.8657.
        self.assertAlmostEqual(self.cross_entropy(from_marian("ssru-pre", F / "ssru-pre")), 17.8657, delta=1e-4)

    def test_tied_layers_and_no_projections_are_marians(self):
        """An SSRU, transformer-tied-layers [1, 1], transformer-no-projection. Marian printed: cross-entropy : 67.89."""
        model = from_marian("ssru-tied", F / "ssru-tied")
        self.assertAlmostEqual(self.cross_entropy(model), 67.89, delta=5e-3)

    def test_scores_of_int8_are_near(self):
        for name in ("post", "ssru-post"):
            model = from_marian(name, F / f"int8-{name}")
            exact, rounded = self.cross_entropy(model), self.cross_entropy(model, "--precision", "int8")
            self.assertNotEqual(exact, rounded)
            self.assertAlmostEqual(rounded, exact, delta=0.05 * exact)

    def test_what_shows_attention_says_that_a_recurrent_decoder_has_none(self):
        model = from_marian("ssru-post", F / "ssru-shown")
        pair = ("--train-sets", HERE / "valid.src", HERE / "valid.trg")
        log = checked("analyze", "--model", model, *pair).stderr
        self.assertIn("has an SSRU in the place of self-attention: only the encoder and cross-attention are shown", log)
        costs = checked("analyze", "--model", model, "--cost").stdout
        self.assertIn("cross", costs)
        self.assertNotIn("decoder", costs)
        checked("report", "--model", model, *pair, "--output", F / "ssru.html")
        self.assertIn("recurrent (ssru), no self-attention", (F / "ssru.html").read_text())
        self.assertEqual(len(checked("align", "--model", model, *pair).stdout.splitlines()), 40)
        self.assertTrue(checked("analyze", "--model", model, "--source", SOURCE.splitlines()[0]).stdout)
        self.refused("translate", "--model", model, "--attention-decoder", "topk(2)", says="no self-attention in its decoder",
                     code=2)
        for system, name in (("huggingface", "MarianMTModel"), ("ctranslate2", "CTranslate2")):
            self.refused("convert", "--to", system, model, "--output", F / "never", says=["SSRU", name])
        self.assertFalse((F / "never").exists())

    def test_a_recurrent_decoder_learns_on(self):
        model = from_marian("ssru-post", F / "ssru-learns")
        before = self.cross_entropy(model)
        options = ["--vocabs", SPM, SPM, "--dim-emb", 16, "--enc-depth", 2, "--dec-depth", 2, "--transformer-heads", 2,
                   "--transformer-dim-ffn", 32, "--tied-embeddings-all", "--transformer-ffn-activation", "swish",
                   "--transformer-positions", "sinusoidal(first=0)", "--decoder-start", "zeros", "--norm-epsilon", "1e-6",
                   "--transformer-norm", "post", "--transformer-norm-kind", "layer", "--transformer-decoder-autoreg", "ssru",
                   "--after-batches", 60, "--learn-rate", 0.003, "--lr-warmup", 1, "--cpu-threads", 1]
        texts = ("--train-sets", HERE / "valid.src", HERE / "valid.trg")
        log = checked("train", "--model", F / "ssru-run", "--pretrained-model", model, *texts, *options).stderr
        self.assertNotIn("compute something else", log)
        self.assertLess(self.cross_entropy(F / "ssru-run"), 0.8 * before)
        self.refused("train", "--model", F / "ssru-never", *texts, *options, "--attention-decoder", "topk(8)",
                     says="has no self-attention, so leave it out", code=2)

    def test_a_converted_model_learns_on_and_takes_other_mechanisms(self):
        model = from_marian("post", F / "learns")
        (F / "train.src").write_text(SOURCE * 4)
        (F / "train.trg").write_text("das alt Haus .\n" * len(SOURCE.splitlines()) * 4)
        log = checked("train", "--model", F / "run", "--pretrained-model", model, "--train-sets", F / "train.src",
                      F / "train.trg", "--vocabs", SPM, SPM, "--dim-emb", 16, "--enc-depth", 2, "--dec-depth", 2,
                      "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--tied-embeddings-all",
                      "--transformer-ffn-activation", "swish", "--transformer-positions", "sinusoidal(first=0)",
                      "--decoder-start", "zeros", "--norm-epsilon", "1e-6", "--transformer-norm", "post", "--transformer-norm-kind", "layer", "--attention", "topk(8)", "--after-batches",
                      30, "--learn-rate", 0.01, "--lr-warmup", 1, "--cpu-threads", 1).stderr
        self.assertNotIn("compute something else", log)
        text = checked("translate", "--model", F / "run", "--cpu-threads", 1, "--quiet", stdin=SOURCE).stdout
        self.assertIn("das alt Haus .", text)
        sparse = translated(model, "--attention", "topk(1)")
        self.assertNotEqual(sparse, translated(model))

    def test_numbers_of_pieces_that_are_not_the_models(self):
        """OPUS-MT's files: a SentencePiece model for each side, and the numbers in a file of their own."""
        pieces = spm_pieces()
        swapped = {piece: i for i, piece in enumerate(pieces)}
        swapped[pieces[7]], swapped[pieces[9]] = 9, 7
        (F / "vocab.json").write_text(json.dumps(swapped))
        (F / "vocab.yml").write_text("".join(f"{json.dumps(piece)}: {i}\n" for piece, i in swapped.items()))
        texts = []
        for ids in ("vocab.json", "vocab.yml"):
            checked("convert", "--from", "marian", HERE / "marian-post.npz", "--vocabs", SPM, SPM, "--vocab-ids", F / ids,
                    "--output", F / f"ids-{ids}")
            texts.append(translated(F / f"ids-{ids}"))
        self.assertEqual(*texts)
        self.assertNotEqual(texts[0], translated(from_marian("post", F / "plain")))

    def marked_model(self):
        """A model whose vocabulary has a mark of a language in the place of a piece that the test does not use."""
        if not (F / "marks").exists():
            pieces = spm_pieces()
            unused = next(piece for piece in reversed(pieces) if piece not in sum(pieces_of(["das alt Haus"]), []))
            (F / "marks.json").write_text(json.dumps({">>fra<<" if piece == unused else piece: i for i, piece in enumerate(pieces)}))
            checked("convert", "--from", "marian", HERE / "marian-post.npz", "--vocabs", SPM, SPM, "--vocab-ids", F / "marks.json",
                    "--output", F / "marks")
        return F / "marks"

    def test_a_mark_of_the_language_stands_before_the_pieces_of_a_line(self):
        """OPUS-MT puts >>fra<< before the pieces of a source, and so does MarianTokenizer of transformers, which gave these."""
        for line in (">>fra<< das alt Haus", ">>fra<<das alt Haus"):
            text = checked("embed", "--model", self.marked_model(), "--pieces", stdin=line + "\n").stdout
            self.assertEqual(text.split(), [">>fra<<", *pieces_of(["das alt Haus"])[0], "</s>"])
        links = checked("translate", "--model", F / "marks", "--alignment", "--cpu-threads", 1, "--quiet",
                        stdin=">>fra<< das alt Haus\n").stdout.split(" ||| ")[1]
        self.assertLessEqual({int(link.split("-")[0]) for link in links.split()}, {0, 1, 2, 3})

    def test_a_server_puts_the_mark_before_each_sentence_of_a_text(self):
        with Served("--model", self.marked_model(), "--quiet") as server:
            def ask(text, **options):
                status, answer, _ = server.post("/translate", {"text": text, "alignment": True, **options})
                self.assertEqual(status, 200, answer)
                return answer["translations"][0]

            alone = [ask(f">>fra<< {line}") for line in ("das alt Haus.", "Haus alt.")]
            both = ask(">>fra<< das alt Haus.\n\nHaus alt.", split=True)
            self.assertEqual([sentence["text"] for sentence in both["sentences"]], [sentence["text"] for sentence in alone])
            self.assertNotEqual(alone[1]["text"], ask("Haus alt.")["text"])
            self.assertEqual(both["text"], f"{alone[0]['text']}\n\n{alone[1]['text']}")
            # The second sentence was sent without the mark, so its first word has the number 0.
            shifted = [tuple(map(int, link.split("-"))) for link in alone[1]["alignment"].split()]
            self.assertEqual(both["sentences"][0]["alignment"], alone[0]["alignment"])
            self.assertEqual(both["sentences"][1]["alignment"], " ".join(f"{s - 1}-{t}" for s, t in shifted if s > 0))
            tags = ask(">>fra<< <b>das</b> alt Haus.<p><b>Haus</b> alt.</p>", split=True, format="html")["text"]
            self.assertEqual(tags.count("<b>"), 2, tags)

    def test_a_vocabulary_of_words_is_not_split_alike(self):
        text, vocab = F / "words.txt", F / "words.spm"
        text.write_text(SOURCE)
        for kind, units in (("word", "words"), ("char", "characters")):
            checked("vocab", "--type", kind, "--train-sets", text, "--output", vocab)
            checked("train", "--model", F / kind, "--train-sets", text, text, "--vocabs", vocab, vocab, *TINY, "--after-batches", 1,
                    "--transformer-norm-kind", "layer", "--transformer-positions", "sinusoidal",
                    "--transformer-ffn-activation", "relu", "--quiet")
            for form, model, output in (("--to", kind, "folder"), ("--from", f"{kind}-folder", "back")):
                log = checked("convert", form, "ctranslate2", F / model, "--output", F / f"{kind}-{output}").stderr
                self.assertIn(f"the vocabulary is one of {units}: other systems read neighbouring unknown {units} as one", log)

    def test_another_name_of_the_end_is_refused(self):
        """A SentencePiece model whose end of a sentence is <e/>: its piece and trainer_spec.eos_piece say so."""
        text, vocab = F / "end.txt", F / "end.spm"
        text.write_text(SOURCE)
        vocab.write_bytes(SPM.read_bytes().replace(b"</s>", b"<e/>") + b"\x12\x07\xfa\x02\x04<e/>")
        checked("train", "--model", F / "end", "--train-sets", text, text, "--vocabs", vocab, vocab, *TINY, "--after-batches", 1,
                "--transformer-norm", "post", "--transformer-norm-kind", "layer", "--transformer-positions",
                "sinusoidal(first=0,paper)", "--decoder-start", "zeros", "--transformer-ffn-activation", "relu", "--quiet")
        for form in ("huggingface", "ctranslate2"):
            self.refused("convert", "--to", form, F / "end", "--output", F / "never",
                         says=f"--to {form}: the vocabulary has the piece '<e/>' in the place of </s>")
            self.assertFalse((F / "never").exists())

    def refused_model(self, path, says, *options):
        vocabs = options or ("--vocabs", SPM, SPM)
        self.refused("convert", "--from", "marian", path, *vocabs, "--output", F / "never", says=says)
        self.assertFalse((F / "never").exists())
        shutil.rmtree(F / "never", ignore_errors=True)

    def test_bad_files(self):
        whole = (HERE / "marian-post.npz").read_bytes()
        for size in (0, 10, len(whole) // 2, len(whole) - 30):
            (F / "cut.npz").write_bytes(whole[:size])
            self.refused_model(F / "cut.npz", "cut.npz'")
        flipped = bytearray(whole)
        flipped[5000] ^= 1
        (F / "flipped.npz").write_bytes(flipped)
        self.refused_model(F / "flipped.npz", "damaged")
        (F / "model.bin").write_bytes(whole)
        self.refused_model(F / "model.bin", "convert the .npz")
        self.refused_model(F / "nowhere.npz", "no such file")
        self.refused_model(HERE / "marian-post.npz", "--vocabs: got 0 files", "--log-level", "info")

    def test_bad_tensors(self):
        def drop(arrays):
            del arrays["encoder_l2_self_Wq.npy"]

        def add(arrays):
            arrays["encoder_l3_self_Wq.npy"] = arrays["encoder_l2_self_Wq.npy"]

        def reshape(arrays):
            arrays["decoder_l1_ffn_W1.npy"] = arrays["encoder_l2_self_Wq.npy"]

        self.refused_model(changed("missing.npz", drop), "'encoder_l2_self_Wq' is missing")
        self.refused_model(changed("extra.npz", add), "the first 'encoder_l3_self_Wq'")
        self.refused_model(changed("shape.npz", reshape), ["'decoder_l1_ffn_W1'", "[16, 32]"])

    def test_bad_options(self):
        cases = [("transformer-ffn-activation: swish", "transformer-ffn-activation: prelu", "transformer-ffn-activation: got 'prelu'"),
                 ("transformer-decoder-autoreg: self-attention", "transformer-decoder-autoreg: average-attention", "transformer-decoder-autoreg: got 'average-attention'"),
                 ("transformer-decoder-autoreg: self-attention", "transformer-decoder-autoreg: rnn", "dec-cell: got 'gru'"),
                 ("transformer-tied-layers:\n  []", "transformer-tied-layers:\n  - 2\n  - 1", "transformer-tied-layers: got '2 1'"),
                 ("transformer-tied-layers:\n  []", "transformer-tied-layers:\n  - 1", "transformer-tied-layers: got '1'"),
                 ("type: transformer\n", "type: s2s\n", "type: got 's2s'"),
                 ("transformer-postprocess: dan", "transformer-postprocess: dax", "transformer-postprocess: got 'dax'"),
                 ("transformer-heads: 2", "transformer-heads: 3", "transformer-heads"),
                 ("right-left: false", "right-left: true", "right-left: got 'true'"),
                 ("transformer-attention-mask: default", "transformer-attention-mask: alibi", "transformer-attention-mask: got 'alibi'"),
                 ("transformer-disable-position-embeddings: false", "transformer-disable-position-embeddings: true",
                  "transformer-disable-position-embeddings: got 'true'"),
                 ("enc-depth: 2", "enc-depth: two", "enc-depth: got 'two'"),
                 ("dim-emb: 16", "dim-emb: [", "special:model.yml: not YAML")]
        for old, new, says in cases:
            self.refused_model(changed("options.npz", with_option(old, new)), says)

        def no_options(arrays):
            del arrays["special:model.yml.npy"]

        self.refused_model(changed("bare.npz", no_options), "special:model.yml")
        checked("vocab", "--train-sets", HERE / "source.txt", "--type", "char", "--output", F / "other.spm")
        self.refused_model(HERE / "marian-post.npz", f"{PIECES} rows", "--vocabs", SPM, F / "other.spm")

    def test_bad_numbers(self):
        numbers = {piece: i for i, piece in enumerate(spm_pieces())}
        for name, change, says in (("twice", {"a": 3}, "both have the number 3"), ("gap", {"a": 500}, "belongs to no piece"),
                                   ("text", {"a": "x"}, "'a'")):
            (F / "bad.json").write_text(json.dumps({**numbers, **change}))
            self.refused_model(HERE / "marian-post.npz", says, "--vocabs", SPM, SPM, "--vocab-ids", F / "bad.json")
        self.refused("convert", "--from", "marian", "x.npz", "--to", "ctranslate2", "--output", F / "y", says="one of the two", code=2)
        self.refused("convert", "--to", "marian", F / "y", "--output", F / "z", says="--to", code=2)

if __name__ == "__main__":
    unittest.main(verbosity=2)

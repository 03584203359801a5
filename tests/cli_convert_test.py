#!/usr/bin/env python3
"""Translation models of other systems. tests/formats holds tiny models that Marian 1.12 trained on made-up text, with
self-attention and with an SSRU in the decoder: of those with norms after the blocks the three best translations that Marian
gave, and their scores, of those with norms before them the cross-entropy that it printed. Hugging
Face's and CTranslate2's models are made here, and their libraries are the reference."""
import json
import pathlib
import shutil
import struct
import tempfile
import unittest
import unittest.mock
import zipfile

from bert_commands import lacks
from bert_folder import read_safetensors, write_safetensors
from fovea_program import Refusals, checked

try:
    import torch
except ImportError:
    torch = None

HERE = pathlib.Path(__file__).resolve().parent / "formats"
F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
SPM = HERE / "marian.spm"
SOURCE = (HERE / "source.txt").read_text()
PIECES = 70


def from_marian(name, output):
    checked("convert", "--from", "marian", HERE / f"marian-{name}.npz", "--vocabs", SPM, SPM, "--output", output)
    return output


def best(text):
    """(sentence, translation, score) of each line of an n-best list."""
    rows = [line.split(" ||| ") for line in text.splitlines()]
    return [(int(row[0]), row[1].strip(), float(row[-1])) for row in rows]


def translated(model, *options):
    return checked("translate", "--model", model, "--beam-size", 3, "--n-best", "--normalize", 0, "--max-length-factor", 3,
                   "--cpu-threads", 1, "--quiet", *options, stdin=SOURCE).stdout


def spm_pieces():
    """The pieces of a SentencePiece model by number, read from its bytes."""
    def number(data, at):
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value, at

    data, at, pieces = SPM.read_bytes(), 0, []
    while at < len(data):
        tag, at = number(data, at)
        size, at = number(data, at)
        message, at = data[at:at + size], at + size
        if tag >> 3 == 1:
            length, start = number(message, 1)
            pieces.append(message[start:start + length].decode())
    return pieces


def pieces_of(lines):
    """The pieces of each line, as a converted model splits it."""
    if not (F / "splitter").exists():
        from_marian("post", F / "splitter")
    text = checked("embed", "--model", F / "splitter", "--pieces", stdin="".join(line + "\n" for line in lines)).stdout
    return [[piece for piece in line.split() if piece != "</s>"] for line in text.splitlines()]


def with_option(old, new):
    """A change of changed() that replaces lines of the options. One zero byte ends them, as CTranslate2's converter expects."""
    def change(arrays):
        data = arrays["special:model.yml.npy"]
        start = data.index(b"\n") + 1
        assert old.encode() in data[start:], old
        text = data[start:].rstrip(b"\0").replace(old.encode(), new.encode()) + b"\0"
        header = b"{'descr': '|i1', 'fortran_order': False, 'shape': (%d,), }" % len(text)
        header = header.ljust(117) + b"\n"
        arrays["special:model.yml.npy"] = b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + text
    return change


def changed(name, change):
    """A copy of a model whose arrays `change` may alter: {name in the archive: bytes}."""
    with zipfile.ZipFile(HERE / "marian-post.npz") as archive:
        arrays = {entry: archive.read(entry) for entry in archive.namelist()}
    change(arrays)
    with zipfile.ZipFile(F / name, "w") as archive:
        for entry, data in arrays.items():
            archive.writestr(entry, data)
    return F / name


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


def tensors_of(folder):
    return read_safetensors(folder / "model.safetensors")


@lacks("torch", "transformers")
class HuggingFace(Refusals):
    @classmethod
    def setUpClass(cls):
        from transformers import MarianConfig, MarianMTModel
        torch.manual_seed(1)
        pad = PIECES
        config = MarianConfig(vocab_size=PIECES + 1, d_model=16, encoder_layers=2, decoder_layers=3, encoder_attention_heads=2,
                              decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
                              pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, scale_embedding=True,
                              forced_eos_token_id=0)
        cls.model = MarianMTModel(config).eval()
        with torch.no_grad():
            for name, parameter in cls.model.named_parameters():
                if "embed_positions" not in name:
                    parameter.normal_(std=0.3).add_(1 if "layer_norm.weight" in name else 0)
            cls.model.model.shared.weight[pad] = 0
            cls.model.final_logits_bias.normal_()
        cls.folder = F / "hugging-face"
        cls.model.save_pretrained(cls.folder)
        cls.vocabulary = {piece: i for i, piece in enumerate(spm_pieces())}
        cls.vocabulary["<pad>"] = pad
        (cls.folder / "vocab.json").write_text(json.dumps(cls.vocabulary))
        for side in ("source", "target"):
            shutil.copy(SPM, cls.folder / f"{side}.spm")
        checked("convert", "--from", "huggingface", cls.folder, "--output", F / "from-hugging-face")

    def test_probabilities_are_transformers(self):
        targets = ["das alt Haus .", "heute das rot Baum sieht das Vogel .", ""]
        sources = SOURCE.splitlines()[:3]
        (F / "pairs.src").write_text("\n".join(sources) + "\n")
        (F / "pairs.trg").write_text("\n".join(targets) + "\n")
        got = [float(line) for line in checked("score", "--model", F / "from-hugging-face", "--train-sets", F / "pairs.src",
                                               F / "pairs.trg", "--cpu-threads", 1, "--quiet").stdout.split()]
        for i, (source, target) in enumerate(zip(sources, targets)):
            ids = [[self.vocabulary[piece] for piece in line] + [0] for line in pieces_of([source, target])]
            with torch.no_grad():
                logits = self.model(input_ids=torch.tensor([ids[0]]), labels=torch.tensor([ids[1]])).logits
            expected = logits.log_softmax(-1)[0].gather(1, torch.tensor(ids[1]).unsqueeze(1)).sum().item()
            self.assertAlmostEqual(got[i], expected, delta=1e-4)

    def test_there_and_back_is_the_same_tensors(self):
        checked("convert", "--to", "huggingface", F / "from-hugging-face", "--output", F / "again")
        first, second = tensors_of(self.folder), tensors_of(F / "again")
        self.assertEqual(sorted(first), sorted(second))
        for name, tensor in first.items():
            self.assertTrue(torch.equal(tensor, second[name]), name)
        from transformers import MarianMTModel
        again = MarianMTModel.from_pretrained(F / "again").eval()
        ids = torch.tensor([[5, 6, 7, 0]])
        with torch.no_grad():
            self.assertTrue(torch.equal(again(input_ids=ids, labels=ids).logits, self.model(input_ids=ids, labels=ids).logits))

    def test_padding_is_never_written(self):
        """The padding's logit in OPUS-MT's folders is 0, which may be the best; bad_words_ids keeps transformers from it."""
        folder = F / "likely-padding"
        shutil.copytree(self.folder, folder)
        tensors = tensors_of(folder)
        tensors["final_logits_bias"][0, PIECES] = 30
        write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
        checked("convert", "--from", "huggingface", folder, "--output", F / "from-likely")
        got = checked("translate", "--model", F / "from-likely", "--beam-size", 1, "--allow-unk", "--cpu-threads", 1, "--quiet",
                      stdin=SOURCE).stdout.splitlines()[0]
        source = torch.tensor([[self.vocabulary[piece] for piece in pieces_of(SOURCE.splitlines()[:1])[0]] + [0]])
        words = [PIECES]
        while len(words) < 60 and words[-1] != 0:
            with torch.no_grad():
                logits = self.model(input_ids=source, decoder_input_ids=torch.tensor([words])).logits[0, -1]
            words.append(logits[:PIECES].argmax().item())
        expected = "".join(spm_pieces()[word] for word in words[1:] if word != 0).replace("\u2581", " ").strip()
        length = min(len(got), len(expected))
        self.assertTrue(got and got[:length] == expected[:length], (got, expected))

    def test_a_rate_of_null_is_a_missing_one(self):
        folder = F / "null"
        shutil.copytree(self.folder, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(dict(config, attention_dropout=None, activation_dropout=None)))
        checked("convert", "--from", "huggingface", folder, "--output", F / "from-null")
        self.assertEqual(*((F / name / "model.safetensors").read_bytes() for name in ("from-null", "from-hugging-face")))

    def test_refusals(self):
        def refused(field, value, says):
            folder = F / f"bad-{field}"
            shutil.copytree(self.folder, folder)
            config = json.loads((folder / "config.json").read_text())
            config[field] = value
            (folder / "config.json").write_text(json.dumps(config))
            self.refused("convert", "--from", "huggingface", folder, "--output", F / "never", says=says)

        refused("model_type", "bart", "model_type: got 'bart'")
        refused("d_model", 32, "has the shape")
        refused("normalize_before", True, "normalize_before")
        refused("scale_embedding", False, "scale_embedding")
        refused("decoder_ffn_dim", 64, "decoder_ffn_dim")
        refused("activation_function", "tanh", "activation_function")
        refused("decoder_start_token_id", 5, "decoder_start_token_id: got 5")
        refused("eos_token_id", 3, "eos_token_id: got 3")
        refused("decoder_layers", 2, "model.decoder.layers.2")
        from_marian("pre", F / "pre-norm")
        self.refused("convert", "--to", "huggingface", F / "pre-norm", "--output", F / "never", says="which MarianMTModel does not have")
        self.refused("convert", "--to", "huggingface", F / "from-hugging-face", "--precision", "bfloat16", "--output", F / "never",
                     says="--precision: got bfloat16; it is for language models", code=2)
        self.assertFalse((F / "never").exists())


@lacks("ctranslate2")
class CTranslate2(Refusals):
    def hypotheses(self, folder):
        import ctranslate2
        translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)
        pieces = pieces_of(SOURCE.splitlines())
        results = translator.translate_batch(pieces, beam_size=3, num_hypotheses=3, length_penalty=0, return_scores=True,
                                             max_decoding_length=40, min_decoding_length=0)
        return [("".join(words).replace("\u2581", " ").strip(), score) for result in results
                for words, score in zip(result.hypotheses, result.scores)]

    def converted_by_ctranslate2(self, npz, folder, **options):
        """Marian's positions and epsilon stand in the place of those that CTranslate2's converter assumes."""
        import numpy
        from ctranslate2.converters import marian

        def positions(dim, rows=2048):
            angles = numpy.arange(rows)[:, None] / 10000 ** (numpy.arange(dim // 2) / (dim // 2 - 1))
            return numpy.concatenate([numpy.sin(angles), numpy.cos(angles)], axis=1).astype(numpy.float32)

        vocabulary = F / "ct2-pieces.yml"
        vocabulary.write_text("".join(f"{json.dumps(piece, ensure_ascii=False)}: {i}\n" for i, piece in enumerate(spm_pieces())))
        with unittest.mock.patch.object(marian, "_make_sinusoidal_position_encodings", positions):
            marian.MarianConverter(str(npz), [str(vocabulary)] * 2).convert(str(folder), **options)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(dict(config, layer_norm_epsilon=1e-6)))

    def test_it_computes_what_fovea_does(self):
        for name in ("post", "pre"):
            model, folder = from_marian(name, F / f"{name}-model"), F / f"{name}-ct2"
            checked("convert", "--to", "ctranslate2", model, "--output", folder)
            ours = [(text, score) for _, text, score in best(translated(model, "--max-length", 40))]
            theirs = self.hypotheses(folder)
            for (text, score), (other, other_score) in list(zip(ours, theirs))[::3]:
                self.assertEqual(text, other)
                # Sums of about ten numbers that float32 rounds.
                self.assertAlmostEqual(score, other_score, delta=1e-5 * abs(score))

    def test_there_and_back_is_the_same_bytes(self):
        model = from_marian("post", F / "there")
        checked("convert", "--to", "ctranslate2", model, "--output", F / "there-ct2")
        checked("convert", "--from", "ctranslate2", F / "there-ct2", "--output", F / "back")
        self.assertEqual((model / "model.safetensors").read_bytes(), (F / "back/model.safetensors").read_bytes())
        self.assertEqual(translated(model), translated(F / "back"))
        checked("convert", "--to", "ctranslate2", F / "back", "--output", F / "back-ct2")
        self.assertEqual((F / "there-ct2/model.bin").read_bytes(), (F / "back-ct2/model.bin").read_bytes())

    def test_marians_gelu_is_ctranslate2s(self):
        """Marian's gelu is x sigmoid(1.702 x); CTranslate2's own converter reads it so."""
        npz = changed("gelu.npz", with_option("transformer-ffn-activation: swish", "transformer-ffn-activation: gelu"))
        self.converted_by_ctranslate2(npz, F / "gelu-ct2")
        checked("convert", "--from", "marian", npz, "--vocabs", SPM, SPM, "--output", F / "gelu")
        ours = [(text, score) for _, text, score in best(translated(F / "gelu", "--max-length", 40))]
        for (text, score), (other, other_score) in list(zip(ours, self.hypotheses(F / "gelu-ct2")))[::3]:
            self.assertEqual(text, other)
            self.assertAlmostEqual(score, other_score, delta=1e-5 * abs(score))

    def test_folders_of_its_own_converter(self):
        pair = ("--train-sets", HERE / "valid.src", HERE / "valid.trg", "--cpu-threads", 1, "--quiet")
        npz = changed("own.npz", with_option("skip: false", "skip: false"))
        plain = checked("score", "--model", from_marian("post", F / "own-plain"), *pair).stdout.split()
        for quantization, share in ((None, 1e-5), ("int16", 0.01), ("int8", 0.2)):  # int16 has three decimals, int8 two
            folder, model = F / f"own-ct2-{quantization}", F / f"own-{quantization}"
            self.converted_by_ctranslate2(npz, folder, quantization=quantization)
            checked("convert", "--from", "ctranslate2", folder, "--vocabs", SPM, SPM, "--output", model)
            for line, expected in zip(checked("score", "--model", model, *pair).stdout.split(), plain, strict=True):
                self.assertAlmostEqual(float(line), float(expected), delta=share * abs(float(expected)), msg=quantization)

    def test_sentences_with_other_ends_are_refused(self):
        checked("convert", "--to", "ctranslate2", from_marian("post", F / "ends"), "--output", F / "ends-ct2")
        path = F / "ends-ct2/config.json"
        config = json.loads(path.read_text())

        def refused(says, **changes):
            path.write_text(json.dumps({**config, **changes}))
            self.refused("convert", "--from", "ctranslate2", F / "ends-ct2", "--output", F / "never", says=says)

        refused("add_source_eos: got false; expected true", add_source_eos=False)
        refused("add_source_bos: got true; expected false", add_source_bos=True)
        refused('eos_token: got "<end>"; expected "</s>"', eos_token="<end>")
        path.unlink()
        self.refused("convert", "--from", "ctranslate2", F / "ends-ct2", "--output", F / "never", says="config.json")
        self.assertFalse((F / "never").exists())

    def test_bad_files(self):
        model = from_marian("post", F / "hostile")
        checked("convert", "--to", "ctranslate2", model, "--output", F / "whole")
        whole = (F / "whole/model.bin").read_bytes()
        for what, data in (("cut short", whole[:100]), ("cut short", whole[:-1]), ("has bytes after its end", whole + b"x"),
                           ("is of version 5", b"\5" + whole[1:]), ("cut short", b"")):
            folder = F / "broken"
            shutil.copytree(F / "whole", folder, dirs_exist_ok=True)
            (folder / "model.bin").write_bytes(data)
            self.refused("convert", "--from", "ctranslate2", folder, "--output", F / "never", says=what)
            self.assertFalse((F / "never").exists())


if __name__ == "__main__":
    unittest.main()

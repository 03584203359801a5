#!/usr/bin/env python3
"""Translation models in folders of Hugging Face and CTranslate2, made here, with their libraries as the reference."""
import json
import shutil
import struct
import unittest
import unittest.mock

from bert_commands import lacks
from bert_folder import read_safetensors, write_safetensors
from foreign_models import (F, HERE, PIECES, SOURCE, SPM, best, changed, from_marian, pieces_of, spm_pieces, translated,
                            with_option)
from fovea_program import TINY, Refusals, checked

try:
    import torch
except ImportError:
    torch = None


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

    def test_a_tied_table_by_any_name(self):
        """safetensors' save_model keeps one of the names that share a table."""
        for kept in ("lm_head.weight", "model.encoder.embed_tokens.weight"):
            folder = F / f"kept-{kept}"
            shutil.copytree(self.folder, folder)
            tensors = tensors_of(folder)
            tensors[kept] = tensors.pop("model.shared.weight")
            write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
            checked("convert", "--from", "huggingface", folder, "--output", F / f"from-{kept}")
            self.assertEqual(*((F / name / "model.safetensors").read_bytes() for name in ("from-hugging-face", f"from-{kept}")))

    def with_likely_padding(self, name):
        """A checkpoint whose padding is the most probable piece."""
        folder, model = F / f"{name}-hf", F / f"{name}-model"
        shutil.copytree(self.folder, folder)
        tensors = tensors_of(folder)
        tensors["final_logits_bias"][0, PIECES] = 30
        write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
        checked("convert", "--from", "huggingface", folder, "--output", model)
        return model

    def test_padding_is_never_written(self):
        """The padding's logit in OPUS-MT's folders is 0, which may be the best; bad_words_ids keeps transformers from it."""
        got = checked("translate", "--model", self.with_likely_padding("likely"), "--beam-size", 1, "--allow-unk", "--cpu-threads", 1, "--quiet",
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

    @lacks("ctranslate2")
    def test_padding_is_never_written_by_ctranslate2(self):
        checked("convert", "--to", "ctranslate2", self.with_likely_padding("padding"), "--output", F / "without-padding")
        best = [text for text, _ in CTranslate2().hypotheses(F / "without-padding")[::3]]
        self.assertTrue(all(best))
        self.assertNotIn("<pad>", "".join(best))

    def test_a_padding_with_a_vector_is_no_start(self):
        """A vocabulary that has <pad>: training does not keep its vector zeros, and the decoder begins with zeros."""
        from transformers import MarianMTModel
        vocab = next((F / "from-hugging-face").glob("*source*.spm"))
        for side, text in (("src", SOURCE), ("trg", SOURCE.upper())):
            (F / f"pad.{side}").write_text(text)
        architecture = ["--transformer-norm", "post", "--transformer-norm-kind", "layer", "--transformer-positions",
                        "sinusoidal(first=0,paper)", "--decoder-start", "zeros", "--transformer-ffn-activation", "relu"]
        checked("train", "--model", F / "pad", "--train-sets", F / "pad.src", F / "pad.trg", "--vocabs", vocab, vocab, *TINY,
                *architecture, "--after-batches", 3, "--quiet")
        checked("convert", "--to", "huggingface", F / "pad", "--output", F / "pad-folder")
        checked("convert", "--from", "huggingface", F / "pad-folder", "--output", F / "pad-back")
        pairs = ("--train-sets", F / "pad.src", F / "pad.trg", "--cpu-threads", 1, "--quiet")
        got = checked("score", "--model", F / "pad", *pairs).stdout
        self.assertEqual(checked("score", "--model", F / "pad-back", *pairs).stdout, got)
        model = MarianMTModel.from_pretrained(F / "pad-folder").eval()
        named = json.loads((F / "pad-folder" / "tokenizer_config.json").read_text())["pad_token"]
        vocabulary = json.loads((F / "pad-folder" / "vocab.json").read_text())
        self.assertEqual((named, vocabulary[named]), ("<zeros>", model.config.decoder_start_token_id))
        self.assertIn([self.vocabulary["<pad>"]], model.generation_config.bad_words_ids)
        for line, value in zip(SOURCE.splitlines()[:3], got.split()):
            ids = [torch.tensor([[vocabulary[piece] for piece in pieces] + [0]]) for pieces in pieces_of([line, line.upper()])]
            with torch.no_grad():
                logits = model(input_ids=ids[0], labels=ids[1]).logits
            expected = logits.log_softmax(-1)[0].gather(1, ids[1][0].unsqueeze(1)).sum().item()
            self.assertAlmostEqual(float(value), expected, delta=1e-3)

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

    def assert_same_best(self, model, folder):
        ours = [(text, score) for _, text, score in best(translated(model, "--max-length", 40))]
        for (text, score), (other, other_score) in list(zip(ours, self.hypotheses(folder)))[::3]:
            self.assertEqual(text, other)
            # Sums of about ten numbers that float32 rounds.
            self.assertAlmostEqual(score, other_score, delta=1e-5 * abs(score))

    def converted_by_ctranslate2(self, npz, folder, places=2048, first=0, **options):
        """Marian's positions and epsilon stand in the place of those that CTranslate2's converter assumes."""
        import numpy
        from ctranslate2.converters import marian

        def positions(dim, rows=places):
            angles = (first + numpy.arange(rows)[:, None]) / 10000 ** (numpy.arange(dim // 2) / (dim // 2 - 1))
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
            self.assert_same_best(model, folder)

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
        self.assert_same_best(F / "gelu", F / "gelu-ct2")
        checked("convert", "--from", "ctranslate2", F / "gelu-ct2", "--vocabs", SPM, SPM, "--output", F / "gelu-back")
        self.assertEqual(translated(F / "gelu-back"), translated(F / "gelu"))

    def test_positions_count_from_where_the_table_does(self):
        """From 2 in fairseq: behind the number of its padding symbol, which is 1."""
        npz = changed("first.npz", with_option("skip: false", "skip: false"))
        for first in (1, 2):
            folder, model = F / f"first-{first}-ct2", F / f"first-{first}"
            self.converted_by_ctranslate2(npz, folder, first=first)
            checked("convert", "--from", "ctranslate2", folder, "--vocabs", SPM, SPM, "--output", model)
            self.assert_same_best(model, folder)

    def test_folders_of_its_own_converter(self):
        pair = ("--train-sets", HERE / "valid.src", HERE / "valid.trg", "--cpu-threads", 1, "--quiet")
        npz = changed("own.npz", with_option("skip: false", "skip: false"))
        plain = checked("score", "--model", from_marian("post", F / "own-plain"), *pair).stdout.split()
        # int16 has three decimals, int8 two, bfloat16 as many, also in its table of positions.
        for quantization, share in ((None, 1e-5), ("int16", 0.01), ("int8", 0.2), ("float16", 0.01), ("bfloat16", 0.05)):
            folder, model = F / f"own-ct2-{quantization}", F / f"own-{quantization}"
            self.converted_by_ctranslate2(npz, folder, places=256, quantization=quantization)
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

        refused("add_source_eos: got false; expected true; give --source-eos", add_source_eos=False)
        plain = (F / "ends" / "model.safetensors").read_bytes()
        checked("convert", "--from", "ctranslate2", F / "ends-ct2", "--source-eos", "--output", F / "ends-told")
        (F / "ends-ct2/tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
        checked("convert", "--from", "ctranslate2", F / "ends-ct2", "--output", F / "ends-known")
        for name in ("ends-told", "ends-known"):
            self.assertEqual((F / name / "model.safetensors").read_bytes(), plain)
        self.refused("convert", "--from", "marian", changed("x.npz", with_option("skip: false", "skip: false")), "--vocabs", SPM, SPM,
                     "--source-eos", "--output", F / "never", says="--source-eos", code=2)
        refused("add_source_bos: got true; expected false", add_source_bos=True)
        refused('eos_token: got "<end>"; expected "</s>"', eos_token="<end>")
        path.unlink()
        self.refused("convert", "--from", "ctranslate2", F / "ends-ct2", "--output", F / "never", says="config.json")
        self.assertFalse((F / "never").exists())

    def test_unknown_factors_are_refused(self):
        folder = F / "factors-ct2"
        self.converted_by_ctranslate2(changed("factors.npz", with_option("skip: false", "skip: false")), folder)
        whole = (folder / "model.bin").read_bytes()
        for name, old, says in (("decoder/alibi", 0, "got 1; expected 0, or none"),
                                ("encoder/multi_query_attention", 0, "got 1; expected 0, or none"),
                                ("decoder/scale_embeddings", 1, "got the factor 1; expected the root of the width, 4")):
            data = bytearray(whole)
            value = data.index(name.encode() + b"\0") + len(name) + 1 + 6  # after the rank, the type and the size of 4 bytes
            self.assertEqual(data[value], old, name)
            data[value] = 1 - old
            (folder / "model.bin").write_bytes(data)
            self.refused("convert", "--from", "ctranslate2", folder, "--output", F / "never", says=f"{name}: {says}")
        at = whole.index(b"encoder/scale_embeddings\0") + len("encoder/scale_embeddings") + 1
        # A factor of 1 as a number, which CTranslate2 reads as no factor: a flag of 1 is the root.
        (folder / "model.bin").write_bytes(whole[:at] + struct.pack("<BBIf", 0, 0, 4, 1) + whole[at + 7:])
        self.refused("convert", "--from", "ctranslate2", folder, "--output", F / "never",
                     says="encoder/scale_embeddings: got the factor 1; expected the root")
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

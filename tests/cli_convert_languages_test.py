#!/usr/bin/env python3
"""Translation models of many languages in the forms of M2M100 and NLLB, with marks of languages on both sides. Their folders are made
here, with random weights; the libraries `transformers`, `tokenizers` and `sentencepiece` are the reference."""
import json
import pathlib
import shutil
import tempfile
import unittest

from bert_commands import lacks
from bert_folder import read_safetensors
from fovea_program import Refusals, checked
from served_program import Served

try:
    import torch
except ImportError:
    torch = None

F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = [line for line in (ROOT / "docs/convert.md").read_text().splitlines() if line.strip()]
SOURCES = ["A converted model is an ordinary checkpoint.", "x", "It translates  or generates, scores: \u00fcber \u4f60", "ef\ufb01cient \u00bd",
           "The weights may be float32"]
TARGETS = ["Ein Modell.", "y z", "es \u00fcbersetzt und schreibt", "a", "Die Gewichte"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
CODES = ["ace_Arab", "deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant"]
LANGUAGES = {"m2m100": ("en", "de"), "nllb": ("eng_Latn", "deu_Latn")}


def sentencepiece_model(kind):
    import sentencepiece
    path = F / f"{kind}.spm"
    if not path.exists():
        (F / "text.txt").write_text("\n".join(TEXT))
        sentencepiece.SentencePieceTrainer.train(input=str(F / "text.txt"), model_prefix=str(F / kind), vocab_size=300, model_type=kind,
                                                 unk_id=0, bos_id=1, eos_id=2, pad_id=-1, minloglevel=2)
        (F / f"{kind}.model").rename(path)
    reader = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return path, [reader.id_to_piece(i) for i in range(3, reader.get_piece_size())]


def m2m100_tokenizer(folder):
    import transformers
    model, pieces = sentencepiece_model("unigram")
    (F / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(SPECIAL + pieces)}))
    transformers.M2M100Tokenizer(str(F / "vocab.json"), str(model)).save_pretrained(folder)
    return len(SPECIAL) + len(pieces) + 100 + 8


def protobuf_fields(message):
    """(number, value) of a message's fields; the value is a number, or bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = message[at], at + 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        size = {0: 0, 1: 8, 5: 4}.get(key & 7)
        if size == 0:
            yield key >> 3, number()
            continue
        size = number() if size is None else size
        yield key >> 3, message[at:at + size]
        at += size


def made_nllb(model, pieces):
    """NLLB's tokeniser of a SentencePiece model, as transformers makes it out of sentencepiece.bpe.model."""
    import sentencepiece
    import transformers
    reader = sentencepiece.SentencePieceProcessor(model_file=str(model))
    normalizer = dict(protobuf_fields(dict(protobuf_fields(model.read_bytes()))[3]))
    vocab = {piece: i for i, piece in enumerate(SPECIAL + pieces)}
    merges = []
    for piece in sorted(pieces, key=lambda piece: -reader.get_score(reader.piece_to_id(piece))):
        pairs = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocab and piece[i:] in vocab]
        merges += sorted(pairs, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
    return transformers.NllbTokenizer(vocab=vocab, merges=merges, _spm_precompiled_charsmap=normalizer[2],
                                      extra_special_tokens=CODES)


def nllb_tokenizer(folder):
    """A folder of transformers 4."""
    model, pieces = sentencepiece_model("bpe")
    folder.mkdir(exist_ok=True)
    shutil.copy(model, folder / "sentencepiece.bpe.model")
    tokenizer = json.loads(made_nllb(model, pieces).backend_tokenizer.to_str())
    size = len(tokenizer["model"]["vocab"])
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer["added_tokens"] = [*({"id": i, "content": token, **plain} for i, token in enumerate(SPECIAL)),
                                 *({"id": size + i, "content": code, **plain} for i, code in enumerate(CODES)),
                                 {"id": size + len(CODES), "content": "<mask>", **plain, "lstrip": True, "normalized": True}]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": CODES, "mask_token": "<mask>", "legacy_behaviour": False}))
    return size + len(CODES) + 2  # more rows than tokens


# Sentences of several scripts, with runs of blanks, characters that the normaliser changes, and characters that are not in the vocabulary.
SCRIPTS = ["All human beings are born free and equal in dignity and rights.", "Alle Menschen sind frei und gleich an Würde geboren.",
           "Tous les êtres humains naissent libres et égaux.", "Все люди рождаются свободными и равными.", "Усі люди народжуються вільними.",
           "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι.", "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.", "تمام لوگ آزاد پیدا ہوئے ہیں۔",
           "כל בני אדם נולדו בני חורין.", "सभी मनुष्यों को गौरव और अधिकारों के मामले में", "সমস্ত মানুষ স্বাধীনভাবে জন্মগ্রহণ করে।",
           "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.", "మానవులందరు స్వేచ్చతో జన్మించినారు.", "มนุษย์ทั้งปวงเกิดมามีอิสระ",
           "လူတိုင်းသည် တူညီ လွတ်လပ်သော", "人人生而自由，在尊严和权利上一律平等。", "人人生而自由,在尊嚴和權利上一律平等。", "すべての人間は、生まれながらにして自由である。",
           "모든 인간은 태어날 때부터 자유로우며", "ყველა ადამიანი იბადება თავისუფალი.", "Բոլոր մարդիկ ծնվում են ազատ.", "ሰብዓዊ ፍጡር ሁሉ ነጻ ሆኖ ይወለዳል።",
           "Tất cả mọi người sinh ra đều được tự do.", "Bütün insanlar hür doğarlar.", "ﬁrst ½ ｆｕｌｌ ①  Ⅳ", "  two   blanks  inside",
           "e\u0301 and \u00e9, n\u0303", "a\u2581b \u2581c", "\U0001f600 \U0001f468\u200d\U0001f469 emoji", "x\u00a0y\u3000z\tw 1,234.5 3\u00d74"]


class Folder:
    def __init__(self, kind):
        import transformers
        self.kind, self.folder = kind, F / f"{kind}-folder"
        rows = (m2m100_tokenizer if kind == "m2m100" else nllb_tokenizer)(self.folder)
        torch.manual_seed(2)
        config = transformers.M2M100Config(
            vocab_size=rows, d_model=18, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3, decoder_attention_heads=3,
            encoder_ffn_dim=20, decoder_ffn_dim=20, max_position_embeddings=512, dropout=0.0, attention_dropout=0.0,
            activation_function="relu" if kind == "m2m100" else "gelu")
        self.model = transformers.M2M100ForConditionalGeneration(config).eval()
        with torch.no_grad():
            # Small embeddings and large layers, or a text would repeat its last token; and </s> ends some texts soon.
            for name, parameter in self.model.named_parameters():
                parameter.normal_(std=0.1 if "shared" in name else 0.6).add_(1 if "layer_norm.weight" in name else 0)
            end = self.model.model.shared.weight[2]
            end *= 2.5
            self.model.model.decoder.layer_norm.bias.copy_((1.5 if kind == "m2m100" else 1.8) * end / end.norm())
        self.model.save_pretrained(self.folder)
        self.source, self.target = LANGUAGES[kind]
        self.converted = F / kind
        checked("convert", "--from", "huggingface", self.folder, "--output", self.converted)
        self.tokenizer = self.load(self.folder)

    def load(self, folder):
        import transformers
        return transformers.AutoTokenizer.from_pretrained(folder, src_lang=self.source, tgt_lang=self.target)

    def languages(self):
        return "--source-lang", self.source, "--target-lang", self.target

    def mark(self):
        return self.tokenizer.convert_tokens_to_ids(f"__{self.target}__" if self.kind == "m2m100" else self.target)

    def translations(self, line, beams, count):
        """The hypotheses of transformers' search, best first, and their scores."""
        inputs = self.tokenizer(line, return_tensors="pt")
        with torch.no_grad():
            found = self.model.generate(**inputs, forced_bos_token_id=self.mark(), num_beams=beams, num_return_sequences=count, do_sample=False,
                                        max_new_tokens=40, bad_words_ids=[[1], [3]], length_penalty=1.0, early_stopping=False,
                                        return_dict_in_generate=True, output_scores=True)
        pieces = self.model.config.vocab_size - (108 if self.kind == "m2m100" else len(CODES) + 2)
        # Tokens behind the pieces print nothing, whatever transformers' versions take for special.
        texts = [self.tokenizer.decode([token for token in tokens if 3 < token < pieces]) for tokens in found.sequences.tolist()]
        return texts, found


@lacks("torch", "transformers", "tokenizers", "sentencepiece")
class ManyLanguages(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.folders = {kind: Folder(kind) for kind in LANGUAGES}

    def score(self, model, sources, targets, *options):
        for name, lines in (("src", sources), ("trg", targets)):
            (F / f"pairs.{name}").write_text("".join(line + "\n" for line in lines))
        return [float(line) for line in checked("score", "--model", model, "--train-sets", F / "pairs.src", F / "pairs.trg", "--cpu-threads", 1,
                                                "--quiet", *options).stdout.split()]

    def test_probabilities_are_transformers(self):
        for kind, made in self.folders.items():
            got = self.score(made.converted, SOURCES, TARGETS, *made.languages())
            marked = self.score(made.converted, *([f">>{code}<< {line}" for line in lines] for code, lines in
                                                  ((made.source, SOURCES), (made.target, TARGETS))))
            self.assertEqual(got, marked, "lines may have marks of their own")
            signature = checked("score", "--model", made.converted, "--train-sets", F / "pairs.src", F / "pairs.trg", "--summary",
                                "--source-lang", made.source.split("_")[0], "--target-lang", made.target.upper(), "--quiet").stdout
            self.assertIn(f"|languages:{made.source}-{made.target}|", signature)
            for i, (source, target) in enumerate(zip(SOURCES, TARGETS)):
                batch = made.tokenizer(source, text_target=target, return_tensors="pt")
                self.assertEqual(batch["labels"][0, 0].item(), made.mark())
                with torch.no_grad():
                    logits = made.model(**batch).logits
                expected = logits.log_softmax(-1)[0].gather(1, batch["labels"][0].unsqueeze(1)).sum().item()
                self.assertAlmostEqual(got[i], expected, delta=3e-5 * batch["labels"].shape[1], msg=(kind, source))

    def translated(self, made, *options, lines=SOURCES):
        return checked("translate", "--model", made.converted, *made.languages(), "--max-length-factor", 100, "--cpu-threads", 1, "--quiet",
                       *options, stdin="".join(line + "\n" for line in lines)).stdout.splitlines()

    def test_translations_are_transformers(self):
        for kind, made in self.folders.items():
            ended = 0
            for source, got in zip(SOURCES, self.translated(made, "--beam-size", 1)):
                (expected,), found = made.translations(source, 1, 1)
                tokens = found.sequences[0].tolist()
                self.assertEqual(tokens[:2], [2, made.mark()])
                ended += tokens[-1] == 2
                if tokens[-1] == 2:
                    self.assertEqual(got.split(), expected.split(), (kind, source))
                else:
                    self.assertTrue(" ".join(got.split()).startswith(" ".join(expected.split()[:-1])), (kind, source))
            self.assertGreater(ended, 0, "a text ends before its limit")

    def test_beams_are_transformers(self):
        """The mark is a token of the length, and no part of the score."""
        compared = 0
        for kind, made in self.folders.items():
            lines = self.translated(made, "--beam-size", 4, "--n-best", "--normalize", 1)
            for i, source in enumerate(SOURCES):
                expected, found = made.translations(source, 4, 4)
                if not all(2 in tokens[2:].tolist() for tokens in found.sequences):
                    continue  # one did not end
                own = [line.split(" ||| ") for line in lines if line.startswith(f"{i} |||")]
                compared += 1
                self.assertAlmostEqual(float(own[0][3]), found.sequences_scores[0].item(), delta=1e-4, msg=(kind, source))
                self.assertEqual(own[0][1].split(), expected[0].split(), (kind, source))
        self.assertGreater(compared, 2)

    def test_words_of_links_are_those_of_the_lines(self):
        made = self.folders["m2m100"]
        for line, source in zip(self.translated(made, "--alignment"), SOURCES):
            text, links = line.split(" ||| ")
            for link in links.split():
                left, right = map(int, link.split("-"))
                self.assertLess(left, len(source.split()))
                self.assertLess(right, max(1, len(text.split())))

    def test_there_and_back(self):
        import transformers
        for kind, made in self.folders.items():
            checked("convert", "--to", "huggingface", made.converted, "--output", F / f"{kind}-back")
            first, second = (read_safetensors(folder / "model.safetensors") for folder in (made.folder, F / f"{kind}-back"))
            self.assertEqual(sorted(first), sorted(second))
            for name, tensor in first.items():
                self.assertTrue(torch.equal(tensor, second[name]), name)
            again = made.load(F / f"{kind}-back")
            self.assertIs(type(again), type(made.tokenizer))
            for source, target in zip([*SOURCES, *TEXT[:40]], [*TARGETS, *TEXT[:40]]):
                self.assertEqual(dict(again(source, text_target=target)), dict(made.tokenizer(source, text_target=target)), (kind, source))
            model = transformers.AutoModelForSeq2SeqLM.from_pretrained(F / f"{kind}-back").eval()
            batch = made.tokenizer(SOURCES[0], text_target=TARGETS[0], return_tensors="pt")
            with torch.no_grad():
                self.assertTrue(torch.equal(model(**batch).logits, made.model(**batch).logits))
            checked("convert", "--from", "huggingface", F / f"{kind}-back", "--output", F / f"{kind}-again")
            for name in ("config.yml", "model.safetensors"):
                self.assertEqual((F / f"{kind}-again" / name).read_bytes(), (made.converted / name).read_bytes(), name)

    def tokens_are_transformers(self, folder, converted, languages=("eng_Latn", "deu_Latn")):
        """Compares the numbers of each sentence's pieces, without the mark and </s>. Lines with the name of a special token
        are left out: transformers reads the token."""
        import sentencepiece
        import transformers
        theirs = transformers.AutoTokenizer.from_pretrained(folder, src_lang=languages[0], tgt_lang=languages[1])
        ours = sentencepiece.SentencePieceProcessor(model_file=str(converted / "source.spm"))
        unknown = 0
        for line in [*SCRIPTS, *(line for line in TEXT if not any(token in line for token in [*SPECIAL, *CODES]))]:
            ids = theirs(line).input_ids
            self.assertEqual(ours.encode(line), ids[1:-1], line)
            unknown += ids.count(3)
        self.assertGreater(unknown, 0, "some characters are not in the vocabulary")

    def test_nllb_without_a_sentencepiece_model(self):
        """transformers 5 saves tokenizer.json alone, with the languages behind <mask>."""
        import sentencepiece
        (F / "scripts.txt").write_text("\n".join([*SCRIPTS[:26], *TEXT]))
        sentencepiece.SentencePieceTrainer.train(input=str(F / "scripts.txt"), model_prefix=str(F / "scripts"), vocab_size=900,
                                                 model_type="bpe", character_coverage=0.995, unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
                                                 minloglevel=2)
        reader = sentencepiece.SentencePieceProcessor(model_file=str(F / "scripts.model"))
        pieces = [reader.id_to_piece(i) for i in range(3, reader.get_piece_size())]
        made, folder = self.folders["nllb"], F / "saved"
        folder.mkdir()
        made_nllb(F / "scripts.model", pieces).save_pretrained(folder)
        self.assertFalse((folder / "sentencepiece.bpe.model").exists())
        rows = len(SPECIAL) + len(pieces) + len(CODES) + 1
        config = json.loads((made.folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "vocab_size": rows}))
        from safetensors.torch import load_file, save_file
        state = load_file(made.folder / "model.safetensors")
        table = state["model.shared.weight"]
        state["model.shared.weight"] = table.repeat(-(-rows // len(table)), 1)[:rows].contiguous()
        save_file(state, folder / "model.safetensors", {"format": "pt"})
        checked("convert", "--from", "huggingface", folder, "--output", F / "from-saved")
        self.tokens_are_transformers(folder, F / "from-saved")
        self.assertEqual(len(self.score(F / "from-saved", SOURCES, TARGETS, "--source-lang", "eng", "--target-lang", "deu_latn")), len(SOURCES))
        checked("convert", "--to", "huggingface", F / "from-saved", "--output", F / "saved-back")
        self.tokens_are_transformers(F / "saved-back", F / "from-saved")
        (F / "saved-back/sentencepiece.bpe.model").unlink()
        self.tokens_are_transformers(F / "saved-back", F / "from-saved")
        checked("convert", "--from", "huggingface", F / "saved-back", "--output", F / "saved-again")
        self.assertEqual((F / "saved-again/source.spm").read_bytes(), (F / "from-saved/source.spm").read_bytes())
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        for change, says in (({"model": {**tokenizer["model"], "type": "Unigram"}}, "model: got the type 'Unigram'; expected BPE"),
                             ({"model": {**tokenizer["model"], "merges": tokenizer["model"]["merges"][1:]}},
                              "all pairs of tokens that give a third, as in a SentencePiece model")):
            (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, **change}))
            self.refused("convert", "--from", "huggingface", folder, "--output", F / "never", says=["tokenizer.json: ", says])

    def test_files_of_older_versions(self):
        """pytorch_model.bin has the shared table by all its names, the table of positions and the number of a version."""
        made = self.folders["m2m100"]
        folder = F / "older"
        shutil.copytree(made.folder, folder)
        (folder / "model.safetensors").unlink()
        state = dict(made.model.state_dict())
        self.assertIn("lm_head.weight", state)
        torch.save({**state, "model.encoder.embed_positions.weights": torch.zeros(514, 18), "model.decoder.version": torch.tensor([3.0])},
                   folder / "pytorch_model.bin")
        checked("convert", "--from", "huggingface", folder, "--output", F / "from-older")
        self.assertEqual((F / "from-older/model.safetensors").read_bytes(), (made.converted / "model.safetensors").read_bytes())

    def test_languages_that_are_not_there(self):
        for kind, made in self.folders.items():
            model = ["translate", "--model", made.converted, "--cpu-threads", 1, "--quiet"]
            some = "de, el, en" if kind == "m2m100" else "ace_Arab, deu_Latn, eng_Latn, zho_Hans, zho_Hant"
            self.refused(*model, stdin="x\n", says=["--source-lang is missing; expected a language of the model: ", some])
            self.refused(*model, "--source-lang", made.source, stdin="x\n", says=["--target-lang is missing", some])
            self.refused(*model, "--source-lang", "qq", "--target-lang", made.target, stdin="x\n", says=["--source-lang: got 'qq'", some])
            self.refused(*model, "--source-lang", made.source, "--target-lang", made.target[:-1] + "x", stdin="x\n",
                         says=["--target-lang: got", some])
            if kind == "nllb":
                self.refused(*model, "--source-lang", "zho", "--target-lang", made.target, stdin="x\n",
                             says="--source-lang: got 'zho'; expected one of zho_Hans, zho_Hant")
                self.refused(*model, "--source-lang", "en", "--target-lang", made.target, stdin="x\n", says=["--source-lang: got 'en'", some])
            (F / "one").write_text("x\n")
            spelt = ("__en__", "DE") if kind == "m2m100" else ("eng", "deu")
            self.assertEqual(checked(*model, "--source-lang", spelt[0], "--target-lang", spelt[1], stdin="x\n").stdout,
                             checked(*model, *made.languages(), stdin="x\n").stdout)
            self.refused("score", "--model", made.converted, "--train-sets", F / "one", F / "one",
                         says="got a line of the source without a mark of its language; expected one before it, such as >>a")
            self.refused("score", "--model", made.converted, "--train-sets", F / "one", F / "one", "--source-lang", made.source,
                         says="got a line of the target without a mark")
            self.refused(*model, "--documents", stdin="x\n", says="the model has marks of languages before each sentence")
        self.refused("translate", "--model", "none", "--documents", "--target-lang", "de", code=2, says="--target-lang are for single sentences")
        self.refused("convert", "--to", "ctranslate2", self.folders["nllb"].converted, "--output", F / "never", says="marks of languages on both sides")

    def test_it_learns_on(self):
        made = self.folders["m2m100"]
        for name, code, lines in (("src", "en", SOURCES), ("trg", "de", TARGETS)):
            (F / f"train.{name}").write_text("".join(f">>{code}<< {line}\n" for line in lines * 4))
        checked("train", "--task", "translation", "--model", F / "run", "--pretrained-model", made.converted, "--config",
                made.converted / "config.yml", "--vocabs", made.converted / "source.spm", made.converted / "target.spm", "--train-sets",
                F / "train.src", F / "train.trg", "--valid-sets", F / "train.src", F / "train.trg", "--valid-metrics", "ce-mean-words", "bleu",
                "--after-batches", 20, "--valid-freq", 20, "--learn-rate", 0.003, "--lr-warmup", 1, "--cpu-threads", 1)
        before, after = (sum(self.score(model, SOURCES, TARGETS, *made.languages())) for model in (made.converted, F / "run"))
        self.assertGreater(after, before)
        checked("convert", "--to", "huggingface", F / "run", "--output", F / "run-back")
        import transformers
        again = transformers.AutoModelForSeq2SeqLM.from_pretrained(F / "run-back").eval()
        batch = made.tokenizer(SOURCES[0], text_target=TARGETS[0], return_tensors="pt")
        with torch.no_grad():
            logits = again(**batch).logits
        expected = logits.log_softmax(-1)[0].gather(1, batch["labels"][0].unsqueeze(1)).sum().item()
        self.assertAlmostEqual(self.score(F / "run", SOURCES[:1], TARGETS[:1], *made.languages())[0], expected, delta=1e-4)

    def test_the_server_offers_all_pairs(self):
        m2m100, nllb = self.folders["m2m100"], self.folders["nllb"]
        with Served("--model", f"nllb={nllb.converted}", m2m100.converted, "--quiet", "--beam-size", 2, "--max-length-factor", 100) as server:
            expected = self.translated(m2m100, "--beam-size", 2, lines=SOURCES[:1])[0]
            status, answer, _ = server.post("/translate", {"q": SOURCES[0], "source": "en", "target": "de"})
            self.assertEqual((status, answer["translatedText"].split()), (200, expected.split()), answer)
            status, answer, _ = server.post("/v2/translate", {"text": [SOURCES[0]], "source_lang": "EN", "target_lang": "DE"})
            self.assertEqual((status, answer["translations"][0]["text"].split()), (200, expected.split()), answer)
            status, answer, _ = server.post("/translate", {"text": SOURCES[0], "source": "en", "target": "de-AT", "alignment": True})
            self.assertEqual((status, answer["translations"][0]["text"].split()), (200, expected.split()), answer)
            other = self.translated(nllb, "--beam-size", 2, lines=SOURCES[:1])[0]
            status, answer, _ = server.post("/translate", {"text": SOURCES[0], "model": "nllb", "source": "ENG_latn", "target": "deu_Latn"})
            self.assertEqual((status, answer["translations"][0]["text"].split()), (200, other.split()), answer)
            status, languages, _ = server.ask("GET", "/languages")
            known = {language["code"]: language["targets"] for language in languages}
            self.assertEqual(len(known), 105)
            self.assertEqual(sorted(known["eng_Latn"]), ["ace_Arab", "deu_Latn", "zho_Hans", "zho_Hant"])
            self.assertIn("de", known["en"])
            self.assertNotIn("en", known["en"])
            for body, says in (({"q": "x", "source": "en", "target": "qq"}, "no model translates from en into qq; there is any pair of ace_Arab"),
                               ({"q": "x", "source": "auto", "target": "de"}, "cannot tell languages apart"),
                               ({"text": "x", "model": "nllb", "target": "deu_Latn"},
                                "source is missing; the model 'nllb' translates between ace_Arab, deu_Latn, eng_Latn, zho_Hans, zho_Hant"),
                               ({"text": "x", "model": "nllb", "source": "de", "target": "deu_Latn"}, "source: got de; the model 'nllb' translates between")):
                status, answer, _ = server.post("/translate", body)
                self.assertEqual(status, 400, body)
                self.assertIn(says, answer["error"])
            status, answer, _ = server.post("/v1/chat/completions", {"model": "nllb", "messages": [{"role": "user", "content": "x"}]})
            self.assertEqual(status, 400)
            self.assertIn("source is missing", str(answer))

    def test_bad_folders(self):
        def refused(kind, says, file="config.json", **changes):
            folder = F / "bad"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.folders[kind].folder, folder)
            path = folder / file
            if changes:
                path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
            else:
                path.unlink()
            self.refused("convert", "--from", "huggingface", folder, "--output", F / "never", says=says)
            self.assertFalse((F / "never").exists())

        refused("m2m100", "scale_embedding: got false; expected true", scale_embedding=False)
        refused("m2m100", "tie_word_embeddings: got false; expected true", tie_word_embeddings=False)
        refused("m2m100", "decoder_start_token_id: got 0; expected 2, the number of </s>", decoder_start_token_id=0)
        refused("m2m100", "pad_token_id: got 5", pad_token_id=5)
        refused("m2m100", "vocab_size: got 300, but the tokeniser has", vocab_size=300)
        refused("m2m100", "activation_function: got 'tanh'", activation_function="tanh")
        refused("m2m100", "has the shape", d_model=36)
        refused("m2m100", "language_codes: got 'x'; expected m2m100 or wmt21", "tokenizer_config.json", language_codes="x")
        refused("nllb", "legacy_behaviour: got true; expected false", "tokenizer_config.json", legacy_behaviour=True)
        refused("nllb", "tokenizer_class: got 'MBartTokenizer'; expected M2M100Tokenizer or NllbTokenizer", "tokenizer_config.json",
                tokenizer_class="MBartTokenizer")
        refused("nllb", "added_tokens: got 3; expected a list", "tokenizer.json", added_tokens=3)
        refused("nllb", "belongs to no token", "tokenizer.json", added_tokens=[{"id": 350, "content": "x"}])
        refused("nllb", "both have the number 2", "tokenizer.json", added_tokens=[{"id": 2, "content": "x"}])
        refused("nllb", "content is missing", "tokenizer.json", added_tokens=[{"id": 2}])
        for kind, files in (("m2m100", ["vocab.json", "sentencepiece.bpe.model", "tokenizer_config.json"]),
                            ("nllb", ["tokenizer.json"])):
            for file in files:
                refused(kind, file, file)


if __name__ == "__main__":
    unittest.main()

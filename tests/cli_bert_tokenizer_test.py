#!/usr/bin/env python3
"""BERT's tokenisers as `transformers` saves them: tokenizer.json, vocab.txt and the files beside them; against `transformers`
if it can be imported."""
import json
import pathlib
import shutil
import tempfile
import unittest

from bert_commands import embedded, error_of, lacks
from bert_folder import CONFIG, pieces, read_safetensors, tokenizer_json, write_bert
from fovea_program import checked

try:
    import torch
except ImportError:
    torch = None

F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
WORDS = ["the", "cat", "sat", "mat", "on", "Paris", "paris", "##s", "un", "##want", "##ed"]
LINES = ["The cat sat on the mat.", "Paris, unwanted; sitting!", "", "caf\u00e9 \u535a\u63a8 A\u200bB \u00bfno?"]


@lacks("torch")
class TokenizerJson(unittest.TestCase):
    """Folders as transformers 5 saves them: tokenizer.json without vocab.txt."""
    def folder(self, name, cased=False, added=(), rows=0, change=lambda file: None, **files):
        folder = F / name
        config, _ = write_bert(folder, WORDS, cased=cased, **({"vocab_size": rows} if rows else {}))
        vocabulary = {piece: i for i, piece in enumerate((folder / "vocab.txt").read_text().splitlines())}
        (folder / "vocab.txt").unlink()
        file = tokenizer_json(vocabulary, cased, added)
        change(file)
        (folder / "tokenizer.json").write_text(json.dumps(file))
        for stem, object_ in files.items():
            (folder / f"{stem}.json").write_text(json.dumps(object_))
        return folder, vocabulary

    def tokens(self, model, text):
        return checked("embed", "--model", model, "--pieces", stdin=text + "\n").stdout.rstrip("\n")

    def test_pieces_and_vectors_are_those_of_vocab_txt(self):
        write_bert(F / "with-list", WORDS)
        folder, _ = self.folder("with-json")
        first, second = (embedded(path, LINES, 3) for path in (F / "with-list", folder))
        for name, vectors in first.items():
            self.assertTrue(torch.equal(vectors, second[name]), name)

    def test_added_tokens_survive_conversion_there_and_back(self):
        size = len(pieces(WORDS, False))
        added = [(size, "<ent>", {}), (size + 1, "[E1]", {"special": True, "normalized": False}),
                 (size + 2, "New York", {"single_word": True})]
        folder, _ = self.folder("added", added=added, rows=size + 8)
        text = "the <ENT> cat[E1] in new york newyork New Yorks [MASK] [e1]"
        expected = self.tokens(folder, text)
        self.assertTrue(expected.startswith("[CLS] the <ent> cat [E1] i ##n New York n ##e"), expected)
        self.assertIn(" [MASK] [ e ##1 ] [SEP]", expected)
        checked("convert", "--from", "bert", folder, "--output", F / "added-model")
        self.assertEqual(self.tokens(F / "added-model", text), expected)
        table = read_safetensors(F / "added-model" / "model.safetensors")["embeddings.weight"]
        self.assertEqual(table.shape[0], size + 3, "rows of added tokens stay, those of nothing go")
        checked("convert", "--to", "bert", F / "added-model", "--output", F / "added-again")
        self.assertEqual(self.tokens(F / "added-again", text), expected)
        (F / "added-ner").write_text("<ENT> B-X\ncat O\n\n" * 4)
        checked("train", "--task", "tagging", "--model", F / "added-tagger", "--train-sets", F / "added-ner", "--after-batches", 1,
                "--pretrained-model", F / "added-model", "--vocabs", folder / "tokenizer.json", "--cpu-threads", 1, "--quiet")
        self.assertEqual(self.tokens(F / "added-tagger", text), expected)

    def test_case_accents_and_chinese_characters(self):
        def normalizer(**changes):
            return lambda file: file["normalizer"].update(changes)
        text = "The C\u00e4t"
        cases = {"cased": ({"cased": True}, "[CLS] T ##h ##e [UNK] [SEP]"),
                 "keeps-accents": ({"change": normalizer(strip_accents=False)}, "[CLS] the [UNK] [SEP]"),
                 "strips-only": ({"cased": True, "change": normalizer(strip_accents=True)}, "[CLS] T ##h ##e C ##a ##t [SEP]"),
                 "config-wins": ({"tokenizer_config": {"tokenizer_class": "BertTokenizer", "do_lower_case": False}},
                                 "[CLS] [UNK] [UNK] [SEP]"),
                 "json-alone": ({"tokenizer_config": {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False}},
                                "[CLS] the cat [SEP]")}
        for name, (options, expected) in cases.items():
            folder, _ = self.folder(name, **options)
            self.assertEqual(self.tokens(folder, text), expected, name)
        self.assertIn("says otherwise than tokenizer.json", checked("embed", "--model", F / "config-wins", "--pieces", stdin="a\n").stderr)
        split = self.tokens(self.folder("chinese")[0], "\u535a\u63a8")
        whole = self.tokens(self.folder("no-chinese", change=normalizer(handle_chinese_chars=False))[0], "\u535a\u63a8")
        self.assertEqual((split, whole), ("[CLS] [UNK] [UNK] [SEP]", "[CLS] [UNK] [SEP]"))

    def test_other_special_tokens(self):
        def rename(file):
            names = {"[UNK]": "<unk>", "[CLS]": "<s>", "[SEP]": "</s>"}
            file["model"]["vocab"] = {names.get(piece, piece): i for piece, i in file["model"]["vocab"].items()}
            file["model"]["unk_token"] = "<unk>"
            for token in file["added_tokens"]:
                token["content"] = names.get(token["content"], token["content"])
            for part in file["post_processor"]["single"]:
                for special in part.values():
                    special["id"] = names.get(special["id"], special["id"])
        for name, config in (("renamed", {}), ("renamed-with-config",
                                                {"tokenizer_config": {"cls_token": "<s>", "unk_token": {"content": "<unk>"}}})):
            folder, _ = self.folder(name, change=rename, **config)
            self.assertEqual(self.tokens(folder, "the \u535a </s>"), "[CLS] the [UNK] [SEP] [SEP]".replace("[CLS]", "<s>")
                             .replace("[UNK]", "<unk>").replace("[SEP]", "</s>"))
            checked("convert", "--from", "bert", folder, "--output", F / f"{name}-model")
            checked("convert", "--to", "bert", F / f"{name}-model", "--output", F / f"{name}-again")
            self.assertEqual(self.tokens(F / f"{name}-again", "the \u535a"), "<s> the <unk> </s>")

    def test_files_of_older_versions(self):
        size = len(pieces(WORDS, False))
        write_bert(F / "version-4", WORDS, vocab_size=size + 2)
        (F / "version-4" / "tokenizer_config.json").write_text(json.dumps({
            "do_lower_case": True, "tokenizer_class": "BertTokenizer", "added_tokens_decoder": {
                str(size): {"content": "<ent>", "normalized": True, "special": False},
                str(size + 1): {"content": "[X]", "normalized": False, "special": True}}}))
        write_bert(F / "version-3", WORDS, vocab_size=size + 2)
        (F / "version-3" / "added_tokens.json").write_text(json.dumps({"<ent>": size, "[X]": size + 1}))
        (F / "version-3" / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": ["[X]"]}))
        for name in ("version-4", "version-3"):
            self.assertEqual(self.tokens(F / name, "the <ENT>[X] cat [x] [MASK]"),
                             "[CLS] the <ent> [X] cat [ x ] [MASK] [SEP]", name)

    def test_says_what_is_wrong(self):
        def problem(name, change=lambda file: None, **options):
            return error_of("embed", "--model", self.folder(name, change=change, **options)[0], "--pieces", stdin="a\n")
        self.assertIn("model: got the type 'Unigram'; expected WordPiece", problem("j1", lambda f: f["model"].update(type="Unigram")))
        self.assertIn("vocab: the piece 'the': got \"5\"", problem("j2", lambda f: f["model"]["vocab"].update(the="5")))
        self.assertIn("the piece [SEP] is missing", problem("j3", lambda f: f["model"]["vocab"].pop("[SEP]") and f["added_tokens"].clear()))
        self.assertIn("pieces, but vocab_size is", problem("j4", added=[(len(pieces(WORDS, False)), "<x>", {})]))
        self.assertIn("is_decoder: got true", problem("j5", config={
            **CONFIG, "vocab_size": len(pieces(WORDS, False)), "is_decoder": True}))
        folder, _ = self.folder("j6")
        (folder / "tokenizer.json").unlink()
        self.assertIn("has no tokenizer.json and no vocab.txt", error_of("embed", "--model", folder, "--pieces", stdin="a\n"))
        (folder / "tokenizer.json").write_bytes(b"{" * 100000)
        self.assertIn("tokenizer.json: is not a JSON object", error_of("embed", "--model", folder, "--pieces", stdin="a\n"))
        write_bert(F / "mecab", WORDS)
        for text, says in (('{"tokenizer_class": "BertJapaneseTokenizer"}', "tokenizer_class: got 'BertJapaneseTokenizer'"),
                           ('{"added_tokens_decoder": {"-1": {"content": "x"}}}', "'-1': expected a token's number"),
                           ('{"added_tokens_decoder": []}', "added_tokens_decoder: got an array; expected an object"),
                           ('{"added_tokens_decoder": {"0": {"content": "zz"}}}', "the number 0 of the piece '[PAD]'"),
                           ('{"cls_token": 3}', "cls_token: got 3; expected a token"),
                           ('{"cls_token": "<s>"}', "the piece <s> is missing"),
                           ('{"strip_accents": "no"}', "strip_accents: got \"no\""),
                           ('{"extra_special_tokens": 1}', "extra_special_tokens: got 1; expected a list")):
            (F / "mecab" / "tokenizer_config.json").write_text(text)
            self.assertIn(says, error_of("embed", "--model", F / "mecab", "--pieces", stdin="a\n"))


@lacks("torch", "transformers")
class AgainstTransformers(unittest.TestCase):
    def test_saved_tokenisers(self):
        """Tokenisers as save_pretrained() writes them, whatever the version."""
        from transformers import AutoTokenizer, BertTokenizer
        words = ["the", "new", "york", "Uber", "uber", "\u00fcber", "##s", "\u535a", "caf\u00e9", "cafe", "##\u00fc", "##u"]
        write_bert(F / "list", words, cased=True)
        vocabulary = str(F / "list" / "vocab.txt")
        size = len((F / "list" / "vocab.txt").read_text().splitlines())
        kinds = {"uncased": {}, "cased": {"do_lower_case": False}, "accents": {"strip_accents": False},
                 "no-chinese": {"tokenize_chinese_chars": False}, "strips": {"do_lower_case": False, "strip_accents": True}}
        lines = ["Caf\u00e9 \u535a\u63a8, A\u200bB\u0007 \u00bfno? e\u0301 \u01c5 stra\u00dfe \u0130", "x" * 101, "",
                 "the <ENT> New york[X1] news[x1] [MASK]s <ent><ent> \u00dcber uber \u00fcber Uber x<w>y <w>",
                                    "a [SEP] b [UNK] [PAD] New  York NEW YORK", "\u00e9<w> <w>\u4e00 <w>_ (<w>) New Yorker newsnews"]
        for name, options in kinds.items():
            tokenizer = BertTokenizer(vocabulary, **options)
            tokenizer.add_tokens(["<ent>", "New York", "\u00dcber"])
            from transformers import AddedToken
            tokenizer.add_tokens([AddedToken("<w>", single_word=True), AddedToken("news", normalized=False)])
            tokenizer.add_special_tokens({"additional_special_tokens": ["[X1]"]})
            folder = F / f"saved-{name}"
            write_bert(folder, [], vocab_size=size + 16)
            (folder / "vocab.txt").unlink()
            config = json.loads((folder / "config.json").read_text())
            tokenizer.save_pretrained(folder)
            (folder / "config.json").write_text(json.dumps(config))
            again = AutoTokenizer.from_pretrained(folder)
            # convert_ids_to_tokens() shows added tokens in lower case
            names = {number: piece for piece, number in again.get_vocab().items()}
            got = checked("embed", "--model", folder, "--pieces", stdin="\n".join(lines) + "\n").stdout.split("\n")
            for i, line in enumerate(lines):
                ids = again(line, truncation=True, max_length=40)["input_ids"]
                expected = [names[i] for i in ids]
                self.assertEqual(got[i], " ".join(expected), (name, line))


if __name__ == "__main__":
    unittest.main(verbosity=2)

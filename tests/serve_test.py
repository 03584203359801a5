#!/usr/bin/env python3
"""`fovea serve`: the bytes of `fovea translate` and `fovea generate`, in the dialects of real clients."""
import concurrent.futures
import importlib
import importlib.util
import json
import math
import re
import unittest
import urllib.parse

from browser import Browser, find_browser
from fovea_program import Refusals, Workplace, checked
from served_program import Served, language_model


def optional(name):
    return importlib.import_module(name) if importlib.util.find_spec(name.split(".")[0]) else None


deepl, libretranslatepy, openai, prometheus = map(optional, ("deepl", "libretranslatepy", "openai", "prometheus_client.parser"))
PLACE = Workplace()
SHORT = ["--max-length-factor", 1, "--cpu-threads", 1, "--quiet"]
LINES = PLACE.sides["test"][0].read_text().splitlines()[:24]


def needs(module, name):
    return unittest.skipIf(module is None, f"needs the Python package {name}; see python/requirements-test.txt")


def translated(lines, *options):
    return checked("translate", "--model", PLACE.model(), *SHORT, *options, stdin="".join(f"{line}\n" for line in lines)
                   ).stdout.splitlines()


class OneServer(Refusals):
    """Tests that share a server with a model of a language pair and a language model."""

    @classmethod
    def setUpClass(cls):
        cls.server = Served("--model", f"en-de={PLACE.model()}", f"lm={language_model(PLACE)}", "--max-length-factor", 1, "--quiet",
                            "--max-body", 1 << 20)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass

    def ok(self, path, body, **options):
        status, answer, _ = self.server.post(path, body, **options)
        self.assertEqual(status, 200, answer)
        return answer

    def wrong(self, path, body, status, says, **options):
        got, answer, _ = self.server.post(path, body, **options)
        self.assertEqual(got, status, answer)
        self.assertIn(says, json.dumps(answer, ensure_ascii=False))
        self.assertNotIn(str(PLACE.folder), json.dumps(answer))
        return answer


class Own(OneServer):
    def test_bytes_of_translate(self):
        lines = [*LINES, "", "  two  blanks ", "\u00e4\u00f6\u20ac \U0001f600"]
        answer = self.ok("/translate", {"text": lines})
        self.assertEqual([found["text"] for found in answer["translations"]], translated(lines))

    def test_bytes_do_not_depend_on_other_clients(self):
        expected = translated(LINES)
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(lambda line: self.ok("/translate", {"text": line}), LINES))
        self.assertEqual([answer["translations"][0]["text"] for answer in answers], expected)

    def test_options_of_translate(self):
        line = LINES[0]
        found = self.ok("/translate", {"text": line, "beam-size": 3, "n-best": True, "alignment": True, "normalize": 0.5}
                        )["translations"][0]
        shown = translated([line], "--beam-size", 3, "--n-best", "--alignment", "--normalize", 0.5)
        self.assertEqual(len(found["n-best"]), 3)
        for hypothesis, text in zip(found["n-best"], shown):
            number, target, links, log_prob, score = text.split(" ||| ")
            self.assertEqual((hypothesis["text"], hypothesis["alignment"]), (target, links))
            self.assertAlmostEqual(hypothesis["log-prob"], float(log_prob[4:]), delta=1e-3)
            self.assertAlmostEqual(hypothesis["score"], float(score), delta=1e-3)

    def test_attention_of_a_sentence(self):
        found = self.ok("/translate", {"text": LINES[0], "attention": True})["translations"][0]["attention"]
        self.assertEqual((found["source"][-1], found["target"][-1]), ("</s>", "</s>"))
        columns = len(found["source"])
        self.assertEqual(len(found["weights"]), columns * len(found["target"]))
        for row in range(len(found["target"])):
            self.assertAlmostEqual(sum(found["weights"][row * columns:(row + 1) * columns]), 1, delta=1e-4)

    def test_attention_of_each_head(self):
        found = self.ok("/translate", {"text": LINES[0], "attention": True, "attention-heads": True})["translations"][0]["attention"]
        heads = [head for layer in found["heads"] for head in layer]
        for place, mean in enumerate(found["weights"]):
            self.assertAlmostEqual(sum(head[place] for head in heads) / len(heads), mean, delta=1e-5)
        rows, columns = len(found["target"]), len(found["source"])

        def information(weights):
            shares = [weights[r * columns:(r + 1) * columns] for r in range(rows)]
            entropy = lambda row: -sum(w * math.log(w) for w in row if w > 0)  # noqa: E731
            return entropy([sum(column) / rows for column in zip(*shares)]) - sum(map(entropy, shares)) / rows

        places = {(l + 1, h + 1): information(head) for l, layer in enumerate(found["heads"]) for h, head in enumerate(layer)}
        best = max(places, key=places.get)
        self.assertAlmostEqual(places[found["sharpest"]["layer"], found["sharpest"]["head"]], places[best], delta=1e-6)
        self.assertNotIn("heads", self.ok("/translate", {"text": LINES[0], "attention": True})["translations"][0]["attention"])
        self.wrong("/translate", {"text": LINES[0], "attention-heads": True}, 400, 'attention-heads needs ')

    def test_split_keeps_blanks_and_line_ends(self):
        one, two = LINES[0], LINES[1]
        found = self.ok("/translate", {"text": f" {one}\n\n{two}\r\n", "split": True})["translations"][0]
        first, second = translated([one, two])
        self.assertEqual(found["text"], f" {first}\n\n{second}\r\n")
        self.assertEqual([sentence["text"] for sentence in found["sentences"]], [first, second])

    def test_terms_are_said(self):
        target = translated(LINES[1:2])[0].split()[0]
        source = LINES[0].split()[0]
        found = self.ok("/translate", {"text": LINES[0], "terms": {source: target}})["translations"][0]
        self.assertIn(target.lower(), found["text"].lower())
        self.assertEqual(found["missing-terms"], [])
        self.wrong("/translate", {"text": "x", "terms": {"": "y"}}, 400, "terms")
        self.wrong("/translate", {"text": "x", "terms": 3}, 400, "expected an object of texts")

    def test_wrong_fields(self):
        for body, says in (({"text": 3}, "text: got 3; expected a text or a list of texts"),
                           ({"text": ["a", 1]}, "text: got an array"),
                           ({"text": "x", "q": "x"}, "send one"),
                           ({"text": "a\nb"}, "line end"),
                           ({"text": "x", "beam-size": 0}, "beam-size: got 0; expected a whole number from 1 to 20"),
                           ({"text": "x", "normalize": "a"}, "normalize"),
                           ({"text": "x", "n-best": 1}, "n-best: got 1; expected true or false"),
                           ({"text": "x", "format": "pdf"}, "format"),
                           ({"text": "x", "model": "lm"}, "continues texts"),
                           ({"text": "un " * 2000}, "tokens; expected at most 1000"),
                           ({"text": "x", "alignment": True, "alignment-layer": 9}, "layer"),
                           ({"text": "x", "alignment-layer": 1}, "need "),
                           ({"text": "x", "source": "fr"}, "source: got fr, but the model 'en-de' translates from en into de"),
                           ({"text": "x", "model": "en-de", "target": "fr"}, "target: got fr, but the model 'en-de'")):
            self.wrong("/translate", body, 400, says)
        self.wrong("/translate", {"text": "x", "model": "none"}, 404, "does not exist; there is en-de, lm")
        self.wrong("/translate", {"text": ["x"] * 1001}, 413, "expected at most 1000")

    def test_unknown_fields_are_ignored(self):
        self.ok("/translate", {"text": "un", "colour": "red"})

    def test_pages(self):
        for path in ("/health", "/ready"):
            self.assertEqual(self.server.ask("GET", path)[0], 200)
        status, page, headers = self.server.ask("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertIn("<textarea", page)
        status, answer, headers = self.server.ask("PUT", "/translate")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.ask("GET", "/none")[0], 404)

    def test_ids_are_unique(self):
        ids = [self.server.ask("GET", "/health")[2]["X-Request-Id"] for _ in range(3)]
        self.assertEqual(len(set(ids)), 3)

    @unittest.skipIf(find_browser() is None, "no browser found")
    def test_the_page_translates_and_draws(self):
        with Browser(find_browser()) as browser:
            browser.call("Page.navigate", url=self.server.url)
            browser.wait_for("document.readyState === 'complete' && 'ready' in document.documentElement.dataset")
            browser.evaluate(f"document.getElementById('text').value = {json.dumps(LINES[0])}; "
                             "document.getElementById('go').click()")
            browser.wait_for("document.documentElement.dataset.done === '1'")
            self.assertEqual(browser.evaluate("document.getElementById('result').textContent"), translated(LINES[:1])[0])
            self.assertGreater(browser.evaluate("document.querySelectorAll('#attention td').length"), 3)
            self.assertRegex(browser.evaluate("document.querySelector('#attention .caption').textContent"), r"^layer \d, head \d: ")
            browser.evaluate("document.getElementById('head').value = 'mean'; document.getElementById('head').dispatchEvent(new Event('change'))")
            self.assertIn("mean of all heads: ", browser.evaluate("document.querySelector('#attention .caption').textContent"))
            self.assertEqual(browser.evaluate("getComputedStyle(document.querySelector('.key')).display"), "none", "no keys are asked for")
            browser.evaluate("document.getElementById('text').value = 'un '.repeat(3000); document.getElementById('go').click()")
            browser.wait_for("document.documentElement.dataset.done === '2'")
            self.assertIn("expected at most", browser.evaluate("document.querySelector('.wrong').textContent"))
            browser.evaluate("document.getElementById('model').value = 'lm'; document.getElementById('model').dispatchEvent(new Event('change'));"
                             "document.getElementById('length').value = 5; document.getElementById('example').click()")
            browser.wait_for("document.documentElement.dataset.done === '3'")
            self.assertTrue(browser.evaluate("document.getElementById('result').textContent").startswith("The "))
            self.assertEqual(browser.evaluate("[document.getElementById('go').textContent, document.getElementById('shown').hidden]"),
                             ["Continue", True])
            self.assertEqual([error for error in browser.errors if "400" not in error and "favicon" not in error], [])

    @needs(prometheus, "prometheus-client")
    def test_metrics_are_prometheus_text(self):
        self.ok("/translate", {"text": LINES[0]})
        status, text, _ = self.server.ask("GET", "/metrics")
        families = {family.name: family for family in prometheus.text_string_to_metric_families(text)}
        requests = [s for s in families["fovea_requests"].samples if s.labels == {"dialect": "libretranslate", "code": "200"}]
        self.assertGreaterEqual(requests[0].value, 1)
        buckets = [s.value for s in families["fovea_request_seconds"].samples if s.name.endswith("_bucket")]
        self.assertEqual(buckets, sorted(buckets))
        self.assertGreater(families["fovea_source_tokens"].samples[0].value, 0)
        self.assertGreater(families["fovea_resident_memory_bytes"].samples[0].value, 1 << 20)


class LibreTranslate(OneServer):
    @needs(libretranslatepy, "libretranslatepy")
    def test_the_client(self):
        client = libretranslatepy.LibreTranslateAPI(self.server.url)
        self.assertEqual(client.translate(LINES[0], "en", "de"), translated(LINES[:1])[0])
        self.assertEqual(client.languages(), [{"code": "en", "name": "English", "targets": ["de"]}])
        with self.assertRaises(OSError):
            client.detect("text")

    def test_json_form_and_query_agree(self):
        text = translated(LINES[:1])[0]
        form = urllib.parse.urlencode({"q": LINES[0], "source": "en", "target": "de"})
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        for answer in (self.ok("/translate", {"q": LINES[0], "source": "en", "target": "de"}),
                       self.ok("/translate", form.encode(), headers=kind), self.ok(f"/translate?{form}", b"")):
            self.assertEqual(answer, {"translatedText": text})

    def test_lists_alternatives_and_auto(self):
        answer = self.ok("/translate", {"q": LINES[:2] + [""], "source": "auto", "target": "de", "alternatives": 2})
        self.assertEqual(answer["translatedText"], translated(LINES[:2]) + [""])
        self.assertEqual([found["language"] for found in answer["detectedLanguage"]], ["en"] * 3)
        self.assertEqual(len(answer["alternatives"]), 3)
        n_best = [line.split(" ||| ")[1] for line in translated(LINES[:1], "--n-best")]
        self.assertTrue(set(answer["alternatives"][0]) <= set(n_best[1:]))

    def test_paragraphs(self):
        first, second = translated(LINES[:2])
        answer = self.ok("/translate", {"q": f"{LINES[0]}\n {LINES[1]}", "source": "en", "target": "de"})
        self.assertEqual(answer["translatedText"], f"{first}\n {second}")

    def test_html_keeps_its_tags(self):
        markup = f'<p class="a>b">{LINES[0]}</p>\n<script>x < y</script><b translate="no">Stays &amp; stays</b>'
        text = translated(LINES[:1])[0]
        answer = self.ok("/translate", {"q": markup, "source": "en", "target": "de", "format": "html"})["translatedText"]
        self.assertEqual(answer, markup.replace(LINES[0], text))
        words = LINES[0].split()
        inner = f"{words[0]} <b>{' '.join(words[1:3])} <i>{words[3]}</i></b><br>{LINES[1]}"
        answer = self.ok("/translate", {"q": inner, "source": "en", "target": "de", "format": "html"})["translatedText"]
        self.assertEqual(sorted(re.findall(r"<[^>]*>", answer)), sorted(["<b>", "<i>", "</i>", "</b>", "<br>"]))
        plain = self.ok("/translate", {"q": LINES[0], "source": "en", "target": "de", "format": "html"})
        self.assertEqual(plain["translatedText"], text)

    def test_refusals(self):
        for body, says in (({"source": "en", "target": "de"}, "text (or q) is missing"),
                           ({"q": "x", "target": "de"}, "source is missing"),
                           ({"q": "x", "source": "en"}, "target is missing"),
                           ({"q": "x", "source": "en", "target": "fr"}, "no model translates from en into fr; there is en-de"),
                           ({"q": "x", "source": "en", "target": "de", "alternatives": 11}, "from 0 to 10"),
                           ({"q": "x", "source": "en", "target": "de", "format": "x"}, "text or html")):
            self.assertEqual(list(self.wrong("/translate", body, 400, says)), ["error"])
        self.wrong("/detect", {"q": "x"}, 400, "cannot tell languages apart")
        self.wrong("/translate_file", {"q": "x"}, 400, "does not translate files")
        self.assertIn("keyRequired", self.server.ask("GET", "/frontend/settings")[1])


class DeepL(OneServer):
    @needs(deepl, "deepl")
    def test_the_client(self):
        client = deepl.DeepLClient("key", server_url=self.server.url)
        found = client.translate_text(LINES[:2], source_lang="EN", target_lang="DE")
        self.assertEqual([part.text for part in found], translated(LINES[:2]))
        self.assertEqual((found[0].detected_source_lang, found[0].billed_characters), ("EN", len(LINES[0])))
        self.assertEqual(client.translate_text(LINES[0], target_lang="DE").text, translated(LINES[:1])[0])
        marked = client.translate_text(f"<b>{LINES[0]}</b>", target_lang="DE", tag_handling="html").text
        self.assertEqual(marked, f"<b>{translated(LINES[:1])[0]}</b>")
        self.assertGreaterEqual(client.get_usage().character.count, len(LINES[0]))
        self.assertEqual([language.code for language in client.get_target_languages()], ["DE"])
        self.assertEqual([language.code for language in client.get_source_languages()], ["EN"])
        with self.assertRaisesRegex(deepl.DeepLException, "formality"):
            client.translate_text("x", target_lang="DE", formality="more")
        with self.assertRaisesRegex(deepl.DeepLException, "no model"):
            client.translate_text("x", target_lang="FR")
        self.wrong("/v2/translate", {"text": ["x"], "target_lang": "DE", "formality": "More"}, 400, "default or prefer_more or pref")

    @needs(deepl, "deepl")
    def test_glossaries(self):
        client = deepl.DeepLClient("key", server_url=self.server.url)
        target = translated(LINES[1:2])[0].split()[0]
        made = client.create_glossary("words", "EN", "DE", {LINES[0].split()[0]: target})
        self.assertEqual((made.name, made.entry_count), ("words", 1))
        self.assertEqual([glossary.glossary_id for glossary in client.list_glossaries()], [made.glossary_id])
        self.assertEqual(client.get_glossary_entries(made), {LINES[0].split()[0]: target})
        text = client.translate_text(LINES[0], source_lang="EN", target_lang="DE", glossary=made).text
        self.assertIn(target.lower(), text.lower())
        self.assertEqual(len(client.get_glossary_languages()), 1)
        client.delete_glossary(made)
        with self.assertRaises(deepl.GlossaryNotFoundException):
            client.get_glossary(made.glossary_id)

    @needs(deepl, "deepl")
    def test_glossaries_in_csv(self):
        client = deepl.DeepLClient("key", server_url=self.server.url)
        made = client.create_glossary_from_csv("csv", "EN", "DE", '"a, b","the ""c"""\nx,y z,en,DE\n')
        self.assertEqual(made.entry_count, 2)
        self.assertEqual(client.get_glossary_entries(made), {"a, b": 'the "c"', "x": "y z"})
        client.delete_glossary(made)
        glossary = {"name": "n", "source_lang": "en", "target_lang": "de", "entries_format": "csv"}
        for entries, says in (("a\n", "line 1: got 1 field; expected SOURCE,TARGET"), ("a,b\nc,d,en\n", "line 2: got 3 fields"),
                              ("a,b,de,en\n", "line 1: got the languages de and en"), ('a,"b\n', "line 1: a quote has no end"),
                              ("a,b\n,c\n", "line 2: got a term without a source"), ('"a\tb",c\n', "line 1: got a term with a tab"),
                              ("\n", "got no line"), ("a,b\0\n", "line 1")):
            self.wrong("/v2/glossaries", {**glossary, "entries": entries}, 400, says)
        self.wrong("/v2/glossaries", {**glossary, "entries": "a,b", "entries_format": "xls"}, 400, "tsv or csv")

    @needs(deepl, "deepl")
    def test_glossaries_of_several_languages(self):
        client = deepl.DeepLClient("key", server_url=self.server.url)
        word, target = LINES[0].split()[0], translated(LINES[1:2])[0].split()[0]
        entries = deepl.api_data.MultilingualGlossaryDictionaryEntries
        made = client.create_multilingual_glossary("words", [entries("EN", "DE", {word: target, "b": "c"})])
        self.assertEqual([(one.source_lang, one.target_lang, one.entry_count) for one in made.dictionaries], [("EN", "DE", 2)])
        self.assertIn(target.lower(), client.translate_text(LINES[0], source_lang="EN", target_lang="DE", glossary=made).text.lower())
        changed = client.update_multilingual_glossary_dictionary(made, entries("EN", "DE", {"b": "d", "e": "f"}))
        self.assertEqual(changed.dictionaries[0].entry_count, 3)
        found = client.get_multilingual_glossary_entries(made, "EN", "DE")
        self.assertEqual(found.dictionaries[0].entries, f"{word}\t{target}\nb\td\ne\tf\n")
        client.replace_multilingual_glossary_dictionary(made, entries("EN", "DE", {"x": "y"}))
        self.assertEqual(client.update_multilingual_glossary_name(made, "others").name, "others")
        self.assertEqual([glossary.name for glossary in client.list_multilingual_glossaries()], ["others"])
        self.assertEqual(client.get_multilingual_glossary(made.glossary_id).dictionaries[0].entry_count, 1)
        self.assertEqual([glossary.entry_count for glossary in client.list_glossaries()], [1], "version 2 sees it too")
        client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
        self.assertEqual(client.get_multilingual_glossary(made.glossary_id).dictionaries, [])
        self.assertEqual(client.list_glossaries(), [])
        path = f"/v3/glossaries/{made.glossary_id}"
        self.assertEqual(self.server.ask("GET", f"{path}/entries?source_lang=en&target_lang=de")[0], 404)
        self.wrong("/v3/glossaries", {"name": "x"}, 400, "dictionaries is missing")
        one = {"source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}
        self.wrong("/v3/glossaries", {"name": "x", "dictionaries": [one, one]}, 400, "en into de twice")
        self.wrong("/v3/glossaries", {"name": "x", "dictionaries": [{**one, "target_lang": "fr"}]}, 400, "no model")
        self.wrong("/v3/glossaries", {"name": "x", "dictionaries": ["a"]}, 400, "expected objects")
        self.wrong("/v3/none", {}, 404, "does not exist")
        client.delete_multilingual_glossary(made)
        with self.assertRaises(deepl.GlossaryNotFoundException):
            client.get_multilingual_glossary(made.glossary_id)

    @needs(deepl, "deepl")
    def test_glossaries_of_a_folder_survive(self):
        folder = PLACE.folder / "glossaries"
        options = ("--model", f"en-de={PLACE.model()}", "--max-length-factor", 1, "--quiet", "--glossaries", folder)
        entries = deepl.api_data.MultilingualGlossaryDictionaryEntries
        word, target = LINES[0].split()[0], translated(LINES[1:2])[0].split()[0]
        with Served(*options) as server:
            client = deepl.DeepLClient("key", server_url=server.url)
            first = client.create_multilingual_glossary("caf\u00e9", [entries("EN", "DE", {word: target})])
            second = client.create_glossary("gone", "EN", "DE", {"a": "b"})
            client.delete_glossary(second)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), [f"{first.glossary_id}.en-de.tsv", f"{first.glossary_id}.json"])
        self.assertEqual((folder / f"{first.glossary_id}.en-de.tsv").read_text(), f"{word}\t{target}")
        (folder / "own.en-de.tsv").write_text(f"{word}\t{target}\r\n")
        (folder / "notes.txt").write_text("x")
        with Served(*options) as server:
            client = deepl.DeepLClient("key", server_url=server.url)
            again = client.get_multilingual_glossary(first.glossary_id)
            self.assertEqual((again.name, again.creation_time), (first.name, first.creation_time))
            for glossary in (first.glossary_id, "own"):
                text = client.translate_text(LINES[0], source_lang="EN", target_lang="DE", glossary=glossary).text
                self.assertIn(target.lower(), text.lower())
            client.delete_multilingual_glossary_dictionary(first, source_lang="EN", target_lang="DE")
        self.assertFalse((folder / f"{first.glossary_id}.en-de.tsv").exists())
        self.assertIn("notes.txt' is not read", server.errors)
        (folder / "own.en-de.tsv").write_text("no tab")
        self.refused("serve", "--port", 0, *options, says=["own.en-de.tsv", "line 1"])

    def test_forms_and_limits(self):
        form = urllib.parse.urlencode([("text", LINES[0]), ("text", LINES[1]), ("target_lang", "de")]).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self.ok("/v2/translate", form, headers=kind)
        self.assertEqual([found["text"] for found in answer["translations"]], translated(LINES[:2]))
        self.assertEqual(list(self.wrong("/v2/translate", {"text": ["x"] * 51, "target_lang": "DE"}, 413, "at most 50")),
                         ["message"])
        self.wrong("/v2/translate", {"text": ["x" * (129 << 10)], "target_lang": "DE"}, 413, "131072 bytes")
        self.wrong("/v2/translate", {"text": ["x"], "target_lang": "DE", "glossary_id": "no"}, 404, "does not exist")
        self.wrong("/v2/none", {}, 404, "does not exist")

    def test_split_sentences(self):
        both = f"{LINES[0]}\n{LINES[1]}"
        joined = translated([" ".join(LINES[:2])])[0]
        answer = self.ok("/v2/translate", {"text": [both], "target_lang": "DE", "split_sentences": "0"})
        self.assertEqual(answer["translations"][0]["text"], joined)


class OpenAi(OneServer):
    @needs(openai, "openai")
    def test_the_client(self):
        client = openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="key", max_retries=0)
        self.assertEqual([model.id for model in client.models.list()], ["en-de", "lm"])
        prompt, options = "un", ["--max-length", 40, "--seed", 7, "--temperature", 0.8]
        expected = checked("generate", "--model", language_model(PLACE), "--prompt", prompt, *options, "--cpu-threads", 1, "--quiet"
                           ).stdout[:-1]
        asked = dict(model="lm", prompt=prompt, max_tokens=40, seed=7, temperature=0.8)
        found = client.completions.create(**asked, echo=True)
        self.assertEqual(found.choices[0].text.encode(errors="replace"), expected.encode(errors="replace"))
        self.assertEqual((found.usage.prompt_tokens, found.choices[0].finish_reason), (len(prompt), "length"))
        parts = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(prompt + "".join(part.choices[0].text for part in parts if part.choices), found.choices[0].text)
        self.assertEqual(parts[-1].usage, found.usage)
        several = client.completions.create(model="lm", prompt=["un", [117, 110]], n=2, seed=1, max_tokens=5, logprobs=2)
        self.assertEqual([choice.index for choice in several.choices], [0, 1, 2, 3])
        log_probs = several.choices[0].logprobs
        self.assertEqual(len(log_probs.tokens), len(log_probs.token_logprobs))
        self.assertTrue(all(value <= 0 for value in log_probs.token_logprobs))
        self.assertTrue(all(len(top) in (2, 3) for top in log_probs.top_logprobs))
        for chosen, value, top in zip(log_probs.tokens, log_probs.token_logprobs, log_probs.top_logprobs):
            self.assertEqual(top[chosen], value)
        with self.assertRaises(openai.NotFoundError):
            client.completions.create(model="none", prompt="x")
        with self.assertRaisesRegex(openai.BadRequestError, "translates"):
            client.completions.create(model="en-de", prompt="x")

    @needs(openai, "openai")
    def test_chat_translates(self):
        client = openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="key", max_retries=0)
        messages = [{"role": "system", "content": "Translate."}, {"role": "user", "content": LINES[0]}]
        found = client.chat.completions.create(model="en-de", messages=messages)
        self.assertEqual(found.choices[0].message.content, translated(LINES[:1])[0])
        # The server's longest translation has as many tokens as the source.
        tokens = self.ok("/translate", {"text": LINES[0]})
        is_cut = tokens["target-tokens"] > tokens["source-tokens"]
        self.assertEqual(found.choices[0].finish_reason, "length" if is_cut else "stop")
        streamed = client.chat.completions.create(model="en-de", messages=messages, stream=True)
        self.assertEqual("".join(part.choices[0].delta.content or "" for part in streamed), found.choices[0].message.content)
        with self.assertRaisesRegex(openai.BadRequestError, "no chat template; write the text of the conversation yourself"):
            client.chat.completions.create(model="lm", messages=messages)
        with self.assertRaisesRegex(openai.BadRequestError, "tools"):
            client.chat.completions.create(model="en-de", messages=messages, tools=[{"type": "function", "function": {"name": "f"}}])

    @needs(openai, "openai")
    def test_echo_with_logprobs_scores_the_prompt(self):
        prompt = LINES[0] + "\u00e4 " + LINES[1] + " " + LINES[2] * 9  # more than one piece of the prompt
        path = PLACE.folder / "prompt.txt"
        path.write_text(prompt)
        scores = [float(line.split("\t")[-1]) for line in
                  checked("score", "--model", language_model(PLACE), "--train-sets", path, "--level", "unit", "--context",
                          len(prompt.encode()), "--quiet").stdout.splitlines()]
        client = openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="key", max_retries=0)
        asked = dict(model="lm", prompt=prompt, echo=True, logprobs=2, seed=5)
        found = client.completions.create(**asked, max_tokens=0)
        choice = found.choices[0]
        self.assertEqual((choice.text, choice.finish_reason, found.usage.completion_tokens), (prompt, "length", 0))
        self.assertEqual(len(choice.logprobs.tokens), len(prompt.encode()))
        self.assertEqual(len(scores), len(prompt.encode()))
        for value, score in zip(choice.logprobs.token_logprobs, scores):
            self.assertAlmostEqual(value, score, delta=1e-4 * max(1, abs(score)))
        for token, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset):
            if not token.startswith("bytes:"):
                self.assertTrue(prompt[offset:].startswith(token), (token, offset))
        place = choice.logprobs.tokens.index("bytes:\\xc3")
        self.assertEqual(choice.logprobs.tokens[place + 1], "bytes:\\xa4")
        self.assertEqual([prompt[offset] for offset in choice.logprobs.text_offset[place:place + 3]], ["\u00e4", "\u00e4", " "])
        longer = client.completions.create(**asked, max_tokens=9).choices[0]
        self.assertEqual(longer.logprobs.token_logprobs[:len(scores)], choice.logprobs.token_logprobs)
        self.assertEqual(len(longer.logprobs.tokens), len(scores) + 9)
        self.assertTrue(longer.text.startswith(prompt))
        parts = list(client.completions.create(**asked, max_tokens=9, stream=True))
        self.assertEqual("".join(part.choices[0].text for part in parts), longer.text)
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            streamed = sum((getattr(part.choices[0].logprobs, name) for part in parts if part.choices[0].logprobs), [])
            self.assertEqual(streamed, getattr(longer.logprobs, name), name)
        alone = client.completions.create(**{**asked, "echo": False}, max_tokens=9).choices[0].logprobs
        self.assertEqual(alone.tokens, longer.logprobs.tokens[len(scores):])
        self.assertEqual(alone.text_offset[0], 0)
        empty = client.completions.create(model="lm", prompt="", echo=True, logprobs=1, max_tokens=0).choices[0]
        self.assertEqual((empty.text, empty.logprobs.tokens), ("", []))

    def test_a_stop_ends_a_text(self):
        whole = self.ok("/v1/completions", {"model": "lm", "prompt": "un", "max_tokens": 30, "seed": 3})["choices"][0]["text"]
        stop = re.search("[ -~]{2}", whole[5:])[0]  # whole characters
        for many in (["x"] * 65, ["x" * 2001]):
            self.wrong("/v1/completions", {"model": "lm", "prompt": "un", "stop": many}, 400, "expected at most 64 of 2000 bytes")
        cut = self.ok("/v1/completions", {"model": "lm", "prompt": "un", "max_tokens": 30, "seed": 3, "stop": stop})["choices"][0]
        self.assertEqual((cut["text"], cut["finish_reason"]), (whole[:whole.index(stop)], "stop"))

    def test_refusals(self):
        for body, says in (({"prompt": "x"}, "model is missing"), ({"model": "lm", "prompt": {}}, "prompt: got an object"),
                           ({"model": "lm", "prompt": [1, "x"]}, "expected tokens"),
                           ({"model": "lm", "prompt": [257]}, "tokens from 0 to 256"),
                           ({"model": "lm", "max_tokens": -1}, "max_tokens: got -1; expected a whole number from 0 to 4096"),
                           ({"model": "lm", "temperature": -1}, "temperature"), ({"model": "lm", "suffix": "x"}, "suffix"),
                           ({"model": "lm", "top_p": 0}, "top_p"), ({"model": "lm", "logprobs": 21}, "logprobs")):
            error = self.wrong("/v1/completions", body, 400, says)["error"]
            self.assertEqual(error["type"], "invalid_request_error")
        self.wrong("/v1/chat/completions", {"model": "en-de", "messages": [{"role": "system", "content": "x"}]}, 400, "'user'")


if __name__ == "__main__":
    unittest.main(verbosity=2)

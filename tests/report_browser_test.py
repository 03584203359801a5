#!/usr/bin/env python3
"""The page of `fovea report` in a headless Chromium: what it draws, its keys, its picture, and hostile text. Skipped,
with a line that says so, where there is no Chromium."""
import math
import re
import sys
import unittest
import xml.etree.ElementTree

from browser import NAMES, Browser, find_browser

if find_browser() is None:
    print(f"skipped: no browser found; install one of {', '.join(NAMES)} to run this test")
    sys.exit(77)

from fovea_program import TINY, Workplace, checked  # noqa: E402: not before the test is skipped

PLACE = Workplace()
F = PLACE.folder
HOSTILE = ["</script><script>window.hacked=1</script>", "<img/src=x/onerror=window.hacked=2>", "&amp;<>\"'",
           "<!--", "]]>", "{{DATA}}"]


def hostile_model():
    """A model whose words are hostile, and the text that it was trained on."""
    text = F / "hostile.txt"
    vocab = F / "hostile.spm"
    if not vocab.exists():
        text.write_text("".join(f"{HOSTILE[i % len(HOSTILE)]} word{i % 7} {HOSTILE[i * 5 % len(HOSTILE)]}\n" for i in range(200)))
        checked("vocab", "--train-sets", text, "--type", "word", "--dim-vocabs", 100, "--output", vocab, "--quiet")
        checked("train", "--model", F / "hostile", "--train-sets", text, text, "--vocabs", vocab, vocab, *TINY,
                "--after-batches", 3, "--quiet")
    return F / "hostile", text


def report(name, *options):
    path = F / f"{name}.html"
    checked("report", *options, "--output", path, "--cpu-threads", 1, "--quiet")
    return path


def translation_report():
    if not (F / "translation.html").exists():
        source, target = PLACE.sides["test"]
        report("translation", "--model", PLACE.model(), "--input", source, "--reference", target, "--sentences", 3,
               "--compare-attention", "topk(1)")
    return F / "translation.html"


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(Browser(find_browser()))

    def setUp(self):
        self.browser.requests.clear()
        self.browser.errors.clear()

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])
        self.assertEqual([url for url in self.browser.requests if not url.startswith(("file:", "about:", "blob:", "data:"))], [])

    def text(self, selector):
        return self.browser.evaluate(f"document.querySelector({selector!r}).textContent")

    def wait_drawn(self, action):
        before = self.browser.evaluate("document.documentElement.getAttribute('data-drawn')")
        action()
        self.browser.wait_for(f"document.documentElement.getAttribute('data-drawn') !== {before!r}")

    def test_every_layer_and_head_is_drawn_for_both(self):
        self.browser.open(translation_report())
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.card').length"), 2)
        # One layer of two heads: their mean, and each.
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('.overview')].map(o => o.querySelectorAll('canvas').length)"), [3, 3])
        for sublayer in ("encoder", "decoder", "cross"):
            self.browser.open(translation_report(), f"#attention={sublayer}&layer=1&head=2")
            self.assertIn("layer 1, head 2", self.text(".card .caption b"))
            self.assertGreater(self.browser.evaluate("document.querySelectorAll('.ribbons path').length"), 0)

    def test_it_opens_with_the_sharpest_head(self):
        """The head whose rows and columns have the greatest mutual information, computed here from the page's weights."""
        self.browser.open(translation_report())
        best, most = None, -1
        for head in (1, 2):
            self.browser.open(translation_report(), f"#attention=cross&layer=1&head={head}")
            sums = [0, 0]  # information, rows
            for sentence in (1, 2, 3):
                self.browser.open(translation_report(), f"#attention=cross&layer=1&head={head}&sentence={sentence}")
                values, rows, columns = self.browser.evaluate("(({values, rows, columns}) => [[...values], rows, columns])(cards[0].shown.matrix)")
                shares = [[w / sum(values[r * columns:(r + 1) * columns]) for w in values[r * columns:(r + 1) * columns]] for r in range(rows)]
                means = [sum(column) / rows for column in zip(*shares)]
                entropy = lambda row: -sum(w * math.log(w) for w in row if w > 0)  # noqa: E731
                sums[0] += rows * entropy(means) - sum(map(entropy, shares))
                sums[1] += rows
            if sums[0] / sums[1] > most:
                best, most = head, sums[0] / sums[1]
        self.browser.open(translation_report())
        self.assertEqual(self.text(".card .caption b"), f"Cross-attention, layer 1, head {best}")
        self.assertIn("; the sharpest of 2 heads", self.browser.evaluate("document.querySelector('.card .caption b').parentNode.textContent"))
        self.browser.open(translation_report(), "#attention=cross&layer=1")
        self.assertIn("mean of heads", self.text(".card .caption b"))

    def test_weights_are_those_of_the_program(self):
        """topk(1) leaves one weight of 1 in each row, and zeros: by value in the readout, by colour in the map."""
        self.browser.open(translation_report(), "#attention=cross&layer=1&head=1&theme=light")
        columns = self.browser.evaluate("cards[1].shown.matrix.columns")
        for row in range(2):
            values = []
            for column in range(columns):
                self.browser.evaluate(f"moveCursor(cards[1], {{row: {row}, column: {column}}}, false)")
                values.append(self.browser.evaluate("cards[1].readout.querySelector('.value').textContent"))
            self.assertEqual(sorted(values), ["1.0"] + ["exactly 0"] * (columns - 1))
            colours = self.browser.evaluate(f"""(() => {{
                const {{cells, layout, matrix}} = cards[1].map, context = cells.getContext("2d");
                return Array.from({{length: matrix.columns}}, (_, c) =>
                    [...context.getImageData((c + 0.5) * layout.cell, ({row} + 0.5) * layout.cell, 1, 1).data].slice(0, 3).join());
            }})()""")
            zero = self.browser.evaluate("PALETTES.light.zero.join()")
            self.assertEqual([colour == zero for colour in colours], [value == "exactly 0" for value in values])
        sums = self.browser.evaluate("""(() => { const {values, rows, columns} = cards[0].shown.matrix;
            return Array.from({length: rows}, (_, r) => values.slice(r * columns, (r + 1) * columns).reduce((a, b) => a + b)); })()""")
        for total in sums:  # softmax; each weight is rounded by half a level, 1 / 127 of sqrt(w), at most
            self.assertAlmostEqual(total, 1, delta=0.1)

    def test_keys_move_the_cursor(self):
        self.browser.open(translation_report(), "#attention=cross&layer=1&head=1")
        self.browser.evaluate("document.querySelector('.map').focus()")
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            self.browser.press(key)
        self.assertRegex(self.text(".readout"), r"^Step 3 reads .* predicts .*; key 2 ")
        self.browser.press("End")
        self.assertIn("</s>", self.text(".readout"))
        self.browser.press("Home")
        self.assertRegex(self.text(".readout"), r"key 1 ")
        self.wait_drawn(lambda: self.browser.press("j"))
        self.assertIn("sentence=2", self.browser.evaluate("location.hash"))
        self.wait_drawn(lambda: self.browser.press("k"))
        self.assertIn("sentence=1", self.browser.evaluate("location.hash"))
        self.browser.evaluate("document.querySelector('.overview [tabindex=\"0\"]').focus()")
        self.browser.press("ArrowRight")
        self.assertEqual(self.browser.evaluate("document.activeElement.dataset.place"), "1-2")
        self.wait_drawn(lambda: self.browser.evaluate("document.activeElement.click()"))
        self.assertIn("head=2", self.browser.evaluate("location.hash"))
        cell = self.browser.evaluate("cards[0].map.layout.cell")
        self.browser.evaluate("document.querySelector('.map').focus()")
        self.wait_drawn(lambda: self.browser.press("+"))
        self.assertGreater(self.browser.evaluate("cards[0].map.layout.cell"), cell)

    def test_every_control_has_a_name(self):
        self.browser.open(translation_report())
        unnamed = self.browser.evaluate("""[...document.querySelectorAll("button, select, input")].filter(control =>
            !control.textContent.trim() && !control.getAttribute("aria-label") && !(control.labels && control.labels.length))
            .map(control => control.outerHTML)""")
        self.assertEqual(unnamed, [])

    def test_light_and_dark(self):
        for scheme, fragment, dark in (("light", "", False), ("dark", "", True), ("dark", "#theme=light", False),
                                       ("light", "#theme=dark", True)):
            self.browser.open(translation_report(), fragment, scheme=scheme)
            self.assertEqual(self.browser.evaluate("document.documentElement.classList.contains('dark')"), dark)
        self.browser.open(translation_report(), scheme="light")
        self.wait_drawn(lambda: self.browser.evaluate("document.getElementById('theme').click()"))
        self.assertTrue(self.browser.evaluate("document.documentElement.classList.contains('dark')"))

    def test_no_sideways_scrolling_of_the_page(self):
        for width in (400, 1400):
            self.browser.open(translation_report(), width=width)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)

    def test_hostile_text_is_text(self):
        model, text = hostile_model()
        page = report("hostile-page", "--model", model, "--input", text, "--reference", text, "--sentences", 6)
        self.browser.open(page, "#attention=cross&layer=1&head=1&ribbons=1")
        self.assertIsNone(self.browser.evaluate("window.hacked ?? null"))
        shown = self.browser.evaluate("report.models[0].passes.flatMap(pass => pass.source)")
        for word in HOSTILE:
            self.assertTrue(any(word in token for token in shown), word)
        for sentence in range(1, 7):
            self.wait_drawn(lambda: self.browser.evaluate(f"state.sentence = {sentence - 1}, draw()"))
            self.assertEqual(self.text("#texts dd"), text.read_text().splitlines()[sentence - 1])
        svg = self.browser.evaluate("pictureSvg(cards.map(card => card.shown))")
        self.assertIsNone(self.browser.evaluate("window.hacked ?? null"))
        root = xml.etree.ElementTree.fromstring(svg)
        self.assertEqual({re.sub(r"\{.*\}", "", node.tag) for node in root.iter()}, {"svg", "g", "path", "rect", "text"})

    def test_picture_is_saved_as_svg(self):
        downloads = F / "downloads"
        self.browser.open(translation_report(), "#sentence=2&attention=decoder&layer=1&head=1")
        session, self.browser.session = self.browser.session, None
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        self.browser.session = session
        self.browser.evaluate("document.getElementById('save').click()")
        self.browser.wait_for("true")
        saved = downloads / "attention-2.svg"
        for _ in range(100):
            if saved.exists() and saved.stat().st_size > 0:
                break
            self.browser.evaluate("new Promise(resolve => setTimeout(resolve, 100))")
        root = xml.etree.ElementTree.parse(saved).getroot()
        texts = "".join(node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text"))
        self.assertIn("with topk(1)", texts)
        for axis in ("queries ↓", "keys →", "queries", "keys"):
            self.assertIn(axis, texts)
        self.assertIn("Decoder self-attention, layer 1, head 1", texts)
        later = self.browser.evaluate("css(PALETTES.light.later)")
        self.assertTrue(any(node.get("fill") == later for node in root.iter()))

    def test_clauses_and_the_sweep(self):
        model, text, vocab = F / "clauses", F / "clauses.txt", F / "clauses.spm"
        line = "he came , and she left ."
        text.write_text(f"{line}\n" * 50)
        checked("vocab", "--train-sets", text, "--type", "word", "--dim-vocabs", 11, "--output", vocab, "--quiet")
        checked("train", "--model", model, "--train-sets", text, text, "--vocabs", vocab, vocab, *TINY, "--after-batches", 1,
                "--quiet", "--attention-encoder", "mix(full,clause(1))")
        specs = ("decoder=full", "decoder=topk(1)", "decoder=topk(2)")
        page = report("clauses-page", "--model", model, "--source", line, "--target", line, "--sweep", *specs)
        for width in (400, 1400):
            self.browser.open(page, "#attention=encoder&layer=1&head=1", width=width)
            starts = self.browser.evaluate("report.models[0].passes[0].clauses.filter(level => level > 0).length")
            self.assertGreater(starts, 1)
            self.assertEqual(self.browser.evaluate("document.querySelectorAll('.clauses .clause').length"), starts)
            signs = "cards[0].shown.labels.rows.filter(label => label.startsWith('\u2460')).length"
            self.assertEqual(self.browser.evaluate(signs), starts - 1)
            self.assertEqual(self.browser.evaluate("document.querySelectorAll('#sweep .chart circle').length"), 2)
            rows = self.browser.evaluate("[...document.querySelectorAll('#sweep tbody th')].map(cell => cell.textContent)")
            self.assertEqual(rows, list(specs))
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
        self.browser.open(page, "#attention=decoder&layer=1&head=1")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.clauses').length"), 0)

    def test_clusters_of_routed_heads(self):
        model, text = F / "routed", F / "lines.txt"
        text.write_text("the cat sat on the mat\nthe dog ran away\n" * 20)
        checked("train", "--task", "language", "--model", model, "--train-sets", text, "--vocabs", "bytes",
                "--segment-length", 32, "--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 16,
                "--attention", "1*local(4);1*routed(3,8,causal)", "--after-batches", 2, "--cpu-threads", 1, "--quiet")
        page = report("routed-page", "--model", model, "--input", text, "--sentences", 1)
        self.browser.open(page, "#layer=1&head=2")
        clusters = self.browser.evaluate("report.models[0].passes[0].attentions[0].clusters")
        self.assertEqual([head for head, _ in clusters], [1])
        # With routed(..., causal), each token is in one cluster.
        length = self.browser.evaluate("report.models[0].passes[0].inputs.length")
        self.assertEqual(sorted(place for members in clusters[0][1] for place in members), list(range(length)))
        self.assertTrue(self.browser.evaluate("document.getElementById('sweep').hidden"))
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.clusters li').length"), 3)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.clusters .token').length"), length)
        # Tokens of different clusters do not see each other.
        cluster_of = {place: c for c, members in enumerate(clusters[0][1]) for place in members}
        for row, column in self.browser.evaluate("""(() => { const {values, rows, columns} = cards[0].shown.matrix, out = [];
            for (let i = 0; i < rows * columns; ++i) if (values[i] > 0) out.push([Math.floor(i / columns), i % columns]);
            return out; })()"""):
            self.assertEqual(cluster_of[row], cluster_of[column])


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""The commands of README.md and of the guides run as they stand, top to bottom, in a folder of their own, and print what the
page shows. Corpora, models and trainings are made small; where numbers follow from them, only the words are compared.

A block is one of: commands; a transcript, whose commands stand behind '$'; what commands above it printed; or, if a
language stands behind its fence, text that this test does not run (`sh`: commands that need what is not here)."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from fovea_program import PROGRAM, checked
from options_page import values_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = "./fovea corpus --generate 20000 --languages en de --output corpus"
VOCAB = "./fovea vocab --train-sets corpus/train.en corpus/train.de --output joint.spm"
LINES = "for side in en de; do head -n 20 corpus/test.$side > test.$side; done"
RUN = ("./fovea train --model run --train-sets corpus/train.en corpus/train.de --vocabs joint.spm joint.spm "
       "--enc-depth 2 --dec-depth 2")
TEXTS = f"{CORPUS}; {VOCAB}; {LINES}"

# Each page, and what it takes for granted.
PAGES = {
    "README.md": "",
    "docs/alignment.md": f"""{TEXTS}; {RUN}
                             sed -E 's/([0-9]+)-([0-9]+)/\\2-\\1/g' corpus/test.align | head -n 20 > de-en.wa
                             for side in en de; do cp corpus/train.$side train.$side; done""",
    "docs/analysis.md": """./fovea corpus --generate 100 --languages en de --output more; head -n 20 more/train.en > text.txt
                           ./fovea train --task language --model language --train-sets text.txt --vocabs bytes""",
    "docs/attention.md": "",
    "docs/captions.md": "",
    "docs/clauses.md": "",
    "docs/data.md": """printf 'a b c d\\ne f g h\\n' > test.de
                       for text in test.out full.out topk.out test.tok.de test.tok.out; do cp test.de $text; done""",
    "docs/documents.md": "",
    "docs/from-marian.md": "",
    "docs/gpu.md": "",
    # Twelve images of CIFAR-10's size.
    "docs/images.md": """mkdir cifar-10-batches-bin
                         for name in data_batch_1 test_batch; do head -c 36876 /dev/zero > cifar-10-batches-bin/$name.bin; done""",
    "docs/language.md": "",
    "docs/options.md": "",
    "docs/own-text.md": f"""{CORPUS}; for side in en de; do cp corpus/train.$side big.$side; done; rm -r corpus""",
    "docs/report.md": "",
    "docs/tagging.md": "",
    "docs/training.md": f"{CORPUS}; {VOCAB}; {RUN} --valid-sets corpus/valid.en corpus/valid.de",
    "docs/translation.md": "",
}
# Pages without commands that run here and soon, and why.
NOT_RUN = {
    "docs/bert.md": "needs the weights of BERT",
    "docs/convert.md": "needs models of other systems; cli_convert_test.py has small ones",
    "docs/design.md": "shows no commands",
    "docs/glossary.md": "shows no commands",
    "docs/huggingface.md": "python/tests/test_transformers_docs.py runs it",
    "docs/install.md": "builds and installs",
    "docs/pictures.md": "shows a model of seven minutes of training",
    "docs/python.md": "python/tests/test_docs.py runs it",
    "docs/recipes.md": "needs published corpora",
    "docs/results.md": "needs corpora and hours",
    "docs/scale.md": "needs a launcher of several processes; mpi_test.py starts them",
    "docs/serve.md": "a server runs until it is stopped; serve_test.py has its requests",
    "docs/speed.md": "what it shows depends on the processor",
    "docs/trainings.md": "needs corpora and hours",
    "docs/tuning.md": "its commands stand in other pages",
}
WHOLE_CORPUS = ("docs/data.md",)  # pages that show the size of their corpus
SMALLER = """#!/bin/bash
case $1 in
  train) set -- "$@" --overwrite --after-batches 6 --after-epochs 0 --valid-freq 3 --save-freq 1 --disp-freq 1 --dim-emb 32 \\
                     --transformer-dim-ffn 32 --cpu-threads 1 ;;
  {corpus}) case " $* " in *" --generate "*) set -- "$@" --generate 1000 ;; esac; set -- "$@" --valid 40 --test 40 ;;
  vocab) set -- "$@" --dim-vocabs 200 ;;
esac
exec {program} "$@"
"""
COMMAND = re.compile(r"(\./|\$ |for |head |awk |cut |printf |echo |python3 )")
DEPENDS_ON_DATA = re.compile(r"--model|-m |corpus|test\.|train\.")
MADE_TEXT = re.compile(r"\./fovea (generate|translate|caption|tag)\b")


def blocks(text):
    """(line, language, contents) of each fenced block."""
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 2, match[1], match[2]


def transcript(text):
    """(command, what it prints) of a block with '$'."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command = re.match(r"(?:.*\\\n)*.*\n?", part)[0]
        yield command.rstrip("\n"), part[len(command):].strip("\n").splitlines()


def words_of(line):
    """A line without what differs between trainings: times, numbers, and the widths of columns."""
    line = re.sub(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] ", "", line)
    line = re.sub(r"(?<![a-zA-Z_])[-+]?\d[\d,.]*(e[-+]\d+)?( [kMG]\b)?", "0", line)
    line = re.sub(r"new best|stalled 0 times \(last best: 0\)", "BEST", line)
    line = re.sub(r"\b(layer|head) mean\b", r"\1 0", line)
    return re.sub(r"\s+", " ", line).strip()


def holds(shown, printed):
    """Whether the lines `shown` are `printed`, where a line '...' stands for any lines."""
    part, place, free = [], 0, False
    for line in [*shown, "..."]:
        if line != "...":
            part.append(line)
            continue
        ends = [i for i in range(place + len(part), len(printed) + 1) if printed[i - len(part):i] == part]
        if not ends or not free and ends[0] != place + len(part):
            return False
        part, place, free = [], ends[0], True
    return shown[-1] == "..." or place == len(printed)


class Pages(unittest.TestCase):
    done, left_out = 0, 0  # blocks

    @classmethod
    def tearDownClass(cls):
        print(f"{cls.done} blocks were run; {cls.left_out} blocks of these pages and {len(NOT_RUN)} other pages were not")

    def run_shell(self, place, folder, command):
        return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, errors="replace", timeout=300,
                              stdin=subprocess.DEVNULL, env=os.environ | {"COLUMNS": "120"})

    def run_page(self, name, prelude):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-page-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "recipes").symlink_to(ROOT / "recipes")
        fovea = folder / "fovea"
        fovea.write_text(SMALLER.format(program=PROGRAM, corpus="-" if name in WHOLE_CORPUS else "corpus"))
        fovea.chmod(0o755)
        if prelude:
            made = self.run_shell(name, folder, f"set -e\n{prelude}")
            self.assertEqual(made.returncode, 0, f"what {name} takes for granted:\n{made.stderr}")
        printed = []
        for line, language, text in blocks((ROOT / name).read_text()):
            place = f"{name}:{line}"
            if language:
                Pages.left_out += language == "sh"
                continue
            Pages.done += 1
            if text.startswith("$ "):
                for command, shown in transcript(text):
                    printed += self.check_command(place, folder, command, shown, name not in WHOLE_CORPUS)
            elif COMMAND.match(text):
                result = self.run_shell(place, folder, f"set -e\n{text}")
                self.assertEqual(result.returncode, 0, f"{place}:\n{text}\n{result.stderr}")
                printed += (result.stdout + result.stderr).splitlines()
            else:
                known = set(map(words_of, printed))
                for shown in text.splitlines():
                    if shown.strip() not in ("", "..."):
                        self.assertIn(words_of(shown), known, f"{place}: no command above it prints this line")

    def check_command(self, place, folder, command, shown, small):
        """Returns the lines that the command printed."""
        result = self.run_shell(place, folder, command)
        out, err = result.stdout.splitlines(), result.stderr.splitlines()
        about = f"{place}:\n$ {command}\n{result.stdout}{result.stderr}"
        if shown and shown[0].startswith("Error: "):
            self.assertNotEqual(result.returncode, 0, about)
            out = [text for text in err if text.startswith("Error: ")]
        else:
            self.assertEqual(result.returncode, 0, about)
        if shown and not (small and MADE_TEXT.search(command)):
            printed = [re.sub(r"^\[[-\d]+ [:\d]+\] ", "", text) for text in out or err]
            if small and ("./fovea" not in command or DEPENDS_ON_DATA.search(command)):
                shown, printed = list(map(words_of, shown)), list(map(words_of, printed))
            while printed and not printed[-1]:
                printed.pop()
            self.assertTrue(holds(shown, printed), "the page shows something else:\n" + "\n".join(shown) + f"\n{about}")
        return out + err


def add_test(name, prelude):
    setattr(Pages, f"test_{re.sub('[^a-z]', '_', name.lower())}", lambda self: self.run_page(name, prelude))


for page_name, page_prelude in PAGES.items():
    add_test(page_name, page_prelude)


class Names(unittest.TestCase):
    def test_every_page_is_run_or_says_why_not(self):
        pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
        self.assertEqual(sorted(pages), sorted([*PAGES, *NOT_RUN]))
        for name in PAGES:
            self.assertTrue([1 for _, language, _ in blocks((ROOT / name).read_text()) if not language], name)

    FOREIGN = {"--type", "--paired-bs-n", "--signal", "--max_tokens"}  # of Marian, sacreBLEU and Slurm; a spelling

    def test_options_that_pages_name_exist(self):
        known = {"--help", "--help-all", "--config", "--dump-config", "--version"}
        for command in re.findall(r"^  (\w+)  ", checked("--help").stdout, re.M):
            known |= set(re.findall(r"(?<![\w-])--[a-z][\w-]*", checked(command, "--help-all").stdout))
            known |= set(values_of(checked(command, "--dump-config").stdout))
        self.assertGreater(len(known), 100)
        for script in [*sorted((ROOT / "recipes").glob("*.sh")), ROOT / "bench" / "cuda" / "run.py"]:
            known |= set(re.findall(r"--[a-z][\w-]*", script.read_text()))
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
            marian = set(re.findall(r"--[a-z][\w-]*", " ".join(re.findall(r"^\|[^|]*", text, re.M)))) if "marian" in path.stem else set()
            named = set(re.findall(r"`(--[a-z][\w-]*)", text))
            self.assertEqual(named - known - marian - self.FOREIGN, set(), path)


def anchors(text):
    """The names of a page's headings as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)}


class Links(unittest.TestCase):
    def test_links_between_pages_lead_somewhere(self):
        count = 0
        for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "bench" / "README.md"]:
            for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", re.sub(r"`[^`\n]*`", "", path.read_text())):
                page = (path.parent / target).resolve() if target else path
                self.assertTrue(page.exists(), f"{path}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors(page.read_text()), f"{path}: {target}")
                count += 1
        self.assertGreater(count, 100)


class Reading(unittest.TestCase):
    """This test's own reading of pages."""

    def test_dots_stand_for_lines(self):
        self.assertTrue(holds(["a", "...", "d"], ["a", "b", "c", "d"]))
        self.assertTrue(holds(["...", "b", "...", "d", "..."], ["a", "b", "c", "d", "e"]))
        self.assertFalse(holds(["a"], ["a", "b"]))
        self.assertTrue(holds(["...", "c"], ["a", "b", "c"]))
        self.assertFalse(holds(["b"], ["a", "b"]))
        self.assertFalse(holds(["a", "...", "b"], ["b", "a"]))

    def test_words(self):
        self.assertEqual(words_of("[2026-11-26 01:13:48] [valid] Ep. 1 : Up. 100 : bleu : 0.44 : new best"),
                         words_of("[valid] Ep. 2 : Up. 3 : bleu : 10.3 : stalled 1 times (last best: 11.0)"))
        self.assertNotEqual(words_of("topk(8) 1"), words_of("topk 1"))

    def test_transcripts(self):
        self.assertEqual(list(transcript("$ a \\\n  b\nc\n\n$ d\n")), [("a \\\n  b", ["c"]), ("d", [])])


if __name__ == "__main__":
    unittest.main(verbosity=2)

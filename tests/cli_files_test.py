#!/usr/bin/env python3
"""No command changes a file that it was not told to write, whatever the file's name and wherever it lies."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

from fovea_program import PROGRAM, Refusals, Workplace, checked, left_folder, run

PLACE = Workplace()
F = PLACE.folder
FOREIGN = pathlib.Path(__file__).resolve().parent / "formats"
QUIET = ["--cpu-threads", 1, "--quiet"]
# Endings that people give to files which they keep, and that programs give.
ENDINGS = """.old .old1 .old7 .old2019 .old2023 .old2024 .old-good _old -old .tmp .tmp1 .tmp7 .tmp2022 .tmp2023 .tmp2025
    .tmp2022.old .tmp7.old .tmp_mine .temp .temp7 .temporary .commit .commit5 .commit2024 .partial .partial2 .partial7
    .partial.gz .part .part1 .bak .bak2023 ~ .orig .new .new1 -new .save .saved .swp .lock .aside .aside1 .1 .2 .10 .2024
    .2024-01-01 .copy .backup .first .final .v2 .mark .list .encoded .gz .json .yml .txt .log .checksums .half .done
    .whole""".split()
# Names that stand alone; the first of them have the form of Fovea's own folders, without the mark in them.
ALONE = [".fovea-0123456789abcdef", ".fovea-fedcba9876543210", ".fovea-00000000000007e7", ".fovea", ".fovea-mine", "mark",
         "list", "new", "new1", "old", "old1", "tmp", "tmp7", ".tmp7", ".old2023", "mark-to-be", "list-place"]


def put_beside(output, first):
    """Files and folders beside an output, each second one a file; `first` says which."""
    output.parent.mkdir(parents=True, exist_ok=True)
    names = [output.name + ending for ending in ENDINGS] + ["." + output.name + ".swp", "#" + output.name + "#", *ALONE]
    for number, name in enumerate(names):
        path = output.parent / name
        if path.exists() or path.is_symlink():
            continue
        if (number + first) % 2 == 0:
            path.write_text(f"precious {name}\n")
        else:
            path.mkdir()
            (path / "notes").write_text(f"precious {name}\n")
            (path / "mark").write_text("of a user\n")


def state_of(folder):
    """All that is in a folder, without what a test calls an output."""
    state = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            state[path] = ("link", os.readlink(path))
        elif path.is_dir():
            state[path] = ("folder",)
        else:
            state[path] = ("file", path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
    return state


class Unchanged(Refusals):
    def check(self, folder, before, what):
        now = state_of(folder)
        changed = [str(path) for path in before if now.get(path) != before[path]]
        self.assertEqual(changed, [], f"{what} changed these")


class Files(Unchanged):
    def stay(self, name, command, outputs, calls=2):
        """The files beside the outputs, after each call of command(folder)."""
        for first in range(2):
            folder = F / f"{name}-{first}"
            for output in outputs:
                put_beside(folder / output, first)
            before = state_of(folder)
            for call in range(calls):
                checked(*command(folder))
                self.check(folder, before, f"fovea {name}, call {call + 1},")
            for output in outputs:
                self.assertTrue((folder / output).exists(), f"{name}: {output} is not an output: nothing was tested")
            left = [path for path in folder.rglob(".fovea-*") if path not in before]
            self.assertEqual(left, [], "the command left its own folder")

    def test_corpus(self):
        outputs = ["out", *(f"out/{part}.{side}" for part in ("train", "valid", "test") for side in ("src", "trg", "align"))]
        self.stay("corpus", lambda f: ["corpus", "--generate", 30, "--valid", 5, "--test", 5, "--output", f / "out"], outputs)
        text = F / "bytes.txt"
        text.write_bytes(b"0123456789")
        self.stay("split-bytes", lambda f: ["corpus", "--split-bytes", 5, 3, 2, text, "--output", f / "out"],
                  ["out/train.txt", "out/valid.txt", "out/test.txt"])

    def test_the_third_language_of_a_corpus(self):
        generate = ["corpus", "--generate", 30, "--valid", 5, "--test", 5, "--output", F / "third", "--languages", "en", "de"]
        checked(*generate)
        for part in ("train", "valid", "test"):
            (F / "third" / f"{part}.fr").write_text("mine\n" * len((F / "third" / f"{part}.de").read_text().splitlines()))
        before = {path: state for path, state in state_of(F / "third").items() if path.suffix == ".fr"}
        self.assertIn("also has train.fr", checked(*generate).stderr)
        self.check(F / "third", before, "fovea corpus")

    def test_vocab(self):
        self.stay("vocab", lambda f: ["vocab", "--train-sets", *PLACE.sides["train"], "--dim-vocabs", 300, "--output", f / "v.spm"],
                  ["v.spm"])

    def test_texts(self):
        model, source, target = PLACE.model(), *PLACE.sides["valid"]
        pair = ["--train-sets", source, target]
        commands = {
            "translate": ["translate", "--model", model, "--input", source, *QUIET],
            "score": ["score", "--model", model, *pair, *QUIET],
            "align": ["align", "--model", model, *pair, *QUIET],
            "clauses": ["clauses", "--input", source],
            "analyze": ["analyze", "--model", model, "--source", source.read_text().splitlines()[0], *QUIET],
        }
        for name, command in commands.items():
            with self.subTest(command=name):
                self.stay(name, lambda f: [*command, "--output", f / "out.de"], ["out.de"])

    def test_filter(self):
        self.stay("filter", lambda f: ["filter", "--model", PLACE.model(), "--train-sets", *PLACE.sides["valid"], *QUIET,
                                       "--keep", 0.5, "--output", f / "a/kept.src", f / "b/kept.trg"], ["a/kept.src", "b/kept.trg"])

    def test_pictures_and_pages(self):
        model, source, target = PLACE.model(), *PLACE.sides["test"]
        self.stay("spec", lambda f: ["spec", "window(3)", "--length", 6, "--output", f / "s.svg"], ["s.svg"])
        self.stay("curves", lambda f: ["curves", model, "--output", f / "c.svg"], ["c.svg"])
        self.stay("report", lambda f: ["report", "--model", model, "--train-sets", source, target, "--output", f / "r.html", *QUIET],
                  ["r.html"], calls=1)

    def test_train(self):
        """Names beside the run, its files and its checkpoints, of which some are removed and some replaced."""
        valid = ["--valid-sets", *PLACE.sides["valid"], "--valid-freq", 1, "--save-freq", 1, "--keep-last", 1, "--quiet"]
        names = ["train.yml", "log.jsonl", "last", "best", "checkpoints", ".lock", "checkpoints/update-00000001",
                 "checkpoints/update-00000002"]
        folder = F / "train"
        for name in ["run", *("run/" + name for name in names)]:
            put_beside(folder / name, first=len(name))
        before = state_of(folder)
        for updates in (2, 4):
            checked(*PLACE.training(folder / "run", "--after-batches", updates, *valid))
            self.check(folder, before, f"training until update {updates}")
        self.refused(*PLACE.training(folder / "run", "--after-batches", 2, *valid, "--overwrite"), says="is not a checkpoint")
        self.check(folder, before, "--overwrite")
        checked(*PLACE.training(folder / "run", "--after-batches", 2, *valid, "--no-reload"))
        moved = {path: state for path, state in before.items() if "checkpoints" not in path.relative_to(folder).parts}
        self.check(folder, moved, "--no-reload")

    def test_overwrite(self):
        folder, options = F / "overwrite", ["--after-batches", 1, "--tensorboard", "--quiet"]
        for name in ("run", "run/train.yml", "run/log.jsonl", "run/last", "run/checkpoints", "run/tensorboard"):
            put_beside(folder / name, first=0)
        (folder / "run/tensorboard").mkdir()
        (folder / "run/tensorboard/events.out.tfevents.mine.fovea").write_text("precious\n")
        before = state_of(folder)
        for overwrite in ([], ["--overwrite"]):
            checked(*PLACE.training(folder / "run", *options, *overwrite))
            self.check(folder, before, "--overwrite")

    def test_a_file_among_those_of_a_checkpoint(self):
        folder, options = F / "notes", ["--save-freq", 1, "--keep-last", 1, "--quiet"]
        checked(*PLACE.training(folder, "--after-batches", 1, *options))
        notes = folder / "checkpoints/update-00000001/notes.txt"
        notes.write_text("precious\n")
        self.refused(*PLACE.training(folder, "--after-batches", 1, *options, "--overwrite"),
                     says="notes.txt' is not a file of the checkpoint there")
        checked(*PLACE.training(folder, "--after-batches", 3, *options))
        self.assertEqual(notes.read_text(), "precious\n")

    def test_average(self):
        """A folder avg.tmp2022.old is no folder that a killed call moved away, even if it holds a model."""
        average = lambda f: ["average", "--model", PLACE.model(), "--last", 1, "--output", f / "avg"]  # noqa: E731
        self.stay("average", average, ["avg"])
        folder = F / "averages"
        for name in ("avg.tmp2022.old", "avg.tmp7"):
            checked("average", "--model", PLACE.model(), "--last", 1, "--output", folder / name)
            (folder / name / "notes").write_text("precious\n")
        before = state_of(folder)
        checked(*average(folder))
        self.check(folder, before, "fovea average")
        (folder / "avg/notes").write_text("precious\n")
        self.refused(*average(folder), says="notes' is not a file of the checkpoint there")

    def test_convert(self):
        model = F / "marian"
        of_marian = ["convert", "--from", "marian", FOREIGN / "marian-post.npz", "--vocabs", FOREIGN / "marian.spm",
                     FOREIGN / "marian.spm"]
        checked(*of_marian, "--output", model)
        self.stay("from-marian", lambda f: [*of_marian, "--output", f / "back"], ["back"])
        to = lambda f: ["convert", "--to", "ctranslate2", model, "--output", f / "there"]  # noqa: E731
        self.stay("to-ctranslate2", to, ["there"], calls=1)
        back = ["convert", "--from", "ctranslate2", F / "to-ctranslate2-0" / "there"]
        self.stay("from-ctranslate2", lambda f: [*back, "--output", f / "back"], ["back"])

    def test_language_models(self):
        model = F / "language"
        checked("train", "--task", "language", "--model", model, "--train-sets", PLACE.sides["train"][1], "--vocabs", "bytes",
                "--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--mini-batch", 8,
                "--segment-length", 32, "--after-batches", 2, *QUIET)
        self.stay("generate", lambda f: ["generate", "--model", model, "--prompt", "a", "--max-length", 5, *QUIET, "--output",
                                         f / "out.txt"], ["out.txt"])
        self.stay("score-language", lambda f: ["score", "--model", model, "--train-sets", PLACE.sides["test"][1], *QUIET,
                                               "--output", f / "out.txt"], ["out.txt"])

    def test_embed(self):
        text = PLACE.sides["valid"][0].read_text()
        for first in range(2):
            output = F / f"embed-{first}" / "vectors.safetensors"
            put_beside(output, first)
            before = state_of(output.parent)
            for _ in range(2):
                checked("embed", "--model", PLACE.model(), "--output", output, *QUIET, stdin=text)
                self.check(output.parent, before, "fovea embed")

    def test_encoded_text(self):
        """The name of the encoded text is known when it is there; so is that of its lock."""
        folder = F / "encoded"
        train = lambda name: checked(*PLACE.training(F / name, "--after-batches", 1, "--quiet", "--encoded-text", folder))  # noqa: E731
        train("encoded-a")
        encoded, = folder.glob("*.encoded")
        put_beside(encoded, first=ENDINGS.index(".lock") % 2)  # a file of that name, not a folder
        before = state_of(folder)
        train("encoded-b")
        self.check(folder, before, "training from the encoded text")
        encoded.unlink()
        del before[encoded]
        train("encoded-c")
        self.check(folder, before, "encoding again")
        self.assertTrue(encoded.exists())


class Killed(Unchanged):
    """The next call removes the folder that a killed one left, and nothing else."""

    def started(self, output, feed, count):
        before = set(output.parent.glob(".fovea-*/new"))
        process = subprocess.Popen([PROGRAM, "translate", "--model", PLACE.model(), "--input", feed, "--output", output,
                                    "--cpu-threads", "1", "--maxi-batch", "1", "--mini-batch", "2"],
                                   stderr=subprocess.PIPE)
        pipe = open(feed, "w")
        pipe.write("".join(PLACE.sides["test"][0].read_text().splitlines(keepends=True)[:count]))
        pipe.flush()
        deadline = time.monotonic() + 300
        while not any(path.stat().st_size for path in set(output.parent.glob(".fovea-*/new")) - before):
            self.assertIsNone(process.poll(), "it ended before it was stopped")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return process, pipe

    def test_translate(self):
        folder = F / "killed"
        output, feed = folder / "out.de", F / "feed"
        put_beside(output, first=0)
        os.mkfifo(feed)
        before = state_of(folder)
        for number in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
            with self.subTest(signal=number):
                process, pipe = self.started(output, feed, 5)
                process.send_signal(number)
                said = process.communicate()[1].decode()
                pipe.close()
                self.check(folder, before, "the killed translation")
                self.assertFalse(output.exists())
                if number == signal.SIGINT:  # out.de.partial and .partial2 are the user's
                    self.assertIn(f"is in '{output}.partial3'", said)
        checked("translate", "--model", PLACE.model(), "--input", PLACE.sides["valid"][0], "--output", output, *QUIET)
        self.check(folder, before, "the next translation")
        self.assertEqual({path.name for path in folder.iterdir()} - {path.name for path in before},
                         {"out.de", "out.de.partial3"})

    def test_only_marked_folders_are_removed(self):
        folder = F / "marked"
        folder.mkdir()
        gone, theirs = left_folder(folder, "new"), left_folder(F, "new")
        theirs = theirs.rename(folder / ".fovea-00000000000000ab")
        (theirs / "mark").write_text("not of Fovea\n")
        before = {path: state for path, state in state_of(folder).items() if gone not in (path, path.parent)}
        checked("spec", "window(3)", "--length", 6, "--output", folder / "s.svg")
        self.check(folder, before, "fovea spec")
        self.assertFalse(gone.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)

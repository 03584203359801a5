#!/usr/bin/env python3
"""bin/fovea answers without libtorch as long as it can, and then loads libfovea_program.so, which holds all commands. The
other tests call the library; here every command is started as users start it, and both have to say the same."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import fovea_program
from fovea_program import PROGRAM, Workplace

TASKS = ("translation", "language", "image", "tagging", "caption")


def started(*arguments, program=PROGRAM, stdin="", **options):
    """Returns like `run` of fovea_program.py, from a process of its own."""
    words = [program, *map(str, arguments)]
    return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=100, **options)


def told(result):
    """Exit code, output and log, without the times of its lines."""
    return result.returncode, result.stdout, re.sub(r"^\[[-0-9: ]+\] ", "", result.stderr, flags=re.MULTILINE)


def commands():
    lines = started("--help").stdout.splitlines()
    return [line.split()[0] for line in lines[lines.index("") + 3:]]


class Alone(unittest.TestCase):
    """The executable without its library."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-alone-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "bin").mkdir()
        self.program = self.folder / "bin" / "fovea"
        shutil.copy(PROGRAM, self.program)

    def assert_same(self, *arguments, code=0, stdin=""):
        alone = started(*arguments, program=self.program, stdin=stdin, cwd=self.folder)
        # Messages name the program as it was called.
        whole = [text.replace(str(PROGRAM), str(self.program)) if isinstance(text, str) else text
                 for text in told(fovea_program.run(*arguments, stdin=stdin, cwd=self.folder))]
        self.assertEqual(told(alone), tuple(whole))
        self.assertEqual(alone.returncode, code, alone.stderr)
        return alone

    def test_it_helps(self):
        self.assert_same("--help")
        self.assert_same(code=2)
        self.assertGreater(len(commands()), 20)
        for command in commands():
            self.assert_same(command, "--help")
        for task in TASKS:
            self.assert_same("train", "--task", task, "--help")

    def test_it_refuses_wrong_options(self):
        self.assert_same("translat", code=2)
        for command in commands():
            shown = self.assert_same(command, "--beans", "5", code=2)
            self.assertIn("unknown option '--beans'", shown.stderr)
        self.assert_same("train", "--task", "poetry", code=2)
        self.assert_same("train", "--valid-metrics", "beauty", code=2)
        self.assert_same("score", "--model", "nowhere", code=1)

    def test_it_prints_configurations(self):
        (self.folder / "options.yml").write_text("dim-emb: 64\nlearn-rate: 0.001\n")
        shown = self.assert_same("train", "--config", "options.yml", "--dump-config")
        self.assertIn("dim-emb: 64\n", shown.stdout)

    def test_commands_without_libtorch(self):
        generate = ["corpus", "--generate", "200", "--valid", "20", "--test", "20", "--output", "corpus"]
        started(*generate, program=self.program, cwd=self.folder)  # the others say that they replace a corpus
        self.assert_same(*generate)
        self.assert_same("vocab", "--train-sets", "corpus/train.src", "--dim-vocabs", "60", "--output", "a.spm")
        text = (self.folder / "corpus" / "test.src").read_text()
        self.assert_same("evaluate", "--reference", "corpus/test.src", stdin=text)
        self.assert_same("clauses", "--level", "2", stdin="He left because it rained.\n")
        self.assert_same("spec", "topk(8)", "--length", "6")
        self.assert_same("kernels")
        self.assert_same("kernels", "--explain", "topk(8)")
        self.assert_same("curves", "nowhere", "--output", "curves.svg", code=1)
        self.assert_same("info", "nowhere", code=1)

    def test_the_rest_needs_the_library(self):
        for arguments in (["--version"], ["translate", "--model", "nowhere", "--quiet"], ["embed"],
                          ["convert", "--from", "bert", "nowhere", "--output", "never"],
                          ["average"], ["clauses", "--tagger", "nowhere"],
                          ["evaluate", "--reference", "a", "--metrics", "bertscore"]):
            shown = started(*arguments, program=self.program, cwd=self.folder)
            self.assertEqual(shown.returncode, 1, arguments)
            if arguments[0] != "translate":
                self.assertIn("the program cannot be loaded", shown.stderr, arguments)

    def test_a_signal_ends_it_while_it_loads(self):
        (self.folder / "lib").mkdir()
        library = self.folder / "lib" / "libfovea_program.so"
        os.mkfifo(library)
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([self.program, "--version"], stdout=subprocess.PIPE) as process:
                with library.open("wb"):  # waits until the program reads its library
                    process.send_signal(number)
                    self.assertEqual(process.wait(timeout=100), -number)


class HandedOver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workplace = Workplace()
        cls.folder = cls.workplace.folder
        cls.model = cls.workplace.model()
        cls.test = cls.workplace.sides["test"]
        cls.text = cls.test[0].read_text()

    def assert_same(self, *arguments, code=0, stdin=""):
        result = started(*arguments, stdin=stdin)
        self.assertEqual(told(result), told(fovea_program.run(*arguments, stdin=stdin)))
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def test_commands_on_a_model(self):
        one, model = ("--cpu-threads", "1", "--quiet"), ("--model", self.model)
        self.assert_same("translate", *model, *one, stdin=self.text)
        self.assert_same("score", *model, *one, "--train-sets", *self.test)
        self.assert_same("align", *model, *one, "--train-sets", *self.test)
        self.assert_same("filter", *model, *one, "--train-sets", *self.test)
        self.assert_same("analyze", *model, *one, "--train-sets", *self.test)
        self.assert_same("report", *model, *one, "--source", "a b", "--output", self.folder / "report.html")
        self.assert_same("embed", *model, *one, "--pieces", stdin=self.text)
        self.assert_same("info", self.model)
        self.assert_same("curves", self.model, "--output", self.folder / "curves.svg")
        self.assert_same("average", *model, "--last", "1", "--output", self.folder / "average")
        for arguments in (["tag", "--model"], ["caption", "--features", "a.npy", "--model"], ["generate", "--model"],
                          ["clauses", "--tagger"]):
            self.assertIn("'nowhere'", self.assert_same(*arguments, "nowhere", code=1).stderr)
        self.assert_same("convert", "--from", "bert", "nowhere", "--output", self.folder / "bert", code=1)
        self.assertIn("libtorch", self.assert_same("--version").stdout)

    def test_a_training(self):
        command = self.workplace.training(self.folder / "run", "--after-batches", 3, "--quiet")
        self.assertEqual(told(started(*command)), (0, "", ""))
        self.assertIn("updates: 3\n", started("info", self.folder / "run", "--all").stdout)

    def test_a_pipe_is_read_once(self):
        command = self.workplace.training(self.folder / "piped", "--quiet")
        for text, code, says in (("after-batches: 2\n", 0, ""), ("after-batches: two\n", 1, "got 'two'")):
            read, write = os.pipe()
            os.write(write, text.encode())
            os.close(write)
            result = started(*command, "--config", f"/dev/fd/{read}", pass_fds=[read])
            os.close(read)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(says, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

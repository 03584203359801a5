#!/usr/bin/env python3
"""Help texts: the usual options and all of them, and the width of the terminal."""
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios
import unittest

from fovea_program import PROGRAM, Refusals, checked

ROOT = pathlib.Path(__file__).resolve().parent.parent
TASKS = ("translation", "language", "image", "tagging", "caption")


def options_in(text):
    return re.findall(r"^  (?:-\w,)?(?:--[\w-]+,)*--([\w-]+)", text, re.M)


def commands():
    return re.findall(r"^  (\w+)  ", checked("--help").stdout, re.M)


def shown(columns, *arguments):
    return checked(*arguments, env=os.environ | {"COLUMNS": str(columns)}).stdout


class Help(Refusals):
    def test_train_shows_the_usual_options(self):
        usual, everything = shown(120, "train", "--help"), shown(120, "train", "--help-all")
        self.assertLess(len(usual.splitlines()), 120)
        self.assertLess(2 * len(options_in(usual)), len(options_in(everything)))
        self.assertLessEqual(set(options_in(usual)), set(options_in(everything)))
        self.assertIn("fovea train --help-all shows all ", usual)
        self.assertEqual(shown(120, "help", "train"), usual)
        piped = checked("train", "--help").stdout
        self.assertEqual(options_in(piped), options_in(usual), "a pipe gets what a terminal shows")
        self.assertIn("fovea train --help-all shows all ", piped)

    def test_usual_options_exist(self):
        source = (ROOT / "src/fovea/app/train.cc").read_text()
        names = re.findall(r'"([\w-]+)"', re.search(r"kUsualOptions = \{(.*?)\};", source, re.S)[1])
        self.assertGreater(len(names), 20)
        known = set()
        for task in TASKS:
            own = options_in(shown(80, "train", "--task", task, "--help"))
            self.assertLessEqual(set(own) - {"help", "help-all", "config", "dump-config"}, set(names))
            known |= set(own)
        self.assertEqual(set(names) - known, set())

    def test_all_options_of_a_command_are_in_the_help(self):
        for command in commands():
            dumped = re.findall(r"^([\w-]+):", checked(command, "--dump-config").stdout, re.M)
            for text in (checked(command, "--help-all").stdout, *([checked(command, "--help").stdout] if command != "train" else [])):
                self.assertLessEqual(set(dumped), set(options_in(text)), command)

    def test_lines_are_as_wide_as_asked(self):
        for arguments in (["--help"], ["train", "--help"], ["train", "--help-all"], ["translate", "--help-all"], ["curves", "--help"]):
            whole = shown(100000, *arguments)
            for columns in (40, 80):
                text = shown(columns, *arguments)
                self.assertEqual(text.split(), whole.split(), "lines are broken between words alone")
                examples = text.rfind("\n\n")
                for line in text[:examples].splitlines():
                    # A word that is longer than the line stays whole: lists of choices.
                    if len(line) > columns:
                        self.assertEqual(len(line.split()), 1, f"{arguments}: {line}")

    def test_the_terminal_has_its_width(self):
        terminal, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        with subprocess.Popen([PROGRAM, "spec", "--help"], stdout=side, stdin=subprocess.DEVNULL, env=environment) as process:
            os.close(side)
            text = b""
            try:
                while part := os.read(terminal, 4096):
                    text += part
            except OSError:
                pass  # the other side is closed
        os.close(terminal)
        self.assertEqual(process.returncode, 0)
        lines = text.decode().replace("\r\n", "\n").split("\n\n")
        self.assertEqual("\n\n".join(lines), shown(72, "spec", "--help"))
        self.assertGreater(max(map(len, lines[1].splitlines())), 60)

    def test_a_width_that_is_none_is_ignored(self):
        whole = shown(100000, "spec", "--help")
        for columns in ("", "0", "wide", "-3"):
            self.assertEqual(shown(columns, "spec", "--help"), whole)


if __name__ == "__main__":
    unittest.main(verbosity=2)

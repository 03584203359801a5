#!/usr/bin/env python3
"""Runs on a file system without symbolic links, and without hard links: `last` and `best` are folders there."""
import os
import shutil
import unittest

from fovea_program import checked
from short_runs import COMMON, PLACE, weights

SYMBOLIC = {"LD_PRELOAD": os.environ["FOVEA_NO_LINKS"]}
HARD = {**SYMBOLIC, "FOVEA_NO_HARD_LINKS": "1"}
FORMS = {"links": {}, "hard-links": SYMBOLIC, "copies": HARD}


def train(model, updates, form, *options):
    return checked(*PLACE.training(model, "--after-batches", updates, *COMMON, *options), env={**os.environ, **FORMS[form]}).stderr


def checkpoint_names(model):
    return sorted(path.name for path in (model / "checkpoints").iterdir())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class WithoutLinks(unittest.TestCase):
    def setUp(self):
        self.whole = PLACE.folder / "whole"
        if not self.whole.exists():
            train(self.whole, 8, "links")

    def check_names(self, model, form):
        """The names stand for the checkpoints that the links of an ordinary run name, and nothing else is there."""
        self.assertEqual(checkpoint_names(model), checkpoint_names(self.whole))
        for name in ("last", "best"):
            checkpoint = model / "checkpoints" / os.path.basename(os.readlink(self.whole / name))
            self.assertEqual((model / name).is_symlink(), form == "links")
            self.assertEqual(contents(model / name), contents(checkpoint))
            self.assertEqual(os.path.samefile(model / name / "model.safetensors", checkpoint / "model.safetensors"), form != "copies")
        self.assertEqual([path.name for path in model.iterdir() if path.name.startswith((".fovea-", "last.", "best."))], [])

    def test_a_run_saves_and_resumes(self):
        for form in ("hard-links", "copies"):
            model = PLACE.folder / form
            said = train(model, 4, form)
            self.assertIn(f"the file system of '{model}' has no symbolic links: 'last' and 'best' are folders of {form.replace('-', ' ')}", said)
            self.assertLess(said.index("no symbolic links"), said.index("Up. 2 "))
            self.assertIn("resuming after update 4", train(model, 8, form))
            self.assertEqual(weights(model), weights(self.whole))
            self.check_names(model, form)
            translated = [checked("translate", "--model", path, stdin="a b").stdout for path in (model, self.whole)]
            self.assertEqual(*translated)

    def test_a_copy_resumes_on_any_file_system(self):
        for before in FORMS:
            half = PLACE.folder / f"half-{before}"
            train(half, 4, before)
            for after in FORMS:
                for is_link_kept in (True, False):
                    copy = PLACE.folder / f"{before}-{after}-{is_link_kept}"
                    shutil.copytree(half, copy, symlinks=is_link_kept)
                    self.assertIn("resuming after update 4", train(copy, 8, after), (before, after))
                    self.assertEqual(weights(copy), weights(self.whole))
                    self.check_names(copy, after)

    def test_last_moved_back_is_heeded(self):
        model = PLACE.folder / "back"
        train(model, 8, "hard-links", "--keep-last", 5)
        shutil.rmtree(model / "last")
        shutil.copytree(model / "checkpoints" / "update-00000004", model / "last")
        self.assertIn("resuming after update 4", train(model, 8, "hard-links", "--keep-last", 5))
        self.assertEqual(weights(model), weights(self.whole))

    def test_overwriting_and_beginning_beside(self):
        for form in ("hard-links", "copies"):
            for option, kept in (("--overwrite", []), ("--no-reload", ["checkpoints.1"])):
                model = PLACE.folder / f"{form}{option}"
                train(model, 4, form)
                train(model, 8, form, option)
                self.check_names(model, form)
                self.assertEqual([path.name for path in model.iterdir() if path.name.startswith("checkpoints.")], kept)

    def test_a_users_file_in_the_folder_stays(self):
        model = PLACE.folder / "notes"
        train(model, 4, "hard-links")
        (model / "last" / "notes.txt").write_text("precious")
        said = train(model, 8, "hard-links")
        self.assertIn(f"it is now '{model / 'last.1'}'", said)
        self.assertEqual((model / "last.1" / "notes.txt").read_text(), "precious")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Each recipes/*.yml: all of its options exist and mean what the file says, so do those of its vocabulary's command, and it
makes one update. Depth, lengths, batches and data are small here; width, heads, mechanism, optimiser and schedule are the
recipe's. Commands that docs/results.md, docs/trainings.md and the recipes' comments name have options that exist, and
values that are accepted."""
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import unittest

from fovea_program import Workplace, checked

RECIPES = pathlib.Path(__file__).resolve().parent.parent / "recipes"
# Settings of our own, without published figures.
OWN = {"caption-scenes", "cifar10-small", "classical-modern", "demo", "demo-language", "english-bytes", "multi30k-sweep",
       "multi30k-tiny", "recall"}
PLACE = Workplace()

ONE_UPDATE = ["--after-batches", 1, "--after-epochs", 0, "--optimizer-delay", 1, "--save-freq", 1, "--valid-freq", 1,
              "--transformer-dim-ffn", 32, "--cpu-threads", 1, "--quiet"]


def image_batch(name, images, side=32):
    """CIFAR-10's binary form for its size, else .npy, of random pixels."""
    rng = random.Random(name)
    path = PLACE.folder / (name + (".bin" if side == 32 else ".npy"))
    pixels = side * side * 3
    if side == 32:
        path.write_bytes(b"".join(b"\0" + rng.randbytes(pixels) for _ in range(images)))
    else:
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({images}, {side}, {side}, 3), }}"
        header += " " * (-(len(header) + 11) % 64) + "\n"
        path.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + rng.randbytes(images * pixels))
    return path


def translation(recipe):
    return ["--train-sets", *PLACE.sides["train"], "--valid-sets", *PLACE.sides["valid"], "--vocabs", PLACE.vocab, PLACE.vocab,
            "--enc-depth", 1, "--mini-batch-words", 300, *(["--document-length", 100] if "documents" in recipe else [])]


def language(recipe):
    vocabs = [] if recipe.get("vocabs") == "bytes" else ["--vocabs", PLACE.vocab]
    return ["--train-sets", PLACE.sides["train"][0], "--valid-sets", PLACE.sides["valid"][0], *vocabs,
            "--segment-length", 600, "--mini-batch", 2]  # longer than two blocks of local attention


def image(recipe):
    side = 64 if "imagenet64" in recipe["name"] else 32
    return ["--train-sets", image_batch("train", 4, side), "--valid-sets", image_batch("valid", 2, side),
            "--crop", 14, 14, "--mini-batch", 2]  # 588 symbols


def caption(recipe):
    captions = PLACE.folder / "captions.tsv"
    lines = PLACE.sides["train"][0].read_text().splitlines()[:4]
    captions.write_text("".join(f"{i}\t{line}\n" for i, line in enumerate(lines)))
    data = [image_batch("train", 4), "--captions", captions]
    return ["--features", *data, "--valid-captions", captions, "--vocabs", PLACE.vocab, "--enc-depth", 1, "--max-length", 1000]


def tagging(recipe):
    """Columns of words, parts of speech, chunks and names."""
    columns = PLACE.folder / "columns"
    words = (line.split() for line in PLACE.sides["valid"][0].read_text().splitlines())
    columns.write_text("\n".join("".join(f"{word} NN O I-{word[0].upper()}\n" for word in line) for line in words))
    return ["--train-sets", columns, "--valid-sets", columns, "--vocabs", PLACE.vocab, "--enc-depth", 1]


def one_layer(recipe):
    """The one layer of the small model has the mechanism of a layer that the recipe names, whatever its number is."""
    layers = recipe.get("attention-layers")
    return ["--attention-layers", re.sub(r"\.[\d-]+=", ".1=", layers)] if layers else []


SMALL = {"translation": translation, "language": language, "image": image, "caption": caption, "tagging": tagging}


def values(text):
    """{option: its values} of a file of options, numbers as numbers."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"([\w-]+): *(.*?) *(?:#.*)?$", line)
        if match:
            items = [item.strip(" \"'") for item in match[2].strip("[]").split(", ")]
            found[match[1]] = [number(item) for item in items]
    return found


def number(text):
    try:
        return float(text)
    except ValueError:
        return text


def header(path):
    """The comment at the file's top in one line."""
    return re.match(r"(?:#.*\n)*", path.read_text())[0].replace("\n#", "")


class Recipes(unittest.TestCase):
    def options_are_the_files(self, command, path):
        dumped = values(checked(command, "-c", path, "--dump-config").stdout)
        for option, value in values(path.read_text()).items():
            self.assertEqual(dumped.get(option), value, option)

    def vocabularies(self, path):
        """The header's commands that make the vocabularies which it names."""
        made = set()
        for command in re.findall(r"^#   fovea (vocab .*)", path.read_text(), re.M):
            checked(*shlex.split(command), "--dump-config")
            made.add(re.search(r"--output (\S+)", command)[1])
        named = set(re.findall(r"[\w-]+\.spm", " ".join(re.findall(r"--vocabs ((?:\S+\.spm ?)+)", header(path)))))
        self.assertEqual(made, named, "vocabularies that the header makes and uses")

    def train(self, path):
        recipe = {option: value[0] for option, value in values(path.read_text()).items()} | {"name": path.stem}
        task = recipe.get("task", "translation")
        self.assertIn(task, SMALL, "this test does not know how to make data for the task")
        run = PLACE.folder / path.stem
        depth = [] if task == "tagging" else ["--dec-depth", 1]
        checked("train", "-c", path, "--model", run, *SMALL[task](recipe), *ONE_UPDATE, *depth, *one_layer(recipe))
        model = values((run / "last" / "config.yml").read_text())
        for option in ("attention", "dim-emb", "transformer-heads", "transformer-norm", "transformer-positions"):
            if option in recipe:
                self.assertEqual(model[option], [recipe[option]])
        self.assertEqual(values((run / "last" / "progress.yml").read_text())["updates"], [1])
        return run

    def translate(self, path, run):
        translated = checked("translate", "-c", path, "--model", run, "--input", PLACE.sides["test"][0], "--max-length-factor", 1,
                             "--cpu-threads", 1, "--quiet").stdout
        self.assertEqual(len(translated.splitlines()), 50)

    def test_each(self):
        recipes = sorted(path for path in RECIPES.glob("*.yml") if not path.name.endswith(".translate.yml"))
        decoding = {path.name.removesuffix(".translate.yml"): path for path in RECIPES.glob("*.translate.yml")}
        self.assertGreater(len(recipes), 10)
        self.assertLessEqual(decoding.keys(), {path.stem for path in recipes}, "decoding without training")
        for path in recipes:
            with self.subTest(recipe=path.name):
                self.options_are_the_files("train", path)
                if path.stem not in OWN:
                    self.assertRegex(header(path), r"table \d[^.]*: .*\d", "the header names the table and its figure")
                    self.assertIn(f"-c recipes/{path.name} ", header(path))
                    self.vocabularies(path)
                run = self.train(path)
                if path.stem in decoding:
                    self.options_are_the_files("translate", decoding[path.stem])
                    self.assertIn(f"-c recipes/{path.stem}.translate.yml ", header(decoding[path.stem]))
                    self.translate(decoding[path.stem], run)
                shutil.rmtree(run)


# Options of fovea train follow the folder of these scripts.
TRAINING_SCRIPTS = {"caption-scenes.sh", "multi30k-sweep.sh", "multi30k-tiny.sh"}
PLACEHOLDERS = {"SPEC": "full", "KIND": "shuffled", "N": "1"}
COMMAND = re.compile(r"(?:FOVEA_DATA=\S+ )?(?:\./)?(fovea|recipes/[\w-]+\.(?:sh|py)) (.*)")


def commands_of_page(path):
    """(program, words after it) of the commands between backticks."""
    for text in re.findall(r"(?<!`)`([^`\n]+)`", path.read_text()):
        if match := COMMAND.fullmatch(text.replace("\\|", "|")):
            yield match[1], words(match[2])


def commands_of_comment(path):
    """Commands and their words in the lines of a recipe's comments, which a backslash continues."""
    comments = "\n".join(line[1:].strip() for line in path.read_text().splitlines() if line.startswith("#"))
    for line in comments.replace("\\\n", "").splitlines():
        if (match := COMMAND.fullmatch(line)) and "[" not in match[2]:
            yield match[1], words(match[2])


def words(text):
    """The words of a command before a pipe or a redirection, with values in place of placeholders, and without "..."."""
    text = re.split(r" [|<>] ", text)[0]
    return [PLACEHOLDERS.get(word, word) for word in shlex.split(text) if word != "..."]


class Commands(unittest.TestCase):
    def assert_accepted(self, program, arguments):
        if program == "fovea":
            arguments = [str(RECIPES.parent / word) if word.startswith("recipes/") else word for word in arguments]
            if {"--model", "-m"} & set(arguments) and arguments[0] != "train":  # its options are those of the model's task
                help_text = checked(arguments[0], "--help-all").stdout
                for option in filter(lambda word: word.startswith("--"), arguments):
                    self.assertRegex(help_text, rf"{option}\b")
            else:
                checked(*arguments, "--dump-config")
            return
        script = RECIPES / program.removeprefix("recipes/")
        self.assertTrue(script.exists(), program)
        if script.name in TRAINING_SCRIPTS:
            own = set(re.findall(r"\[(--\w+)", script.read_text()))
            while arguments and arguments[0] in own:
                arguments = arguments[1 if arguments[0] == "--finished" else 2:]
            arguments = arguments[1:] if arguments and not arguments[0].startswith("-") else arguments
            self.assert_accepted("fovea", ["train", *arguments])
        elif script.suffix == ".sh":
            help_text = subprocess.run([script, "--help"], capture_output=True, text=True, check=True).stdout
            end = arguments.index("--options") if "--options" in arguments else len(arguments)
            for option in {word for word in arguments[:end] if word.startswith("--")} - {"--help"}:
                self.assertRegex(help_text, rf"{option}\b")
            self.assert_accepted("fovea", ["train", *arguments[end + 1:]])

    def test_commands(self):
        found = []
        for page in ("results.md", "trainings.md"):
            found += [(page, *command) for command in commands_of_page(RECIPES.parent / "docs" / page)]
        for path in sorted(path for path in RECIPES.iterdir() if path.suffix in (".yml", ".sh")):
            found += [(path.name, *command) for command in commands_of_comment(path)]
        self.assertGreater(len(found), 60)
        for place, program, arguments in found:
            with self.subTest(place=place, command=shlex.join([program, *arguments])):
                self.assert_accepted(program, arguments)

    def test_options_of_scripts_in_sentences(self):
        """A comment such as "clause-attention.sh --tag-sets trains taggers"."""
        for path in RECIPES.glob("*.yml"):
            for script, option in re.findall(r"([\w-]+\.sh) (--[\w-]+)", header(path)):
                help_text = subprocess.run([RECIPES / script, "--help"], capture_output=True, text=True, check=True).stdout
                self.assertRegex(help_text, rf"{option}\b", path.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)

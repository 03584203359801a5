#!/usr/bin/env python3
"""The files that a run leaves: train.yml, its record, event files for TensorBoard; and the `curves` of a run."""
import json
import re
import shutil
import struct
import unittest
import xml.etree.ElementTree as xml

from fovea_program import Refusals, checked, left_folder, without_privilege
from short_runs import PLACE, records, train, weights


class FirstLines(unittest.TestCase):
    """Outside of a terminal, the log shows progress before the first line of --disp-freq."""

    def lines(self, name, *options, updates):
        _, said = train(name, *options, updates=updates)
        return said, [line.split("] ", 1)[1] for line in said.splitlines() if "[run] update " in line]

    def test_comes_after_the_first_update_of_each_process(self):
        line = r"\[run\] update %d in epoch 1: cost \d+\.\d{4}, \d+\.\d\d s per update; a line of --disp-freq comes every 1,000 updates"
        for updates, first in ((4, 1), (8, 5)):
            said, lines = self.lines("early", "--disp-freq", 1000, updates=updates)
            self.assertRegex(lines[0], line % first)
            self.assertLess(said.index(lines[0]), said.index(f"Up. {updates} :"))
        self.assertEqual([line["updates"] for line in records(PLACE.folder / "early") if line["event"] == "train"], [4, 8])

    def test_ends_with_the_first_line_of_disp_freq(self):
        self.assertEqual(self.lines("at-once", "--disp-freq", 1, updates=3)[1], [])
        said, lines = self.lines("json", "--log-format", "json", "--disp-freq", 1000, updates=2)
        self.assertTrue(all(json.loads(line) for line in said.splitlines()))
        self.assertIn("update 1 in epoch 1: cost ", lines[0])


class Configuration(Refusals):
    def test_a_run_is_repeated(self):
        model, _ = train("first", "--seed", 5, "--overwrite")
        text = (model / "train.yml").read_text()
        for line in ('task: "translation"', "seed: 5", "dim-emb: 16", "mini-batch-words: 500", "disp-freq: 2"):
            self.assertIn(f"\n{line}\n", text)
        self.assertRegex(text, r'\nfovea-version: "\d+\.\d+\.\d+"\n')
        self.assertNotRegex(text, "\n(overwrite|no-reload):")
        again = PLACE.folder / "again"
        checked("train", "-c", model / "train.yml", "--model", again)
        self.assertEqual(weights(again), weights(model))
        self.assertEqual([path.name for path in again.iterdir() if "tmp" in path.name], [])

    def test_it_says_what_the_latest_process_used(self):
        model, _ = train("changed", updates=4)
        train("changed", "--learn-rate", 0.5, updates=8)
        text = (model / "train.yml").read_text()
        self.assertIn("\nlearn-rate: 0.5\n", text)
        self.assertIn("\nafter-batches: 8\n", text)
        self.assertEqual([line["updates"] for line in records(model) if line["event"] == "start"], [0, 4])
        # A run of another model is refused, and changes nothing.
        self.refused("train", "-c", model / "train.yml", "--dim-emb", 32, says=["--dim-emb: the run in ", "was made with '16', got '32'"])
        self.assertEqual((model / "train.yml").read_text(), text)

    def test_another_version(self):
        model, _ = train("versions", updates=4)
        config = PLACE.folder / "versions.yml"
        text = (model / "train.yml").read_text()
        other = lambda version: re.sub("fovea-version: .*", f'fovea-version: "{version}"', text)
        config.write_text(other("99.0.0") + "later: 1\n")
        self.refused("train", "-c", config, says=["versions.yml: fovea 99.0.0 wrote this file, which is newer than this fovea (",
                                                  "use that version, or remove the line fovea-version"])
        config.write_text(other("0.0.1"))
        checked("train", "-c", config, "--model", PLACE.folder / "from-old")

    def test_the_log_begins_with_what_is_not_the_default(self):
        model, said = train("short", updates=2)
        config = [line.split("] ", 1)[1] for line in said.splitlines() if "[config]" in line]
        self.assertLess(len(config), 10, said)
        shown = " ".join(config)
        for part in (f"model: {model}", "dim-emb: 16", "disp-freq: 2", "valid-metrics: perplexity ce-mean-words"):
            self.assertIn(part, shown)
        self.assertNotIn("label-smoothing", shown)
        _, said = train("long", "--log-level", "debug", updates=2)
        self.assertIn("[config] label-smoothing: 0.1\n", said)

    def test_log_levels(self):
        for options, lines in ((["--quiet"], 0), (["--log-level", "warning"], 0), (["--log-level", "error"], 0),
                               (["--quiet", "--log-level", "debug"], 0), (["--log-level", "info"], 5)):
            model, said = train("level", "--overwrite", *options, updates=2)
            self.assertTrue(said.count("\n") >= lines if lines else said == "", f"{options}: {said}")
            self.assertTrue((model / "log.jsonl").exists())
        self.refused("train", "--log-level", "wrong", says=["--log-level: got 'wrong'; expected one of debug, info"], code=2)
        for name in ("train.yml", "log.jsonl"):
            self.refused(*PLACE.training(PLACE.folder / "own", "--log", PLACE.folder / "own" / name),
                         says=[f"is the run's own {name}; name another file"])

    def test_a_strangers_folder_leads_nowhere(self):
        """Links in place of a run's own files would change what they lead to."""
        model, _ = train("strangers", updates=2)
        mine, theirs = PLACE.folder / "mine", PLACE.folder / "mine.d"
        theirs.mkdir()
        for name in (".lock", "train.yml", "log.jsonl", "checkpoints", "tensorboard"):
            copy = PLACE.folder / "strange"
            shutil.copytree(model, copy, symlinks=True)
            path = copy / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            for target in (mine, theirs, PLACE.folder / "not-there"):
                mine.write_text("precious")
                path.symlink_to(target)
                self.refused(*PLACE.training(copy, "--after-batches", 4, "--tensorboard"),
                             says=[f"--model: '{path}' is a link to '{target}'", "remove the link"])
                self.assertEqual(mine.read_text(), "precious")
                self.assertEqual(list(theirs.iterdir()), [])
                self.assertFalse((PLACE.folder / "not-there").exists())
                path.unlink()
            shutil.rmtree(copy)
        (model / "train.log").symlink_to(mine)
        self.refused(*PLACE.training(model, "--after-batches", 4, "--log", model / "train.log"), says="train.log' is a link to")
        self.assertEqual(mine.read_text(), "precious")

    def test_the_folder_of_a_run_may_be_a_link(self):
        disk, model = PLACE.folder / "disk", PLACE.folder / "linked"
        disk.mkdir()
        model.symlink_to(disk)
        train("linked", updates=2)
        train("linked", updates=4)
        self.assertTrue((disk / "checkpoints" / "update-00000004").is_dir())

    def test_leftovers_of_killed_calls_go(self):
        model, _ = train("left", updates=4)
        left = [left_folder(model, "new"), left_folder(model / "checkpoints", "old"), left_folder(PLACE.folder, "new1")]
        theirs = PLACE.folder / "left-average.tmp7"
        theirs.mkdir()
        train("left", updates=8)
        checked("average", "--model", model, "--last", 1, "--output", PLACE.folder / "left-average")
        self.assertEqual([path for path in left if path.exists()], [])
        self.assertTrue(theirs.exists())


class Curves(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.first, _ = train("curves-a")
        cls.second, _ = train("curves-b", "--seed", 9)

    def draw(self, *arguments):
        output = PLACE.folder / "curves.svg"
        checked("curves", *arguments, "--output", output)
        root = xml.fromstring(output.read_text())
        return [element.text for element in root.iter() if element.tag.endswith("text")]

    def test_every_run_leaves_a_record(self):
        events = [(line["event"], line["updates"]) for line in records(self.first)]
        self.assertEqual(events, [("start", 0), ("train", 2), ("train", 4), ("valid", 4), ("valid", 4), ("save", 4), ("train", 6),
                                  ("train", 8), ("valid", 8), ("valid", 8), ("save", 8), ("end", 8)])
        self.assertEqual(records(self.first)[0]["options"]["dim-emb"], "16")
        elapsed = [line["elapsed"] for line in records(self.first)]
        self.assertEqual(elapsed, sorted(elapsed))

    def test_runs_are_drawn(self):
        texts = self.draw(self.first, self.second)
        for text in ("curves-a", "curves-b", "training loss", "ce-mean-words", "perplexity"):
            self.assertEqual(sum(text == shown.removesuffix(" (logarithmic)") for shown in texts), 1, texts)
        self.assertEqual(texts.count("updates"), 3)
        self.assertIn("training time (seconds)", self.draw(self.first, "--over", "time"))
        self.assertIn(str(self.first), self.draw(self.first, f"{self.first}/../curves-a"))

    def test_a_run_that_was_killed(self):
        model = PLACE.folder / "curves-cut"
        shutil.copytree(self.first, model, symlinks=True)
        with open(model / "log.jsonl", "a") as record:
            record.write('{"event":"train","upd')
        texts = self.draw(model)
        self.assertIn("training loss", texts)
        train("curves-cut", updates=10)
        self.assertEqual([line["event"] for line in records(model)][-5:], ["train", "save", "valid", "valid", "end"])

    def test_a_run_that_begins_again(self):
        model, _ = train("begun", "--tensorboard", updates=4)
        train("begun", "--no-reload", "--tensorboard", updates=2)
        for name in ("train.yml", "log.jsonl", "tensorboard", "checkpoints"):
            self.assertTrue((model / name).exists() and (model / f"{name}.1").exists(), name)
        (model / "tensorboard" / "mine").write_text("kept")
        train("begun", "--overwrite", updates=2)
        self.assertEqual([path.name for path in (model / "tensorboard").iterdir()], ["mine"])
        self.assertEqual([line["event"] for line in records(model)][:2], ["start", "train"])

    def test_bad_input(self):
        output = ["--output", PLACE.folder / "bad.svg"]
        self.refused("curves", *output, says=["RUN: got none; expected the folder of a run"], code=2)
        self.refused("curves", self.first, "--output", "x.png", says=["--output: got 'x.png'; expected a name that ends in .svg"], code=2)
        self.refused("curves", PLACE.folder / "none", *output, says=["none' is not a folder"])
        self.refused("curves", PLACE.folder / "corpus", *output, says=["' has no log.jsonl; expected the folder of a run"])
        empty = PLACE.folder / "empty-run"
        empty.mkdir()
        (empty / "log.jsonl").write_text('{"event":"start","updates":0,"elapsed":0}\n')
        self.refused("curves", empty, *output, says=["has no loss and no validation yet"])
        (empty / "log.jsonl").write_text("hello\n")
        self.refused("curves", empty, *output, says=["log.jsonl:1: is not a JSON object"])
        self.refused("curves", self.first, "--output", PLACE.folder / "none" / "x.svg", says=["--output: ", "No such file or directory"])
        closed = PLACE.folder / "closed"
        closed.mkdir(mode=0o555)
        self.refused("curves", self.first, "--output", closed / "x.svg", says=["closed", "Permission denied"], before=without_privilege())
        self.assertFalse((PLACE.folder / "bad.svg").exists())


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    total = 0xFFFFFFFF
    for byte in data:
        total = total >> 8 ^ table[(total ^ byte) & 0xFF]
    return total ^ 0xFFFFFFFF


def masked(data):
    total = crc32c(data)
    return ((total >> 15 | total << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tf_records(data):
    """The payloads of the whole TFRecords of a file, each checked against its sums."""
    while len(data) >= 12:
        size, size_sum = struct.unpack("<QI", data[:12])
        if len(data) < 16 + size:
            return
        payload, (payload_sum,) = data[12:12 + size], struct.unpack("<I", data[12 + size:16 + size])
        assert masked(data[:8]) == size_sum and masked(payload) == payload_sum
        yield payload
        data = data[16 + size:]


def message(data):
    """The fields of a protobuf message: lists of numbers, and of bytes for the other types."""
    fields, place = {}, 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value, place = data[place:place + size], place + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def scalars_by_definition(folder):
    """{tag: [(step, value)]} of all event files, without what a later process took back."""
    scalars = {}
    for path in sorted(folder.iterdir()):
        for event in map(message, tf_records(path.read_bytes())):
            step = event.get(2, [0])[0]
            if 7 in event:
                scalars = {tag: [each for each in values if each[0] < step] for tag, values in scalars.items()}
            for value in message(event[5][0]).get(1, []) if 5 in event else []:
                scalar = message(value)
                scalars.setdefault(scalar[1][0].decode(), []).append((step, struct.unpack("<f", scalar[2][0])[0]))
    return scalars


class TensorBoard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A run that is killed after update 10 and resumes after update 8, with a half-written file in between."""
        cls.model, _ = train("board", "--tensorboard", updates=10)
        shutil.rmtree(cls.model / "checkpoints" / "update-00000010")
        (cls.model / "last").unlink()
        (cls.model / "last").symlink_to("checkpoints/update-00000008")
        cls.folder = cls.model / "tensorboard"
        whole = next(cls.folder.iterdir())
        (cls.folder / "events.out.tfevents.1.host.1.fovea").write_bytes(whole.read_bytes()[:-5])
        train("board", "--tensorboard", updates=14)

    def expected(self):
        """The values of the record, in TensorBoard's float32."""
        single = lambda value: struct.unpack("<f", struct.pack("<f", value))[0]
        wanted, past = {}, records(self.model)
        last = max(i for i, line in enumerate(past) if line["event"] == "start")
        kept = [line for line in past[:last] if line["updates"] <= past[last]["updates"]] + past[last:]
        keys = {"train/loss": "cost", "train/learn_rate": "learn_rate", "train/words_per_second": "words_per_second",
                "train/gradient_norm": "gradient_norm"}
        for line in kept:
            for tag, key in keys.items() if line["event"] == "train" else ():
                wanted.setdefault(tag, []).append((line["updates"], single(line[key])))
            if line["event"] == "valid":
                wanted.setdefault(f"valid/{line['metric']}", []).append((line["updates"], single(line["value"])))
        self.assertEqual([step for step, _ in wanted["train/loss"]], [2, 4, 6, 8, 10, 12, 14])
        return wanted

    def test_event_files_have_what_the_record_has(self):
        self.assertEqual(len(list(self.folder.iterdir())), 3)
        self.assertEqual(scalars_by_definition(self.folder), self.expected())

    def test_tensorboard_reads_them(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("tensorboard is not installed")
        accumulator = EventAccumulator(str(self.folder), size_guidance={"scalars": 0, "tensors": 0})
        accumulator.Reload()
        got = {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
        self.assertEqual(got, self.expected())


if __name__ == "__main__":
    unittest.main(verbosity=2)

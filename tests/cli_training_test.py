#!/usr/bin/env python3
"""The log of commands, and the files that they leave when a signal stops them."""
import datetime
import json
import os
import signal
import subprocess
import time
import unittest

from fovea_program import PROGRAM, TINY, Refusals, Workplace, checked

PLACE = Workplace()


class Logs(unittest.TestCase):
    def test_in_the_folder_of_a_new_run(self):
        model = PLACE.folder / "logged"
        checked(*PLACE.training(model, "--after-batches", 1, "--log", model / "logs" / "train.log"))
        self.assertIn("Training finished after 1 update", (model / "logs" / "train.log").read_text())

    def test_json_tells_the_time(self):
        model = PLACE.folder / "json"
        said = checked(*PLACE.training(model, "--after-batches", 1, "--disp-freq", 1, "--log-format", "json")).stderr
        lines = [json.loads(line) for line in said.splitlines()]
        for line in lines:
            self.assertIsNotNone(datetime.datetime.fromisoformat(line["time"]).tzinfo)
        self.assertEqual([line["event"] for line in lines if "event" in line], ["train", "save"])
        self.assertEqual(lines[-2]["path"], str(model / "checkpoints" / "update-00000001"))

    def test_says_where_bfloat16_gains_no_time(self):
        def said(name, *arguments):
            return checked(*PLACE.training(PLACE.folder / name, "--after-batches", 1, *arguments),
                           env=os.environ | {"FOVEA_CPU": "portable"}).stderr
        line = "float32 is at least as fast as bfloat16 on this processor (portable)"
        self.assertIn(line, said("bf16", "--precision", "bfloat16"))
        self.assertNotIn(line, said("float32"))


class Vocabularies(Refusals):
    def test_one_is_of_both_languages_if_embeddings_are_tied(self):
        def arguments(name, *vocabs):
            options = list(map(str, PLACE.training(PLACE.folder / name, "--after-batches", 2, "--cpu-threads", 1)))
            at = options.index("--vocabs")
            return [*options[:at + 1], *vocabs, *options[at + 3:]]

        weights = []
        for name, count in (("twice", 2), ("once", 1)):
            checked(*arguments(name, *[PLACE.vocab] * count), *([] if "--tied-embeddings-all" in TINY else ["--tied-embeddings-all"]))
            weights.append((PLACE.folder / name / "last" / "model.safetensors").read_bytes())
        self.assertEqual(*weights)
        untied = [option for option in arguments("untied", PLACE.vocab) if option != "--tied-embeddings-all"]
        self.refused(*untied, says="--vocabs has 1 file; expected two, source and target", code=2)


class Unknown(unittest.TestCase):
    def test_characters_that_the_vocabulary_lacks_are_counted(self):
        texts = [PLACE.folder / "unknown.source", PLACE.folder / "unknown.target"]
        lines = PLACE.sides["train"][0].read_text().splitlines()[:20]
        for text, last in zip(texts, ("\u8a9e un \u6587", "un \u2603")):
            text.write_text("\n".join([*lines, last]) + "\n")
        arguments = list(map(str, PLACE.training(PLACE.folder / "unknown", "--after-batches", 1)))
        arguments[arguments.index("--train-sets") + 1:arguments.index("--vocabs")] = map(str, texts)
        self.assertIn(" tokens); 3 of them unknown, which the vocabularies lack\n", checked(*arguments).stderr)
        self.assertNotIn("unknown", checked(*PLACE.training(PLACE.folder / "known", "--after-batches", 1)).stderr)


class Signals(unittest.TestCase):
    def stop(self, arguments, signal_number, until):
        """Sends the signal as soon as `until`, a text in the log or a function, is met; the exit status and the log."""
        log = PLACE.folder / "signal.log"
        met = until if callable(until) else lambda: until in log.read_text(errors="replace")
        with open(log, "wb") as out:
            with subprocess.Popen([PROGRAM, *map(str, arguments)], stderr=out, stdout=subprocess.DEVNULL,
                                  stdin=subprocess.PIPE) as process:
                deadline = time.monotonic() + 300
                while not met():
                    self.assertIsNone(process.poll(), log.read_text())
                    self.assertLess(time.monotonic(), deadline, log.read_text())
                    time.sleep(0.001)
                process.send_signal(signal_number)
                return process.wait(timeout=300), log.read_text()

    def test_training_saves(self):
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGUSR1, 0), (signal.SIGHUP, 0)):
            model = PLACE.folder / f"stopped-{number}"
            options = PLACE.training(model, "--after-batches", 1_000_000, "--disp-freq", 1, "--save-freq", 1_000_000)
            got, log = self.stop(options, number, "Up. 3 :")
            self.assertEqual(got, code, log)
            self.assertIn("Training interrupted (via signal)", log)
            self.assertTrue((model / "last" / "model.safetensors").exists(), log)

    def test_validation_stops(self):
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
            model = PLACE.folder / f"validating-{number}"
            options = ["--after-batches", 1_000_000, "--disp-freq", 1, "--valid-freq", 2, "--valid-sets",
                       *PLACE.sides["train"], "--valid-beam-size", 40, "--valid-metrics", "bleu"]
            got, log = self.stop(PLACE.training(model, *options), number, "Up. 2 :")  # 1,900 sentences take seconds
            self.assertEqual(got, code, log)
            self.assertNotIn("[valid]", log, "validation had come to its end")
            self.assertIn("Training interrupted (via signal)", log)
            checked("translate", "--model", model, "--quiet", stdin="un stelli .\n")

    def test_saving_is_brought_to_its_end(self):
        wide = [{"16": "256", "32": "4096"}.get(value, value) for value in map(str, PLACE.training("MODEL"))]
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
            model = PLACE.folder / f"saving-{number}"
            training = [model if value == "MODEL" else value for value in wide]
            got, log = self.stop([*training, "--save-freq", 2, "--mini-batch", 2], number,
                                 lambda: any(model.glob("checkpoints/.fovea-*/new1")))
            self.assertEqual(got, code, log)
            self.assertFalse(any(model.glob("checkpoints/.fovea-*")), log)
            self.assertIn("[save] " + str(model / "checkpoints" / "update-00000002"), log)
            checked("translate", "--model", model / "last", "--quiet", stdin="un stelli .\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)

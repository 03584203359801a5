#!/usr/bin/env python3
"""A new user meets these: runs that are done, stopped or named without data, and output that was stopped."""
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import time
import unittest

from fovea_program import PROGRAM, Refusals, Workplace, checked, run, without_privilege

PLACE = Workplace()
F = PLACE.folder


def until(condition, process):
    """Waits for the condition, which the process is to bring about."""
    end = time.monotonic() + 120
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            raise AssertionError(f"exit code {process.poll()}: {process.stderr.read().decode()}")
        time.sleep(0.02)


def started(*arguments, **options):
    return subprocess.Popen([PROGRAM, *map(str, arguments)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **options)


class FinishedRun(unittest.TestCase):
    def own_data(self, name):
        """Training options with text of their own, which the test may delete."""
        sides = [F / f"{name}.{side}" for side in ("src", "trg")]
        for own, shared in zip(sides, PLACE.sides["train"]):
            shutil.copyfile(shared, own)
        return sides

    def test_it_says_so_without_reading_data(self):
        valid = ["--valid-sets", *PLACE.sides["valid"], "--valid-metrics", "ce-mean-words"]
        for name, limit in (("by-updates", ["--after-batches", 4]), ("by-epochs", ["--after-epochs", 1, "--after-batches", 0]),
                            ("by-time", ["--stop-after-seconds", 0.01])):
            with self.subTest(name):
                sides, model = self.own_data(name), F / name
                training = PLACE.training(model, *limit, *valid)
                training[training.index("--train-sets") + 1:training.index("--train-sets") + 3] = sides
                first = checked(*training).stderr
                self.assertIn("Training finished after ", first)
                before = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
                for side in sides:  # still there to name, and no text any more
                    side.write_bytes(b"\xff\n")
                again = checked(*training, "--cpu-threads", 2).stderr
                self.assertIn("there was nothing left to do", again)
                self.assertEqual(first.split("Training finished after ")[1].split(";")[0].strip(),
                                 again.split("Training finished after ")[1].split(";")[0].strip())
                self.assertNotIn("[data]", again)
                self.assertEqual({path: path.read_bytes() for path in model.rglob("*") if path.is_file()}, before)

    def test_other_options_go_on(self):
        model = F / "goes-on"
        checked(*PLACE.training(model, "--after-batches", 3))
        more = checked(*PLACE.training(model, "--after-batches", 5)).stderr
        self.assertIn("resuming after update 3", more)
        self.assertIn("after-batches: 3 -> 5", more)
        self.assertEqual((model / "last").resolve().name, "update-00000005")
        fewer = checked(*PLACE.training(model, "--after-batches", 4)).stderr
        self.assertIn("nothing left to do", fewer)

    def test_a_damaged_end_is_made_again(self):
        model = F / "damaged"
        training = PLACE.training(model, "--after-batches", 4, "--save-freq", 2)
        checked(*training)
        weights = model / "last" / "model.safetensors"
        whole = weights.read_bytes()
        weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        self.assertIn("resuming after update 2", checked(*training).stderr)
        self.assertEqual((model / "last" / "model.safetensors").read_bytes(), whole)


class NamedRun(Refusals):
    def test_a_run_without_data_is_told_of_its_options(self):
        run_folder = F / "my run"
        checked(*PLACE.training(run_folder, "--after-batches", 2))
        said = self.refused("train", "--model", run_folder, says=["is a run, and the command names no data", f"{PROGRAM} train -c '"], code=2)
        command = said.stderr.split("to continue it: ")[1].strip()
        done = subprocess.run(["sh", "-c", f"{command} --after-batches 3"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((run_folder / "last").resolve().name, "update-00000003")
        self.refused("train", "--model", run_folder, "--overwrite", says="--train-sets", code=2)
        self.refused("train", "--model", F / "no-run", says="--train-sets", code=2)

    def test_a_renamed_or_copied_run_goes_on_where_it_is(self):
        old, new = F / "old-name", F / "new-name"
        checked(*PLACE.training(old, "--after-batches", 2), cwd=F)
        shutil.copytree(old, new, symlinks=True)
        checked("train", "-c", new / "train.yml", "--after-batches", 3)
        self.assertEqual([(folder / "last").resolve().name for folder in (old, new)], ["update-00000002", "update-00000003"])

    def test_a_shorter_command_continues_with_the_model_of_the_run(self):
        run_folder = F / "shorter"
        checked(*PLACE.training(run_folder, "--transformer-norm", "post", "--attention", "topk(4)", "--after-batches", 2))
        short = ["train", "--model", run_folder, "--train-sets", *PLACE.sides["train"], "--vocabs", PLACE.vocab, PLACE.vocab,
                 "--mini-batch-words", 500, "--cpu-threads", 1]
        said = checked(*short, "--after-batches", 3).stderr
        self.assertIn("resuming after update 2", said)
        self.assertNotIn("options that differ from those of the run so far: dim", said)
        self.assertEqual((run_folder / "last").resolve().name, "update-00000003")
        self.assertIn("nothing left to do", checked(*short, "--after-batches", 3).stderr)
        refused = self.refused(*short, "--dim-emb", 32, "--attention", "full", "--transformer-norm", "post", "--after-batches", 9,
                               says=[f"--dim-emb: the run in '{run_folder}' was made with '16', got '32'; --attention: 'topk(4)', got 'full'",
                                     f"to continue the run, {PROGRAM} train -c {run_folder}/train.yml", "or --overwrite to begin again"])
        self.assertNotIn("[data]", refused.stderr)
        said = checked("train", "-c", run_folder / "train.yml").stderr
        self.assertIn(f"'{run_folder}/train.yml' keeps the limits of the run so far: --after-batches 3; to train on, give a higher one", said)
        self.assertNotIn("keeps the limits", checked("train", "-c", run_folder / "train.yml", "--after-batches", 4).stderr)

    def test_other_languages_are_refused(self):
        for name in ("train", "valid"):
            for code, side in zip(("en", "fr", "de"), (*PLACE.sides[name], PLACE.sides[name][1])):
                shutil.copy(side, F / f"{name}.{code}")
        run_folder = F / "languages"
        command = ["train", "--model", run_folder, *PLACE.training(run_folder)[3:], "--valid-freq", 2]
        first = command.index("--train-sets") + 1

        def sides(source, target, valid=None):
            command[first:first + 2] = [F / f"train.{source}", F / f"train.{target}"]
            return [*command, "--valid-sets", *(F / f"valid.{code}" for code in valid or (source, target))]
        checked(*sides("en", "fr"), "--after-batches", 2)
        for pair in (("fr", "en"), ("en", "de")):
            said = self.refused(*sides(*pair), "--after-batches", 4,
                                says=[f"--train-sets: the run in '{run_folder}' was made with 'en, fr', got '{', '.join(pair)}'",
                                      f"to continue the run, {PROGRAM} train -c {run_folder}/train.yml"])
            self.assertNotIn("[data]", said.stderr)
        self.refused(*sides("en", "fr", ("fr", "en")), "--after-batches", 4, code=2,
                     says=[f"--valid-sets: got {F}/valid.fr {F}/valid.en, but --train-sets are {F}/train.en {F}/train.fr"])
        checked(*sides("en", "fr"), "--after-batches", 4)
        checked(*sides("fr", "en"), "--after-batches", 2, "--overwrite")

    def test_the_best_of_other_validation_data_is_kept(self):
        run_folder = F / "former-best"
        valid = ["--valid-freq", 2, "--save-freq", 1, "--keep-last", 1]
        training = PLACE.training(run_folder, *valid, "--learn-rate", 0.01)
        checked(*training, "--valid-sets", *PLACE.sides["valid"], "--after-batches", 2)
        best = (run_folder / "best").resolve()
        said = checked(*training, "--valid-sets", *PLACE.sides["test"], "--after-batches", 8).stderr
        self.assertIn(f"the best values are forgotten; their checkpoint, '{run_folder}/checkpoints/{best.name}', is kept", said)
        self.assertNotEqual((run_folder / "best").resolve(), best)
        checked(*training, "--valid-sets", *PLACE.sides["test"], "--after-batches", 10)
        self.assertTrue((best / "model.safetensors").is_file())
        kept = {folder.name for folder in (run_folder / "checkpoints").iterdir()}
        self.assertEqual(kept, {best.name, (run_folder / "best").resolve().name, "update-00000010"})

    def test_a_command_says_which_checkpoint_of_a_run_it_takes(self):
        run_folder = F / "which"
        checked(*PLACE.training(run_folder, "--save-freq", 1, "--keep-last", 5, "--after-batches", 3))
        told = lambda model: checked("translate", "--model", model, "--cpu-threads", 1, stdin="a\n").stderr  # noqa: E731
        (run_folder / "best").unlink(missing_ok=True)
        (run_folder / "best").symlink_to("checkpoints/update-00000002")
        self.assertIn(f"[model] {run_folder}/best: update 2; {run_folder}/last is update 3", told(run_folder))
        self.assertNotIn("last is update", told(run_folder / "last"))
        (run_folder / "best").unlink()
        (run_folder / "best").symlink_to("checkpoints/update-00000003")
        self.assertNotIn("last is update", told(run_folder))

    def test_a_limit_in_time_that_cuts_the_updates_is_told_early(self):
        limits = ["--after-batches", 1000, "--disp-freq", 1]
        said = checked(*PLACE.training(F / "short-time", *limits, "--stop-after-seconds", 0.001)).stderr
        self.assertIn("--stop-after-seconds 0.001 ends the training after about 1 of 1,000 updates; to make all of them", said)
        said = checked(*PLACE.training(F / "long-time", "--after-batches", 2, "--disp-freq", 1, "--stop-after-seconds", 1e6)).stderr
        self.assertNotIn("at this speed", said)

    def test_the_bar_of_a_resumed_run_counts_from_its_beginning(self):
        run_folder = F / "bar"
        checked(*PLACE.training(run_folder, "--after-batches", 3))
        terminal, side = pty.openpty()
        process = subprocess.Popen([PROGRAM, *map(str, PLACE.training(run_folder, "--after-batches", 6))], stdout=subprocess.DEVNULL,
                                   stderr=side)
        os.close(side)
        shown = b""
        while True:
            try:
                shown += os.read(terminal, 4096)
            except OSError:  # its end, as Linux tells it
                break
        os.close(terminal)
        self.assertEqual(process.wait(), 0, shown)
        first = re.search(rb"training \[[#.]*\] (\d+)%", shown)
        self.assertEqual(first[1], b"67", shown)  # the fourth of six updates

    def test_a_folder_that_cannot_be_written_is_refused_before_data_are_read(self):
        run_folder = F / "read-only"
        checked(*PLACE.training(run_folder, "--after-batches", 2))
        for closed in (run_folder / "checkpoints", run_folder):
            closed.chmod(0o555)
            refused = self.refused(*PLACE.training(run_folder, "--after-batches", 4), before=without_privilege(),
                                   says=f"--model: cannot write in '{closed}': Permission denied")
            self.assertNotIn("[data]", refused.stderr)
            closed.chmod(0o755)
        (run_folder / "log.jsonl").chmod(0o444)
        refused = self.refused(*PLACE.training(run_folder, "--after-batches", 4), before=without_privilege(),
                               says=f"--model: cannot write '{run_folder}/log.jsonl': Permission denied")
        self.assertNotIn("[data]", refused.stderr)

    def test_what_the_folder_refuses_is_refused_before_data_are_read(self):
        run_folder = PLACE.model()
        for options, says in ((["--dim-emb", 32], "--dim-emb: the run in "), (["--transformer-norm", "post"], "was made with 'pre', got 'post'"),
                              (["--task", "language", "--vocabs", "bytes"], "is of the task translation, got language")):
            training = PLACE.training(run_folder, *options, "--after-batches", 30)
            if "language" in options:
                training = ["train", "--model", run_folder, "--train-sets", PLACE.sides["train"][0], *options, "--after-batches", 30]
            self.assertNotIn("[data]", self.refused(*training, says=says).stderr)
        held = started(*PLACE.training(F / "held", "--after-batches", 100000, "--disp-freq", 1))
        until(lambda: (F / "held" / "train.yml").exists(), held)
        second = self.refused(*PLACE.training(F / "held", "--after-batches", 100000), says="another training is running")
        self.assertNotIn("[data]", second.stderr)
        held.send_signal(signal.SIGTERM)
        held.communicate()
        file = F / "a-file"
        file.write_text("")
        self.refused(*PLACE.training(file / "run"), says="is not a folder")


class Stopped(unittest.TestCase):
    def test_a_training_says_once_what_is_saved_and_what_continues_it(self):
        model = F / "it's stopped"
        process = started(*PLACE.training(model, "--after-batches", 100000, "--disp-freq", 1, "--save-freq", 100000))
        until(lambda: (model / "log.jsonl").exists() and '"event":"train"' in (model / "log.jsonl").read_text(), process)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1].decode()
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        about = [line for line in said.splitlines() if "interrupted" in line or "stopped by" in line]
        self.assertEqual(len(about), 1, said)
        self.assertRegex(about[0], r"Training interrupted \(via signal\) after \d+ updates?, which are saved in '")
        self.assertIn("] Warning: Training interrupted", about[0])
        command = about[0].split("and so does: ")[1]
        updates = int((model / "last").resolve().name.split("-")[1])
        done = subprocess.run(["sh", "-c", f"{command} --after-batches {updates + 1}"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((model / "last").resolve().name, f"update-{updates + 1:08}")

    def test_translations_so_far_are_kept_as_partial(self):
        for name, kept in (("out", "out.partial"), ("out.gz", "out.partial.gz")):
            pipe, output = F / f"{name}.pipe", F / name
            os.mkfifo(pipe)
            process = started("translate", "--model", PLACE.model(), "--input", pipe, "--output", output, "--cpu-threads", 1,
                              "--maxi-batch", 1, "--mini-batch", 2)
            lines = PLACE.sides["test"][0].read_text().splitlines()[:6]
            with open(pipe, "w") as feed:
                feed.write("\n".join(lines[:5]) + "\n")
                feed.flush()
                whole = lambda: sum(path.stat().st_size for path in F.glob(".fovea-*/new"))  # noqa: E731
                until(lambda: whole() > 0, process)
                size = -1
                while whole() != size:  # until nothing is added for a while
                    size = whole()
                    time.sleep(1)
                process.send_signal(signal.SIGINT)
                said = process.communicate()[1].decode()
            self.assertEqual(process.returncode, 128 + signal.SIGINT, said)
            self.assertFalse(output.exists())
            self.assertEqual(list(F.glob(".fovea-*")), [])
            self.assertIn(f"the output of the first 5 lines is in '{F / kept}'", said)
            wanted = checked("translate", "--model", PLACE.model(), "--cpu-threads", 1, stdin="\n".join(lines[:5]) + "\n").stdout
            text = subprocess.run(["zcat" if name.endswith("gz") else "cat", F / kept], capture_output=True, text=True, check=True).stdout
            self.assertEqual(text, wanted)

    def test_lines_of_a_stopped_window_are_the_first_ones(self):
        text = F / "many"
        text.write_text("".join(path.read_text() for path in PLACE.sides["train"][:1] * 3))
        whole = checked("translate", "--model", PLACE.model(), "--cpu-threads", 1, stdin="\n".join(text.read_text().split("\n")[:500]) + "\n").stdout
        output = F / "stopped"
        process = started("translate", "--model", PLACE.model(), "--input", text, "--output", output, "--cpu-threads", 1)
        until(lambda: any(path.stat().st_size for path in F.glob(".fovea-*/new")), process)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1].decode()
        self.assertEqual(process.returncode, 128 + signal.SIGINT, said)
        count = int(re.search(r"the output of the first ([\d,]+) lines is in '", said)[1].replace(",", ""))
        lines = (F / "stopped.partial").read_text().splitlines(keepends=True)
        self.assertEqual(len(lines), count)
        self.assertLess(count, len(text.read_text().splitlines()), "it was done before the signal came")
        self.assertEqual("".join(lines[:500]), "".join(whole.splitlines(keepends=True)[:count]))

    def test_nothing_partial_without_a_line(self):
        output = F / "nothing"
        self.assertEqual(run("translate", "--model", PLACE.model(), "--input", F / "none-there", "--output", output).returncode, 1)
        self.assertEqual(list(F.glob("nothing*")), [])


class FilterShow(unittest.TestCase):
    def test_it_shows_as_many_pairs_as_asked(self):
        for count, shown in ((3, 3), (15, 15), (25, 25), (1000, 25)):  # of 50 pairs, whose tenth are 5
            out = checked("filter", "--model", PLACE.model(), "--train-sets", *PLACE.sides["test"], "--show", count, "--cpu-threads", 1).stdout
            for name in ("best", "worst"):
                self.assertEqual(sum(line.startswith(f"{name} |||") for line in out.splitlines()), shown)
        scores = [float(line.split(" ||| ")[1]) for line in out.splitlines() if "|||" in line]
        self.assertEqual(scores, sorted(scores, reverse=True), "all pairs, none as both")


class Curves(unittest.TestCase):
    def test_they_are_drawn_on_the_terminal(self):
        model = F / "drawn"
        checked(*PLACE.training(model, "--after-batches", 12, "--disp-freq", 2, "--valid-freq", 4, "--valid-metrics", "ce-mean-words",
                                "--valid-sets", *PLACE.sides["valid"]))
        text = checked("curves", model, env=os.environ | {"COLUMNS": "60"}).stdout
        lines = text.splitlines()
        self.assertEqual(lines[0], "* drawn")
        self.assertIn("training loss", lines)
        self.assertIn("ce-mean-words", lines)
        self.assertEqual(sum(line.strip() == "updates" for line in lines), 2)
        self.assertLessEqual(max(map(len, lines)), 60)
        self.assertGreater(text.count("*"), 40)
        self.assertRegex(text, r"  \* best [\d.]+ at 12\n")
        two = checked("curves", model, PLACE.model()).stdout
        self.assertEqual(two.splitlines()[0], "* drawn   o model")


if __name__ == "__main__":
    unittest.main(verbosity=2)

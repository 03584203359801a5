#!/usr/bin/env python3
"""Training by several processes, started by mpirun: pip's wheel of Open MPI in .venv, or the system's."""
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

from array_file import npy
from fovea_program import PROGRAM, TINY, Refusals, Workplace, checked, run

LIBRARY = pathlib.Path(PROGRAM).resolve().parent.parent / "lib/libfovea_mpi.so"
MPIRUN = shutil.which("mpirun", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "GOMP_SPINCOUNT": "5000"}
MISSING = "" if MPIRUN and LIBRARY.exists() else f"mpirun ({MPIRUN}) or {LIBRARY.name} is missing; ./fovea.sh build --mpi"


def setUpModule():
    global PLACE, F
    PLACE = Workplace()
    F = PLACE.folder


def launching(count, *command):
    return [MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", str(count), *map(str, command)]


def several(count, *arguments):
    return launching(count, PROGRAM, *arguments)


def errors_in(log):
    """The lines of errors from their word on: a launcher's own notices, which it mixes with them, need not end a line."""
    return [line[line.index("Error: "):] for line in log.splitlines() if "Error: " in line]


def launched(command, timeout=300):
    """The launcher's result. When a process ends while another one connects, Open MPI 5.0.11 names the process and its exit
    code, and then often aborts on its own heap: the result has that exit code. Rarely the launcher never ends after one of
    its processes did, or a signal ends it before it names one: it is then asked a second time. A process that a signal ends
    is not hidden by this: the launcher then exits by itself, with 128 and the signal. Processes that are all there after the
    timeout hang: that is an error."""
    count = int(command[command.index("-n") + 1])
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
            try:
                output, errors = process.communicate(timeout=timeout)
                returncode = process.returncode
                if returncode < 0 and (named := re.search(r"Process name: \[.*\]\s+Exit code: +(\d+)\n", errors)):
                    returncode = int(named[1])
                if returncode >= 0:
                    return subprocess.CompletedProcess(command, returncode, output, errors)
                living, report = [], f"signal {-process.returncode} ended the launcher {command}:\n{output}{errors}"
            except subprocess.TimeoutExpired:
                states = subprocess.run(["ps", "-o", "pid=,stat=,wchan=,args=", "--ppid", str(process.pid)], capture_output=True,
                                        text=True).stdout
                living = [int(line.split()[0]) for line in states.splitlines() if not line.split()[1].startswith("Z")]
                for pid in [*living, process.pid]:
                    os.kill(pid, signal.SIGKILL)
                output, errors = process.communicate()
                report = f"{command} did not end in {timeout} s; its processes:\n{states}{output}{errors}"
        if len(living) == count:
            break
        print(report, file=sys.stderr)
    raise AssertionError(report)


def together(count, *arguments):
    return launched(several(count, *arguments))


def weights(model):
    return (model / "last/model.safetensors").read_bytes()


class Launched(Refusals):
    """The variables of a launcher, without MPI."""

    def test_other_commands_and_builds_without_mpi_refuse(self):
        for variables in ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}, {"PMI_SIZE": "4", "PMI_RANK": "0"},
                          {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}):
            environment = {**os.environ, **variables}
            for command in ("align", "analyze", "generate"):
                self.refused(command, "--model", "x", says=[f"fovea {command}: this process is one of 4 that a launcher started",
                                                            "train, translate, score and filter work in several"],
                             code=2, env=environment)
        # A job script on SLURM, without srun, is one process.
        environment = {**os.environ, "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}
        self.assertNotIn("launcher", run("align", "--model", "x", env=environment).stderr)
        # The first process says what all would say. Another one waits to be ended by the launcher, and then says it too.
        environment = {**os.environ, "PMI_SIZE": "4", "PMI_RANK": "2"}
        result = run("align", "--model", "x", env=environment)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"^Error: process 2 of 4 on \S+: fovea align: this process is one of 4 [^\n]*\n$")
        # A command that can be shared refuses the options that cannot.
        environment = {**os.environ, "PMI_SIZE": "4", "PMI_RANK": "0"}
        self.refused("translate", "--model", PLACE.model(), "--documents", says="--documents: this process is one of 4", code=2,
                     env=environment)
        self.refused("translate", "--model", PLACE.model(), says="fovea translate without --input FILE: this process is one of 4",
                     code=2, env=environment)
        self.refused("score", "--model", PLACE.model(), "--train-sets", "-", PLACE.sides["test"][1],
                     says="score --train-sets -: this process is one of 4", code=2, env=environment)


@unittest.skipIf(MISSING, MISSING)
class Team(unittest.TestCase):
    def same(self, processes, name, *options):
        """One process with N batches an update, and N processes with one each: the same bytes."""
        checked(*PLACE.training(F / f"{name}-one", "--optimizer-delay", processes, "--quiet", *options))
        result = together(processes, *PLACE.training(F / f"{name}-team", *options))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(weights(F / f"{name}-one"), weights(F / f"{name}-team"))
        return result.stderr

    def test_two_and_three_processes_are_one_bit_for_bit(self):
        log = self.same(2, "float", "--after-batches", 12, "--transformer-dropout", 0.2, "--clip-norm", 1)
        self.assertIn("2 processes, 2 batches an update", log)
        self.same(3, "narrow", "--after-batches", 6, "--precision", "bfloat16", "--exponential-smoothing", "1e-3")

    def valid_lines(self, log):
        return [line.split("[valid]")[1] for line in log.splitlines() if "[valid]" in line]

    def test_validation_is_shared_and_gives_the_figures_of_one_process(self):
        options = ["--valid-sets", *PLACE.sides["valid"], "--valid-freq", 4, "--valid-metrics", "ce-mean-words", "bleu", "chrf",
                   "--valid-mini-batch-words", 60, "--after-batches", 8, "--exponential-smoothing", "1e-2"]
        for count in (2, 3):
            one = checked(*PLACE.training(F / f"valid-one-{count}", "--optimizer-delay", count, *options)).stderr
            result = together(count, *PLACE.training(F / f"valid-team-{count}", *options))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(self.valid_lines(one)), 6)
            self.assertEqual(self.valid_lines(one), self.valid_lines(result.stderr))
            for file in ("progress.yml", "model.safetensors"):
                self.assertEqual(*((F / f"valid-{kind}-{count}/last" / file).read_bytes() for kind in ("one", "team")))

    def test_validation_of_language_models_is_shared(self):
        text = F / "language.txt"
        text.write_text("".join(f"line {i * 7919 % 1000} of a text of many lines\n" for i in range(300)))
        task = ["--task", "language", "--train-sets", text, "--valid-sets", text, "--vocabs", "bytes", "--dim-emb", 16,
                "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--segment-length", 64,
                "--mini-batch", 3, "--after-batches", 4, "--valid-freq", 2, "--cpu-threads", 1]
        one = checked("train", "--model", F / "lm-one", "--optimizer-delay", 2, *task).stderr
        result = together(2, "train", "--model", F / "lm-team", *task)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.valid_lines(one)), 2)
        self.assertEqual(self.valid_lines(one), self.valid_lines(result.stderr))

    def same_validation(self, name, processes, task):
        one = checked("train", "--model", F / f"{name}-one", "--optimizer-delay", processes, *task).stderr
        result = together(processes, "train", "--model", F / f"{name}-team", *task)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(len(self.valid_lines(one)), 2)
        self.assertEqual(self.valid_lines(one), self.valid_lines(result.stderr))
        self.assertEqual(weights(F / f"{name}-one"), weights(F / f"{name}-team"))

    def test_validation_of_taggers_is_shared(self):
        draw = random.Random(1)
        for name, sentences in (("tags", 60), ("tags.valid", 700)):
            text = ""
            for _ in range(sentences):
                for _ in range(draw.randint(1, 6)):
                    text += draw.choice(["ama O\n", "bebi O\n", "Amax B-PER\nZed I-PER\n", "Cocoy B-LOC\n"])
                text += "\n"
            (F / name).write_text(text)
        checked("vocab", "--train-sets", F / "tags", "--dim-vocabs", 25, "--output", F / "tags.spm")
        self.same_validation("tags", 2, ["--task", "tagging", "--train-sets", F / "tags", "--valid-sets", F / "tags.valid", "--vocabs",
                                         F / "tags.spm", "--dim-emb", 16, "--enc-depth", 1, "--transformer-heads", 2,
                                         "--transformer-dim-ffn", 32, "--mini-batch", 8, "--after-batches", 8, "--valid-freq", 4,
                                         "--lr-decay", "none", "--cpu-threads", 1])

    def test_validation_of_images_is_shared(self):
        draw = random.Random(2)
        for name, count in (("images.npy", 12), ("valid.npy", 11)):
            (F / name).write_bytes(npy((count, 4, 4, 3), draw.randbytes(count * 48)))
        self.same_validation("images", 3, ["--task", "image", "--train-sets", F / "images.npy", "--valid-sets", F / "valid.npy",
                                           "--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32,
                                           "--mini-batch", 3, "--after-batches", 4, "--valid-freq", 2, "--cpu-threads", 1])

    def test_validation_of_captions_is_shared(self):
        draw, words = random.Random(3), ["red", "blue", "circle", "square", "above"]
        for name, count in (("captions", 20), ("captions.valid", 9)):
            (F / f"{name}.npy").write_bytes(npy((count, 2, 5), struct.pack(f"<{count * 10}f", *(draw.random() for _ in range(count * 10))),
                                                "<f4"))
            (F / f"{name}.tsv").write_text("".join(f"{i}\t{' '.join(draw.choices(words, k=4))}\n" for i in range(count)))
        (F / "captions.txt").write_text("red blue circle square above\n")
        checked("vocab", "--type", "word", "--train-sets", F / "captions.txt", "--dim-vocabs", 20, "--output", F / "captions.spm")
        self.same_validation("captions", 2, ["--task", "caption", "--features", F / "captions.npy", "--captions", F / "captions.tsv",
                                             "--valid-features", F / "captions.valid.npy", "--valid-captions",
                                             F / "captions.valid.tsv", "--vocabs", F / "captions.spm", "--valid-metrics",
                                             "ce-mean-words", "coco-bleu", "--valid-mini-batch", 2, "--dim-emb", 16, "--enc-depth", 1,
                                             "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--mini-batch", 4,
                                             "--after-batches", 4, "--valid-freq", 2, "--cpu-threads", 1])

    def test_filters_keep_what_one_process_keeps(self):
        checked(*PLACE.training(F / "rela", "--after-batches", 5, "--attention-cross", "relu", "--quiet"))
        sides = PLACE.sides["test"]
        for model, options in ((PLACE.model(), ["--maxi-batch", 1, "--mini-batch", 7]), (F / "rela", []),
                               (F / "rela", ["--test", "shuffled"]), (PLACE.model(), ["--show", 3, "--json"])):
            command = ["filter", "--model", model, "--train-sets", *sides, *options]
            keeps = "--test" not in options
            outputs = [[F / f"kept-{kind}.{side}" for side in ("src", "trg")] for kind in ("one", "team")]
            expected = checked(*command, *(["--keep", 0.5, "--output", *outputs[0]] if keeps else []))
            result = together(3, *command, *(["--keep", 0.5, "--output", *outputs[1]] if keeps else []))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout, expected.stdout)
            for one, team in zip(*outputs) if keeps else ():
                self.assertEqual(one.read_bytes(), team.read_bytes())

    def test_a_signal_in_a_shared_validation_saves_and_ends_all(self):
        model = F / "valid-signal"
        valid = [F / "long.src", F / "long.trg"]
        for path, side in zip(valid, PLACE.sides["train"]):
            path.write_text(side.read_text() * 20)
        process = subprocess.Popen(several(2, *PLACE.training(model, "--after-batches", 1000, "--valid-sets", *valid, "--valid-freq",
                                                              2, "--valid-metrics", "bleu", "--disp-freq", 1)),
                                   stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True)
        log = ""
        while "Up. 2 " not in log:
            line = process.stderr.readline()
            self.assertNotEqual(line, "", log)
            log += line
        time.sleep(1)
        process.send_signal(signal.SIGUSR1)
        _, rest = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, log + rest)
        self.assertIn("after 2 updates", rest)
        self.assertNotIn("[valid]", log + rest)

    def test_translations_and_scores_are_those_of_one_process(self):
        model = PLACE.model()
        lines = PLACE.sides["test"][0].read_text() + "\n" + PLACE.sides["valid"][0].read_text()
        for options in ([], ["--n-best", "--beam-size", 2], ["--scores", "--maxi-batch", 1, "--mini-batch", 7]):
            text = F / "lines"
            text.write_text(lines)
            expected = checked("translate", "--model", model, *options, "--input", text)
            for count in (2, 3):
                result = together(count, "translate", "--model", model, *options, "--input", text)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout, expected.stdout)
                said = [re.search(r"translated .* target tokens", log)[0] for log in (expected.stderr, result.stderr)]
                self.assertEqual(*said)
        for options in ([], ["--summary"], ["--maxi-batch", 1, "--mini-batch", 7]):
            command = ["score", "--model", model, "--train-sets", *PLACE.sides["test"], *options]
            result = together(3, *command)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout, checked(*command).stdout)

    def test_translate_of_nothing_and_of_a_missing_file(self):
        (F / "empty").write_text("")
        result = together(2, "translate", "--model", PLACE.model(), "--input", F / "empty")
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        result = together(2, "translate", "--model", PLACE.model(), "--input", F / "none")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("Error: "), 1, result.stderr)

    def test_processes_share_the_encoded_text(self):
        self.same(2, "held", "--after-batches", 6)
        result = together(2, *PLACE.training(F / "kept", "--after-batches", 6, "--encoded-text", F / "encoded"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(list((F / "encoded").iterdir())), 1)
        self.assertEqual(weights(F / "held-team"), weights(F / "kept"))

    def test_processes_share_the_encoded_text_of_a_language_model(self):
        text = F / "kept.txt"
        text.write_text("".join(f"line {i * 7919 % 1000} of a text\n\n" for i in range(300)))
        task = ["--task", "language", "--train-sets", text, "--vocabs", "bytes", "--documents", "blank", "--order", "shuffled",
                "--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--segment-length", 64,
                "--mini-batch", 3, "--after-batches", 6, "--cpu-threads", 1]
        checked("train", "--model", F / "text-one", "--optimizer-delay", 2, "--quiet", *task)
        result = together(2, "train", "--model", F / "text-team", *task, "--encoded-text", F / "encoded-units")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(list((F / "encoded-units").iterdir())), 1)
        self.assertEqual(weights(F / "text-one"), weights(F / "text-team"))

    def test_the_last_update_of_an_epoch_may_leave_processes_without_a_batch(self):
        self.same(3, "epochs", "--after-epochs", 2, "--mini-batch-words", 4000)

    def test_sums_of_routed_heads(self):
        text = F / "routed.txt"
        text.write_text("the quick brown fox jumps over the lazy dog\n" * 150)
        task = ["--task", "language", "--train-sets", text, "--vocabs", "bytes", "--dim-emb", 16, "--dec-depth", 1,
                "--transformer-heads", 2, "--transformer-dim-ffn", 32, "--segment-length", 64, "--mini-batch", 3, "--attention",
                "routed(2,16)", "--after-epochs", 2, "--cpu-threads", 1]
        checked("train", "--model", F / "routed-one", "--optimizer-delay", 2, "--quiet", *task)
        result = together(2, "train", "--model", F / "routed-team", *task)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(weights(F / "routed-one"), weights(F / "routed-team"))

    def test_more_batches_each_differ_in_last_places_alone(self):
        options = ["--after-batches", 5, "--disp-freq", 1, "--transformer-dropout", 0]
        logs = [checked(*PLACE.training(F / "four", "--optimizer-delay", 4, *options)).stderr,
                together(2, *PLACE.training(F / "two-by-two", "--optimizer-delay", 2, *options)).stderr]
        costs, norms = ([[float(value) for value in re.findall(pattern + r" ([\d.]+)", log)] for log in logs]
                        for pattern in ("Cost", "gNorm"))
        self.assertEqual(len(costs[0]), 5)
        # The first update has the same passes. Its gradients are four numbers that are added in another order, and the
        # log prints four digits.
        self.assertEqual((costs[0][0], norms[0][0]), (costs[1][0], norms[1][0]))
        for first, second in zip(*costs):
            self.assertAlmostEqual(first, second, delta=2e-4)

    def test_a_run_goes_on_with_another_number_of_processes(self):
        options = ["--after-batches", 12, "--save-freq", 6]
        checked(*PLACE.training(F / "straight", "--optimizer-delay", 2, "--quiet", *options))
        checked(*PLACE.training(F / "changed", "--optimizer-delay", 2, "--quiet", "--after-batches", 6))
        result = together(2, *PLACE.training(F / "changed", *options))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("resuming after update 6", result.stderr)
        self.assertEqual(weights(F / "straight"), weights(F / "changed"))

    def test_a_run_that_is_done_and_wrong_options_end_all(self):
        checked(*PLACE.training(F / "done", "--after-batches", 2, "--quiet"))
        result = together(2, *PLACE.training(F / "done", "--after-batches", 2))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("nothing left to do", result.stderr)
        result = together(2, *PLACE.training(F / "never", "--no-such-option"))
        self.assertEqual(result.stderr.count("Error: "), 1, result.stderr)
        result = together(2, *PLACE.training(F / "memory", "--devices", "9"))
        self.assertIn("--devices", result.stderr)
        self.assertNotEqual(result.returncode, 0)

    def test_a_wrong_option_in_one_process_is_told(self):
        for wrong in (0, 1):
            script = F / f"wrong-{wrong}.sh"
            words = " ".join(map(str, PLACE.training(F / "one-wrong", "--after-batches", 3)))
            script.write_text(f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = {wrong} ] && more=--no-such-option\nexec {PROGRAM} {words} $more\n')
            result = launched(launching(2, "sh", script), timeout=120)
            self.assertEqual(result.returncode, 2, result.stderr)
            errors = errors_in(result.stderr)
            self.assertEqual(len(errors), 1, result.stderr)
            self.assertRegex(errors[0], "^Error: " + (r"process 1 of 2 on \S+: " if wrong else "") + "unknown option '?--no-such-option")

    def test_a_process_that_hangs_is_named(self):
        """One process is stopped after some updates; once it goes on, the run ends like one that never stopped."""
        for name, stopped in (("hangs", 1), ("first-hangs", 0)):
            model = F / name
            command = several(2, *PLACE.training(model, "--after-batches", 120, "--disp-freq", 1))
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, "FOVEA_MPI_PATIENCE": "2"}) as process:
                log = ""
                while "Up. 2 " not in log:
                    line = process.stderr.readline()
                    self.assertNotEqual(line, "", log)
                    log += line
                found = subprocess.run(["pgrep", "-f", f"train --model {model} "], capture_output=True, text=True).stdout.split()
                ranks = {}
                for pid in found:  # the launcher is among them
                    variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                    ranks.update({int(v.split(b"=")[1]): int(pid) for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")})
                os.kill(ranks[stopped], signal.SIGSTOP)
                while f"seconds for process {stopped}" not in line:
                    line = process.stderr.readline()
                    self.assertNotEqual(line, "", log)
                    log += line
                os.kill(ranks[stopped], signal.SIGCONT)
                _, rest = process.communicate(timeout=120)
            self.assertRegex(line, rf"waited \d+ seconds for process {stopped} of 2 on \S+, which may be saving")
            self.assertEqual(process.returncode, 0, log + rest)
            self.assertEqual(weights(model), weights(F / "hangs"))

    def test_other_data_in_one_process_are_told(self):
        (F / "other.src").write_text("a b c\n" * 300)
        (F / "other.trg").write_text("d e f\n" * 300)
        script = F / "wrapper.sh"
        sides = " ".join(map(str, PLACE.sides["train"]))
        script.write_text('#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then data="%s %s"; else data="%s"; fi\n'
                          'exec %s train --model %s --train-sets $data --vocabs %s %s %s --after-batches 3\n'
                          % (F / "other.src", F / "other.trg", sides, PROGRAM, F / "apart", PLACE.vocab, PLACE.vocab,
                             " ".join(map(str, TINY))))
        started = time.monotonic()
        result = launched(launching(2, "sh", script))
        self.assertNotEqual(result.returncode, 0)
        errors = errors_in(result.stderr)
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertRegex(errors[0], r"process 1 of 2 on \S+ has 'training data: .*give all processes the same data")
        self.assertLess(time.monotonic() - started, 120)

    def long_training(self, name):
        model = F / name
        process = subprocess.Popen(several(2, *PLACE.training(model, "--after-batches", 100000, "--save-freq", 20)),
                                   stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True)
        limit = time.monotonic() + 120
        while not (model / "last").exists() and time.monotonic() < limit:
            time.sleep(0.1)
        self.assertTrue((model / "last").exists(), "no checkpoint after two minutes")
        return model, process

    def test_a_signal_to_the_launcher_saves_and_ends_all(self):
        model, process = self.long_training("signalled")
        process.send_signal(signal.SIGUSR1)
        _, log = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, log)
        self.assertRegex(log, r"Training interrupted \(via signal\) after \d+ updates")
        done = re.search(r"after (\d+) updates", log)[1]
        self.assertTrue((model / "checkpoints" / f"update-{int(done):08}").exists())

    def test_a_process_that_is_killed_ends_all_and_the_checkpoint_is_whole(self):
        model, process = self.long_training("killed")
        children = subprocess.run(["pgrep", "-f", f"train --model {model}"], capture_output=True, text=True).stdout.split()
        ours = [int(pid) for pid in children if int(pid) != process.pid]
        os.kill(max(ours), signal.SIGKILL)
        started = time.monotonic()
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertLess(time.monotonic() - started, 30)
        checked("info", model)


if __name__ == "__main__":
    unittest.main()

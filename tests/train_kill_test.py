#!/usr/bin/env python3
"""Training that is killed, interrupted or out of disk goes on as if nothing had happened.

train_kill_test.py FOVEA: twenty kill -9 at random moments, SIGTERM, SIGINT and a file too large; after each the run
resumes from its last good checkpoint, and the files at the end equal those of a run that was never disturbed.
train_kill_test.py FOVEA full-disk: the same with a full disk; exit 77 for a user who cannot mount one.
"""
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

UPDATES = 120
SKIPPED = 77
FILES = ["config.yml", "model.safetensors", "optimizer.safetensors", "progress.yml", "checksums.yml", "source.spm"]


def write_task(folder, rng):
    words = [(a + b, c + d) for a, c in zip("bdfgk", "lmnpr") for b, d in zip("aeiou", "uoiea")]
    for name, lines in (("train", 300), ("valid", 20)):
        with open(folder / f"{name}.s", "w") as source, open(folder / f"{name}.t", "w") as target:
            for _ in range(lines):
                chosen = rng.choices(words, k=rng.randint(1, 7))
                print(" ".join(s for s, _ in chosen), file=source)
                print(" ".join(t for _, t in chosen), file=target)


class Task:
    def __init__(self, fovea, folder):
        self.fovea, self.folder = fovea, folder
        write_task(folder, random.Random(1))
        self.call("vocab", "--train-sets", folder / "train.s", folder / "train.t", "--dim-vocabs", "40", "--output",
                  folder / "v.spm")

    def call(self, *arguments):
        subprocess.run([self.fovea, *map(str, arguments)], check=True, capture_output=True)

    def start(self, run, **options):
        """A training in its own process, its log going to a file."""
        f = self.folder
        command = [self.fovea, "train", "--model", run, "--train-sets", f / "train.s", f / "train.t", "--vocabs",
                   f / "v.spm", f / "v.spm", "--valid-sets", f / "valid.s", f / "valid.t", "--valid-metrics",
                   "ce-mean-words", "--valid-freq", "10", "--save-freq", "3", "--keep-last", "4", "--dim-emb", "32",
                   "--enc-depth", "1", "--dec-depth", "1", "--transformer-heads", "2", "--transformer-dim-ffn", "1024",
                   "--mini-batch-words", "300", "--after-batches", str(UPDATES), "--cpu-threads", "1"]
        with open(self.log_path(run), "w") as log:
            return subprocess.Popen(list(map(str, command)), stderr=log, stdout=subprocess.DEVNULL, **options)

    def log_path(self, run):
        return self.folder / f"{run.name}.log"  # never on the full disk

    def log(self, run):
        return self.log_path(run).read_text()

    def wait_for(self, run, text, process):
        while process.poll() is None and text not in self.log(run):
            time.sleep(0.002)

    def finish(self, run, expected_code=0, **options):
        code = self.start(run, **options).wait()
        log = self.log(run)
        assert code == expected_code, f"exit {code}, expected {expected_code}:\n{log[-2000:]}"
        return log


def is_marked_or_visible(path):
    """Without an empty folder of a save that was killed before it had marked the folder as its own."""
    return not path.name.startswith(".fovea-") or (path / "mark").exists()


def state_of(run):
    """Everything that must not depend on what happened on the way."""
    state = {"links": [os.readlink(run / name) for name in ("last", "best")],
             "folders": sorted(p.name for p in (run / "checkpoints").iterdir() if is_marked_or_visible(p))}
    for name in ("last", "best"):
        for file in FILES:
            state[f"{name}/{file}"] = (run / name / file).read_bytes()
    return state


def check_equal(run, expected, what):
    state = state_of(run)
    different = [key for key in expected if state[key] != expected[key]]
    assert not different, f"{what}: other than in the undisturbed run: {different}"


def test_kill(task, expected):
    rng = random.Random(2)
    run = task.folder / "killed"
    reached, has_resumed = [], False
    for attempt in range(20):
        process = task.start(run)
        # A quarter at any time from the start of the program on, the others amid updates, validations and saves.
        if attempt % 4 == 0:
            time.sleep(rng.uniform(0, 1))
        else:
            task.wait_for(run, "[save]" if attempt % 4 == 1 else "[model]", process)
            time.sleep(rng.uniform(0, 0.2))
        process.kill()
        process.wait()
        log = task.log(run)
        assert "Warning" not in log and "Error" not in log, f"after kill {attempt}: {log}"
        has_resumed = has_resumed or "resuming after update" in log
        reached.append(os.readlink(run / "last")[-3:] if (run / "last").is_symlink() else "-")
    log = task.finish(run)
    assert has_resumed or "resuming after update" in log, "no kill came before the end of the run: nothing was tested"
    check_equal(run, expected, "kill -9")
    print("kill -9: the last checkpoints after each of the 20:", *reached)


def test_signals(task, expected):
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
        run = task.folder / f"signal{number}"
        process = task.start(run)
        task.wait_for(run, "[save]", process)
        process.send_signal(number)
        assert process.wait() == code, f"{number!r}: exit {process.returncode}, expected {code}"
        log = task.log(run)
        assert "Training interrupted (via signal)" in log, log
        task.finish(run)
        check_equal(run, expected, repr(number))
        print(f"{number!r}: exit {code}, resumed")


def check_refusal(log, run):
    errors = [line for line in log.splitlines() if "Error:" in line]
    assert len(errors) == 1 and "cannot write" in errors[0], log
    assert not list((run / "checkpoints").glob(".fovea-*/mark")), "a half written checkpoint was left"


def test_file_size_limit(task, expected):
    """As a full disk, but without root: the largest file of a checkpoint does not fit."""
    run = task.folder / "limited"
    limit = len(expected["last/optimizer.safetensors"]) - 1000
    process = task.start(run)
    task.wait_for(run, "[save]", process)
    process.kill()
    process.wait()
    before = os.readlink(run / "last")

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    check_refusal(task.finish(run, expected_code=1, preexec_fn=limited), run)
    assert os.readlink(run / "last") == before
    task.finish(run)
    check_equal(run, expected, "file size limit")
    print("file too large while saving: exit 1, one line, resumed")


def test_full_disk(task, expected):
    disk = task.folder / "disk"
    disk.mkdir()
    one = sum(len(expected[f"last/{file}"]) for file in FILES) * 2  # kilobytes are rounded up to pages
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={8 * one}", "tmpfs", disk], capture_output=True)
    if mount.returncode != 0:
        print("skipped: a full disk needs a user who can mount a tmpfs:", mount.stderr.decode().strip())
        sys.exit(SKIPPED)
    try:
        run = disk / "run"
        process = task.start(run)
        task.wait_for(run, "[save]", process)
        process.terminate()
        process.wait()
        before = os.readlink(run / "last")
        with open(disk / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
            filler_size = filler.tell()
        os.truncate(disk / "filler", max(0, filler_size - one // 4))
        check_refusal(task.finish(run, expected_code=1), run)
        assert os.readlink(run / "last") == before
        (disk / "filler").unlink()
        os.sync()
        shutil.copytree(run, task.folder / "from_disk", symlinks=True)
    finally:
        subprocess.run(["umount", disk], check=True)
    task.finish(task.folder / "from_disk")
    check_equal(task.folder / "from_disk", expected, "full disk")
    print("full disk while saving: exit 1, one line, resumed")


def main():
    fovea = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="fovea-kill-test-") as name:
        folder = pathlib.Path(name)
        task = Task(fovea, folder)
        task.finish(folder / "whole")
        expected = state_of(folder / "whole")
        full_disk = sys.argv[2:] == ["full-disk"]
        for test in [test_full_disk] if full_disk else [test_kill, test_signals, test_file_size_limit]:
            test(task, expected)
    print("all as in the undisturbed run")


if __name__ == "__main__":
    main()

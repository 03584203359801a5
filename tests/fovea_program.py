"""The program under test, what it is to say of bad input, and a small trained model that the end-to-end tests share."""
import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from forked_program import can_fork, run_forked

# Shells ignore it in background jobs, and so would every program started here.
signal.signal(signal.SIGINT, signal.default_int_handler)

PROGRAM = os.environ["FOVEA"]
TINY = ["--dim-emb", "16", "--enc-depth", "1", "--dec-depth", "1", "--transformer-heads", "2",
        "--transformer-dim-ffn", "32", "--tied-embeddings-all", "--mini-batch-words", "500", "--cpu-threads", "1"]


def without_privilege():
    """The words to put before a command so that permissions of files hold for root too."""
    if os.getuid() != 0:
        return []
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", f"--inh-caps={rights}", f"--bounding-set={rights}"]


def run(*arguments, stdin="", before=(), **options):
    """Runs fovea; the result has returncode, stdout and stderr as text."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    words = [argument if isinstance(argument, bytes) else str(argument) for argument in arguments]
    if not before and can_fork(PROGRAM, **options):
        result = run_forked(PROGRAM, words, data, 600, **options)
    else:
        result = subprocess.run([*before, PROGRAM, *words], input=data, capture_output=True, timeout=600, **options)
    result.stdout = result.stdout.decode(errors="replace")
    result.stderr = result.stderr.decode(errors="replace")
    return result


def checked(*arguments, **options):
    result = run(*arguments, **options)
    if result.returncode != 0:
        raise AssertionError(f"fovea {' '.join(map(str, arguments))}: exit {result.returncode}\n{result.stderr}")
    return result


def left_folder(folder, *names):
    """A folder with files of these names, as a process that was killed while it wrote into `folder` leaves it."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = folder / f".fovea-{gone.pid:016x}"
    left.mkdir()
    (left / "mark").write_text(f"Fovea made this folder for output that is not whole yet. Its process:\n{gone.pid}\n")
    for name in names:
        (left / name).write_text("half")
    return left


class Refusals(unittest.TestCase):
    def refused(self, *arguments, says, code=1, **options):
        result = run(*arguments, **options)
        errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(errors), 1, result.stderr)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, errors[0])
        for trace in ("terminate called", "Exception raised from", "frame #"):
            self.assertNotIn(trace, result.stderr)
        return result

    def refuse(self, code, expected, *arguments, **options):
        """One line beside the log, with the text, and the exit code."""
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        errors = [line for line in result.stderr.splitlines() if "[20" not in line]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertIn(expected, errors[0])


class Workplace:
    """A folder with a generated corpus, a vocabulary and, on demand, a model trained for a few updates."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        corpus = self.folder / "corpus"
        checked("corpus", "--generate", 2000, "--valid", 50, "--test", 50, "--output", corpus)
        self.sides = {name: [corpus / f"{name}.{side}" for side in ("src", "trg")] for name in ("train", "valid", "test")}
        self.vocab = self.folder / "joint.spm"
        checked("vocab", "--train-sets", *self.sides["train"], "--dim-vocabs", 300, "--output", self.vocab)

    def training(self, model, *options):
        return ["train", "--model", model, "--train-sets", *self.sides["train"], "--vocabs", self.vocab, self.vocab,
                *TINY, *options]

    def model(self):
        path = self.folder / "model"
        if not path.exists():
            checked(*self.training(path, "--after-batches", 20, "--quiet"))
        return path

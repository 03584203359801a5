#!/usr/bin/env python3
"""Image models from the command line, as a newcomer uses and misuses them."""
import lzma
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

from array_file import npy
from fovea_program import PROGRAM, Refusals, Workplace, checked, run

F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
SIZES = ["--dim-emb", 16, "--dec-depth", 1, "--transformer-heads", 2, "--transformer-dim-ffn", 32,
         "--mini-batch", 4, "--learn-rate", "0.01", "--lr-warmup", 5, "--cpu-threads", 1]


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, rows, bits=8, color=2, more=b""):
    """The bytes of a PNG file; rows are bytes, without filters."""
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + more + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def paeth(left, up, corner):
    return min((left, up, corner), key=lambda value: abs(left + up - corner - value))


def read_png(path):
    """(width, height, rows) of an RGB file of 8 bits, whatever its filters."""
    data, at, packed = pathlib.Path(path).read_bytes(), 8, b""
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if name == b"IHDR":
            width, height, bits, color = struct.unpack(">IIBB", body[:10])
            assert (bits, color) == (8, 2)
        packed += body if name == b"IDAT" else b""
        at += 12 + length
    raw, size, rows, above = zlib.decompress(packed), 3 * width, [], bytes(3 * width)
    for y in range(height):
        kind, row = raw[y * (size + 1)], bytearray(raw[y * (size + 1) + 1:(y + 1) * (size + 1)])
        for i in range(size):
            left, corner = (row[i - 3], above[i - 3]) if i >= 3 else (0, 0)
            row[i] = (row[i] + [0, left, above[i], (left + above[i]) // 2, paeth(left, above[i], corner)][kind]) % 256
        rows.append(above := bytes(row))
    return width, height, rows


def image(seed, width=6, height=5):
    """Rows of an image with a slope of its own."""
    draw = random.Random(seed)
    first, slope = draw.randrange(100), draw.randrange(20)
    return [bytes(first + slope * x + 20 * c + draw.randrange(3) for x in range(width) for c in range(3)) for _ in range(height)]


def write(name, content):
    path = F / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content)
    return path


def folder(name, count, first=0, **size):
    for i in range(count):
        rows = image(first + i, **size)
        write(f"{name}/{i:02}.png", png(len(rows[0]) // 3, len(rows), rows))
    return F / name


TRAIN, VALID = folder("train", 12), folder("valid", 3, first=100)


def training(model, *options, images=TRAIN):
    return ["train", "--task", "image", "--model", model, "--train-sets", images, *SIZES, *options]


def model():
    """The folder of a model trained for a few updates, once."""
    path = F / "model"
    if not path.exists():
        checked(*training(path, "--after-batches", 12, "--quiet"))
    return path


def generate(*arguments):
    return run("generate", "--cpu-threads", 1, "--quiet", "--model", model(), *arguments)


def score(*arguments):
    return run("score", "--cpu-threads", 1, "--quiet", *arguments)


class Use(unittest.TestCase):
    def test_train_score_and_generate(self):
        log = checked(*training(F / "use", "--after-batches", 12, "--valid-sets", VALID, "--valid-freq", 6)).stderr
        self.assertIn(f"[data] 12 images of 5x6x3 from '{TRAIN}'", log)
        self.assertEqual(log.count(" : bits-per-dim : "), 2, log)
        self.assertTrue((F / "use" / "best").is_symlink())
        said = score("--model", F / "use", "--train-sets", VALID)
        self.assertEqual(said.stderr, "")
        names = [line.split(" ")[0] for line in said.stdout.splitlines()]
        self.assertEqual(names, ["bits-per-dim", "cross-entropy", "accuracy", "signature"])
        self.assertRegex(said.stdout, r"\nsignature images:3\|size:5x6x3\|values:270\|version:\d+\.\d+\.\d+\n$")
        values = dict(line.split(" ") for line in said.stdout.splitlines())
        each = [float(line) for line in score("--model", F / "use", "--train-sets", VALID, "--level", "image").stdout.splitlines()]
        self.assertEqual(len(each), 3)
        self.assertAlmostEqual(-sum(each) / 270, float(values["cross-entropy"]), places=5)
        self.assertAlmostEqual(float(values["bits-per-dim"]) * 0.6931471805599453, float(values["cross-entropy"]), places=5)

    def test_routed(self):
        """Warned of once in training and in scoring, and in the signature, as for text."""
        warning = "routed(c,w) chooses the members of a cluster in the whole segment, so probabilities are optimistic"
        for name, attention, count in (("routed", "1*full;1*routed(3,8)", 1), ("routed-causal", "1*full;1*routed(3,8,causal)", 0)):
            options = ["--after-batches", 4, "--valid-sets", VALID, "--valid-freq", 2, "--attention", attention]
            self.assertEqual(checked(*training(F / name, *options)).stderr.count(warning), count)
            said = checked("score", "--model", F / name, "--train-sets", VALID, "--cpu-threads", 1)
            self.assertEqual(said.stderr.count(warning), count, said.stderr)
            self.assertEqual(said.stdout.count("|routing:whole-segment|version:"), count, said.stdout)

    def test_the_kinds_of_files_are_one(self):
        rows = [image(i) for i in range(12)]
        array = write("images.npy", npy((12, 5, 6, 3), b"".join(b"".join(image) for image in rows)))
        expected = score("--model", model(), "--train-sets", TRAIN).stdout
        self.assertEqual(score("--model", model(), "--train-sets", array).stdout, expected)
        self.assertEqual(score("--model", model(), "--train-sets", *sorted(TRAIN.iterdir())).stdout, expected)

    def test_cifar_with_a_crop(self):
        batch = b"".join(bytes([i]) + bytes((i * 20 + plane * 10 + p % 32) % 256 for plane in range(3) for p in range(1024)) for i in range(5))
        packed, plain = write("batch.bin.xz", lzma.compress(batch)), write("batch.bin", batch)
        options = ["--crop", 4, 3, "--flip", "--attention", "1*local(12);1*blocks(9,1)", "--after-batches", 3]
        log = checked(*training(F / "cifar", *options, images=packed)).stderr
        self.assertIn("5 images of 32x32x3", log)
        results = [score("--model", F / "cifar", "--train-sets", path).stdout for path in (packed, plain)]
        self.assertEqual(*results)
        self.assertIn("images:5|size:4x3x3|middle-of:32x32x3|values:180|", results[0])

    def test_pictures(self):
        self.assertEqual(generate("--count", 5, "--output", F / "grid.png", "--enlarge", 1).stderr, "")
        width, height, grid = read_png(F / "grid.png")
        self.assertEqual((width, height), (3 * 8 + 2, 2 * 7 + 2))
        self.assertEqual(grid[0], b"\xff" * 3 * width)
        generate("--count", 5, "--output", f"{F}/each/", "--mini-batch", 2)
        self.assertEqual(sorted(os.listdir(F / "each")), [f"000{i}.png" for i in range(1, 6)])
        for i in range(5):
            top, left = 2 + i // 3 * 7, 3 * (2 + i % 3 * 8)
            self.assertEqual(read_png(F / "each" / f"000{i + 1}.png"), (6, 5, [row[left:left + 18] for row in grid[top:top + 5]]))

    def test_completions_keep_the_upper_rows(self):
        given = sorted(VALID.iterdir())[:2]
        said = generate("--complete", *given, "--rows", 2, "--count", 2, "--output", f"{F}/completed/", "--precision", "int8")
        self.assertEqual(said.stderr, "")
        for i in range(4):
            rows = read_png(F / "completed" / f"000{i + 1}.png")[2]
            original = image(100 + i // 2)
            self.assertEqual(rows[:2], original[:2])
            self.assertNotEqual(rows[2:], original[2:])

    def test_the_log_may_lie_beside_a_folder_of_images(self):
        log = F / "generate.log"
        checked("generate", "--model", model(), "--output", f"{F}/completed/", "--log", log, "--cpu-threads", 1)
        self.assertRegex(log.read_text(), r"made 1 image of 5x6x3 in [\d.]+ s \(\d+ values per second\)")

    def test_help(self):
        self.assertIn("--task image: images, value by value", checked("train", "--help").stdout)
        own = checked("train", "--task", "image", "--help-all").stdout
        self.assertLess(own.index("--crop N"), own.index("With --task translation"))
        self.assertIn("For models of the tasks language, image.", checked("generate", "--help").stdout)
        self.assertIn("--complete", checked("generate", "--model", model(), "--help").stdout)


class BadInput(Refusals):
    def test_images(self):
        rows = [b"abcdef"]
        whole = png(2, 1, rows)
        cases = [("empty", b"", "empty': is empty; expected images"),
                 ("text.txt", b"some text\n", "its first byte is 115; expected PNG, .npy or the binary version of CIFAR-10"),
                 ("photo.jpg", b"\xff\xd8\xff\xe0 JFIF", "its first byte is 255"),
                 ("cut.bin", bytes(5000), "ends after 1,927 bytes of record 2; expected a multiple of 3,073 bytes"),
                 ("cut.xz", lzma.compress(bytes(3073))[:-30], "the archive is damaged or cut short"),
                 ("cut.png", whole[:-20], "a damaged PNG: the file is truncated"),
                 ("alpha.png", png(1, 1, [b"abcd"], color=6), "a PNG with transparency"),
                 ("deep.png", png(1, 1, [b"abcdef"], bits=16), "a PNG with 16 bits per value"),
                 ("huge.png", png(100_000, 100_000, rows), "an image of 100,000 x 100,000 pixels; expected at most 16,777,216 values"),
                 ("float.npy", npy((1, 1, 1, 3), bytes(12), "<f4"), "an array of type '<f4'; expected '|u1'"),
                 ("fortran.npy", npy((1, 1, 1, 3), bytes(3), order=True), "an array in Fortran's order"),
                 ("flat.npy", npy((12,), bytes(12)), "an array of the shape [12]; expected [images, height, width, channels]"),
                 ("cut.npy", npy((2, 1, 1, 3), bytes(5)), "the header says [2, 1, 1, 3], but the file has 5 bytes of values"),
                 ("hostile.npy", npy((1 << 62, 1 << 12, 1 << 12, 1), b""), "the header says")]
        for name, content, expected in cases:
            path = write("bad/" + name, content)
            self.refuse(1, expected, *training(F / "no", images=path))
        self.refuse(1, expected, *training(F / "no", "--valid-sets", path))
        self.refuse(1, expected, "score", "--model", model(), "--train-sets", path)
        self.refuse(1, expected, "generate", "--model", model(), "--complete", path, "--rows", 1, "--output", F / "no.png")
        mixed = folder("mixed", 1)
        write("mixed/b.png", whole)
        self.refuse(1, "b.png': an image of 1x2x3, but", *training(F / "no", images=mixed))
        os.mkdir(F / "nothing")
        self.refuse(1, "nothing': the folder has no .png file", *training(F / "no", images=F / "nothing"))
        self.refuse(1, "--train-sets: no such file", *training(F / "no", images=F / "gone"))
        self.refuse(2, "--train-sets is missing", "train", "--task", "image", "--model", F / "no")
        self.assertFalse((F / "no").exists() or (F / "no.png").exists())

    def test_sizes(self):
        other = folder("other", 2, width=4)
        expected = "got images of 5x4x3 (height x width x channels), but the model reads 5x6x3"
        self.refuse(1, "--valid-sets: " + expected, *training(F / "no", "--valid-sets", other))
        self.refuse(1, "--train-sets: " + expected, "score", "--model", model(), "--train-sets", other)
        self.refuse(1, "--complete: " + expected, "generate", "--model", model(), "--complete", other, "--rows", 1, "--output", F / "no.png")
        self.refuse(1, "image-shape", *training(model(), "--after-batches", 30, images=other))
        self.refuse(1, "cut from images that are at least as large", *training(F / "no", "--crop", 7, 2))
        self.refuse(2, "--crop has 1 number; expected two", *training(F / "no", "--crop", 7))
        self.refuse(1, "an image of 5x6x3 has 90 values; --max-positions is 80",
                    *training(F / "no", "--transformer-positions", "learned", "--max-positions", 80))
        self.assertFalse((F / "no").exists())

    def test_options(self):
        for options, expected in ((["--rows", 2], "--rows is for --complete"), (["--complete", VALID], "--rows is missing"),
                                  (["--count", 0], "--count"), (["--temperature", -1], "--temperature"), (["--top-p", 0], "--top-p"),
                                  (["--prompt", "a"], "'--prompt' is an option of a model of the task language")):
            self.refuse(2, expected, "generate", "--model", model(), "--output", F / "no.png", *options)
        self.refuse(2, "--output is missing", "generate", "--model", model())
        for output, expected in (("no.jpg", "expected a file that ends in .png"), ("gone/no.png", "--output: cannot write")):
            self.refuse(1, expected, "generate", "--model", model(), "--output", F / output)
        self.refuse(1, "expected 1 to 4", "generate", "--model", model(), "--complete", VALID, "--rows", 5, "--output", F / "no.png")
        self.refuse(2, "'--vocabs' is an option of --task", *training(F / "no", "--vocabs", "bytes"))
        self.refuse(2, "--transformer-positions image needs images (--task image)", "train", "--task", "language", "--model", F / "no",
                    "--train-sets", TRAIN, "--vocabs", "bytes", "--transformer-positions", "image")

    def test_model_of_another_task(self):
        place = Workplace()
        text = place.sides["train"][0]
        checked("train", "--task", "language", "--model", F / "text", "--train-sets", text, "--vocabs", "bytes", *SIZES,
                "--after-batches", 2, "--quiet")
        self.refuse(1, "a model of the task image", "translate", "--model", model(), stdin="a\n")
        self.refuse(1, "task", *training(F / "text", "--after-batches", 30))
        self.refuse(1, "its first byte is", "score", "--model", model(), "--train-sets", text)
        self.refuse(2, "'--complete' is an option of a model of the task image", "generate", "--model", F / "text", "--complete", VALID)


class Signals(unittest.TestCase):
    def stop(self, arguments, number, met):
        """Sends the signal as soon as `met` says so of the log; the exit status and the log."""
        with open(F / "signal.log", "w+b") as log:
            with subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
                deadline = time.monotonic() + 300
                while not met((F / "signal.log").read_text(errors="replace")):
                    self.assertIsNone(process.poll(), (F / "signal.log").read_text(errors="replace"))
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.001)
                process.send_signal(number)
                code = process.wait(timeout=300)
        return code, (F / "signal.log").read_text(errors="replace")

    def test_training_resumes_to_the_same_bytes(self):
        options = ["--disp-freq", 1, "--save-freq", 10, "--after-batches", 100, "--crop", 4, 4, "--flip"]
        checked(*training(F / "whole", *options, "--quiet"))
        expected = (F / "whole" / "last" / "model.safetensors").read_bytes()
        stopped = F / "stopped"
        for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            shutil.rmtree(stopped, ignore_errors=True)
            got, log = self.stop(training(stopped, *options), number, lambda log: "Up. 23 :" in log)
            self.assertEqual(got, code, log)
            self.assertIn("[run] resuming after update", checked(*training(stopped, *options)).stderr)
            self.assertEqual((stopped / "last" / "model.safetensors").read_bytes(), expected)

    def test_ctrl_c_ends_generate(self):
        many = ["generate", "--model", model(), "--count", 1_000_000, "--mini-batch", 2, "--output", f"{F}/many/", "--cpu-threads", 1]
        got, log = self.stop(many, signal.SIGINT, lambda log: (F / "many" / "0000002.png").exists())
        self.assertEqual(got, 130, log)
        self.assertNotIn("Error", log)
        for path in (F / "many").iterdir():
            self.assertEqual(read_png(path)[:2], (6, 5))


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""The tiny models of Marian in tests/formats, and changes of their files, which several tests share."""
import pathlib
import shutil
import struct
import tempfile
import unittest
import zipfile

from fovea_program import checked

HERE = pathlib.Path(__file__).resolve().parent / "formats"
F = pathlib.Path(tempfile.mkdtemp(prefix="fovea-test-"))
unittest.addModuleCleanup(shutil.rmtree, F, ignore_errors=True)
SPM = HERE / "marian.spm"
SOURCE = (HERE / "source.txt").read_text()
PIECES = 70


def from_marian(name, output):
    checked("convert", "--from", "marian", HERE / f"marian-{name}.npz", "--vocabs", SPM, SPM, "--output", output)
    return output


def best(text):
    """(sentence, translation, score) of each line of an n-best list."""
    rows = [line.split(" ||| ") for line in text.splitlines()]
    return [(int(row[0]), row[1].strip(), float(row[-1])) for row in rows]


def translated(model, *options):
    return checked("translate", "--model", model, "--beam-size", 3, "--n-best", "--normalize", 0, "--max-length-factor", 3,
                   "--cpu-threads", 1, "--quiet", *options, stdin=SOURCE).stdout


def spm_pieces():
    """The pieces of a SentencePiece model by number, read from its bytes."""
    def number(data, at):
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value, at

    data, at, pieces = SPM.read_bytes(), 0, []
    while at < len(data):
        tag, at = number(data, at)
        size, at = number(data, at)
        message, at = data[at:at + size], at + size
        if tag >> 3 == 1:
            length, start = number(message, 1)
            pieces.append(message[start:start + length].decode())
    return pieces


def pieces_of(lines):
    """The pieces of each line, as a converted model splits it."""
    if not (F / "splitter").exists():
        from_marian("post", F / "splitter")
    text = checked("embed", "--model", F / "splitter", "--pieces", stdin="".join(line + "\n" for line in lines)).stdout
    return [[piece for piece in line.split() if piece != "</s>"] for line in text.splitlines()]


def with_option(old, new):
    """A change of changed() that replaces lines of the options. One zero byte ends them, as CTranslate2's converter expects."""
    def change(arrays):
        data = arrays["special:model.yml.npy"]
        start = data.index(b"\n") + 1
        assert old.encode() in data[start:], old
        text = data[start:].rstrip(b"\0").replace(old.encode(), new.encode()) + b"\0"
        header = b"{'descr': '|i1', 'fortran_order': False, 'shape': (%d,), }" % len(text)
        header = header.ljust(117) + b"\n"
        arrays["special:model.yml.npy"] = b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + text
    return change


def changed(name, change):
    """A copy of a model whose arrays `change` may alter: {name in the archive: bytes}."""
    with zipfile.ZipFile(HERE / "marian-post.npz") as archive:
        arrays = {entry: archive.read(entry) for entry in archive.namelist()}
    change(arrays)
    with zipfile.ZipFile(F / name, "w") as archive:
        for entry, data in arrays.items():
            archive.writestr(entry, data)
    return F / name

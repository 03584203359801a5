"""The commands of the tests of BERT, and the Python packages that they need."""
import importlib.util
import pathlib
import tempfile
import unittest

from bert_folder import read_safetensors
from fovea_program import checked, run


def lacks(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"Python cannot import {', '.join(missing)}")


def embedded(model, lines, layer):
    with tempfile.TemporaryDirectory(prefix="fovea-test-") as folder:
        output = pathlib.Path(folder) / "vectors.safetensors"
        checked("embed", "--model", model, "--layer", layer, "--output", output, "--cpu-threads", 1, stdin="\n".join(lines))
        return read_safetensors(output)


def error_of(*arguments, **options):
    result = run(*arguments, **options)
    assert result.returncode == 1 and result.stderr.count("\n") == 1, result.stderr
    return result.stderr

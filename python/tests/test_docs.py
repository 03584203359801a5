"""The examples of docs/python.md and README.md run one after the other, as a reader runs them."""
import doctest
import functools
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name, least", [("docs/python.md", 11), ("README.md", 1)])
def test_examples_run_in_order(monkeypatch, name, least):
    # Inductor would compile C++ for minutes.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    values, blocks = {}, re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.S)
    assert len(blocks) >= least
    for block in blocks:
        if block.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(block, values, name, name, 0)
            assert doctest.DocTestRunner().run(test).failed == 0
        else:
            exec(compile(block, name, "exec"), values)

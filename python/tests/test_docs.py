"""The examples of docs/python.md run one after the other, as a reader runs them."""
import doctest
import functools
import re
from pathlib import Path

import torch

DOCS = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_examples_run_in_order(monkeypatch):
    # Inductor would compile C++ for minutes.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    values, blocks = {}, re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    assert len(blocks) > 10
    for block in blocks:
        if block.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(block, values, "python.md", str(DOCS), 0)
            assert doctest.DocTestRunner().run(test).failed == 0
        else:
            exec(compile(block, str(DOCS), "exec"), values)

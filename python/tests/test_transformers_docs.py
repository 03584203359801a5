"""The example of docs/huggingface.md runs as it stands, on random weights."""
import re
from pathlib import Path

import hf

DOCS = Path(__file__).resolve().parents[2] / "docs" / "huggingface.md"


def test_the_example_runs(tmp_path, capsys):
    hf.model("llama").save_pretrained(tmp_path / "model")
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S))
    values = {"FOLDER": tmp_path / "model", "OUTPUT": tmp_path / "tuned"}
    exec(compile(code, str(DOCS), "exec"), values)
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == "fovea:0-1=window(16),*=topk(8)"
    assert [line.split()[0] for line in shown[:4]] == ["sdpa", "topk(32)", "window(16)", "0-1=window(16),*=topk(8)"]
    assert values["text"].shape == (2, 24)

"""The table of architectures, bench/huggingface_table.py, on a few that stand for kinds: a causal model, an encoder and a
decoder, position biases, images, soft caps, and one that is refused."""
import os
import subprocess
import sys
from pathlib import Path

import hf

pytestmark = hf.newer
ROOT = Path(__file__).resolve().parents[2]


def test_the_table():
    done = subprocess.run([sys.executable, ROOT / "bench" / "huggingface_table.py", "llama", "bart", "t5", "vit", "gemma2", "sam"],
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 equal\n" in done.stdout and "1 refused\n" in done.stdout
    assert "LlamaForCausalLM as eager, 3 inputs" in done.stdout and "generates the same" in done.stdout

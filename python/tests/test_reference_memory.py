"""The package's reference keeps to FOVEA_REFERENCE_MIB, and its results do not depend on it beyond rounding."""
import os
import subprocess
import sys

import pytest
import torch

import fovea
from fovea import _library

# Prints, for each budget, by how many MiB a forward and backward pass raises the most memory that the process ever had.
MEASURE = """
import os, sys, torch, fovea
torch.set_num_threads(1)
def run(n):
    q, k, v = (torch.randn(1, 4, n, 16, dtype=torch.float64, requires_grad=True) for _ in range(3))
    fovea.attention(q, k, v, sys.argv[1], causal=True).sum().backward()
def most(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) / 1024
run(64)
for budget in sys.argv[2:]:
    os.environ["FOVEA_REFERENCE_MIB"] = budget
    before = most("VmRSS")
    run(1024)
    print(most("VmHWM") - before)
"""


def measured(spec, *budgets):
    run = subprocess.run([sys.executable, "-c", MEASURE, spec, *map(str, budgets)], capture_output=True, text=True, check=True,
                         env=os.environ | {"FOVEA_LIBRARY": str(_library.find()), "PYTHONPATH": str(_library.PACKAGE.parent)})
    return map(float, run.stdout.split())


@pytest.mark.parametrize("spec", ["topk(8)", "sparsemax", "entmax(1.5)", "blocktopk(16,4)", "blocktopk(100000,4)"])
def test_memory_follows_the_budget(spec):
    """Beside the budget of 8 MiB, inputs, results and gradients take 4, and the allocators keep some; all scores once would
    take 32."""
    small, large = measured(spec, 8, 4096)
    assert small < 8 + 16 < large, (small, large)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"q_lengths": torch.tensor([9, 30, 30])}], ids=["self", "causal", "padded"])
def test_results_do_not_depend_on_it(monkeypatch, options):
    x = torch.randn(3, 2, 30, 8, dtype=torch.float64, requires_grad=True)

    def result():
        out = fovea.attention(x, x, x, "topk(5)", **options)
        return out, torch.autograd.grad(out.square().sum(), x)[0]

    expected = result()
    for mib in ("0.008", "0.05", "1"):
        monkeypatch.setenv("FOVEA_REFERENCE_MIB", mib)
        for ours, usual in zip(result(), expected):
            torch.testing.assert_close(ours, usual)


@pytest.mark.parametrize("text", ["0", "-1", "some", "nan", "inf"])
def test_other_values_are_one_line(monkeypatch, text):
    monkeypatch.setenv("FOVEA_REFERENCE_MIB", text)
    with pytest.raises(RuntimeError, match=f"^FOVEA_REFERENCE_MIB: got '{text}'; expected the MiB of a block of scores, above 0"):
        fovea.attention(*[torch.ones(1, 1, 2, 4, dtype=torch.float64)] * 3)


def test_a_row_that_does_not_fit_is_one_line(monkeypatch):
    monkeypatch.setenv("FOVEA_REFERENCE_MIB", "0.001")
    with pytest.raises(RuntimeError, match="^attention: one query with 64 keys under 2 heads takes 0.02 MiB in the reference; "
                                           "FOVEA_REFERENCE_MIB allows 0.00; set it to at least 1$"):
        fovea.attention(*[torch.ones(1, 2, 64, 4, dtype=torch.float64)] * 3)

#!/usr/bin/env bash
# python_install_test.sh SOURCE PYTHON: installs the Python package into an empty environment that has nothing but the
# torch of PYTHON, and calls it there. Exit code 77: skipped, because pip cannot get what builds the package.
set -euo pipefail
source=$1 python=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
torch=$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent.parent)' 2>/dev/null) ||
  { echo "skipped: $python has no torch"; exit 77; }
"$python" -m venv "$work/environment"
environment=$work/environment/bin/python3
"$environment" -m pip download -q --disable-pip-version-check --no-deps -d "$work/packages" cmake ninja setuptools 2>"$work/log" ||
  { echo "skipped: pip cannot get cmake, ninja and setuptools: $(tail -1 "$work/log")"; exit 77; }

# Without torch nothing is built, and one line says what to do.
if "$environment" -m pip install --disable-pip-version-check --no-deps "$source/python" >"$work/log" 2>&1; then
  echo "installed without torch" >&2; exit 1
fi
grep -q 'fovea: no torch in the environment of .*Install it first: pip install torch' "$work/log" || { cat "$work/log"; exit 1; }

# torch is found, and with it what it needs, and nothing is copied.
echo "$torch" >"$("$environment" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
# A copy of the sources, which is gone when the package runs.
mkdir "$work/clone"
(cd "$source" && cp -r CMakeLists.txt cmake src python "$work/clone")
rm -rf "$work/clone/python/build"
# FOVEA_WERROR as in the build of the tests, whose kernels the compiler cache then has.
CMAKE_ARGS=-DFOVEA_WERROR=ON "$environment" -m pip install --disable-pip-version-check "$work/clone/python" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
rm -rf "$work/clone"
cd "$work" && "$environment" - <<'TEST'
import pathlib
import sys

import torch

import fovea
from fovea import _library

place = pathlib.Path(_library.find())
assert pathlib.Path(sys.prefix).resolve() in place.parents, f"the library of {place}, not that of the environment"
q, k, v = (torch.randn(2, 3, 50, 16, requires_grad=True) for _ in range(3))
full = fovea.attention(q, k, v, "full", causal=True)
dense = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
torch.testing.assert_close(full, dense, atol=1e-5, rtol=1e-5)
fovea.attention(q, k, v, "topk(4)", causal=True).sum().backward()
assert q.grad.abs().sum() > 0
print("the installed package computes with", place.name)
TEST

#!/usr/bin/env bash
# transformers_4_test.sh SOURCE PYTHON LIBRARY: runs the tests of fovea.transformers under the last transformers 4, in an
# environment of its own that has nothing else but the torch of PYTHON. python/requirements-test.txt names the 5 that
# the other tests have. Exit code 77: skipped, because pip cannot get the packages.
set -euo pipefail
source=$1 python=$2 library=$3
wanted=(transformers==4.57.6 pytest==9.2.0)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
torch=$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent.parent)' 2>/dev/null) ||
  { echo "skipped: $python has no torch"; exit 77; }
"$python" -m venv "$work/environment"
environment=$work/environment/bin/python3
"$environment" -m pip install -q --disable-pip-version-check "${wanted[@]}" 2>"$work/log" ||
  { echo "skipped: pip cannot get ${wanted[*]}: $(tail -1 "$work/log")"; exit 77; }
# Behind the environment's own packages, so that these are found first.
echo "$torch" >"$("$environment" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
FOVEA_LIBRARY=$library "$environment" "$source/python/tests/run.py" "$source"/python/tests/test_transformers_*.py

#!/usr/bin/env bash
# python_install_test.sh SOURCE PYTHON LIBRARY: installs the Python package into an empty environment that has nothing but
# the torch of PYTHON: as a wheel with LIBRARY, which a program then uses, and from a copy of the sources. Exit code 77:
# skipped, because pip cannot get what builds the package.
set -euo pipefail
source=$1 python=$2 library=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
torch=$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent.parent)' 2>/dev/null) ||
  { echo "skipped: $python has no torch"; exit 77; }
"$python" -m venv "$work/environment"
environment=$work/environment/bin/python3
pip() { "$environment" -m pip --disable-pip-version-check "$@" >"$work/log" 2>&1; }
pip download -q --no-deps -d "$work/packages" cmake ninja 'setuptools>=70.1' ||
  { echo "skipped: pip cannot get cmake, ninja and setuptools: $(tail -1 "$work/log")"; exit 77; }

# Without torch nothing is built, and one line says what to do.
if pip install --no-deps "$source/python"; then echo "installed without torch" >&2; exit 1; fi
grep -q "fovea: no torch in the environment of .*Install it first: pip install 'torch>=2.10'" "$work/log" || { cat "$work/log"; exit 1; }
if FOVEA_PREBUILT=/nonexistent.so pip install --no-deps "$source/python"; then echo "installed without a library" >&2; exit 1; fi
grep -q "FOVEA_PREBUILT: no file '/nonexistent.so'" "$work/log" || { cat "$work/log"; exit 1; }

# torch is found, and with it what it needs, and nothing is copied.
echo "$torch" >"$("$environment" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
mkdir "$work/clone"
(cd "$source" && cp -r CMakeLists.txt cmake src python "$work/clone")
find "$work/clone" | sort >"$work/before"

# The wheel: one for every Python, and no larger than what is promised.
FOVEA_PREBUILT=$library pip wheel -q --no-deps -w "$work/wheels" "$work/clone/python" || { cat "$work/log"; exit 1; }
wheel=$(echo "$work"/wheels/fovea-*-py3-none-linux_"$(uname -m)".whl)
[ "$(stat -c %s "$wheel")" -lt 5000000 ] || { ls -l "$wheel"; exit 1; }
pip install --no-deps "$wheel" || { cat "$work/log"; exit 1; }
(cd "$work" && "$environment" "$source/tests/wheel_program.py")

# From source. FOVEA_WERROR as in the build of the tests, whose kernels the compiler cache then has.
pip uninstall -y fovea
FOVEA_QUIET=1 CMAKE_ARGS=-DFOVEA_WERROR=ON pip install -v "$work/clone/python" || { cat "$work/log"; exit 1; }
grep -q "fovea: compiled [0-9]* of [0-9]* files" "$work/log" || { echo "no progress told"; cat "$work/log"; exit 1; }
find "$work/clone" | sort | diff "$work/before" - || { echo "the build leaves files in the clone" >&2; exit 1; }
rm -rf "$work/clone"
(cd "$work" && "$environment" "$source/tests/wheel_program.py")

#!/usr/bin/env bash
# install_test.sh BUILD SOURCE TORCH_DIR: installs, moves the tree, builds a consumer against it, runs both programs.
set -euo pipefail
build=$1 source=$2 torch_dir=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
if find "$work/moved" -name '*test*' | grep .; then echo "installed, and only of use to tests" >&2; exit 1; fi
cmake -S "$source/tests/consumer" -B "$work/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTorch_DIR="$torch_dir" \
      -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/consumer"
"$work/consumer/consumer"
"$work/moved/bin/fovea" spec 'topk(2)' --length 4
# By a link, from another folder, by another name; the library is the moved tree's, not that of the build.
ln -s moved/bin/fovea "$work/link"
(cd / && "$work/link" --version)
(cd "$work" && exec -a another ./link --version)
mv "$work/moved/lib" "$work/moved/elsewhere"
if "$work/link" --version 2>"$work/message"; then echo "the moved program runs without its library" >&2; exit 1; fi
grep 'the program cannot be loaded' "$work/message"
"$work/link" spec 'topk(2)' --length 4

#!/usr/bin/env bash
# package_test.sh BUILD SOURCE: makes the packages, unpacks them elsewhere, runs the program of each with an empty
# environment, and builds a consumer with the libtorch of the tree. Exit code 77: skipped, because a tool is missing.
set -euo pipefail
build=$1 source=$2
for tool in patchelf objdump strip xz dpkg-deb; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool, which packs the program"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The strongest compression is not what is tested.
python3 "$source/packaging/make_package.py" "$build" "$work/dist" --fast
mkdir "$work/moved" "$work/root"
tar -C "$work/moved" -xf "$work"/dist/fovea-*.tar.xz
tree=$(echo "$work"/moved/fovea-*)
dpkg-deb -x "$work"/dist/fovea_*.deb "$work/root"

# Nothing of the build or of its libtorch is loaded, and every library has a notice.
ldd "$tree"/lib/libfovea_program.so "$tree/bin/fovea" >"$work/loaded"
if grep 'not found' "$work/loaded"; then exit 1; fi
of_the_system='/(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so'
if grep '=> /' "$work/loaded" | grep -v "=> $tree/" | grep -Ev "$of_the_system"; then
  echo "loaded from outside the tree" >&2; exit 1
fi
for library in "$tree"/lib/*.so*; do
  name=$(basename "$library")
  case $name in libfovea_*) continue ;; esac
  grep -q "[| ]$name[, ]" "$tree/share/doc/fovea/THIRD-PARTY.md" || { echo "no notice for $name" >&2; exit 1; }
done
if strings "$tree"/lib/libfovea_*.so "$tree/bin/fovea" | grep -F "$build"; then echo "names its build folder" >&2; exit 1; fi

# Completions know the commands and options, and man can read the page.
bash -c '
  . "$1/share/bash-completion/completions/fovea"
  COMP_WORDS=(fovea tra) COMP_CWORD=1; _fovea; [ "${COMPREPLY[*]}" = "train translate" ] || { echo "${COMPREPLY[*]}"; exit 1; }
  COMP_WORDS=(fovea translate --beam-s) COMP_CWORD=2; _fovea; [ "${COMPREPLY[*]}" = --beam-size ] || { echo "${COMPREPLY[*]}"; exit 1; }
' bash "$tree" >&2
zcat "$work/root/usr/share/man/man1/fovea.1.gz" >"$work/fovea.1"
grep -qF 'fB\-\-beam\-size' "$work/fovea.1" || { echo "no option in the manual page" >&2; exit 1; }
if command -v man >/dev/null; then
  man --warnings=mac,syntax,number,char -E UTF-8 -l -Tutf8 -Z "$tree/share/man/man1/fovea.1" 2>&1 >/dev/null | { if grep -v -e "can't break line" -e 'cannot adjust line'; then exit 1; fi; }
fi

for program in "$tree/bin/fovea" "$work/root/usr/bin/fovea"; do
  (cd / && env -i "$program" --version && env -i "$program" spec 'topk(2)' --length 4)
done
env -i PATH="$PATH" HOME="$work" cmake -S "$source/tests/consumer" -B "$work/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$tree" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/consumer"
env -i "$work/consumer/consumer"

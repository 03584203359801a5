#!/usr/bin/env bash
# English to LANGUAGE on LibreOffice's help pages: fetch, clean, train, translate, score. Run by ./fovea.sh demo.
#   ./fovea.sh demo [LANGUAGE] [options of fovea train, e.g. --attention full]
# Everything lies in build/demo/LANGUAGE; a second run reuses what is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

language=de
if [ $# -gt 0 ] && [[ $1 != -* ]]; then language=$1; shift; fi
readonly language options=("$@")
readonly folder=build/demo/$language
readonly fovea=build/release/bin/fovea
readonly corpus=$folder/corpus vocab=$folder/joint.spm
started=$SECONDS
mkdir -p "$folder"

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }

# Debian's packages of the help pages, unpacked in the build folder without installing them.
fetch_help() {
  [ -f "$folder/help/done" ] && return
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  local package
  mkdir -p "$folder/packages"
  for package in libreoffice-help-en-us "libreoffice-help-$language"; do
    (cd "$folder/packages" && ls "$package"_*.deb >/dev/null 2>&1 || apt-get -q download "$package") || return 1
    dpkg-deb -x "$folder/packages/$package"_*.deb "$folder/help" || return 1
  done
  touch "$folder/help/done"
}

prepare_corpus() {
  [ -f "$corpus/train.en" ] && { say "reusing $corpus"; return; }
  if fetch_help; then
    say "corpus: LibreOffice's help pages, English and $language"
    "$fovea" corpus --libreoffice "$folder/help" --languages en "$language" --output "$corpus"
  else
    say "no Debian archive at hand (apt-get download libreoffice-help-$language failed): generating sentences of a small grammar"
    "$fovea" corpus --generate 30000 --languages en "$language" --output "$corpus"
  fi
}

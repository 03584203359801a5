#!/usr/bin/env bash
# English to LANGUAGE on LibreOffice's help pages: fetch, clean, train, translate, score. Run by ./fovea.sh demo.
#   ./fovea.sh demo [LANGUAGE] [options of fovea train]
# Everything lies in build/demo/LANGUAGE; a second run reuses what is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

language=de
if [ $# -gt 0 ] && [[ $1 != -* ]]; then language=$1; shift; fi
options=("$@")
started=$SECONDS
fovea=$PWD/build/release/bin/fovea

#!/usr/bin/env bash
# The analyses of section 5.2 of "Sparse Attention with Linear Units" (Zhang, Titov, Sennrich 2021) in one command: trains the
# rows full, sparsemax, entmax and rela-g by recipes/rela-rows.sh with three seeds each, as the paper's figures have it, and
# prints figures 3 to 7 and tables 5 and 6 of the finished runs by recipes/rela_analysis.py, which says what is ours.
# recipes/rela-analysis.sh --help lists the options.
#
# A finished run is not trained again, and nothing is analysed twice: Ctrl-C stops in a way that the same command continues.
# Without --train-sets, the finished runs in --output are analysed.
set -euo pipefail
recipes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes/../build/release/bin/fovea}
. "$recipes/demo-common.sh"
. "$recipes/sweep-common.sh"

usage() {
  cat <<TEXT
Usage: recipes/rela-analysis.sh [--train-sets SRC TRG] --test-sets SRC TRG [options]
  --train-sets SRC TRG text to train on [none: only the finished runs in --output are analysed]
  --test-sets SRC TRG  text that is analysed
  --align-sets SRC TRG text with a gold alignment, and
  --gold FILE          its links, as for fovea align [none: without figure 4 and table 5]
  --gold-base N        number of the first word in --gold [0]
  --gold-reversed      the links of --gold have the target word first
  --rows ROW ...       rows of recipes/rela-rows.sh [full sparsemax entmax rela-g]
  --seeds N ...        one model per seed and row [1 2 3]
  --vocabs SRC TRG     vocabularies [learned: BPE of each side]
  --dim-vocabs N       their pieces [32000]
  --updates N          updates of each model [300000]
  --layer N            layer of figure 7 [the middle one]
  --tags FILE          a line of labels per pair for figure 7, one for each word of the target
  --cpu-threads N      threads of the analyses [all]
  --output DIR         folder of all runs [build/rela-rows]
  --options OPTION ... more options of fovea train, e.g. --options --precision bfloat16; the last option of the command
TEXT
}

train_sets=() test_sets=() align_sets=() gold=() gold_base=() gold_reversed=() vocabs=() dim_vocabs=() updates=() layer=() tags=()
cpu_threads=() options=() rows=(full sparsemax entmax rela-g) seeds=(1 2 3) output=build/rela-rows

# given NAME...: the options of these names that have values, as words of a command, in the array `words`.
given() {
  local name
  words=()
  for name in "$@"; do
    local -n values=${name//-/_}
    [ ${#values[@]} -eq 0 ] || words+=("--$name" "${values[@]}")
  done
}

read_options train-sets test-sets align-sets gold gold-base gold-reversed! rows seeds vocabs dim-vocabs updates layer tags \
  cpu-threads output -- "$@"
check_program
check_files --test-sets 2 'source and target' "${test_sets[@]}"
if [ ${#train_sets[@]} -gt 0 ]; then
  given train-sets test-sets rows seeds vocabs dim-vocabs updates
  [ ${#options[@]} -eq 0 ] || words+=(--options "${options[@]}")
  "$recipes/rela-rows.sh" --output "$output" "${words[@]}"
fi
given test-sets align-sets gold gold-base rows layer tags cpu-threads
FOVEA=$fovea exec "$recipes/rela_analysis.py" "$output" "${words[@]}" "${gold_reversed[@]}"

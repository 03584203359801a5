#!/usr/bin/env bash
# Names of CoNLL-2003 with and without clauses ("Clause Attention", table 4): is it the clauses that help, or the column
# of parts of speech by which they are split? Three taggers for each seed, which read words alone, from random weights:
#   full           attention to the whole sentence
#   clauses-words  mix(full,clause(1),clause(2)), with clauses found by words alone
#   clauses-tags   the same, with clauses found by the tags too
# recipes/names-sweep.sh --help lists the options.
#
# Everything lies in the folder --output. A finished run is not trained again, and Ctrl-C stops in a way that the same
# command continues.
set -euo pipefail
recipes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes/../build/release/bin/fovea}
. "$recipes/demo-common.sh"
. "$recipes/sweep-common.sh"
readonly mix='mix(full,clause(1),clause(2))' rows=(full clauses-words clauses-tags)

usage() {
  cat <<TEXT
Usage: recipes/names-sweep.sh --tag-sets TRAIN TEST [options]
  --tag-sets TRAIN TEST  columns of words, parts of speech, chunks and names, such as eng.train and eng.testa of CoNLL-2003
  --seeds N ...          one model of each kind per seed [1 2 3]
  --updates N            updates of each model [2000]
  --output DIR           folder of all files [build/names-sweep]
  --options OPTION ...   more options of fovea train; the last option of the command
TEXT
}

tag_sets=() seeds=(1 2 3) updates=2000 output=build/names-sweep options=()
read_options tag-sets seeds updates output -- "$@"
check_program
check_files --tag-sets 2 'columns for training and for the test' "${tag_sets[@]}"
check_counts '--seeds and --updates' "${seeds[@]}" "${updates[@]}"
folder=$output
check_settings "${tag_sets[@]}" "$updates" "${options[@]}"

# plain FILE: its text.
plain() { case $1 in *.gz) gunzip -c "$1" ;; *.xz) xz -dc "$1" ;; *) cat "$1" ;; esac; }

# The columns, and a vocabulary of 4,000 pieces of their words.
prepare() {
  [ -f "$folder/test" ] || keep "$folder/test" plain "${tag_sets[1]}"
  [ -f "$folder/train" ] || keep "$folder/train" plain "${tag_sets[0]}"
  [ -f "$folder/words" ] || keep "$folder/words" awk '$1 == "-DOCSTART-" { next } NF { printf "%s ", $1 } !NF { print "" }' "$folder/train"
  [ -f "$folder/words.spm" ] || "$fovea" vocab --type bpe --dim-vocabs 4000 --train-sets "$folder/words" --output "$folder/words.spm" --quiet
}

# make ROW SEED: trains, averages the last five checkpoints and scores, without what is done already.
make() {
  local spec=$mix tags=0
  case $1 in full) spec=full ;; clauses-tags) tags=2 ;; esac
  run=$folder/$1-seed$2
  train_run -c "$recipes/conll2003-clauses.yml" --train-sets "$folder/train" --label-column 4 --vocabs "$folder/words.spm" \
    --attention-encoder "$spec" --clause-tag-column $tags --enc-depth 2 --dim-emb 128 --transformer-heads 4 \
    --transformer-dim-ffn 256 --transformer-dropout 0.2 --learn-rate 0.002 --lr-warmup 200 --mini-batch 32 \
    --after-batches "$updates" --after-epochs 0 --save-freq 100 --keep-last 5 --seed "$2" "${options[@]}"
  [ -f "$run/f1" ] || keep "$run/f1" "$fovea" score --model "$run/averaged" --train-sets "$folder/test" --label-column 4 --quiet
}

prepare
for seed in "${seeds[@]}"; do
  for row in "${rows[@]}"; do make "$row" "$seed"; done
done
printf '\nF1 of names on %s, seeds %s\n' "${tag_sets[1]}" "${seeds[*]}"
for row in "${rows[@]}"; do
  printf '%-16s' "$row"
  for seed in "${seeds[@]}"; do sed -n 's/^F1 //p' "$folder/$row-seed$seed/f1" | tr '\n' ' '; done
  echo
done

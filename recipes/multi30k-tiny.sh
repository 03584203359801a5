#!/usr/bin/env bash
# Multi30k English-German with the tiny Transformer: vocabulary, training, average of the last 10 checkpoints, beam 5, BLEU.
#   FOVEA_DATA=DIR recipes/multi30k-tiny.sh [RUN FOLDER] [options of fovea train, e.g. --attention 'topk(8)']
# DIR holds multi30k/{train,val,test_2016_flickr}.lc.norm.tok.{en,de}.gz (Multi30k task 1, lower-cased, normalised, tokenised).
set -euo pipefail
recipe=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipe/../build/release/bin/fovea}
data=${FOVEA_DATA:?name the folder of the corpora with FOVEA_DATA}/multi30k
run=build/multi30k-tiny
if [ $# -gt 0 ] && [[ $1 != -* ]]; then run=$1; shift; fi
mkdir -p "$run"

text() { echo "$data/$1.lc.norm.tok.$2.gz"; }
vocab=$run/joint.spm
# The figures of multi30k-tiny.yml are with this normalisation, which changes a few lines of the text.
[ -f "$vocab" ] || "$fovea" vocab --type bpe --dim-vocabs 10000 --normalization nmt_nfkc \
  --train-sets "$(text train en)" "$(text train de)" --output "$vocab"
"$fovea" train -c "$recipe/multi30k-tiny.yml" --model "$run/model" --vocabs "$vocab" "$vocab" \
  --train-sets "$(text train en)" "$(text train de)" --valid-sets "$(text val en)" "$(text val de)" "$@"
saved=$(find "$run/model/checkpoints" -mindepth 1 -maxdepth 1 -name 'update-*' | wc -l)
"$fovea" average --model "$run/model" --last $((saved < 10 ? saved : 10)) --output "$run/averaged"
"$fovea" translate --model "$run/averaged" --beam-size 5 --normalize 1 \
  --input "$(text test_2016_flickr en)" --output "$run/test_2016_flickr.de"
"$fovea" evaluate --reference "$(text test_2016_flickr de)" --tokenize none < "$run/test_2016_flickr.de"

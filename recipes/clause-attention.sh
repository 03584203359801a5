#!/usr/bin/env bash
# All of "Clause Attention": a dictionary labels signal words, taggers learn them (table 3) and names (table 4), and
# translation models mix attention to the sentence with attention to its clauses, which a dictionary ("rule") or a tagger
# ("study") finds (table 5). BLEU of sentences of four lengths stands in place of tables 6 to 9, which show one sentence each.
# recipes/clause-attention.sh --help lists the options. conll2003-clauses.yml and niutrans-en-zh-clauses.yml have the
# settings and the published figures.
#
# Everything lies in the folder --output. A finished run is not trained again, and Ctrl-C stops in a way that the same
# command continues; other settings need another folder.
set -euo pipefail
recipes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes/../build/release/bin/fovea}
. "$recipes/demo-common.sh"
. "$recipes/sweep-common.sh"
readonly mix='mix(full,clause(1),clause(2))'

usage() {
  cat <<TEXT
Usage: recipes/clause-attention.sh --tag-sets TRAIN TEST [--train-sets SRC TRG --valid-sets SRC TRG --test-sets SRC TRG] [options]
  --tag-sets TRAIN TEST  columns of words, parts of speech, chunks and names, such as eng.train and eng.testb of CoNLL-2003
  --bert DIR             start the taggers from this BERT, by fovea convert [from random weights]
  --corrections FILE     labels that win over the dictionary, as for fovea clauses
  --dictionary FILE      signal words of the source language [English]
  --dim-vocabs N         pieces of the vocabularies of translation [16000]
  --dim-tag-vocab N      pieces of the taggers' vocabulary, without --bert [8000]
  --tag-config FILE      more options of fovea train for the taggers, as YAML
  --tokenize NAME        tokens of BLEU, as for fovea evaluate [zh]
  --seeds N ...          all models for each of these seeds; NAME of seed N lies in NAME-seedN [1]
  --options OPTION ...   more options of fovea train for translation models; the last option of the command
  --output DIR           folder of all files [build/clause-attention]
Without --train-sets, the taggers alone are trained.
TEXT
}

tag_sets=() train_sets=() valid_sets=() test_sets=() bert=() corrections=() dictionary=() dim_vocabs=16000
dim_tag_vocab=8000 tag_config=() options=() tokenize=zh output=build/clause-attention seeds=(1)
decoding=(-c "$recipes/niutrans-en-zh-clauses.translate.yml")

check() {
  check_program
  check_files --tag-sets 2 'columns for training and for the test' "${tag_sets[@]}"
  check_counts '--dim-vocabs, --dim-tag-vocab and --seeds' "${dim_vocabs[@]}" "${dim_tag_vocab[@]}" "${seeds[@]}"
  [ ${#train_sets[@]} -gt 0 ] || return 0
  check_files --train-sets 2 'source and target' "${train_sets[@]}"
  check_files --valid-sets 2 'source and target' "${valid_sets[@]}"
  check_files --test-sets 2 'source and target' "${test_sets[@]}"
}

# The dictionary's labels as one more column of $folder/train.columns and $folder/test.columns.
label() {
  local i names=(train test)
  for i in 0 1; do
    [ -f "$folder/${names[i]}.columns" ] || keep "$folder/${names[i]}.columns" "$fovea" clauses --label --tag-column 2 \
      --input "${tag_sets[i]}" "${corrections[@]/#/--corrections=}" "${dictionary[@]/#/--dictionary=}"
  done
}

# vocab FILE TEXT PIECES
vocab() {
  [ -f "$1" ] || "$fovea" vocab --type bpe --dim-vocabs "$3" --train-sets "$2" --output "$1" --quiet
}

# named NAME: the name, with the seed in work if there are several.
named() {
  if [ ${#seeds[@]} -gt 1 ]; then echo "$1 seed $seed"; else echo "$1"; fi
}

# tagger NAME COLUMNS SPEC: trains a tagger of these columns of labels, and prints the lines of its F1, in percent.
tagger() {
  local columns words from clauses=(--clause-tag-column 0)
  run=$folder/$1-seed$seed
  read -ra columns <<<"$2"
  [ "$3" = full ] || clauses=("${dictionary[@]/#/--clause-dictionary=}")
  if [ ${#bert[@]} -gt 0 ]; then
    from=(--pretrained-model "${bert[0]}")
  else
    words=$folder/words.txt
    [ -f "$words" ] || keep "$words" awk 'NF { printf "%s ", $1 } !NF { print "" }' "$folder/train.columns"
    vocab "$folder/words.spm" "$words" "$dim_tag_vocab"
    from=(--vocabs "$folder/words.spm")
  fi
  train_run -c "$recipes/conll2003-clauses.yml" "${tag_config[@]/#/--config=}" --train-sets "$folder/train.columns" \
    --label-column "${columns[@]}" --attention-encoder "$3" "${clauses[@]}" "${from[@]}" --seed "$seed"
  [ -f "$run/f1" ] || keep "$run/f1" "$fovea" score --model "$run/averaged" --train-sets "$folder/test.columns" \
    --label-column "${columns[@]}" --quiet
  sed -n 's/^F1 /all /p; s/^F1-//p; s/^ *\([A-Z]*\): .*FB1: *\([0-9.]*\).*/\1 \2/p' "$run/f1" | sed "s/^/$(named "$1") /"
}

taggers() {
  printf 'Signal words and names: F1 in percent on %s\n\n' "${tag_sets[1]}"
  for seed in "${seeds[@]}"; do
    tagger signal-words 5 full
    tagger fusion '4 5' full
    tagger names 4 full
    tagger names-with-clauses 4 "$mix"
  done
}

# translation NAME OPTION...: trains a model, and prints its best accuracy in validation and BLEU.
translation() {
  run=$folder/$1-seed$seed
  train_run -c "$recipes/niutrans-en-zh-clauses.yml" --train-sets "${train_sets[@]}" --valid-sets "${valid_sets[@]}" \
    --vocabs "$folder/source.spm" "$folder/target.spm" --valid-tokenize "$tokenize" --seed "$seed" "${@:2}" "${options[@]}"
  score_bleu test "${test_sets[@]}"
  local accuracy='s/.*"event":"valid".*"metric":"accuracy","value":\([0-9.e-]*\).*/\1/p'
  printf '%-12s %10.4f %10s\n' "$(named "$1")" "$(sed -n "$accuracy" "$run/log.jsonl" | sort -g | tail -n 1)" "$(cat "$run/test.bleu")"
}

# A column per quarter of the test set, by words of the source.
lengths() {
  local name scores=()
  printf '\nBLEU by the length of the source, from the shortest quarter to the longest\n'
  for name in "$@"; do
    for seed in "${seeds[@]}"; do
      scores=$("$fovea" evaluate --reference "${test_sets[1]}" --input "$folder/$name-seed$seed/test.out" --tokenize "$tokenize" \
        --bands 4 --bands-by "${test_sets[0]}" --score-only)
      printf '\n%-12s' "$(named "$name")"
      mapfile -t -s 1 scores <<<"$scores" # the first line is the score of all
      printf ' %10s' "${scores[@]}"
    done
  done
  echo
}

# outputs NAME: the translations of each seed.
outputs() {
  printf '%s\n' "${seeds[@]/#/$folder/$1-seed}" | sed 's:$:/test.out:'
}

translations() {
  vocab "$folder/source.spm" "${train_sets[0]}" "$dim_vocabs"
  vocab "$folder/target.spm" "${train_sets[1]}" "$dim_vocabs"
  printf '\nTranslation: accuracy in validation, and BLEU on %s\n\n' "${test_sets[1]}"
  for seed in "${seeds[@]}"; do
    translation full --attention-encoder full
    translation longformer --attention-encoder 'window(32)|global(1)' # the paper does not give the sizes
    translation rule --attention-encoder "$mix" "${dictionary[@]/#/--clause-dictionary=}"
    translation study --attention-encoder "$mix" --clause-tagger "$folder/fusion-seed$seed/averaged"
  done
  local name full out
  mapfile -t full < <(outputs full)
  paired_header "${test_sets[1]}"
  for name in longformer rule study; do
    printf '%-16s' "$name"
    mapfile -t out < <(outputs "$name")
    against_full "${test_sets[1]}" "${full[@]}" -- "${out[@]}"
  done
  lengths full longformer rule study
}

read_options seeds tag-sets tag-config bert corrections dictionary dim-vocabs dim-tag-vocab tokenize output train-sets valid-sets test-sets -- "$@"
folder=$output
check
check_settings "${tag_sets[@]}" "${train_sets[@]}" "${valid_sets[@]}" "${test_sets[@]}" "${bert[@]}" "${corrections[@]}" \
  "${dictionary[@]}" "$dim_vocabs" "$dim_tag_vocab" "$tokenize" "${options[@]}" "$(cat "${tag_config[@]}" </dev/null)"
stop_cleanly
label
taggers
[ ${#train_sets[@]} -eq 0 ] || translations

#!/usr/bin/env bash
# Trains one translation model for each row of table 4 of "Explicit Sparse Transformer" (Zhao et al. 2019) and each seed, on
# one to three of the paper's pairs of languages, and prints the table: BLEU, and the speeds of training and of decoding,
# measured in alternating pairs by recipes/speed_pairs.py. Its rows full and topk8 are table 1. With other rows, the same
# command prints table 5 (full topk8-train topk8, in validation) and figure 3 (topk4 topk8 topk16 topk32 full, in validation).
# recipes/topk-rows.sh --help lists the options.
#
# Everything lies in the folder --output. A finished run is not trained again, and Ctrl-C stops in a way that the same
# command continues; other settings need another folder. Close other programs before speeds are measured.
#
# Published:       En-Vi  De-En  En-De   training   decoding
#   full            30.6   35.3   29.1        49K       7.0K
#   sparsemax          -   31.2               39K       3.0K
#   entmax-1.5      30.9   35.6               40K       4.9K
#   entmax-alpha       -   35.5               13K       0.6K
#   top-k           31.1   35.6   29.4        48K       6.6K
# Tokens per second are those of a GPU, De-En, trained in float16, 128 sentences per batch. Table 5, En-Vi: full 27.4, top-k in
# training alone 27.7, in both phases 27.8.
#
# What the paper gives: three initialisations, of which tables of small data have the highest and figure 3 the mean; a
# checkpoint per epoch, averages of ten of them every five epochs, and of these the one with the best BLEU in validation; for
# En-Vi, the average of the last 20; the measures of BLEU. What it leaves open is ours:
# - k = 8, for tables 1, 4 and 5;
# - the highest of three for En-De, too, and the mean in the second table;
# - averages count back from the last checkpoint, and the first one is that of the checkpoints that the recipe keeps:
#   of De-En epochs 50, 55, ... 90, of En-De 52, 57, ... 72;
# - the average of topk8-train is that of topk8, chosen by translations with top-k;
# - models, training, vocabularies and beams are those of iwslt14-de-en-topk.yml, iwslt15-en-vi-topk.yml and
#   wmt14-en-de-topk.yml, which say what is ours in them;
# - speeds are those of a processor in float32, unless --devices 0 --precision bfloat16 asks for what is closest to the paper's
#   GPU in float16; their models are those of the first seed, and every second round goes through them backwards;
# - BLEU of En-Vi takes the tokens of mteval-v14.pl --international-tokenization, which tensor2tensor's script takes.
set -euo pipefail
recipes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes/../build/release/bin/fovea}
. "$recipes/demo-common.sh"
. "$recipes/sweep-common.sh"

usage() {
  cat <<TEXT
Usage: recipes/topk-rows.sh [--de-en DIR] [--en-vi DIR] [--en-de DIR] [options]
  --de-en DIR          IWSLT14 German-English: train.de, train.en, valid.de, ... test.en in DIR, also as .gz;
                       tokenised, as is the text of the other pairs
  --en-vi DIR          IWSLT15 English-Vietnamese; valid is tst2012, test tst2013
  --en-de DIR          WMT14 English-German; valid is newstest2013, test newstest2014
  --rows ROW ...       some of full, sparsemax, entmax (1.5), entmax-alpha (learned), topkN, and topkN-train, which
                       translates with all keys [full sparsemax entmax entmax-alpha topk8]
  --seeds N ...        one model per seed [1 2 3]
  --updates N          updates of each model [those of the recipes: 90 epochs, 35000 updates, 72 epochs]
  --dim-vocabs N       pieces, or of En-Vi words, of each vocabulary [14000; 17200 and 7800; 32000]
  --pairs N            alternating pairs of measurements of speed, of the first of the pairs of languages; 0: none [5]
  --cpu-threads N      threads of these measurements [2]
  --devices D          what they measure: cpu, or the number of a CUDA device [cpu]
  --precision T        their type: float32 or bfloat16 [float32]
  --data KEY           add the speeds to recipes/results/runs.tsv, with this key of settings.tsv
  --options OPTION ... more options of fovea train, e.g. --options --precision bfloat16; the last option of the command
  --output DIR         folder of the vocabularies and of all runs [build/topk-rows]
  --finished           train and measure nothing, and print the tables of the runs that are finished, with - for the others
Example: table 4:
  recipes/topk-rows.sh --de-en iwslt14 --en-vi iwslt15
TEXT
}

de_en=() en_vi=() en_de=() rows=(full sparsemax entmax entmax-alpha topk8) seeds=(1 2 3) updates= dim_vocabs= pairs=5
cpu_threads=2 devices=cpu precision=float32 data=()
options=() output=build/topk-rows finished=() average=no

# take_pair PAIR: sets the pair's recipe, sides, texts, vocabularies, averages and measure.
take_pair() {
  pair=$1 source=${1%-*} target=${1#*-}
  local -n folder_of_pair=${1//-/_}
  local part
  for part in train valid test; do
    local -n texts=${part}_sets
    texts=("$(text "${folder_of_pair[0]}/$part.$source")" "$(text "${folder_of_pair[0]}/$part.$target")")
  done
  case $1 in
  de-en) recipe=iwslt14-de-en-topk vocab=(bpe 14000) averages=(10 5) bleu=(--metrics multi-bleu --lowercase) ;;
  en-vi) recipe=iwslt15-en-vi-topk vocab=(word 17200 7800) averages=(20 0) bleu=(--tokenize intl --lowercase) ;;
  en-de) recipe=wmt14-en-de-topk vocab=(bpe 32000) averages=(10 5) bleu=(--metrics multi-bleu --compound-split) ;;
  esac
  decoding=(-c "$recipes/$recipe.translate.yml")
}

# text PATH: the file of a text, plain or compressed.
text() {
  if [ ! -f "$1" ] && [ -f "$1.gz" ]; then echo "$1.gz"; else echo "$1"; fi
}

# pairs_of_languages: the pairs whose folders are given, in the order of the options in --help.
pairs_of_languages() {
  [ ${#de_en[@]} -eq 0 ] || echo de-en
  [ ${#en_vi[@]} -eq 0 ] || echo en-vi
  [ ${#en_de[@]} -eq 0 ] || echo en-de
}

# attention ROW: the mechanism of a row's model.
attention() {
  local k=${1#topk}
  case $1 in
  full | sparsemax) echo "$1" ;;
  entmax) echo 'entmax(1.5)' ;;
  entmax-alpha) echo 'entmax(learned)' ;;
  topk*) echo "topk(${k%-train})" ;;
  esac
}

check() {
  check_program
  local name file row words
  [ -n "$(pairs_of_languages)" ] || fail "--de-en, --en-vi and --en-de: got no folder; expected one or more of them"
  for name in $(pairs_of_languages); do
    take_pair "$name"
    local -n folders=${name//-/_}
    [ ${#folders[@]} -eq 1 ] || fail "--$name: got ${#folders[@]} folders; expected one"
    for file in "${train_sets[@]}" "${valid_sets[@]}" "${test_sets[@]}"; do
      [ -f "$file" ] || fail "--$name: cannot find '$file' or '$file.gz'; expected train, valid and test of $source and $target there"
    done
  done
  check_counts '--seeds, --updates, --dim-vocabs and --cpu-threads' "${seeds[@]}" "${updates:-1}" "${dim_vocabs:-1}" "$cpu_threads"
  [[ $pairs =~ ^[0-9]+$ ]] || fail "--pairs: got '$pairs'; expected a whole number, 0 for no speeds"
  [[ $devices =~ ^(cpu|[0-9]+)$ ]] || fail "--devices: got '$devices'; expected cpu, or the number of a CUDA device"
  [[ $precision =~ ^(float32|bfloat16)$ ]] || fail "--precision: got '$precision'; expected float32 or bfloat16"
  if [ ${#data[@]} -gt 0 ]; then
    [ "$pairs" -gt 0 ] && [ ${#finished[@]} -eq 0 ] || fail "--data: got --pairs 0 or --finished; expected measurements to add"
    cut -f 1 "$recipes/results/settings.tsv" | grep -qxF -- "${data[0]}" ||
      fail "--data: got '${data[0]}'; expected a key of recipes/results/settings.tsv, or a new line there"
  fi
  for row in "${rows[@]}"; do
    [[ $row =~ ^(full|sparsemax|entmax|entmax-alpha|topk[0-9]+(-train)?)$ ]] ||
      fail "--rows: got '$row'; expected some of full, sparsemax, entmax, entmax-alpha, topkN and topkN-train"
    words=$("$fovea" spec "$(attention "$row")" --length 1 2>&1 >/dev/null) || fail "--rows: $(sed -n '1s/^Error: //p' <<<"$words")"
  done
}

# learn_vocabs: sets vocabs, those of the source and of the target, which one file of both may be.
learn_vocabs() {
  local i learn=("$fovea" vocab --type "${vocab[0]}" --quiet)
  if [ "${vocab[0]}" = bpe ]; then
    vocabs=("$folder/$pair/joint.spm" "$folder/$pair/joint.spm")
    [ -f "${vocabs[0]}" ] ||
      "${learn[@]}" --dim-vocabs "${dim_vocabs:-${vocab[1]}}" --train-sets "${train_sets[@]}" --output "${vocabs[0]}"
    return
  fi
  vocabs=("$folder/$pair/source.spm" "$folder/$pair/target.spm")
  for i in 0 1; do
    [ -f "${vocabs[i]}" ] ||
      "${learn[@]}" --dim-vocabs "${dim_vocabs:-${vocab[i + 1]}}" --train-sets "${train_sets[i]}" --output "${vocabs[i]}"
  done
}

# run_of PAIR ROW SEED: the folder of a model. A row topkN-train uses that of topkN.
run_of() {
  local k=${2#topk}
  case $2 in
  topk*) echo "$folder/$1/topk-k${k%-train}-seed$3" ;;
  *) echo "$folder/$1/$2-seed$3" ;;
  esac
}

# name_of SET ROW: the name of the row's results in the run's folder, without the ending.
name_of() {
  case $2 in *-train) echo "$1-all-keys" ;; *) echo "$1" ;; esac
}

# make ROW SEED: trains a model of the pair in work, chooses its average and scores.
make() {
  local words=()
  [ -z "$updates" ] || words=(--after-batches "$updates" --after-epochs 0)
  run=$(run_of "$pair" "$1" "$2")
  train_run -c "$recipes/$recipe.yml" --train-sets "${train_sets[@]}" --valid-sets "${valid_sets[@]}" --vocabs "${vocabs[@]}" \
    --seed "$2" --attention "$(attention "$1")" "${words[@]}" "${options[@]}"
  choose_average "${averages[@]}" "${valid_sets[@]}"
  words=()
  if [[ $1 == *-train ]]; then
    words=(--attention full)
    score_bleu "$(name_of valid "$1")" "${valid_sets[@]}" "${words[@]}"
  fi
  score_bleu "$(name_of test "$1")" "${test_sets[@]}" "${words[@]}"
}

# results PAIR SET ROW ENDING: a file for each seed.
results() {
  local seed
  for seed in "${seeds[@]}"; do echo "$(run_of "$1" "$3" "$seed")/$(name_of "$2" "$3").$4"; done
}

# cell FUNCTION PAIR SET ROW: what the function makes of the BLEU of the seeds that are finished, or - without any.
cell() {
  local files
  mapfile -t files < <(results "${@:2}" bleu | there)
  if [ ${#files[@]} -eq 0 ]; then printf -- -; else "$1" "${files[@]}"; fi
}

highest() { sort -g "$@" | tail -n 1; }

# measure_speeds: of the models of the first seed and the first pair, into $speeds.txt, once.
measure_speeds() {
  local row models=() mark=$speeds${data[0]:+-in-${data[0]}}.txt
  [ ! -f "$mark" ] || return 0
  take_pair "${all_pairs[0]}"
  for row in "${rows[@]}"; do
    [[ $row == *-train ]] || models+=("$(attention "$row")=$(run_of "$pair" "$row" "${seeds[0]}")")
  done
  [ ${#models[@]} -gt 1 ] || return 0
  say "speeds of $pair: $pairs alternating pairs"
  FOVEA=$fovea keep "$speeds.txt" "$recipes/speed_pairs.py" --models "${models[@]}" --train-sets "${test_sets[@]}" \
    --output "$speeds" --pairs "$pairs" --cpu-threads "$cpu_threads" \
    --devices "$devices" --precision "$precision" \
    --beam-size "$(sed -n 's/^beam-size: *//p' "${decoding[1]}")" "${data[@]/#/--data=}"
  touch "$mark"
}

# speed_of ROW COLUMN: a number of the row in the first table of recipes/speed_pairs.py, or - if it is not there.
speed_of() {
  local found=
  [[ $1 == *-train ]] || [ ! -f "$speeds.txt" ] ||
    found=$(awk -v name="$(attention "$1")" -v column="$2" '/^Speed over/ { exit } $1 == name { print $column }' "$speeds.txt")
  echo "${found:--}"
}

# table FUNCTION SET [SPEED...]: a row per mechanism, and a column per pair of languages and per speed.
table() {
  local row name cells
  printf '%-16s' ''
  printf ' %15s' "${all_pairs[@]}" "${@:3}"
  for row in "${rows[@]}"; do
    cells=()
    for name in "${all_pairs[@]}"; do cells+=("$(cell "$1" "$name" "$2" "$row")"); done
    [ $# -eq 2 ] || cells+=("$(speed_of "$row" 2)" "$(speed_of "$row" 4)")
    printf '\n%-16s' "$row"
    printf ' %15s' "${cells[@]}"
  done
  echo
}

# tests PAIR: each row against full attention of the same seed.
tests() {
  local row full out
  take_pair "$1"
  mapfile -t full < <(results "$1" test full out)
  paired_header "${test_sets[1]}"
  for row in "${rows[@]}"; do
    [ "$row" != full ] || continue
    mapfile -t out < <(results "$1" test "$row" out)
    printf '%-16s' "$row"
    against_full "${test_sets[1]}" "${full[@]}" -- "${out[@]}"
  done
}

read_options finished! de-en en-vi en-de rows seeds updates dim-vocabs pairs cpu-threads devices precision data output -- "$@"
folder=$output
check
mapfile -t all_pairs < <(pairs_of_languages)
for name in "${all_pairs[@]}"; do
  take_pair "$name"
  folder=$output/$name check_settings "${train_sets[@]}" "${valid_sets[@]}" "${test_sets[@]}" "$updates" "$dim_vocabs" "${options[@]}"
done
stop_cleanly
speeds=$folder/speeds-${all_pairs[0]}-$(printf '%s-' "${rows[@]}")seed${seeds[0]}-pairs$pairs-$devices-$precision-${cpu_threads}threads
if [ ${#finished[@]} -eq 0 ]; then
  for seed in "${seeds[@]}"; do
    for name in "${all_pairs[@]}"; do
      take_pair "$name"
      learn_vocabs
      for row in "${rows[@]}"; do
        say "$pair: $row, seed $seed"
        make "$row" "$seed"
        say "$pair: $row, seed $seed: validation BLEU $(cat "$run/$(name_of valid "$row").bleu")"
      done
    done
  done
  [ "$pairs" = 0 ] || measure_speeds
fi

columns=() of_speed= of_seeds="of seeds ${seeds[*]}"
if [ "$pairs" -gt 0 ]; then
  columns=(training decoding) of_speed="; target tokens per second of ${all_pairs[0]}, medians of $pairs"
fi
[ ${#finished[@]} -eq 0 ] || of_seeds+=' (as far as they are finished; - is none)'
printf 'Table 4: BLEU of the test sets, the highest %s%s\n\n' "$of_seeds" "$of_speed"
table highest test "${columns[@]}"
printf '\nBLEU of the test sets, mean %s\n\n' "$of_seeds"
table mean test
printf '\nFigure 3 and table 5: BLEU of the validation sets, mean %s\n\n' "$of_seeds"
table mean valid
if [[ " ${rows[*]} " == *' full '* ]] && [ ${#rows[@]} -gt 1 ]; then
  for name in "${all_pairs[@]}"; do tests "$name"; done
fi
[ "$pairs" = 0 ] || [ ! -f "$speeds.txt" ] || sed -n '/^Speed over/{ x; p; x }; //,$p' "$speeds.txt"

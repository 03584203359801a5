#!/usr/bin/env bash
# Trains one model for each mechanism, k and seed, and prints a table: rows are mechanisms, columns are k. The values are
# BLEU of translation models, d-BLEU with --documents, and bits per byte of language models. This is the form of tables 1
# and 2 of "Extremely Sparse Transformer", with --bertscore of table 5; a second table has topk over k, like figure 3 of "Explicit Sparse Transformer".
# recipes/k-sweep.sh --help lists the options.
#
# Everything lies in the folder --output. A finished run is not trained again, and Ctrl-C stops in a way that the same
# command continues; other settings need another folder.
set -euo pipefail
recipes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes/../build/release/bin/fovea}
. "$recipes/demo-common.sh"
. "$recipes/sweep-common.sh"
readonly without_k='full sparsemax entmax relu rela-i rela-g'
readonly rows="$without_k block window dilated global random bigbird topk oow topk-train oow-train"

usage() {
  cat <<TEXT
Usage: recipes/k-sweep.sh --train-sets SRC TRG --valid-sets SRC TRG [--test-sets SRC TRG] --vocabs SRC TRG [options]
       recipes/k-sweep.sh --task language --train-sets TEXT --valid-sets TEXT [--test-sets TEXT] --vocabs V [options]
  --task NAME          translation, or language: bits per byte instead of BLEU [translation]
  --documents          translate documents, and print d-BLEU
  --k K ...            keys that a query may attend [16 8 4 2]
  --mechanisms M ...   rows of the table, some of
                       $rows
                       [full block window dilated global random topk]
  --seeds N ...        one model per seed; the table has their mean and standard deviation [1]
  --updates N          updates of each model [4000]
  --averages N EVERY   average N checkpoints that end at the last one, at the EVERYth before it, and so on, and take the
                       average with the best BLEU in validation [the last 5 checkpoints]
  --config FILE        model and training [multi30k-tiny.yml, of documents ted-en-de-oow.yml, of --task language
                       demo-language.yml, all in recipes/]
  --options OPTION ... more options of fovea train, e.g. --options --precision bfloat16; the last option of the command
  --tokenize NAME      tokens of BLEU, as for fovea evaluate [13a]
  --bertscore DIR [N]  also print BERTScore's F1 by layer N of this encoder, as for fovea evaluate [none; the last layer]
  --output DIR         folder of all runs [build/k-sweep]
  --finished           train nothing, and print the tables of the runs that are finished, with - for the others
Example, on Multi30k (tokenised and lower-cased, so BLEU takes its words as they are):
  recipes/k-sweep.sh --train-sets train.en train.de --valid-sets val.en val.de --test-sets test.en test.de \\
      --vocabs joint.spm joint.spm --k 8 2 --tokenize none
TEXT
}

train_sets=() valid_sets=() test_sets=() vocabs=() options=() bertscore=() averages=() k=(16 8 4 2) seeds=(1) task=translation
mechanisms=(full block window dilated global random topk)
updates=4000 config= output=build/k-sweep finished=()

check() {
  check_program
  local mechanism number words files=2 what='source and target'
  case $task in
  translation) ;;
  language)
    files=1 what='one text'
    [ ${#documents[@]} -eq 0 ] || fail "--documents: got --task language; expected translation"
    ;;
  *) fail "--task: got '$task'; expected translation or language" ;;
  esac
  [ ${#averages[@]} -eq 0 ] || [ ${#averages[@]} -eq 2 ] || fail "--averages: got ${#averages[@]} numbers; expected those of N and EVERY"
  [ ${#averages[@]} -eq 0 ] || [ "$task" = translation ] || fail "--averages: got --task $task; expected translation"
  check_counts --averages "${averages[@]}"
  [ ${#bertscore[@]} -le 2 ] || fail "--bertscore: got ${#bertscore[@]} values; expected a folder and the number of a layer"
  [ ${#bertscore[@]} -eq 0 ] || [ "$task" = translation ] || fail "--bertscore: got --task $task; expected translation"
  check_files --train-sets $files "$what" "${train_sets[@]}"
  check_files --valid-sets $files "$what" "${valid_sets[@]}"
  [ ${#test_sets[@]} -eq 0 ] || check_files --test-sets $files "$what" "${test_sets[@]}"
  check_files --vocabs $files "those of $what" "${vocabs[@]}"
  check_counts '--k, --seeds and --updates' "${k[@]}" "${seeds[@]}" "${updates[@]}"
  for mechanism in "${mechanisms[@]}"; do
    [[ " $rows " == *" $mechanism "* ]] || fail "--mechanisms: got '$mechanism'; expected some of $rows"
    for number in "${k[@]}"; do
      words=$("$fovea" spec "$(spec "$mechanism" "$number")" --length 1 2>&1 >/dev/null) ||
        fail "--k: $(sed -n '1s/^Error: //p' <<<"$words")"
    done
  done
}

takes_no_k() {
  [[ " $without_k " == *" $1 "* ]]
}

# spec MECHANISM K. A row NAME-train is the model of the row NAME.
spec() {
  case $1 in
  entmax) echo 'entmax(1.5)' ;;
  full | sparsemax | relu | rela-i | rela-g) echo "$1" ;;
  dilated) echo "dilated($2,2)" ;; # the rate that figure 3 draws; the tables do not give theirs
  *) echo "${1%-train}($2)" ;;
  esac
}

# attention MECHANISM K: options of fovea train, one per line. A pattern by position is used in self-attention only, because
# source and target positions cannot be compared; random keys and top-k are used in cross-attention too.
attention() {
  printf '%s\n' --attention "$(spec "$1" "$2")"
  case $task-$1 in
  translation-random | translation-topk*) ;;
  translation-*) takes_no_k "$1" || printf '%s\n' --attention-cross full ;;
  esac
}

# The folder of a model. A row NAME-train uses the model of NAME: --sparsify train changes only what follows training.
run_of() {
  if takes_no_k "$1"; then echo "$folder/$1-seed$3"; else echo "$folder/${1%-train}-k$2-seed$3"; fi
}

# name_of SET MECHANISM: the name of the row's results in the run's folder, without the ending.
name_of() {
  case $2 in *-train) echo "$1-all-keys" ;; *) echo "$1" ;; esac
}

bits_of() {
  "$fovea" score --model "$run/averaged" --train-sets "$1" "${@:2}" --quiet | sed -n 's/^bits-per-byte //p'
}

# sentences REFERENCE TEXT: the lines of a text without the lines that begin documents in the reference, all of them equal in
# both.
sentences() {
  zcat -f "$2" | awk 'NR == FNR { begins[FNR] = $0 == "" || $0 == "<d>"; next } !begins[FNR]' <(zcat -f "$1") -
}

# bertscore_of REFERENCE TRANSLATION: the mean F1 over sentences, and the encoder and its layer.
bertscore_of() {
  local texts=("$1" "$2")
  if [ ${#documents[@]} -gt 0 ]; then
    texts=("$run/sentences.reference" "$run/sentences.out")
    sentences "$1" "$1" >"${texts[0]}"
    sentences "$1" "$2" >"${texts[1]}"
  fi
  "$fovea" evaluate --metrics bertscore --bertscore-model "${bertscore[0]}" --bertscore-layer "${bertscore[1]:--1}" --quiet \
    --reference "${texts[0]}" --input "${texts[1]}" | sed -n 's/^F1 //p' | tr '\n' ' '
  echo "${bertscore[*]}"
}

# has_bertscore FILE: is it there, by this encoder?
has_bertscore() {
  [ -f "$1" ] && [ "$(cut -d ' ' -f 2- "$1")" = "${bertscore[*]}" ]
}

# score SET MECHANISM FILE...: BLEU or bits per byte of the run's model, and BERTScore if it is wanted. A row NAME-train selects in training only: here all
# of its keys count.
score() {
  local name dense=()
  name=$(name_of "$1" "$2")
  case $2 in *-train) dense=(--attention full) ;; esac
  if [ "$task" = translation ]; then
    score_bleu "$name" "$3" "$4" "${dense[@]}"
    [ ${#bertscore[@]} -eq 0 ] || has_bertscore "$run/$name.bertscore" ||
      keep "$run/$name.bertscore" bertscore_of "$4" "$run/$name.out"
  elif [ ! -f "$run/$name.bits" ]; then
    keep "$run/$name.bits" bits_of "$3" "${dense[@]}"
  fi
}

# make MECHANISM K SEED: trains, averages the last five checkpoints and scores, without what is done already.
make() {
  local words
  mapfile -t words < <(attention "${1%-train}" "$2")
  train_run -c "$config" --task "$task" --train-sets "${train_sets[@]}" --vocabs "${vocabs[@]}" "${documents[@]}" --seed "$3" \
    --after-batches "$updates" --after-epochs 0 "${words[@]}" "${options[@]}"
  [ ${#averages[@]} -eq 0 ] || choose_average "${averages[@]}" "${valid_sets[@]}"
  score valid "$1" "${valid_sets[@]}"
  [ ${#test_sets[@]} -eq 0 ] || score test "$1" "${test_sets[@]}"
}

# results SET MECHANISM K ENDING: a file for each seed.
results() {
  local seed
  for seed in "${seeds[@]}"; do echo "$(run_of "$2" "$3" "$seed")/$(name_of "$1" "$2").$4"; done
}

# cell SET MECHANISM K: mean and standard deviation over the seeds that are finished, or - without any.
cell() {
  local files
  mapfile -t files < <(results "$1" "$2" "$3" "$ending" | there)
  if [ ${#files[@]} -eq 0 ]; then printf -- -; else mean "${files[@]}"; fi
}

# columns MECHANISM: its k. The value of a mechanism without k stands once, in the first column.
columns() {
  if takes_no_k "$1"; then echo "${k[0]}"; else echo "${k[*]}"; fi
}

# average CELL...: the mean over k, or - if one of the cells is not finished.
average() {
  if [[ " $* " == *' - '* ]]; then echo -; else printf '%s\n' "$@" | mean - | cut -d ' ' -f 1; fi
}

# table SET: one row per mechanism, one column per k, and of several k their average.
table() {
  local mechanism number cells
  printf '%-10s' 'k ='
  printf ' %13s' "${k[@]}"
  [ ${#k[@]} -eq 1 ] || printf ' %13s' AVG
  for mechanism in "${mechanisms[@]}"; do
    cells=()
    for number in $(columns "$mechanism"); do cells+=("$(cell "$1" "$mechanism" "$number")"); done
    [ ${#cells[@]} -eq 1 ] || cells+=("$(average "${cells[@]}")")
    printf '\n%-10s' "$mechanism"
    printf ' %13s' "${cells[@]}"
  done
  printf '\n'
}

# tests SET TARGET: each cell against full attention with the same seed.
tests() {
  local mechanism number full out
  mapfile -t full < <(results "$1" full 0 out)
  paired_header "$2"
  for mechanism in "${mechanisms[@]}"; do
    [ "$mechanism" != full ] || continue
    for number in $(columns "$mechanism"); do
      mapfile -t out < <(results "$1" "$mechanism" "$number" out)
      if takes_no_k "$mechanism"; then printf '%-16s' "$mechanism"; else printf '%-16s' "$mechanism k=$number"; fi
      against_full "$2" "${full[@]}" -- "${out[@]}"
    done
  done
}

# Validation of topk from the smallest k to full attention.
curve() {
  local number
  for number in $(printf '%s\n' "${k[@]}" | sort -n); do printf 'topk(%s) %s\n' "$number" "$(cell valid topk "$number")"; done
  [[ " ${mechanisms[*]} " != *' full '* ]] || printf 'full %s\n' "$(cell valid full 0)"
}

# report SET TARGET: the tables of a set and, if there are translations and full attention, the tests.
report() {
  printf '%s on %s after %s updates%s\n\n' "$measure" "$2" "$updates" "$spread"
  table "$1"
  if [ ${#bertscore[@]} -gt 0 ]; then
    local ending=bertscore digits=4
    printf '\nBERTScore, F1\n\n'
    table "$1"
  fi
  if [ "$task" = translation ] && [[ " ${mechanisms[*]} " == *' full '* ]] && [ ${#mechanisms[@]} -gt 1 ]; then tests "$1" "$2"; fi
}

read_options task documents! finished! k mechanisms seeds updates averages config tokenize bertscore output train-sets valid-sets test-sets vocabs -- "$@"
folder=$output measure=BLEU ending=bleu
[ ${#documents[@]} -eq 0 ] || measure=d-BLEU
check
if [ "$task" = language ]; then measure='Bits per byte' ending=bits digits=3; fi
if [ -z "$config" ]; then
  case $task-${#documents[@]} in
  translation-0) config=$recipes/multi30k-tiny.yml ;;
  translation-1) config=$recipes/ted-en-de-oow.yml ;;
  *) config=$recipes/demo-language.yml ;;
  esac
fi
[ ${#documents[@]} -eq 0 ] || decoding+=(--document-length "$(setting document-length "$config")")
check_settings "${train_sets[@]}" "${valid_sets[@]}" "${test_sets[@]}" "${vocabs[@]}" "$updates" "$tokenize" "${documents[@]}" \
  "${options[@]}" "${averages[@]/#/average }" "$(cat "$config")"
[ ${#averages[@]} -eq 0 ] || average=no # choose_average makes it
stop_cleanly

# A whole column of the table comes before the next one, and a whole table before the next seed.
runs=()
for seed in "${seeds[@]}"; do
  for number in "${k[@]}"; do
    for mechanism in "${mechanisms[@]}"; do
      [[ " $(columns "$mechanism") " != *" $number "* ]] || runs+=("$mechanism $number $seed")
    done
  done
done
[ ${#finished[@]} -eq 0 ] || runs=()
for i in "${!runs[@]}"; do
  read -r mechanism number seed <<<"${runs[i]}"
  run=$(run_of "$mechanism" "$number" "$seed")
  say "model $((i + 1)) of ${#runs[@]}: $(basename "$run")"
  make "$mechanism" "$number" "$seed"
  say "$(basename "$run"): validation $measure $(cat "$run/$(name_of valid "$mechanism").$ending")"
done

spread=$(means_of_seeds)
if [ ${#test_sets[@]} -gt 0 ]; then report test "${test_sets[-1]}" && echo; fi
report valid "${valid_sets[-1]}"
if [[ " ${mechanisms[*]} " == *' topk '* ]]; then
  printf '\nThe same of topk by k\n\n'
  curve | awk '{ name = $1; $1 = ""; printf "%-9s%s\n", name, $0 }'
fi

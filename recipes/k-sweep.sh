#!/usr/bin/env bash
# Trains one translation model for each mechanism, k and seed, and prints BLEU as a table: rows are mechanisms, columns are
# k. This is the form of table 1 of "Extremely Sparse Transformer"; a second table has validation BLEU of topk over k, like
# figure 3 of "Explicit Sparse Transformer". recipes/k-sweep.sh --help lists the options.
#
# Everything lies in the folder --output. A finished run is not trained again, and Ctrl-C stops in a way that the same
# command continues; other settings need another folder.
set -euo pipefail
recipes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes/../build/release/bin/fovea}
. "$recipes/demo-common.sh"

usage() {
  cat <<TEXT
Usage: recipes/k-sweep.sh --train-sets SRC TRG --valid-sets SRC TRG [--test-sets SRC TRG] --vocabs SRC TRG [options]
  --k K ...            keys that a query may attend [16 8 4 2]
  --mechanisms M ...   rows of the table [full block window dilated global random topk]
  --seeds N ...        one model per seed; the table has their mean and standard deviation [1]
  --updates N          updates of each model [4000]
  --config FILE        model and training [recipes/multi30k-tiny.yml]
  --options OPTION ... more options of fovea train, e.g. --options --precision bfloat16; the last option of the command
  --tokenize NAME      tokens of BLEU, as for fovea evaluate [13a]
  --output DIR         folder of all runs [build/k-sweep]
Example, on Multi30k (tokenised and lower-cased, so BLEU takes its words as they are):
  recipes/k-sweep.sh --train-sets train.en train.de --valid-sets val.en val.de --test-sets test.en test.de \\
      --vocabs joint.spm joint.spm --k 8 2 --updates 700 --tokenize none
TEXT
}

fail() {
  printf 'Error: %s\n' "$*" >&2
  exit 2
}

train_sets=() valid_sets=() test_sets=() vocabs=() options=() ks=(16 8 4 2) seeds=(1)
mechanisms=(full block window dilated global random topk)
updates=4000 config=$recipes/multi30k-tiny.yml tokenize=13a folder=build/k-sweep

parse() {
  local name values
  while [ $# -gt 0 ]; do
    name=$1 values=()
    shift
    case $name in
    -h | --help) usage && exit ;;
    --options) options=("$@") && return ;;
    --*) ;;
    *) fail "got '$name'; expected an option, see recipes/k-sweep.sh --help" ;;
    esac
    while [ $# -gt 0 ] && [[ $1 != -* ]]; do values+=("$1") && shift; done
    [ ${#values[@]} -gt 0 ] || fail "$name: got no value"
    case $name in
    --train-sets) train_sets=("${values[@]}") ;;
    --valid-sets) valid_sets=("${values[@]}") ;;
    --test-sets) test_sets=("${values[@]}") ;;
    --vocabs) vocabs=("${values[@]}") ;;
    --k) ks=("${values[@]}") ;;
    --seeds) seeds=("${values[@]}") ;;
    --mechanisms) mechanisms=("${values[@]}") ;;
    --updates) updates=${values[*]} ;;
    --config) config=${values[*]} ;;
    --tokenize) tokenize=${values[*]} ;;
    --output) folder=${values[*]} ;;
    *) fail "unknown option '$name'; see recipes/k-sweep.sh --help" ;;
    esac
  done
}

check() {
  [ -x "$fovea" ] || fail "cannot run '$fovea'; build it with ./fovea.sh build, or name it with FOVEA"
  [ ${#train_sets[@]} -eq 2 ] || fail "--train-sets: got ${#train_sets[@]} files; expected source and target"
  [ ${#valid_sets[@]} -eq 2 ] || fail "--valid-sets: got ${#valid_sets[@]} files; expected source and target"
  [ ${#vocabs[@]} -eq 2 ] || fail "--vocabs: got ${#vocabs[@]} files; expected those of source and target"
  case ${#test_sets[@]} in 0 | 2) ;; *) fail "--test-sets: got ${#test_sets[@]} files; expected source and target" ;; esac
  local number mechanism
  for number in "${ks[@]}" "${seeds[@]}" "$updates"; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || fail "--k, --seeds and --updates: got '$number'; expected a whole number of at least 1"
  done
  for mechanism in "${mechanisms[@]}"; do attention "$mechanism" 1 >/dev/null; done
}

# attention MECHANISM K: options of fovea train, one per line. A pattern by position is used in self-attention only, because
# source and target positions cannot be compared; random keys and top-k are used in cross-attention too.
attention() {
  case $1 in
  full) printf '%s\n' --attention full ;;
  block | window | global) printf '%s\n' --attention "$1($2)" --attention-cross full ;;
  dilated) printf '%s\n' --attention "dilated($2,2)" --attention-cross full ;; # the paper does not give the rate
  random | topk) printf '%s\n' --attention "$1($2)" ;;
  *) fail "--mechanisms: got '$1'; expected some of full block window dilated global random topk" ;;
  esac
}

# The folder of a model; full attention has no k.
run_of() {
  if [ "$1" = full ]; then echo "$folder/full-seed$3"; else echo "$folder/$1-k$2-seed$3"; fi
}

# The runs of one folder belong together: they have the same data, updates and options.
check_settings() {
  local settings
  settings=$(printf '%s\n' "${train_sets[@]}" "${valid_sets[@]}" "${test_sets[@]}" "${vocabs[@]}" "$updates" "$tokenize" \
    "${options[@]}" && cat "$config")
  mkdir -p "$folder"
  if [ -f "$folder/settings" ] && [ "$(cat "$folder/settings")" != "$settings" ]; then
    fail "--output: '$folder' holds runs with other files or options; name another folder, or remove this one"
  fi
  printf '%s\n' "$settings" >"$folder/settings"
}

# score SET SOURCE TARGET: BLEU of the run's model, kept in $run/SET.bleu.
score() {
  "$fovea" translate --model "$run/averaged" --beam-size 5 --normalize 1 --quiet --input "$2" --output "$run/$1.out"
  "$fovea" evaluate --reference "$3" --input "$run/$1.out" --tokenize "$tokenize" --score-only >"$run/$1.bleu.part"
  mv "$run/$1.bleu.part" "$run/$1.bleu"
}

# make MECHANISM K SEED: trains, averages the last five checkpoints and scores, without what is done already.
make() {
  local spec
  mapfile -t spec < <(attention "$1" "$2")
  mkdir -p "$run"
  if [ ! -f "$run/done" ]; then
    "$fovea" train -c "$config" --model "$run" --train-sets "${train_sets[@]}" --vocabs "${vocabs[@]}" --seed "$3" \
      --after-batches "$updates" --after-epochs 0 "${spec[@]}" "${options[@]}"
    finish_run
  fi
  [ -f "$run/valid.bleu" ] || score valid "${valid_sets[@]}"
  [ ${#test_sets[@]} -eq 0 ] || [ -f "$run/test.bleu" ] || score test "${test_sets[@]}"
}

# cell SET MECHANISM K: mean and standard deviation over the seeds.
cell() {
  local seed files=()
  for seed in "${seeds[@]}"; do files+=("$(run_of "$2" "$3" "$seed")/$1.bleu"); done
  awk '{ sum += $1; squares += $1 * $1 }
    END {
      mean = sum / NR
      if (NR == 1) printf "%.2f", mean
      else { v = (squares - NR * mean * mean) / (NR - 1); printf "%.2f (%.2f)", mean, sqrt(v > 0 ? v : 0) }
    }' "${files[@]}"
}

# table SET: one row per mechanism, one column per k. The value of full attention stands once, in the first column.
table() {
  local mechanism k
  printf '%-9s' 'k ='
  for k in "${ks[@]}"; do printf ' %13s' "$k"; done
  for mechanism in "${mechanisms[@]}"; do
    printf '\n%-9s' "$mechanism"
    for k in "${ks[@]}"; do
      printf ' %13s' "$(cell "$1" "$mechanism" "$k")"
      [ "$mechanism" != full ] || break
    done
  done
  printf '\n'
}

# Validation BLEU of topk from the smallest k to full attention.
curve() {
  local k
  for k in $(printf '%s\n' "${ks[@]}" | sort -n); do printf 'topk(%s) %s\n' "$k" "$(cell valid topk "$k")"; done
  [[ " ${mechanisms[*]} " != *' full '* ]] || printf 'full %s\n' "$(cell valid full 0)"
}

parse "$@"
check
check_settings
trap 'say "stopped; run the same command again to continue"; exit 130' INT

runs=()
for mechanism in "${mechanisms[@]}"; do
  for k in "${ks[@]}"; do
    for seed in "${seeds[@]}"; do runs+=("$mechanism $k $seed"); done
    [ "$mechanism" != full ] || break
  done
done
for number in "${!runs[@]}"; do
  read -r mechanism k seed <<<"${runs[number]}"
  run=$(run_of "$mechanism" "$k" "$seed")
  say "model $((number + 1)) of ${#runs[@]}: $(basename "$run")"
  make "$mechanism" "$k" "$seed"
  say "$(basename "$run"): validation BLEU $(cat "$run/valid.bleu")"
done

spread=
[ ${#seeds[@]} -eq 1 ] || spread=": mean and (standard deviation) of ${#seeds[@]} seeds"
if [ ${#test_sets[@]} -eq 2 ]; then
  printf 'BLEU on %s after %s updates%s\n\n' "${test_sets[1]}" "$updates" "$spread"
  table test
  echo
fi
printf 'BLEU on %s after %s updates%s\n\n' "${valid_sets[1]}" "$updates" "$spread"
table valid
if [[ " ${mechanisms[*]} " == *' topk '* ]]; then
  printf '\nThe same of topk by k\n\n'
  curve | awk '{ printf "%-9s %s\n", $1, $2 }'
fi

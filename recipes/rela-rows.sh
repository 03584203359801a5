#!/usr/bin/env bash
# Trains one translation model for each row of table 1 of "Sparse Attention with Linear Units" (Zhang, Titov, Sennrich 2021)
# and each seed, and prints BLEU and the paired test against full attention. Table 3 has four of the rows, the default, on
# other pairs of languages: run the script with their files. recipes/rela-rows.sh --help lists the options.
#
# Everything lies in the folder --output. A finished run is not trained again, and Ctrl-C stops in a way that the same
# command continues; other settings need another folder.
#
# Published sacreBLEU of table 3:  full  sparsemax  entmax  rela-g
#   WMT14 English-French           37.2     37.3     37.9    37.9
#   WMT18 English-Finnish          15.5     15.1     15.5    15.4
#   WMT18 Chinese-English          21.1     19.2     20.8    20.8
#   WMT16 Romanian-English         32.7     33.5     33.2    32.9
# wmt14-en-de-rela.yml, the model and training of all pairs, has the figures of table 1.
set -euo pipefail
recipes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes/../build/release/bin/fovea}
. "$recipes/demo-common.sh"
. "$recipes/sweep-common.sh"
readonly all_rows='full sparsemax entmax relu rmsnorm rela-i rela-g layernorm gelu leaky encoder decoder cross'

usage() {
  cat <<TEXT
Usage: recipes/rela-rows.sh --train-sets SRC TRG --test-sets SRC TRG [options]
  --vocabs SRC TRG     vocabularies [learned here: BPE of each side]
  --dim-vocabs N       their pieces [32000]
  --rows ROW ...       some of $all_rows [full sparsemax entmax rela-g]
  --seeds N ...        one model per seed; the table has their mean and standard deviation [1]
  --updates N          updates of each model [300000]
  --options OPTION ... more options of fovea train, e.g. --options --precision bfloat16; the last option of the command
  --tokenize NAME      tokens of BLEU, as for fovea evaluate [13a]
  --output DIR         folder of the vocabularies and of all runs [build/rela-rows]
Example: the whole of table 1, on WMT14 English-German:
  recipes/rela-rows.sh --train-sets train.en train.de --test-sets newstest2014.en newstest2014.de \\
      --rows $all_rows
TEXT
}

train_sets=() test_sets=() vocabs=() dim_vocabs=32000 options=() seeds=(1) rows=(full sparsemax entmax rela-g)
updates=300000 output=build/rela-rows
decoding=(-c "$recipes/wmt14-en-de-rela.translate.yml")

# attention ROW: options of fovea train, one per line.
attention() {
  case $1 in
  full | sparsemax | relu | rela-i | rela-g) printf '%s\n' --attention "$1" ;;
  entmax) printf '%s\n' --attention 'entmax(1.5)' ;;
  rmsnorm) printf '%s\n' --attention relu+rmsnorm ;;
  layernorm) printf '%s\n' --attention relu+gated-layernorm ;;
  gelu) printf '%s\n' --attention gelu+gated-rmsnorm ;;
  leaky) printf '%s\n' --attention 'leaky-relu(0.01)+gated-rmsnorm' ;; # the paper does not give the slope
  encoder | decoder | cross) printf '%s\n' --attention full "--attention-$1" rela-g ;;
  *) return 1 ;;
  esac
}

check() {
  check_program
  check_files --train-sets 2 'source and target' "${train_sets[@]}"
  check_files --test-sets 2 'source and target' "${test_sets[@]}"
  [ ${#vocabs[@]} -eq 0 ] || check_files --vocabs 2 'those of source and target' "${vocabs[@]}"
  check_counts '--seeds, --updates and --dim-vocabs' "${seeds[@]}" "${updates[@]}" "${dim_vocabs[@]}"
  local row
  for row in "${rows[@]}"; do
    attention "$row" >/dev/null || fail "--rows: got '$row'; expected some of $all_rows"
  done
}

learn_vocabs() {
  local i
  [ ${#vocabs[@]} -eq 0 ] || return 0
  vocabs=("$folder/source.spm" "$folder/target.spm")
  for i in 0 1; do
    [ -f "${vocabs[i]}" ] ||
      "$fovea" vocab --type bpe --dim-vocabs "$dim_vocabs" --train-sets "${train_sets[i]}" --output "${vocabs[i]}" --quiet
  done
}

# Whether the cross-attention of ROW has null rows.
has_null_rows() {
  case $1 in rmsnorm | rela-i | rela-g | layernorm | cross) true ;; *) false ;; esac
}

# results ROW ENDING: a file for each seed.
results() {
  local seed
  for seed in "${seeds[@]}"; do echo "$folder/$1-seed$seed/test.$2"; done
}

read_options rows seeds updates tokenize output dim-vocabs train-sets test-sets vocabs -- "$@"
folder=$output
check
check_settings "${train_sets[@]}" "${test_sets[@]}" "${vocabs[@]}" "$dim_vocabs" "$updates" "$tokenize" "${options[@]}"
stop_cleanly
learn_vocabs
for row in "${rows[@]}"; do
  for seed in "${seeds[@]}"; do
    run=$folder/$row-seed$seed
    say "$(basename "$run")"
    mapfile -t words < <(attention "$row")
    train_run -c "$recipes/wmt14-en-de-rela.yml" --train-sets "${train_sets[@]}" --vocabs "${vocabs[@]}" --seed "$seed" \
      --after-batches "$updates" "${words[@]}" "${options[@]}"
    score_bleu test "${test_sets[@]}"
    if has_null_rows "$row" && [ ! -f "$run/test.shuffled" ]; then
      keep "$run/test.shuffled" "$fovea" filter --model "$run/averaged" --train-sets "${test_sets[@]}" \
        --score null-rate --test shuffled --quiet
    fi
  done
done

printf 'BLEU on %s after %s updates\n\n' "${test_sets[1]}" "$updates"
for row in "${rows[@]}"; do
  mapfile -t files < <(results "$row" bleu)
  printf '%-10s %s\n' "$row" "$(mean "${files[@]}")"
done
if [[ " ${rows[*]} " == *' full '* ]] && [ ${#rows[@]} -gt 1 ]; then
  paired_header "${test_sets[1]}"
  mapfile -t full < <(results full out)
  for row in "${rows[@]}"; do
    [ "$row" != full ] || continue
    mapfile -t files < <(results "$row" out)
    printf '%-16s' "$row"
    against_full "${test_sets[1]}" "${full[@]}" -- "${files[@]}"
  done
fi
for row in "${rows[@]}"; do
  has_null_rows "$row" || continue
  printf '\nFigure 6: null rates of the pairs in %s and of shuffled pairs, %s, seed %s\n' "${test_sets[1]}" "$row" "${seeds[0]}"
  sed -n '1p; /^null-rate by layer/,$p' "$folder/$row-seed${seeds[0]}/test.shuffled"
done

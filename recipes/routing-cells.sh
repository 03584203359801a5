#!/usr/bin/env bash
# The cells of table 1 of the Routing Transformer (Roy, Saffar, Vaswani, Grangier 2021): one image model for each number of
# routed layers, number of routed heads and window, and the rows full, local and random. Prints bits per dim and updates per
# second. With --recipes, whole recipes take the place of the cells: table 7 compares the speed of pg19-local.yml and
# pg19-routing.yml. recipes/routing-cells.sh --help lists the options; cifar10-routing.yml has the settings and the figures.
#
# Everything lies in the folder --output. A finished run is not trained again, and Ctrl-C stops in a way that the same
# command continues; other settings need another folder. Speeds are those of training alone. Close other programs first:
# on busy cores, a speed says little.
#
# Published updates per second, on other hardware, for 2, 4 and 8 routed heads; full 5.608, local 9.023, random 5.448:
#             window 512              window 1024
#    2 layers 7.968  7.409  6.682     7.344  6.440  5.192
#    4 layers 7.379  6.492  5.385     6.389  5.112  3.674
#    8 layers 6.442  5.140  3.897     5.057  3.597  2.329
#   12 layers 5.685  4.349  3.062     4.151  2.788  1.711
set -euo pipefail
recipes_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes_folder/../build/release/bin/fovea}
. "$recipes_folder/demo-common.sh"
. "$recipes_folder/sweep-common.sh"

usage() {
  cat <<TEXT
Usage: recipes/routing-cells.sh --train-sets FILE... --valid-sets FILE... [options]
  --layers N ...       routed layers, the last ones of the model [2 4 8 12]
  --heads N ...        routed heads of such a layer; its other heads are local [2 4 8]
  --windows N ...      tokens of a cluster [512 1024]
  --clusters N         clusters of a head [6]
  --baselines B ...    more rows, some of full local random [full local random]
  --config FILE        model and training [recipes/cifar10-routing.yml]
  --recipes FILE ...   train these recipes instead
  --seeds N ...        one model per seed; the tables have their mean and standard deviation [1]
  --updates N          updates of each model [200000]
  --options OPTION ... more options of fovea train, e.g. --options --precision bfloat16; the last option of the command
  --output DIR         folder of all runs [build/routing-cells]
Examples: CIFAR-10; the step times of PG-19:
  recipes/routing-cells.sh --train-sets data_batch_*.bin --valid-sets test_batch.bin
  recipes/routing-cells.sh --recipes recipes/pg19-local.yml recipes/pg19-routing.yml --updates 50 \\
      --train-sets train.txt --valid-sets valid.txt --output build/pg19-speed --options --vocabs pg19.spm
TEXT
}

train_sets=() valid_sets=() options=() layers=(2 4 8 12) heads=(2 4 8) windows=(512 1024) clusters=6
baselines=(full local random) recipes=() seeds=(1) updates=200000 config=$recipes_folder/cifar10-routing.yml
output=build/routing-cells average=no digits=3

check() {
  check_program
  [ ${#train_sets[@]} -gt 0 ] || fail "--train-sets: got 0 files; expected at least 1"
  [ ${#valid_sets[@]} -gt 0 ] || fail "--valid-sets: got 0 files; expected at least 1"
  check_counts '--layers, --heads, --windows, --clusters, --seeds and --updates' "${layers[@]}" "${heads[@]}" "${windows[@]}" \
    "${clusters[@]}" "${seeds[@]}" "${updates[@]}"
  local baseline number
  for baseline in "${baselines[@]}"; do
    [[ ' full local random ' == *" $baseline "* ]] || fail "--baselines: got '$baseline'; expected some of full local random"
  done
  [ ${#recipes[@]} -eq 0 ] || return 0
  depth=$(setting dec-depth "$config") all_heads=$(setting transformer-heads "$config")
  for number in "${layers[@]}"; do [ "$number" -le "$depth" ] || fail "--layers: got $number; the model has $depth layers"; done
  for number in "${heads[@]}"; do [ "$number" -le "$all_heads" ] || fail "--heads: got $number; a layer has $all_heads"; done
}

# routed LAYERS HEADS SPEC: options of fovea train, one per line: local attention, and routed heads in the last layers.
routed() {
  local groups="$2*$3"
  if [ "$2" -lt "$all_heads" ]; then groups="$((all_heads - $2))*blocks(256,1);$groups"; else groups=$3; fi
  printf '%s\n' --attention 'blocks(256,1)' --attention-layers "decoder.$((depth - $1 + 1))-$depth=$groups"
}

# attention NAME: options for a row full, local or random, or for a cell LAYERSxHEADSwWINDOW. The random row has half of the
# heads routed, in two thirds of the layers, and the first window.
attention() {
  local cell
  case $1 in
  full) printf '%s\n' --attention full --attention-layers "decoder.1-$depth=full" ;;
  local) routed "$depth" "$all_heads" 'blocks(256,1)' ;;
  random) routed $(((2 * depth + 2) / 3)) $(((all_heads + 1) / 2)) "routed($clusters,${windows[0]},random)" ;;
  *)
    IFS=xw read -ra cell <<<"$1"
    routed "${cell[0]}" "${cell[1]}" "routed($clusters,${cell[2]})"
    ;;
  esac
}

# The names of all models.
names() {
  local window layer head
  if [ ${#recipes[@]} -gt 0 ]; then
    printf '%s\n' "${recipes[@]}" | sed 's/.*\///; s/\.yml$//'
    return
  fi
  for window in "${windows[@]}"; do
    for layer in "${layers[@]}"; do
      for head in "${heads[@]}"; do echo "${layer}x${head}w$window"; done
    done
  done
  [ ${#baselines[@]} -eq 0 ] || printf '%s\n' "${baselines[@]}"
}

# measure_of FILE...: the recipe's first measure of these data, by the last checkpoint.
measure_of() {
  "$fovea" score --model "$run/last" --train-sets "$@" --quiet | sed -n "s/^$measure //p"
}

# Updates per second of the run's training, by its record.
speed() {
  sed -n 's/.*"updates":\([0-9]*\).*"elapsed":\([0-9.e+-]*\).*/\1 \2/p' "$run/log.jsonl" |
    awk '{ updates = $1; seconds = $2 } END { print updates / (seconds > 0 ? seconds : 1e-9) }'
}

# make FILE SEED OPTION...: trains by the recipe in FILE, and measures.
make() {
  train_run -c "$1" --train-sets "${train_sets[@]}" --seed "$2" --after-batches "$updates" --after-epochs 0 --early-stopping 0 \
    "${@:3}" "${options[@]}"
  [ -f "$run/speed" ] || keep "$run/speed" speed
  [ -f "$run/measure" ] || keep "$run/measure" measure_of "${valid_sets[@]}"
}

# cell KIND NAME: mean and standard deviation over the seeds of `measure` or `speed`.
cell() {
  local seed files=()
  for seed in "${seeds[@]}"; do files+=("$folder/$2-seed$seed/$1"); done
  mean "${files[@]}"
}

# tables KIND TITLE: a table per window, rows by layers and columns by heads.
tables() {
  local window layer head
  for window in "${windows[@]}"; do
    printf '\n%s, window %s\n\n%-10s' "$2" "$window" 'heads ='
    printf ' %15s' "${heads[@]}"
    for layer in "${layers[@]}"; do
      printf '\n%-10s' "$layer layers"
      for head in "${heads[@]}"; do printf ' %15s' "$(cell "$1" "${layer}x${head}w$window")"; done
    done
    printf '\n'
  done
}

# rows NAME...: a line for each model, with its measure and its speed.
rows() {
  local name
  printf '\n%-20s %20s %20s\n' '' "$measure" 'updates per second'
  for name in "$@"; do printf '%-20s %20s %20s\n' "$name" "$(cell measure "$name")" "$(cell speed "$name")"; done
}

read_options layers heads windows clusters baselines config recipes seeds updates output train-sets valid-sets -- "$@"
folder=$output files=("$config")
[ ${#recipes[@]} -eq 0 ] || files=("${recipes[@]}")
check
check_settings "${train_sets[@]}" "${valid_sets[@]}" "$updates" "$clusters" "${windows[0]}" "${options[@]}" "$(cat "${files[@]}")"
measure=$(setting valid-metrics "${files[0]}")
stop_cleanly
mapfile -t all < <(names)
for i in "${!all[@]}"; do
  for seed in "${seeds[@]}"; do
    run=$folder/${all[i]}-seed$seed words=()
    say "model $((i + 1)) of ${#all[@]}: $(basename "$run")"
    [ ${#recipes[@]} -gt 0 ] || mapfile -t words < <(attention "${all[i]}")
    make "${files[${#recipes[@]} > 0 ? i : 0]}" "$seed" "${words[@]}"
  done
done

printf 'After %s updates\n' "$updates"
if [ ${#recipes[@]} -gt 0 ]; then
  rows "${all[@]}"
else
  tables measure "$measure"
  tables speed 'Updates per second'
  rows "${baselines[@]}"
fi

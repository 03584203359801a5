#!/usr/bin/env bash
# Compares mechanisms of recent years, and of the five papers, on texts that are longer than those of training: a language model
# of bytes trained at 1,024 and scored at 1,024, 4,096 and 8,192, and associative recall trained at up to 256 and asked at up to
# 8,192. Prints two tables. recipes/length-rows.sh --help lists the options.
#
# Everything lies in the folder --output. A finished run is not trained again, and Ctrl-C stops in a way that the same command
# continues; other settings need another folder.
#
# The rows were chosen before any of them was trained: full, and the same with a sink (gpt-oss), with a gate (Qiu et al. 2025);
# topk(32); blocks of keys (MoBA); entmax(1.5) with ASEntmax's factor; the best 8 of a window; ReLA.
# - The language model has the positions alibi, because rotary ones fail beyond the lengths of training, whatever the mechanism.
#   Bits at length N are those of pieces of N bytes, of which the first half was scored before (fovea score --context N/2
#   --stride N/2).
# - recipes/recall.py describes associative recall, recipes/recall.yml the model, whose positions stop counting at 16.
# - Time and memory are those of a few updates, each with as many bytes as in training, in segments of each length: the median
#   of the updates of a round, and the peak of the process. The mechanisms take turns, after all trainings. Fair only if nothing
#   else runs; remove the folder OUTPUT/timing to measure again.
set -euo pipefail
recipes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes/../build/release/bin/fovea}
export FOVEA=$fovea
. "$recipes/demo-common.sh"
. "$recipes/sweep-common.sh"

usage() {
  cat <<TEXT
Usage: recipes/length-rows.sh [--text TRAIN VALID TEST] [--recall] [options]
  --text TRAIN VALID TEST  three text files: language models of their bytes (recipes/english-bytes.yml)
  --recall             associative recall; one of the two is needed
  --rows SPEC ...      mechanisms [full sink gate topk(32) blocktopk(32,4) entmax(1.5)+scaled window(128)+topk(8) rela-g]
  --seeds N ...        one model per seed and mechanism [1 2 3]
  --lengths N ...      what the language models are scored at, and the segments of updates whose time and memory are
                       measured [1024 4096 8192]
  --rounds N           of these measurements [3]
  --recall-lengths N ...  what recall is asked at [256 512 1024 2048 4096 8192]
  --made N             documents to train recall on [40000]
  --asked N            documents of each length of recall [100]
  --updates N          of each model [those of the recipes: 2000, and 3000 of recall]
  --options OPTION ... more options of fovea train, e.g. --options --cpu-threads 1; the last option of the command
  --output DIR         folder of all runs [build/length-rows]
  --finished           train nothing, and print the tables of the runs that are finished, with - for the others
TEXT
}

text=() recall=() rows=(full sink gate 'topk(32)' 'blocktopk(32,4)' 'entmax(1.5)+scaled' 'window(128)+topk(8)' rela-g)
seeds=(1 2 3) lengths=(1024 4096 8192) recall_lengths=(256 512 1024 2048 4096 8192) made=40000 asked=100 updates= options=()
output=build/length-rows rounds=3 finished=() average=no digits=3

check() {
  check_program
  local row words
  [ $((${#text[@]} + ${#recall[@]})) -gt 0 ] || fail "--text and --recall: got neither; expected one of them, or both"
  [ ${#text[@]} -eq 0 ] || check_files --text 3 'three files, for training, validation and test' "${text[@]}"
  for row in "${text[@]}"; do [ -f "$row" ] || fail "--text: cannot read '$row'; expected a file"; done
  check_counts '--seeds, --lengths, --recall-lengths, --made, --asked, --updates and --rounds' "${seeds[@]}" "${lengths[@]}" \
    "${recall_lengths[@]}" "$made" "$asked" "${updates:-1}" "$rounds"
  for row in "${rows[@]}"; do
    words=$("$fovea" spec "$row" --length 1 --causal 2>&1 >/dev/null) || fail "--rows: $(sed -n '1s/^Error: //p' <<<"$words")"
  done
}

# place KIND ROW SEED: the folder of a run.
place() { echo "$folder/$1/$(tr -s '(),.+' '-' <<<"$2" | sed 's/-$//')-seed$3"; }

# bits LENGTH
bits() {
  "$fovea" score --model "$run" --train-sets "${text[2]}" --context $(($1 / 2)) --stride $(($1 - $1 / 2)) --quiet |
    sed -n 's/^bits-per-byte //p'
}

# peak COMMAND...: runs it, and prints the most memory that it held at a time, in MiB.
peak() {
  python3 -c 'import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
sys.exit(code)' "$@"
}

# milliseconds: the median of the updates in the log; the first two find memory and code that is not there yet.
milliseconds() {
  sed -n 's/.*"event":"train".*"seconds":\([^,]*\),.*/\1/p' "$run/log.jsonl" | sed 1,2d | sort -g |
    awk '{ seconds[NR] = $1 } END { printf "%.1f\n", 500 * (seconds[int((NR + 1) / 2)] + seconds[int(NR / 2) + 1]) }'
}

# time_updates SPEC SEED: the time and the memory of five updates without validation, for each length.
time_updates() {
  local length bytes
  bytes=$(($(setting mini-batch "$recipes/english-bytes.yml") * $(setting segment-length "$recipes/english-bytes.yml")))
  for length in "${lengths[@]}"; do
    [ ! -f "$run/$length.ms" ] || continue
    mkdir -p "$run"
    keep "$run/$length.MiB" peak "$fovea" train --model "$run/timed" --overwrite -c "$recipes/english-bytes.yml" \
      --transformer-positions alibi --train-sets "${text[0]}" --attention "$1" --seed "$2" "${options[@]}" \
      --segment-length "$length" --mini-batch $((bytes > length ? bytes / length : 1)) --after-batches 5 --disp-freq 1 --quiet
    cp "$run/timed/"{train.yml,log.jsonl} "$run"
    keep "$run/$length.ms" milliseconds
    rm -rf "$run/timed"
  done
}

make_text() {
  local length
  train_run -c "$recipes/english-bytes.yml" --transformer-positions alibi --train-sets "${text[0]}" --valid-sets "${text[1]}" \
    --attention "$1" --seed "$2" ${updates:+--after-batches "$updates"} "${options[@]}"
  for length in "${lengths[@]}"; do
    [ -f "$run/$length.bits" ] || keep "$run/$length.bits" bits "$length"
  done
}

# recall_text FILE OPTION...: made once.
recall_text() { [ -f "$folder/recall/$1" ] || "$recipes/recall.py" make --output "$folder/recall/$1" "${@:2}"; }

make_recall() {
  local length queries
  train_run -c "$recipes/recall.yml" --train-sets "$folder/recall/train.txt" --valid-sets "$folder/recall/valid.txt" \
    --vocabs "$folder/recall/words.spm" --attention "$1" --seed "$2" ${updates:+--after-batches "$updates"} "${options[@]}"
  for length in "${recall_lengths[@]}"; do
    for queries in 1 4; do
      [ -f "$run/$length-$queries.answers" ] ||
        keep "$run/$length-$queries.answers" "$recipes/recall.py" answers --model "$run" --train-sets "$folder/recall/$length-$queries.txt"
    done
  done
}

recall_texts() {
  local length queries
  mkdir -p "$folder/recall"
  recall_text train.txt --length 254 --least-length 32 --documents "$made" --queries 4-8 --seed 1
  [ -f "$folder/recall/words.spm" ] ||
    "$fovea" vocab --type word --train-sets "$folder/recall/train.txt" --output "$folder/recall/words.spm" --quiet
  recall_text valid.txt --length 254 --least-length 32 --documents 500 --queries 4-8 --seed 2
  for length in "${recall_lengths[@]}"; do
    for queries in 1 4; do recall_text "$length-$queries.txt" --length "$length" --documents "$asked" --queries "$queries" --seed 3; done
  done
}

# cell KIND ROW FILE NAME: the mean over the seeds that are finished of a number in FILE (after NAME, if any), or -.
cell() {
  local seed paths=()
  for seed in "${seeds[@]}"; do paths+=("$(place "$1" "$2" "$seed")/$3"); done
  mapfile -t paths < <(printf '%s\n' "${paths[@]}" | there)
  if [ ${#paths[@]} -eq 0 ]; then
    echo -
  else
    sed -n "s/^$4//p" "${paths[@]}" | mean
  fi
}

table() {
  local row column
  printf '\n%s\n\n%-22s' "$1" ''
  printf ' %15s' "${columns[@]}"
  for row in "${rows[@]}"; do
    printf '\n%-22s' "$row"
    for column in "${columns[@]}"; do printf ' %15s' "$("$2" "$row" "$column")"; done
  done
  echo
}
text_cell() { cell text "$1" "$2.bits" ''; }
time_cell() { digits=0 cell timing "$1" "$2.$unit" ''; }
recall_cell() { cell recall "$1" "$2-$queries.answers" 'answered '; }

read_options recall! finished! text rows seeds lengths recall-lengths made asked updates rounds output -- "$@"
folder=$output
check
check_settings "${text[@]:--}" "$made" "$asked" "${updates:--}" "${options[@]}"
stop_cleanly
if [ ${#finished[@]} -eq 0 ]; then
  [ ${#recall[@]} -eq 0 ] || recall_texts
  for seed in "${seeds[@]}"; do
    for row in "${rows[@]}"; do
      for kind in ${text:+text} ${recall:+recall}; do
        run=$(place "$kind" "$row" "$seed")
        say "$kind: $row, seed $seed"
        "make_$kind" "$row" "$seed"
        [ -f "$run/system" ] || keep "$run/system" echo "$row"
      done
    done
  done
  for round in ${text:+$(seq "$rounds")}; do
    for row in "${rows[@]}"; do
      run=$(place timing "$row" "$round")
      say "time and memory: $row, round $round"
      time_updates "$row" "$round"
      [ -f "$run/system" ] || keep "$run/system" echo "$row"
    done
  done
fi

spread=$(means_of_seeds)
{
  if [ ${#text[@]} -gt 0 ]; then
    columns=("${lengths[@]}")
    table "Bits per byte by length$spread" text_cell
    of_seeds=("${seeds[@]}")
    mapfile -t seeds < <(seq "$rounds")
    unit=ms table "Milliseconds of an update by the length of its segments" time_cell
    unit=MiB table "MiB of memory of the same" time_cell
    seeds=("${of_seeds[@]}")
    run=$(place text "${rows[0]}" "${seeds[0]}")
    [ ! -f "$run/done" ] || {
      printf '\nWork of a sequence\n\n'
      "$fovea" analyze --model "$run" --cost --sweep "${rows[@]}" --lengths "${lengths[@]}"
    }
  fi
  if [ ${#recall[@]} -gt 0 ]; then
    columns=("${recall_lengths[@]}")
    for queries in 1 4; do table "Share of answers by length, $queries asked at the end$spread" recall_cell; done
  fi
} | sed 's/ *$//' | sed 1d

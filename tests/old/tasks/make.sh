#!/usr/bin/env bash
# The commands that made the files of the other tasks, in a copy of tests/old: make.sh PROGRAM. Do not run it again with a
# newer program.
set -euo pipefail
export FOVEA_CPU=portable ATEN_CPU_CAPABILITY=default
fovea() { "$program" "$@" --quiet --cpu-threads 1; }
program=$1
declare -A answer=([language]="score --train-sets corpus/test.src --level line" [image]="score --train-sets tasks/images.npy --level image"
                   [tagging]="tag --input tasks/names.columns" [caption]="caption --features tasks/images.npy --n-best --beam-size 3 --max-length 12")
for task in language image tagging caption; do
  mkdir "tasks/$task"
  train="fovea train -c tasks/$task.yml"
  $train --model "tasks/$task/first" --after-batches 3
  grep '^model.safetensors' "tasks/$task/first/last/checksums.yml" >"tasks/$task/first.yml"
  $train --model "tasks/$task/run" --after-batches 20
  cp -a "tasks/$task/run" "tasks/$task/on"
  $train --model "tasks/$task/on" --after-batches 24
  grep -v '^\(config\|progress\).yml' "tasks/$task/on/last/checksums.yml" >"tasks/$task/end.yml"
  fovea ${answer[$task]} --model "tasks/$task/run" >"tasks/$task/answer.txt"
  if [ "$task" = language ]; then
    fovea ${answer[$task]} --model "tasks/$task/first" >"tasks/$task/begun.txt"
    fovea ${answer[$task]} --model "tasks/$task/on" >"tasks/$task/resumed.txt"
    rm "tasks/$task"/{first,end}.yml
  fi
  rm -r "tasks/$task"/{first,on} "tasks/$task/run"/{.lock,log.jsonl,train.yml}
done

#!/usr/bin/env bash
# A language model on the English text of LibreOffice's help pages: fetch, train, measure, generate.
#   ./fovea.sh demo language [options of fovea train, e.g. --attention full]
# Everything lies in build/demo/language; a second run reuses what is there. Options get a folder of their own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly folder=build/demo/language fovea=build/release/bin/fovea
readonly text=$folder/text.txt corpus=$folder/corpus
command="./fovea.sh demo language$([ $# -eq 0 ] || printf ' %q' "$@")"
readonly command
. recipes/demo-common.sh
check_options "$@"
"$fovea" train -c recipes/demo-language.yml "$@" --dump-config >/dev/null
mkdir -p "$folder"
run=$(run_folder "$@")
readonly run

prepare_text() {
  local origin="LibreOffice's help pages in English"
  if unpack libreoffice-help-en-us && python3 recipes/help_text.py "$folder/help" "$text"; then
    say "text: $origin"
  else
    origin="sentences of a made-up grammar, which only look like English"
    say "cannot get the help pages from the package libreoffice-help-en-us; instead, $origin"
    "$fovea" corpus --generate 60000 --valid 0 --test 0 --languages en de --output "$folder/made-up"
    cp "$folder/made-up/train.en" "$text"
  fi
  printf '%s\n' "$origin" >"$folder/origin"
}

# The last tenth of the text is held out, half of it for validation and half for the test.
prepare_corpus() {
  if [ -f "$corpus/done" ]; then say "reusing $corpus: $(cat "$folder/origin")"; return; fi
  prepare_text
  local bytes
  bytes=$(stat -c %s "$text")
  "$fovea" corpus --split-bytes $((bytes - 2 * (bytes / 20))) $((bytes / 20)) $((bytes / 20)) "$text" --output "$corpus"
  touch "$corpus/done"
}

train() {
  if [ -f "$run/done" ]; then say "reusing $run"; return; fi
  mkdir -p "$run"
  train_capped "the bits per byte are higher than they could be" -c recipes/demo-language.yml \
    --train-sets "$corpus/train.txt" --valid-sets "$corpus/valid.txt" "$@"
  finish_run
}

# How many bits a byte of the test text takes xz after the training text.
xz_bits() {
  local before after
  before=$(xz -9 -c "$corpus/train.txt" | wc -c)
  after=$(cat "$corpus/train.txt" "$corpus/test.txt" | xz -9 -c | wc -c)
  awk -v bytes=$((after - before)) -v of="$(stat -c %s "$corpus/test.txt")" 'BEGIN { printf "%.2f", 8 * bytes / of }'
}

prepare_corpus
took text
train "$@"
took training

printf '\nA language model of %s bytes of text (%s), attention %s.\n' \
  "$(stat -c %s "$corpus/train.txt")" "$(cat "$folder/origin")" \
  "$(sed -n 's/^attention: *"\(.*\)"/\1/p' "$run/averaged/config.yml")"
for prompt in 'To insert a new row, ' 'The function returns ' 'You can change the '; do
  echo
  "$fovea" generate --model "$run/averaged" --prompt "$prompt" --max-length 300 --temperature 0.7 --seed 1 --quiet
done
printf '\nThe test text, %s bytes held out' "$(stat -c %s "$corpus/test.txt")"
if command -v xz >/dev/null; then printf '; xz -9, which has seen the training text, takes %s bits per byte' "$(xz_bits)"; fi
printf ':\n'
"$fovea" score --model "$run/averaged" --train-sets "$corpus/test.txt" --quiet
took 'samples and score'
printf '\nTime: %s.\n' "$steps"
[ -z "$cut_short" ] || printf '\n%s\n' "$cut_short"
other=' --attention full' # another model, unless this was it
[ $# -eq 0 ] || other=
cat <<TEXT

Try next:
  ./fovea generate --model $run/averaged --prompt 'If you choose ' --max-length 500 --temperature 0.8
  ./fovea report --model $run/averaged --source 'You can change the width.' --output $run/report.html
  ./fovea serve --model $run/averaged       # a page for trying at http://localhost:8080/
  ./fovea.sh demo language$other
Your own text: docs/language.md
TEXT

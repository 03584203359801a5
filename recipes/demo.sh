#!/usr/bin/env bash
# English to LANGUAGE on LibreOffice's help pages: fetch, clean, train, translate, score. Run by ./fovea.sh demo.
#   ./fovea.sh demo [LANGUAGE] [options of fovea train, e.g. --attention full]
# Everything lies in build/demo/LANGUAGE; a second run reuses what is there. Options get a folder of their own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The languages of Debian's packages libreoffice-help-LANGUAGE.
readonly languages=" ca cs da de dz el es et eu fi fr gl hi hu id it ja km ko nl om pl pt pt-br ru sk sl sv tr vi zh-cn zh-tw "
command="./fovea.sh demo$([ $# -eq 0 ] || printf ' %q' "$@")"
language=de
if [ $# -gt 0 ] && [[ $1 != -* ]]; then language=$1; shift; fi
readonly command language folder=build/demo/$language fovea=build/release/bin/fovea
readonly corpus=$folder/corpus vocab=$folder/joint.spm
. recipes/demo-common.sh
case $languages in
  *" $language "*) ;;
  *) fail "demo: got the language '$language'; expected one of${languages% }, or language for a language model" ;;
esac
check_options "$@"
"$fovea" train -c recipes/demo.yml "$@" --dump-config >/dev/null
mkdir -p "$folder"
run=$(run_folder "$@")
readonly run

fetch_help() {
  [ -f "$folder/help/done" ] && return
  unpack libreoffice-help-en-us "libreoffice-help-$language" || return 1
  touch "$folder/help/done"
}

prepare_corpus() {
  if [ -f "$corpus/done" ]; then say "reusing $corpus: $(cat "$corpus/done")"; return; fi
  local origin="LibreOffice's help pages, English and $language"
  if fetch_help; then
    say "corpus: $origin"
    python3 recipes/help_pairs.py "$folder/help" "$language" "$folder/paragraphs"
    "$fovea" corpus "$folder/paragraphs.en" "$folder/paragraphs.$language" --languages en "$language" \
      --keep-markup --sentences split --output "$corpus"
  else
    origin="sentences of a made-up grammar, which only look like English and $language"
    say "apt-get download libreoffice-help-$language failed; instead, $origin"
    "$fovea" corpus --generate 30000 --languages en "$language" --output "$corpus"
  fi
  printf '%s\n' "$origin" >"$corpus/done"
}

train() {
  local pieces=4000
  case $(cat "$corpus/done") in *made-up*) pieces=2000 ;; esac # it has few words
  [ -f "$vocab" ] || "$fovea" vocab --train-sets "$corpus/train.en" "$corpus/train.$language" --dim-vocabs "$pieces" --output "$vocab"
  if [ -f "$run/done" ]; then say "reusing $run"; return; fi
  mkdir -p "$run"
  rm -f "$run/test.out" # of a training that was cut short
  train_capped "BLEU is lower than it could be" -c recipes/demo.yml --vocabs "$vocab" "$vocab" \
    --train-sets "$corpus/train.en" "$corpus/train.$language" --valid-sets "$corpus/valid.en" "$corpus/valid.$language" "$@"
  finish_run
}

# Ten sentences of middling length spread over the test set, each with its reference and translation.
show_examples() {
  paste "$corpus/test.en" "$corpus/test.$language" "$run/test.out" |
    awk -F'\t' '{ n = split($1, w, " ") } n >= 6 && n <= 16 && ++seen % 25 == 0 && ++shown <= 10 {
      printf "\n  source     %s\n  reference  %s\n  fovea      %s\n", $1, $2, $3 }'
}

prepare_corpus
took text
train "$@"
took training
if [ ! -f "$run/test.out" ]; then
  say "translating the test set"
  "$fovea" translate --model "$run/averaged" --input "$corpus/test.en" --output "$run/test.out"
fi

sentence='You can change the width of the columns in a table, or insert a new row.'
printf '\nEnglish to %s, %s training pairs of sentences (%s), attention %s.\n' "$language" \
  "$(wc -l <"$corpus/train.en")" "$(cat "$corpus/done")" "$(sed -n 's/^attention: *"\(.*\)"/\1/p' "$run/averaged/config.yml")"
show_examples
printf '\nThe attention of one sentence, by the head that tells its words apart best:\n\n'
"$fovea" analyze --model "$run/averaged" --source "$sentence"
report=$run/report.html
head -n 20 "$corpus/test.en" | "$fovea" report --model "$run/averaged" --input - --output "$report" --quiet
tokenize=13a # words of a language that puts no spaces between them are its characters
case $language in zh*) tokenize=zh ;; ja | km | my | th | lo | dz | bo) tokenize=char ;; esac
printf '\nThe test set, %s sentences held out:\n' "$(wc -l <"$corpus/test.en")"
"$fovea" evaluate --reference "$corpus/test.$language" --metrics bleu chrf --tokenize "$tokenize" <"$run/test.out"
took 'translation and results'
printf '\nTime: %s.\n' "$steps"
[ -z "$cut_short" ] || printf '\n%s\n' "$cut_short"
other=' --attention full' # another model, unless this was it
[ $# -eq 0 ] || other=
cat <<TEXT

Try next:
  echo '$sentence' | ./fovea translate --model $run/averaged
  xdg-open $report        # every head on 20 sentences, in a browser
  ./fovea serve --model $run/averaged       # a page for trying at http://localhost:8080/
  ./fovea.sh demo $language$other
Your own text, from two files to a server: docs/own-text.md
TEXT

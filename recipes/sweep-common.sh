# Functions of the scripts that train the rows of a table. Those scripts set `fovea`, the program, `folder`, the place for all
# of their files, and `run`, the folder of the training in work.

documents=() tokenize=13a digits=2
bleu=() # options of fovea evaluate in place of --tokenize
average=yes # the last five checkpoints of a run, into $run/averaged
decoding=(--beam-size 5 --normalize 1)

# read_options NAME... -- ARGUMENT...: each option --a-name fills the array a_name. A NAME! is an option without values,
# which the array then holds. --options takes the rest of the arguments.
read_options() {
  local known=' ' name variable values
  while [ "$1" != -- ]; do known+="$1 " && shift; done
  shift
  while [ $# -gt 0 ]; do
    name=$1 values=()
    shift
    case $name in
    -h | --help) usage && exit ;;
    --options) options=("$@") && return ;;
    --*) ;;
    *) fail "got '$name'; expected an option, see recipes/${0##*/} --help" ;;
    esac
    variable=${name#--}
    local -n target=${variable//-/_}
    if [[ $known == *" $variable! "* ]]; then target=("$name") && continue; fi
    [[ $known == *" $variable "* ]] || fail "unknown option '$name'; see recipes/${0##*/} --help"
    while [ $# -gt 0 ] && [[ $1 != -* ]]; do values+=("$1") && shift; done
    [ ${#values[@]} -gt 0 ] || fail "$name: got no value"
    target=("${values[@]}")
  done
}

check_program() {
  [ -x "$fovea" ] || fail "cannot run '$fovea'; build it with ./fovea.sh build, or name it with FOVEA"
}

# check_files OPTION NUMBER WHAT [FILE...]: exactly NUMBER files, which are WHAT.
check_files() {
  [ $(($# - 3)) -eq "$2" ] || fail "$1: got $(($# - 3)) files; expected $3"
}

# check_counts OPTIONS NUMBER...
check_counts() {
  local number
  for number in "${@:2}"; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || fail "$1: got '$number'; expected a whole number of at least 1"
  done
}

# The runs of one folder belong together: they have the same data, updates and options, whose lines are the arguments.
check_settings() {
  local settings
  settings=$(printf '%s\n' "$@")
  mkdir -p "$folder"
  if [ -f "$folder/settings" ] && [ "$(cat "$folder/settings")" != "$settings" ]; then
    fail "--output: '$folder' holds runs with other files or options; name another folder, or remove this one"
  fi
  # --finished trains nothing, so the settings of the first training stay open.
  [ -n "${finished-}" ] || printf '%s\n' "$settings" >"$folder/settings"
}

# setting NAME FILE: the value of an option of fovea train, with the recipe in FILE and --options.
setting() {
  "$fovea" train -c "$2" "${documents[@]}" "${options[@]}" --dump-config | sed -n "s/^$1: \[\{0,1\}\"\{0,1\}\([^],\"]*\).*/\1/p"
}

# train_run OPTION...: fovea train with these options, unless the run is done.
train_run() {
  mkdir -p "$run"
  [ ! -f "$run/done" ] || return 0
  "$fovea" train --model "$run" "$@"
  require_end
  if [ "$average" = yes ]; then finish_run; else touch "$run/done"; fi
}

# keep FILE COMMAND...: what the command prints, into a file that is there only when it is whole.
keep() {
  "${@:2}" >"$1.part"
  mv "$1.part" "$1"
}

# bleu_of REFERENCE TRANSLATION: BLEU, of documents with --documents.
bleu_of() {
  "$fovea" evaluate "${documents[@]}" --reference "$1" --input "$2" "${bleu[@]:---tokenize=$tokenize}" --score-only | sed -n 1p
}

# score_bleu NAME SOURCE TARGET [OPTION...]: translates with the run's averaged model and these options, into $run/NAME.out,
# and keeps BLEU in $run/NAME.bleu.
score_bleu() {
  [ ! -f "$run/$1.bleu" ] || return 0
  "$fovea" translate "${documents[@]}" --model "$run/averaged" "${decoding[@]}" "${@:4}" --quiet --input "$2" --output "$run/$1.out"
  keep "$run/$1.bleu" bleu_of "$3" "$run/$1.out"
}

# there: the paths of files, out of the paths in the input.
there() {
  local path
  while read -r path; do [ ! -f "$path" ] || echo "$path"; done
}

# checkpoint_updates: the updates of the run's checkpoints, from the first one.
checkpoint_updates() {
  find "$run/checkpoints" -mindepth 1 -maxdepth 1 -name 'update-*' | sed 's:.*/update-0*::' | sort -n
}

# average_bleu NUMBER UPDATES SOURCE TARGET: translates with the average of NUMBER checkpoints that end at the one after UPDATES,
# into $run/averages/UPDATES.out, and keeps BLEU in UPDATES.bleu.
average_bleu() {
  [ ! -f "$run/averages/$2.bleu" ] || return 0
  mkdir -p "$run/averages"
  "$fovea" average --model "$run" --last "$1" --until "$2" --output "$run/averages/model" --quiet
  "$fovea" translate "${documents[@]}" --model "$run/averages/model" "${decoding[@]}" --quiet --input "$3" --output "$run/averages/$2.out"
  keep "$run/averages/$2.bleu" bleu_of "$4" "$run/averages/$2.out"
}

# choose_average NUMBER EVERY SOURCE TARGET: the averages of NUMBER checkpoints, or of all if there are fewer, that end at the
# last one, at the EVERYth before it, and so on; with EVERY 0 that of the last ones alone. Keeps the average whose translations
# of SOURCE have the best BLEU in $run/averaged, these translations in $run/valid.out, and BLEU in $run/valid.bleu.
choose_average() {
  local number=$1 every=$2 ends end best scores=()
  [ ! -f "$run/valid.bleu" ] || return 0
  mapfile -t ends < <(checkpoint_updates)
  [ "$number" -le ${#ends[@]} ] || number=${#ends[@]}
  [ "$every" -gt 0 ] || every=${#ends[@]}
  for ((end = ${#ends[@]}; end >= number; end -= every)); do
    average_bleu "$number" "${ends[end - 1]}" "${@:3}"
    scores+=("$(cat "$run/averages/${ends[end - 1]}.bleu") ${ends[end - 1]}")
  done
  best=$(printf '%s\n' "${scores[@]}" | sort -k 1,1g -k 2,2n | tail -n 1)
  "$fovea" average --model "$run" --last "$number" --until "${best#* }" --output "$run/averaged"
  keep "$run/valid.out" cat "$run/averages/${best#* }.out"
  keep "$run/valid.bleu" echo "${best% *}"
  rm -rf "$run/averages/model" "$run/averages/"*.out
}

# means_of_seeds: what a title says of the numbers below it.
means_of_seeds() {
  [ ${#seeds[@]} -eq 1 ] || printf ': mean and (standard deviation) of %d seeds' ${#seeds[@]}
  [ ${#finished[@]} -eq 0 ] || printf ' (as far as they are finished; - is none)'
}

# mean FILE...: the mean of the numbers in the files and, of several, in brackets the standard deviation.
mean() {
  awk -v digits="$digits" '{ sum += $1; squares += $1 * $1 }
    END {
      mean = sum / NR
      printf "%.*f", digits, mean
      if (NR > 1) { v = (squares - NR * mean * mean) / (NR - 1); printf " (%.*f)", digits, sqrt(v > 0 ? v : 0) }
    }' "$@"
}

# The difference of BLEU from a baseline and p of the paired bootstrap, as in "+1.20 (0.0310)". Arguments: reference,
# translation, the baseline's translation.
difference() {
  "$fovea" evaluate "${documents[@]}" --reference "$1" --input "$2" --baseline "$3" "${bleu[@]:---tokenize=$tokenize}" |
    sed -n 's/^ *\(d-BLEU\|BLEU\|multi-bleu\) .*difference \([^,]*\),.* p = \(.*\)/\2 (\3)/p' | sed -n 1p
}

# against_full REFERENCE FULL... -- OUT...: a column per seed: each OUT against the FULL of the same seed, or - if one of the
# two is not there. A result lies beside its translation, in OUT.paired.
against_full() {
  local reference=$1 full=() out
  shift
  while [ "$1" != -- ]; do full+=("$1") && shift; done
  shift
  for out in "$@"; do
    if [ -f "$out" ] && [ -f "${full[0]}" ]; then
      [ -f "$out.paired" ] || keep "$out.paired" difference "$reference" "$out" "${full[0]}"
      printf ' %16s' "$(cat "$out.paired")"
    else
      printf ' %16s' -
    fi
    full=("${full[@]:1}")
  done
  echo
}

# paired_header TARGET: the lines above the tests.
paired_header() {
  printf '\nDifference of BLEU from full on %s, and (p) of paired bootstrap resampling\n\n%-16s' "$1" ''
  printf ' %16s' "${seeds[@]/#/seed }"
  echo
}

stop_cleanly() {
  trap 'say "stopped; run the same command again to continue"; exit 130' INT
}

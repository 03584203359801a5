# Functions of the demos and of the sweeps. Those scripts set `fovea`, the program, `folder`, the place for all of their
# files, and `run`, the folder of a training.

readonly cap_minutes=9 # of training, for machines that are slow or busy; --stop-after-seconds is another cap
cut_short=             # a sentence for the end of the output, if that cap ended training

# took WHAT: the seconds since the step before belong to this one; steps are listed at the end.
last=$SECONDS steps=${FOVEA_DEMO_BUILD:+build $FOVEA_DEMO_BUILD s}
took() {
  steps+=${steps:+, }"$1 $((SECONDS - last)) s"
  last=$SECONDS
}

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }

fail() { printf 'Error: %s\n' "$*" >&2; exit 2; }

# check_options OPTION...: refuses what is known to be wrong before there is a program that reads the options of fovea
# train. With FOVEA_DEMO_CHECK, by which ./fovea.sh demo asks before it builds, the script ends here.
check_options() {
  local last
  [ $# -eq 0 ] || [[ $1 == -* ]] || fail "demo: got '$1'; expected options of fovea train, such as --attention full"
  last=${!#}
  if [ $# -gt 0 ] && [[ $last == --* ]] && grep -q "^| \`$last\`[^|]*| [^ |]" docs/options.md; then
    fail "$last: got no value; expected one after it"
  fi
  [ -z "${FOVEA_DEMO_CHECK:-}" ] || exit 0
}

# The value of the last --stop-after-seconds among the options; nothing without one.
given_cap() {
  local cap=
  while [ $# -gt 0 ]; do
    case $1 in
      --stop-after-seconds) cap=${2:-} ;;
      --stop-after-seconds=*) cap=${1#*=} ;;
    esac
    shift
  done
  printf '%s' "$cap"
}

# The folder of a training with these options: for "--attention full" model-attention-full-, and a number that tells it
# from others. The cap counts for nothing, so a run continues with another one.
run_folder() {
  local names=()
  while [ $# -gt 0 ]; do
    case $1 in
      --stop-after-seconds) [ $# -eq 1 ] || shift ;;
      --stop-after-seconds=*) ;;
      *) names+=("$1") ;;
    esac
    shift
  done
  set -- "${names[@]}"
  printf '%s/model' "$folder"
  [ $# -eq 0 ] || printf '%s-%s' "$(printf -- '-%s' "$@" | tr -cs '[:alnum:]=._' '-')" "$(printf '%s\n' "$@" | cksum | cut -d' ' -f1)"
}

# A Debian package into the packages' folder; the lists of an image may be missing or old.
download() {
  local get=(apt-get -q download "$1")
  mkdir -p "$folder/packages"
  chmod a+rwx "$folder/packages" # apt drops root's rights for the download
  (cd "$folder/packages" && "${get[@]}" >&2) && return
  [ "$(id -u)" -ne 0 ] || apt-get -q update >&2 || true
  (cd "$folder/packages" && "${get[@]}" >&2)
}

# Debian packages, unpacked into $folder/help without installing them. Fails where there is no apt, or no such package.
unpack() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  local package
  for package in "$@"; do
    if ! ls "$folder/packages/$package"_*.deb >/dev/null 2>&1; then download "$package" || return 1; fi
    dpkg-deb -x "$folder/packages/$package"_*.deb "$folder/help" || return 1
  done
}

# A number of the run's last checkpoint, without its decimals; 0 before there is one.
progress() {
  local number
  number=$(sed -n "s/^$1: \"\([0-9]*\).*/\1/p" "$run/last/progress.yml" 2>/dev/null) || true
  echo "${number:-0}"
}

# Ends the script, with the code if one is given, if the training in $run was stopped by a signal: only a training that
# ended writes so at the end of its record.
require_end() {
  tail -n 1 "$run/log.jsonl" | grep -q '"event":"end"' && return
  say "the training in $run was stopped; the same command continues${command:+: $command}"
  exit "${1:-1}"
}

# train_capped WORSE OPTION...: fovea train with these options, for nine minutes at most unless they have another cap.
# Sets cut_short, which says what is WORSE then, if the run has not made all of its updates.
train_capped() {
  local worse=$1 cap own most wanted made code=0
  shift
  # A run counts its seconds from its first update; each call may add as many.
  cap=$(($(progress seconds) + cap_minutes * 60)) most="$cap_minutes minutes"
  own=$(given_cap "$@")
  printf 'stop-after-seconds: %d\n' "$cap" >"$run/cap.yml"
  local training=(train -c "$run/cap.yml" --model "$run" --log "$run/train.log" "$@")
  wanted=$("$fovea" "${training[@]}" --dump-config | sed -n 's/^after-batches: //p')
  if [ -n "$own" ]; then
    cap=$("$fovea" "${training[@]}" --dump-config | sed -n 's/^stop-after-seconds: \([0-9]*\).*/\1/p')
    most="$own seconds"
  fi
  local until="$most at most"
  [ "$cap" -ne 0 ] || until="however long they take"
  say "training into $run: $wanted updates, $until; Ctrl-C stops, running this again continues"
  "$fovea" "${training[@]}" || code=$?
  [ "$code" -lt 128 ] || require_end "$code"
  [ "$code" -eq 0 ] || exit "$code"
  require_end
  made=$(progress updates)
  [ "$cap" -gt 0 ] && [ "$made" -lt "$wanted" ] && [ "$(progress seconds)" -ge "$cap" ] || return 0
  local again="Run the same command again to continue."
  [ -z "$own" ] || again="Give a higher --stop-after-seconds, or 0 for no limit, to continue."
  cut_short="The cap of $most ended training after $made of $wanted updates, so $worse. $again"
  say "$cut_short"
}

# Averages the run's last five checkpoints, or all if there are fewer, into $run/averaged. The run is done, unless the
# cap ended training.
finish_run() {
  local saved
  saved=$(find "$run/checkpoints" -mindepth 1 -maxdepth 1 -name 'update-*' | wc -l)
  "$fovea" average --model "$run" --last $((saved < 5 ? saved : 5)) --output "$run/averaged"
  [ -n "$cut_short" ] || touch "$run/done"
}

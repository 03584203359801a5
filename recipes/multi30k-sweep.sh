#!/usr/bin/env bash
# Tables of three papers on Multi30k English-German: BLEU of mechanisms for k = 8 and 2 ("Extremely Sparse Transformer",
# table 1), top-k that selects in training only ("Explicit Sparse Transformer", table 5), and mechanisms that choose the
# number of keys by themselves ("Sparse Attention with Linear Units", table 1). With the paired test of each against full
# attention.
#   FOVEA_DATA=DIR recipes/multi30k-sweep.sh [--finished] [--updates N] \
#       [--mechanisms 'NAME ...' [--k 'K ...'] [--seeds 'N ...']] [FOLDER] [options of fovea train, e.g. --cpu-threads 2]
# DIR holds multi30k/{train,val,test_2016_flickr}.lc.norm.tok.{en,de}.gz (Multi30k task 1, lower-cased, normalised, tokenised).
#
# The 25 models are trained one after the other, the most telling ones first. Ctrl-C stops in a way that the same command
# continues. --finished trains nothing and prints the tables of the runs that are finished. --updates is 3000 by default.
# --mechanisms 'full topk' --k 2 --seeds '1 2' trains these alone; without --k, k = 8 and 2, without --seeds, seed 1. Other
# options of fovea train need another FOLDER.
set -euo pipefail
recipes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipes/../build/release/bin/fovea}
data=${FOVEA_DATA:?name the folder of the corpora with FOVEA_DATA}/multi30k
only=() updates=3000 mechanisms= k= seeds=
while [ $# -gt 0 ]; do
  case $1 in
  --finished) only=(--finished) && shift && continue ;;
  --updates) updates=${2:?got no value for --updates} ;;
  --mechanisms) mechanisms=${2:?got no value for --mechanisms} ;;
  --k) k=${2:?got no value for --k} ;;
  --seeds) seeds=${2:?got no value for --seeds} ;;
  *) break ;;
  esac
  shift 2
done
for name in k seeds; do
  [ -n "$mechanisms" ] || [ -z "${!name}" ] || { echo "Error: --$name: got no --mechanisms; expected both" >&2 && exit 1; }
done
folder=build/multi30k-sweep
if [ $# -gt 0 ] && [[ $1 != -* ]]; then folder=$1 && shift; fi
options=("$@")
mkdir -p "$folder"

text() { echo "$data/$1.lc.norm.tok.$2.gz"; }
vocab=$folder/joint.spm
[ -f "$vocab" ] || "$fovea" vocab --type bpe --dim-vocabs 10000 --train-sets "$(text train en)" "$(text train de)" --output "$vocab"

# sweep ARGUMENT...: recipes/k-sweep.sh with these arguments.
sweep() {
  FOVEA=$fovea "$recipes/k-sweep.sh" --train-sets "$(text train en)" "$(text train de)" \
    --valid-sets "$(text val en)" "$(text val de)" --vocabs "$vocab" "$vocab" \
    --test-sets "$(text test_2016_flickr en)" "$(text test_2016_flickr de)" --tokenize none \
    --config "$recipes/multi30k-sweep.yml" --updates "$updates" --output "$folder/runs" "$@" --options "${options[@]}"
}

if [ -n "$mechanisms" ]; then
  read -ra mechanisms <<<"$mechanisms"
  read -ra k <<<"${k:-8 2}"
  read -ra seeds <<<"${seeds:-1}"
  sweep --mechanisms "${mechanisms[@]}" --k "${k[@]}" --seeds "${seeds[@]}" "${only[@]}"
  exit
fi
if [ ${#only[@]} -eq 0 ]; then
  sweep --mechanisms full topk topk-train window --k 8 2 >/dev/null
  sweep --mechanisms block dilated global random --k 2 >/dev/null
  sweep --mechanisms full topk topk-train window --k 8 2 --seeds 2 3 >/dev/null
  sweep --mechanisms rela-g sparsemax entmax rela-i --k 8 >/dev/null
  sweep --mechanisms rela-g --k 8 --seeds 2 3 >/dev/null
fi
sweep --mechanisms full rela-g rela-i sparsemax entmax topk topk-train window block dilated global random --k 8 2 --seeds 1 2 3 --finished

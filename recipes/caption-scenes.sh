#!/usr/bin/env bash
# Captions of drawn scenes: draw, train, write captions, COCO-BLEU and CIDEr. Two test sets: scenes like those of training,
# and scenes with combinations of colour and shape that training does not show.
#   recipes/caption-scenes.sh [RUN FOLDER] [options of fovea train, e.g. --attention full, or --sparsify train]
# The data are drawn once, into the folder beside the run's.
set -euo pipefail
recipe=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fovea=${FOVEA:-$recipe/../build/release/bin/fovea}
run=build/caption-scenes/model
if [ $# -gt 0 ] && [[ $1 != -* ]]; then run=$1; shift; fi
data=$(dirname "$run")/scenes
mkdir -p "$run"

[ -f "$data/words.spm" ] || {
  python3 "$recipe/caption_scenes.py" "$data"
  cut -f2 "$data/train.tsv" > "$data/train.txt"
  "$fovea" vocab --type word --train-sets "$data/train.txt" --dim-vocabs 1000 --output "$data/words.spm"
}
"$fovea" train -c "$recipe/caption-scenes.yml" --model "$run" --vocabs "$data/words.spm" \
  --features "$data/train.npy" --captions "$data/train.tsv" \
  --valid-features "$data/valid.npy" --valid-captions "$data/valid.tsv" "$@"
for name in test heldout; do
  "$fovea" caption --model "$run" --features "$data/$name.npy" --output "$run/$name.captions"
  echo "$name:"
  "$fovea" evaluate --metrics coco-bleu cider --reference "$data/$name".ref.{1..5} < "$run/$name.captions"
done

#include "fovea/spec/foreign_names.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fovea/base/strings.h"

namespace fovea {
namespace {

// Options of fairseq, OpenNMT and Marian, and ours that does the same.
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kForeignNames = {
    {{"adam-betas", "optimizer-params"},
     {"batch-size", "mini-batch"},
     {"decoder-layers", "dec-depth"},
     {"dec-layers", "dec-depth"},
     {"encoder-embed-dim", "dim-emb"},
     {"encoder-layers", "enc-depth"},
     {"enc-layers", "enc-depth"},
     {"fp16", "precision"},
     {"layers", "enc-depth"},
     {"lenpen", "normalize"},
     {"max-epoch", "after-epochs"},
     {"max-grad-norm", "clip-norm"},
     {"max-update", "after-batches"},
     {"optim", "optimizer"},
     {"patience", "early-stopping"},
     {"save-dir", "model"},
     {"save-model", "model"},
     {"share-all-embeddings", "tied-embeddings-all"},
     {"train-steps", "after-batches"},
     {"warmup-steps", "lr-warmup"},
     {"warmup-updates", "lr-warmup"},
     {"workspace", "mini-batch-words"}}};

}  // namespace

std::string did_you_mean_field(std::string_view name, std::span<const std::string> known, std::string_view dashes) {
  for (const auto& [foreign, our] : kForeignNames) {
    const std::string ours = cat(dashes, our);
    if (name == cat(dashes, foreign) && std::ranges::find(known, ours) != known.end())
      return cat("; did you mean '", ours, "'?");
  }
  return did_you_mean(name, known);
}

}  // namespace fovea

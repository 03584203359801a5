#include "fovea/spec/foreign_names.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fovea/base/strings.h"

namespace fovea {
namespace {

// Options of fairseq, OpenNMT and Marian, and ours that does the same.
constexpr std::array<std::pair<std::string_view, std::string_view>, 38> kForeignNames = {
    {{"activation-fn", "transformer-ffn-activation"},
     {"adam-betas", "optimizer-params"},
     {"after", "after-batches"},
     {"attention-dropout", "transformer-dropout-attention"},
     {"batch-size", "mini-batch"},
     {"bf16", "precision"},
     {"checkpoint-upper-bound", "until"},
     {"dec-layers", "dec-depth"},
     {"decoder-attention-heads", "transformer-heads"},
     {"decoder-ffn-embed-dim", "transformer-dim-ffn"},
     {"decoder-layers", "dec-depth"},
     {"dropout", "transformer-dropout"},
     {"enc-layers", "enc-depth"},
     {"encoder-attention-heads", "transformer-heads"},
     {"encoder-embed-dim", "dim-emb"},
     {"encoder-ffn-embed-dim", "transformer-dim-ffn"},
     {"encoder-layers", "enc-depth"},
     {"fp16", "precision"},
     {"keep-interval-updates", "keep-last"},
     {"layers", "enc-depth"},
     {"lenpen", "normalize"},
     {"log-interval", "disp-freq"},
     {"lr-decay-inv-sqrt", "lr-decay"},
     {"max-epoch", "after-epochs"},
     {"max-grad-norm", "clip-norm"},
     {"max-update", "after-batches"},
     {"num-update-checkpoints", "last"},
     {"optim", "optimizer"},
     {"patience", "early-stopping"},
     {"save-dir", "model"},
     {"save-interval-updates", "save-freq"},
     {"save-model", "model"},
     {"share-all-embeddings", "tied-embeddings-all"},
     {"train-steps", "after-batches"},
     {"validate-interval-updates", "valid-freq"},
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

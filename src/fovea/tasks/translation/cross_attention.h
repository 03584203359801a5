#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "fovea/analysis/alignment.h"
#include "fovea/nn/model.h"
#include "fovea/tasks/translation/link_choice.h"
#include "fovea/tasks/translation/score_pairs.h"
#include "fovea/text/words.h"

// Cross-attention of given sentence pairs, and the word alignments in it.
namespace fovea::translation {

// Takes the cross-attention weights of pair `index`: float32 [layers, heads, T_target, T_source] on the CPU, </s>
// included in both. Row t belongs to the step that predicts target token t; its input is token t - 1.
using SeeCrossAttention = std::function<void(size_t index, const at::Tensor& weights)>;

// Shows `see` every pair once, in batches of similar lengths: a full pass with the given target, in evaluation. The
// weights of a batch take at most 64 MiB unless a single pair needs more. Stops at signals if `what` names the work;
// null leaves them to the caller.
void see_cross_attention(nn::Model& model, std::span<const SentencePair> pairs, const BatchLimits& limits,
                         const char* what, const SeeCrossAttention& see);

// Throws an Error if the model lacks the layer or the head; `prefix` is of the options' names ("--alignment-").
void require_layer_and_head(const ModelConfig& model, const LinkChoice& choice, std::string_view prefix);

// Both sides of a pair as pieces with their words.
struct WordPair {
  text::WordPieces source, target;
  bool is_empty() const { return source.pieces.empty() || target.pieces.empty(); }
};
SentencePair with_eos(const WordPair& pair, int64_t source_eos, int64_t target_eos);

// Returns links between the words of a pair. `weights` are shown by see_cross_attention().
analysis::Links word_links(const at::Tensor& weights, const WordPair& pair, const LinkChoice& choice);

}  // namespace fovea::translation

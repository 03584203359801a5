#include "fovea/tasks/translation/cross_attention.h"

#include <ATen/ops/stack.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/models/diverged.h"
#include "fovea/nn/attention_observer.h"

namespace fovea::translation {
namespace {

constexpr int64_t kMostWeights = int64_t{1} << 24;  // of a batch, padding included

int64_t tokens_in(const Sentence& sentence) { return static_cast<int64_t>(sentence.size()); }

// `batch` cut where the padded weights of its pairs, of all layers and heads, would be too many.
std::vector<std::vector<int64_t>> cut_by_weights(std::span<const SentencePair> pairs, const std::vector<int64_t>& batch,
                                                 const ModelConfig& model) {
  std::vector<std::vector<int64_t>> parts;
  int64_t rows = 0, columns = 0;
  for (const int64_t i : batch) {
    const SentencePair& pair = pairs[static_cast<size_t>(i)];
    rows = std::max(rows, tokens_in(pair.target));
    columns = std::max(columns, tokens_in(pair.source));
    const int64_t size = parts.empty() ? 0 : std::ssize(parts.back());
    if (parts.empty() || (size + 1) * model.dec_depth * model.transformer_heads * rows * columns > kMostWeights) {
      parts.emplace_back();
      rows = tokens_in(pair.target);
      columns = tokens_in(pair.source);
    }
    parts.back().push_back(i);
  }
  return parts;
}

// Weights [layers, B, heads, T_target, T_source] of a batch, padded.
at::Tensor batch_weights(nn::Model& model, std::span<const SentencePair> pairs, const std::vector<int64_t>& batch) {
  const ForcedBatch forced(pairs, batch, model->output_weight().device());
  const at::Tensor memory = model->encode({forced.source.tokens, forced.source.offsets}, {});
  std::vector<at::Tensor> layers;
  const nn::AttentionObserver observer([&](const nn::AttentionPlace& place, const at::Tensor& weights) {
    if (place.kind == AttentionKind::kCross) layers.push_back(weights.to(at::kCPU, at::kFloat));
  });
  model->decode({forced.input.tokens, forced.input.offsets, memory, forced.source.offsets}, {});
  at::Tensor all = at::stack(layers);
  if (!all.isfinite().all().item<bool>()) models::refuse_diverged();
  return all;
}

}  // namespace

void see_cross_attention(nn::Model& model, std::span<const SentencePair> pairs, const BatchLimits& limits,
                         const char* what, const SeeCrossAttention& see) {
  const c10::InferenceMode guard;
  for (const std::vector<int64_t>& by_length : pair_batches(pairs, limits)) {
    for (const std::vector<int64_t>& batch : cut_by_weights(pairs, by_length, model->config())) {
      if (what != nullptr) throw_if_interrupted(what);
      const at::Tensor weights = batch_weights(model, pairs, batch);
      for (size_t i = 0; i < batch.size(); ++i) {
        const auto index = static_cast<size_t>(batch[i]);
        const at::Tensor own = weights.select(1, static_cast<int64_t>(i));
        see(index, own.narrow(2, 0, tokens_in(pairs[index].target)).narrow(3, 0, tokens_in(pairs[index].source)));
      }
    }
  }
}

void require_layer_and_head(const ModelConfig& model, const LinkChoice& choice, std::string_view prefix) {
  if (choice.layer > model.dec_depth)
    throw Error(cat(prefix, "layer: got ", choice.layer, "; the model's decoder has ", model.dec_depth, " layers"));
  if (choice.head > model.transformer_heads)
    throw Error(cat(prefix, "head: got ", choice.head, "; the model has ", model.transformer_heads, " heads"));
}

SentencePair with_eos(const WordPair& pair, int64_t source_eos, int64_t target_eos) {
  SentencePair tokens{pair.source.pieces, pair.target.pieces};
  tokens.source.push_back(source_eos);
  tokens.target.push_back(target_eos);
  return tokens;
}

analysis::Links word_links(const at::Tensor& weights, const WordPair& pair, const LinkChoice& choice) {
  at::Tensor chosen = choice.layer > 0 ? weights[choice.layer - 1] : weights.mean(0);
  chosen = choice.head > 0 ? chosen[choice.head - 1] : chosen.mean(0);
  chosen = chosen.contiguous();
  // Leaves out </s>, the last column; the rows have one more than the pieces, that of </s> or of the first input.
  analysis::AlignmentWeights pieces{chosen.const_data_ptr<float>(), tokens_in(pair.target.pieces),
                                    tokens_in(pair.source.pieces), chosen.size(1)};
  if (choice.shifted) pieces.data += pieces.stride;
  const analysis::UnitWords source{pair.source.words, pair.source.num_words};
  const analysis::UnitWords target{pair.target.words, pair.target.num_words};
  if (!choice.soft) return analysis::links_of_words(analysis::strongest_links(pieces), source, target);
  const std::vector<float> words = analysis::weights_of_words(pieces, source, target);
  return analysis::strongest_links({words.data(), target.num_words, source.num_words, source.num_words});
}

}  // namespace fovea::translation

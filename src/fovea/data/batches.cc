#include <algorithm>
#include <numeric>
#include <utility>

#include "fovea/base/shuffle.h"
#include "fovea/data/corpus.h"

namespace fovea::data {
namespace {

void sort_by_length(std::span<int64_t> sentences, const PairLengths& lengths) {
  std::stable_sort(sentences.begin(), sentences.end(), [&](int64_t a, int64_t b) {
    return std::pair(lengths.target_length(a), lengths.source_length(a)) <
           std::pair(lengths.target_length(b), lengths.source_length(b));
  });
}

struct Limits {
  int64_t tokens, sentences;  // of the target; sentences 0: no limit
};

void cut(std::span<const int64_t> sentences, const PairLengths& lengths, const Limits& limits,
         std::vector<Batch>& batches) {
  Batch batch;
  int64_t tokens = 0, source_tokens = 0;
  for (const int64_t sentence : sentences) {
    const int64_t length = lengths.target_length(sentence), source_length = lengths.source_length(sentence);
    const bool full = tokens + length > limits.tokens ||
                      source_tokens + source_length > kSourceTokensPerTarget * limits.tokens ||
                      (limits.sentences > 0 && static_cast<int64_t>(batch.size()) == limits.sentences);
    if (full && !batch.empty()) {
      batches.push_back(std::exchange(batch, {}));
      tokens = source_tokens = 0;
    }
    batch.push_back(sentence);
    tokens += length;
    source_tokens += source_length;
  }
  if (!batch.empty()) batches.push_back(std::move(batch));
}

// The number of `sentences` that make up `maxi_batch` batches.
size_t window_of(std::span<const int64_t> sentences, const PairLengths& lengths, const BatchOptions& options) {
  const double most_tokens = static_cast<double>(options.max_target_tokens) * static_cast<double>(options.maxi_batch);
  const double most_sentences = static_cast<double>(options.max_sentences) * static_cast<double>(options.maxi_batch);
  double tokens = 0;
  for (size_t i = 0; i < sentences.size(); ++i) {
    tokens += static_cast<double>(lengths.target_length(sentences[i]));
    const bool enough_sentences = options.max_sentences > 0 && static_cast<double>(i + 1) >= most_sentences;
    if (tokens >= most_tokens || enough_sentences) return i + 1;
  }
  return sentences.size();
}

}  // namespace

std::vector<Batch> batches_of_epoch(const PairLengths& lengths, const BatchOptions& options, int64_t epoch) {
  Rng rng(options.seed, static_cast<uint64_t>(epoch));
  std::vector<int64_t> order(static_cast<size_t>(lengths.size()));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, rng);
  std::vector<Batch> batches;
  const Limits limits = {options.max_target_tokens, options.max_sentences};
  for (std::span<int64_t> rest(order); !rest.empty();) {
    const std::span<int64_t> window = rest.first(window_of(rest, lengths, options));
    sort_by_length(window, lengths);
    cut(window, lengths, limits, batches);
    rest = rest.subspan(window.size());
  }
  shuffle(batches, rng);
  return batches;
}

std::vector<Batch> batches_by_length(const PairLengths& lengths, int64_t max_target_tokens) {
  std::vector<int64_t> order(static_cast<size_t>(lengths.size()));
  std::iota(order.begin(), order.end(), 0);
  sort_by_length(order, lengths);
  std::vector<Batch> batches;
  cut(order, lengths, {max_target_tokens, 0}, batches);
  return batches;
}

PackedBatch pack(const ParallelCorpus& corpus, const Batch& batch, int64_t target_eos) {
  PackedBatch packed;
  packed.source_offsets.reserve(batch.size() + 1);
  packed.target_offsets.reserve(batch.size() + 1);
  packed.source_offsets.push_back(0);
  packed.target_offsets.push_back(0);
  for (const int64_t s : batch) {
    packed.source_offsets.push_back(packed.source_offsets.back() + corpus.source_length(s));
    packed.target_offsets.push_back(packed.target_offsets.back() + corpus.target_length(s));
  }
  packed.source.reserve(static_cast<size_t>(packed.source_offsets.back()));
  packed.target_inputs.reserve(static_cast<size_t>(packed.target_offsets.back()));
  packed.target_outputs.reserve(static_cast<size_t>(packed.target_offsets.back()));
  for (const int64_t s : batch) {
    const auto source = corpus.source.begin(), target = corpus.target.begin();
    packed.source.insert(packed.source.end(), source + corpus.source_offsets[s], source + corpus.source_offsets[s + 1]);
    const auto first = target + corpus.target_offsets[s], last = target + corpus.target_offsets[s + 1];
    packed.target_inputs.push_back(target_eos);
    packed.target_inputs.insert(packed.target_inputs.end(), first, last - 1);
    packed.target_outputs.insert(packed.target_outputs.end(), first, last);
  }
  return packed;
}

}  // namespace fovea::data

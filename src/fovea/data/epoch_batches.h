#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

// The batches of an epoch over pairs of sequences, such as sentences and their translations.
namespace fovea::data {

// The numbers of tokens of a pair, each with </s>.
struct PairLength {
  uint32_t source = 0, target = 0;
};

// A source of the lengths of pairs: `read` fills `out` with those of the pairs first, first + stride ...
struct LengthSource {
  int64_t size = 0;  // pairs
  std::function<void(int64_t first, int64_t stride, std::span<PairLength> out)> read = nullptr;
};

// A batch is a list of pairs.
using Batch = std::vector<int64_t>;

// A batch has at most its limit of target tokens times this number in source tokens. Text of two languages has far
// fewer, so only long sources of very short targets end a batch by it: they would take many times its memory.
inline constexpr int64_t kSourceTokensPerTarget = 4;

// The pairs that are shuffled together. A corpus of more is cut in sections of equal size, each of pairs from all over
// the corpus; an epoch takes the sections in a random order. What an epoch keeps in memory is then limited: 4 bytes for
// each pair of a section, and 12 while it is laid out.
inline constexpr int64_t kSectionPairs = int64_t{1} << 26;

struct BatchOptions {
  int64_t max_target_tokens = 4096;  // including </s>; a longer sentence is a batch of its own
  int64_t max_sentences = 0;         // 0: no limit
  int64_t maxi_batch = 200;          // batches' worth of sentences sorted by length together
  uint64_t seed = 1;
  int64_t section_pairs = kSectionPairs;
};

// The batches of one epoch, a function of (lengths, options, epoch) alone: shuffle, sort within windows, cut, shuffle
// the batches. A position in training is thus (epoch, index).
class EpochBatches {
 public:
  EpochBatches() = default;
  // `lengths` is read now, and again when at() reaches another section.
  EpochBatches(LengthSource lengths, const BatchOptions& options, int64_t epoch);
  int64_t size() const { return static_cast<int64_t>(sentences_.size()); }
  // The number of pairs of each batch.
  const std::vector<int64_t>& sentences() const { return sentences_; }
  Batch at(int64_t batch);

 private:
  struct Range {
    uint32_t begin = 0, size = 0;  // of order_
  };
  void lay_out(int64_t section);
  int64_t sections() const;

  LengthSource lengths_;
  BatchOptions options_;
  int64_t epoch_ = 0;
  std::vector<int64_t> section_order_;
  std::vector<int64_t> first_batch_;  // of the sections in their order; [sections + 1]
  std::vector<int64_t> sentences_;
  int64_t section_ = -1;         // the one that is laid out in the two members below
  std::vector<uint32_t> order_;  // pair section + sections x order_[i]
  std::vector<Range> ranges_;    // batches
};

// All batches of an epoch.
std::vector<Batch> batches_of_epoch(const LengthSource& lengths, const BatchOptions& options, int64_t epoch);

// Batches in the order of length, the same always, with the same limits: for validation.
std::vector<Batch> batches_by_length(const LengthSource& lengths, int64_t max_target_tokens);

}  // namespace fovea::data

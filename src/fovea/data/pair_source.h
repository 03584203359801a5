#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "fovea/data/corpus.h"

namespace fovea::data {

// The pairs that a training reads, wherever they are.
class PairSource {
 public:
  virtual ~PairSource() = default;
  virtual LengthSource lengths() const = 0;  // this must outlive it
  virtual PackedBatch pack(const Batch& batch, int64_t target_eos) const = 0;
  virtual int64_t longest() const = 0;  // the most tokens of either side
  // As fingerprint() has it: the same for the same pairs, wherever they are.
  virtual std::string fingerprint() const = 0;
};

class HeldPairSource : public PairSource {
 public:
  explicit HeldPairSource(ParallelCorpus corpus) : corpus_(std::move(corpus)) {}
  LengthSource lengths() const override { return corpus_.lengths().in_turn(); }
  PackedBatch pack(const Batch& batch, int64_t target_eos) const override {
    return data::pack(corpus_, batch, target_eos);
  }
  int64_t longest() const override { return longest_side(corpus_); }
  std::string fingerprint() const override { return data::fingerprint(corpus_); }

 private:
  ParallelCorpus corpus_;
};

}  // namespace fovea::data

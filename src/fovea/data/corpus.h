#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/epoch_batches.h"
#include "fovea/text/vocab.h"

namespace fovea::data {

// The lengths in tokens of pairs, by where each begins: [pairs + 1].
struct PairLengths {
  std::span<const int64_t> source_offsets, target_offsets;
  int64_t size() const { return static_cast<int64_t>(source_offsets.size()) - 1; }
  int64_t target_length(int64_t pair) const { return target_offsets[pair + 1] - target_offsets[pair]; }
  int64_t source_length(int64_t pair) const { return source_offsets[pair + 1] - source_offsets[pair]; }
  LengthSource in_turn() const;  // the arrays must outlive it
};

// Parallel text as token ids, all in two flat arrays; </s> ends every sentence.
struct ParallelCorpus {
  std::vector<int32_t> source, target;                  // ids of all sentences
  std::vector<int64_t> source_offsets, target_offsets;  // [sentences + 1]
  int64_t size() const { return static_cast<int64_t>(source_offsets.size()) - 1; }
  int64_t target_length(int64_t sentence) const { return target_offsets[sentence + 1] - target_offsets[sentence]; }
  int64_t source_length(int64_t sentence) const { return source_offsets[sentence + 1] - source_offsets[sentence]; }
  PairLengths lengths() const { return {source_offsets, target_offsets}; }
};

struct CorpusOptions {
  int64_t max_length = 0;  // tokens without </s>; 0: no limit
  bool crop = false;       // cut longer sentences instead of leaving the pair out
  int threads = 1;         // that encode; the result does not depend on it
  bool trains = false;     // a model learns to write the target: warn if its vocabulary changes many lines
};

// Lines of two files, of each equally many.
struct ParallelText {
  std::string source_path, target_path;
  std::vector<std::string> source, target;
};

// Reads the files of `text` a part after the other: puts each part in the place of the one before and calls `use`.
// Throws if the files differ in their number of lines.
void read_in_parts(ParallelText& text, const std::function<void()>& use);

// Throws if the files differ in their number of lines.
ParallelText read_parallel(const std::string& source_path, const std::string& target_path);

// Takes the pairs of a text one after the other: ids with </s> at the end of each side.
class PairSink {
 public:
  virtual ~PairSink() = default;
  virtual void add(std::span<const int32_t> source, std::span<const int32_t> target) = 0;
};

// Keeps the pairs in memory.
class HeldPairs : public PairSink {
 public:
  HeldPairs() { corpus_.source_offsets = corpus_.target_offsets = {0}; }
  void add(std::span<const int32_t> source, std::span<const int32_t> target) override;
  ParallelCorpus take() { return std::move(corpus_); }

 private:
  ParallelCorpus corpus_;
};

// The lines of the log about a text that was encoded.
struct TextReport {
  std::string line;
  std::vector<std::string> warnings = {};
};
void log_report(const TextReport& report);

// Reads and encodes both sides, without ever holding the text of a large corpus. Throws like load_corpus().
TextReport encode_pairs(const std::string& source_path, const std::string& target_path, const text::Vocab& source,
                        const text::Vocab& target, const CorpusOptions& options, PairSink& sink);

// Throws if nothing is left. Pairs with an empty side (base/empty_line.h), and too long ones, are left out and counted
// in the log.
ParallelCorpus encode_corpus(const ParallelText& text, const text::Vocab& source, const text::Vocab& target,
                             const CorpusOptions& options);

// The pairs of encode_pairs(), held; logs its report.
ParallelCorpus load_corpus(const std::string& source_path, const std::string& target_path, const text::Vocab& source,
                           const text::Vocab& target, const CorpusOptions& options);

inline std::vector<Batch> batches_of_epoch(const ParallelCorpus& corpus, const BatchOptions& options, int64_t epoch) {
  return batches_of_epoch(corpus.lengths().in_turn(), options, epoch);
}
inline std::vector<Batch> batches_by_length(const ParallelCorpus& corpus, int64_t max_target_tokens) {
  return batches_by_length(corpus.lengths().in_turn(), max_target_tokens);
}

// Packed tokens: what an nn::Model reads.
struct PackedBatch {
  std::vector<int64_t> source, source_offsets;
  std::vector<int64_t> target_inputs, target_outputs, target_offsets;  // inputs: </s> y1 ... ; outputs: y1 ... </s>
};
PackedBatch pack(const ParallelCorpus& corpus, const Batch& batch, int64_t target_eos);

// The most tokens of either side.
int64_t longest_side(const ParallelCorpus& corpus);

// XXH3 of all token ids and lengths: tells whether a run resumes with the text it began with.
std::string fingerprint(const ParallelCorpus& corpus);

}  // namespace fovea::data

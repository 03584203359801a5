#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/text/vocab.h"

namespace fovea::data {

// The lengths in tokens of pairs, by where each begins: [pairs + 1].
struct PairLengths {
  std::span<const int64_t> source_offsets, target_offsets;
  int64_t size() const { return static_cast<int64_t>(source_offsets.size()) - 1; }
  int64_t target_length(int64_t pair) const { return target_offsets[pair + 1] - target_offsets[pair]; }
  int64_t source_length(int64_t pair) const { return source_offsets[pair + 1] - source_offsets[pair]; }
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

// Throws if the files differ in their number of lines.
ParallelText read_parallel(const std::string& source_path, const std::string& target_path);

// Throws if nothing is left. Pairs with an empty side (base/empty_line.h), and too long ones, are left out and counted
// in the log.
ParallelCorpus encode_corpus(const ParallelText& text, const text::Vocab& source, const text::Vocab& target,
                             const CorpusOptions& options);

// Reads and encodes both sides, without ever holding the text of a large corpus.
ParallelCorpus load_corpus(const std::string& source_path, const std::string& target_path, const text::Vocab& source,
                           const text::Vocab& target, const CorpusOptions& options);

// A batch is a list of sentences of the corpus.
using Batch = std::vector<int64_t>;

// A batch has at most its limit of target tokens times this number in source tokens. Text of two languages has far
// fewer, so only long sources of very short targets end a batch by it: they would take many times its memory.
inline constexpr int64_t kSourceTokensPerTarget = 4;

struct BatchOptions {
  int64_t max_target_tokens = 4096;  // including </s>; a longer sentence is a batch of its own
  int64_t max_sentences = 0;         // 0: no limit
  int64_t maxi_batch = 200;          // batches' worth of sentences sorted by length together
  uint64_t seed = 1;
};

// The batches of one epoch, a function of (options, epoch) alone: shuffle, sort within windows, cut, shuffle the
// batches. A position in training is thus (epoch, index).
std::vector<Batch> batches_of_epoch(const PairLengths& lengths, const BatchOptions& options, int64_t epoch);

// Batches in the order of length, the same always, with the same limits: for validation.
std::vector<Batch> batches_by_length(const PairLengths& lengths, int64_t max_target_tokens);

inline std::vector<Batch> batches_of_epoch(const ParallelCorpus& corpus, const BatchOptions& options, int64_t epoch) {
  return batches_of_epoch(corpus.lengths(), options, epoch);
}
inline std::vector<Batch> batches_by_length(const ParallelCorpus& corpus, int64_t max_target_tokens) {
  return batches_by_length(corpus.lengths(), max_target_tokens);
}

// Packed tokens: what an nn::Model reads.
struct PackedBatch {
  std::vector<int64_t> source, source_offsets;
  std::vector<int64_t> target_inputs, target_outputs, target_offsets;  // inputs: </s> y1 ... ; outputs: y1 ... </s>
};
PackedBatch pack(const ParallelCorpus& corpus, const Batch& batch, int64_t target_eos);

// XXH3 of all token ids and lengths: tells whether a run resumes with the text it began with.
std::string fingerprint(const ParallelCorpus& corpus);

}  // namespace fovea::data

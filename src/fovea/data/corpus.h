#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/text/vocab.h"

namespace fovea::data {

// Parallel text as token ids, all in two flat arrays; </s> ends every sentence.
struct ParallelCorpus {
  std::vector<int32_t> source, target;                  // ids of all sentences
  std::vector<int64_t> source_offsets, target_offsets;  // [sentences + 1]
  int64_t size() const { return static_cast<int64_t>(source_offsets.size()) - 1; }
};

struct CorpusOptions {
  int64_t max_length = 0;  // tokens without </s>; 0: no limit
  bool crop = false;       // cut longer sentences instead of leaving the pair out
};

// Throws if the files differ in their number of lines. Empty and too long pairs are left out and counted in the log.
ParallelCorpus load_corpus(const std::string& source_path, const std::string& target_path, const text::Vocab& source,
                           const text::Vocab& target, const CorpusOptions& options);

// A batch is a list of sentences of the corpus.
using Batch = std::vector<int64_t>;

struct BatchOptions {
  int64_t max_target_tokens = 4096;  // including </s>
  int64_t max_sentences = 0;         // 0: no limit
  int64_t maxi_batch = 200;          // batches' worth of sentences sorted by length together
  uint64_t seed = 1;
};

// The batches of one epoch, a function of (options, epoch) alone: shuffle, sort within windows, cut, shuffle the
// batches. A position in training is thus (epoch, index).
std::vector<Batch> batches_of_epoch(const ParallelCorpus& corpus, const BatchOptions& options, int64_t epoch);

// Packed tokens: what nn::Transformer takes.
struct PackedBatch {
  std::vector<int64_t> source, source_offsets;
  std::vector<int64_t> target_inputs, target_outputs, target_offsets;  // inputs: </s> y1 ... ; outputs: y1 ... </s>
};
PackedBatch pack(const ParallelCorpus& corpus, const Batch& batch, int64_t target_eos);

}  // namespace fovea::data

#pragma once
#include <cstdint>
#include <vector>

#include "fovea/data/columns.h"
#include "fovea/data/corpus.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/models/tagging/sentences.h"

namespace fovea::tagging {

// Training data: for each part the labels of its words (source) and its tokens (target).
struct TaggedText {
  data::ParallelCorpus parts;
  std::vector<int64_t> firsts;  // beside parts.source
  std::vector<uint8_t> levels;  // beside parts.target; none for models without clauses
  int64_t sentences = 0;        // of which the parts are
};
TaggedText encode_text(const data::LabelledText& text, const LabelSet& labels, SentenceEncoder& encoder,
                       const ClauseFinder& clauses);

// The tokens of some parts, and their words' labels.
struct LabelledBatch : TagBatch {
  std::vector<int64_t> labels;
};
LabelledBatch batch_of(const TaggedText& text, const data::Batch& parts);

}  // namespace fovea::tagging

#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/data/columns.h"
#include "fovea/metrics/conll.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/models/tagging/model.h"
#include "fovea/models/tagging/sentences.h"

namespace fovea::tagging {

enum class OnSignal : uint8_t { kThrow, kFinish };

// The parts of a model that tagging needs; all must outlive the calls.
struct TaggingParts {
  static constexpr int64_t kBatchTokens = 4096;
  Tagger model;
  const text::EncoderVocab& vocab;
  const LabelSet& labels;
  metrics::LabelDialect dialect;
  ClauseFinder clauses;
  int64_t longest = 0;  // tokens of a sequence, see longest_sequence()
  int64_t batch_tokens = kBatchTokens;
  OnSignal on_signal = OnSignal::kThrow;  // an Interrupted
};

// The labels of each word of sentences, none of which is empty, in the model's dialect. `tags` are the words'
// part-of-speech tags, by which a model finds clauses, or empty. A sentence's labels do not depend on the others.
// Throws Interrupted when a signal comes, if `parts` say so, and an Error if the model's scores are not finite.
std::vector<Labels> tag_sentences(const TaggingParts& parts, std::span<const std::vector<std::string>> sentences,
                                  std::span<const std::vector<std::string>> tags = {});

// The scores of a model's labels against those of a text, which may be in another dialect and form. Labels are equal if
// they are so in the model's. The processes of a team share the sentences.
metrics::ConllScore score_text(const TaggingParts& parts, const data::LabelledText& text, Collective& team = alone());

}  // namespace fovea::tagging

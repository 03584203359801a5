#pragma once
#include <cstdint>
#include <optional>

#include "fovea/metrics/chunks.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/models/tagging/model.h"
#include "fovea/models/tagging/tag_sentences.h"
#include "fovea/models/trained_model.h"
#include "fovea/text/encoder_vocab.h"

namespace fovea::tagging {

struct LoadedTagger {
  Tagger model;
  TaggingConfig config;
  text::EncoderVocab vocab;
  LabelSet labels;
  metrics::LabelDialect dialect;
  std::optional<text::ClauseDictionary> clauses = {};  // none: the mechanisms need no clauses
  // The parts refer to this object.
  TaggingParts parts(int64_t batch_tokens) const {
    return {model,       vocab, labels, dialect, ClauseFinder(clauses ? &*clauses : nullptr), longest_sequence(config),
            batch_tokens};
  }
};

// The tagger of an opened checkpoint (trained_model.h), with its vocabulary and its labels.
LoadedTagger load_tagger(const models::TrainedModel& trained);
LoadedTagger load_tagger(const TrainedModelOptions& options);

}  // namespace fovea::tagging

#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/corpus.h"
#include "fovea/data/pair_source.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/translation/options.h"
#include "fovea/text/vocab.h"

// The text and the vocabularies that a training reads before it begins.
namespace fovea::translation {

struct TrainingData {
  text::Vocab source_vocab, target_vocab;
  std::unique_ptr<data::PairSource> train;
  data::BatchOptions batches;
  // The checkpoint's files for splitting the source into clauses: a dictionary, perhaps a tagger; empty if not needed.
  std::map<std::string, std::string> clause_files = {};
  std::string fingerprint = {};  // of the text and of what orders it: a position in it means nothing elsewhere
};
// Loads --vocabs, --clause-dictionary, --clause-tagger and --train-sets of options that add_problems() accepts.
TrainingData load_training_data(const TrainConfig& config, const Options& options, const EncoderDecoderConfig& model);

// Throws an Error if the model has learned positions and fewer than the longest sentence of a corpus needs, in tokens.
// `option` names the corpus.
void check_positions(const ModelConfig& model, int64_t longest, std::string_view option);

// The model's configuration with the sizes of the vocabularies; throws if shared embeddings meet two vocabularies.
EncoderDecoderConfig with_vocabularies(EncoderDecoderConfig model, const TrainingData& data);

}  // namespace fovea::translation

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/corpus.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/train_config.h"
#include "fovea/text/vocab.h"

// What a training needs from the world before it begins.
namespace fovea::train {

struct TrainingData {
  text::Vocab source_vocab, target_vocab;
  data::ParallelCorpus train;
  data::BatchOptions batches;
  std::string fingerprint;  // of the text and of what orders it: a position in it means nothing elsewhere
};
// Loads --vocabs and --train-sets of a configuration that validate() lets pass.
TrainingData load_training_data(const TrainConfig& config);

// Threads that turn text into tokens: --cpu-threads, or all.
int encoding_threads(const TrainConfig& config);

// Throws where the model has learned positions and fewer than a sentence of the corpus needs. `option`: the corpus's.
void check_positions(const ModelConfig& model, const data::ParallelCorpus& corpus, std::string_view option);

// The model's configuration with the sizes of the vocabularies; throws if shared embeddings meet two vocabularies.
ModelConfig with_vocabularies(ModelConfig model, const TrainingData& data);

}  // namespace fovea::train

#pragma once
#include <string>

#include "fovea/models/tagging/config.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/tagging/options.h"
#include "fovea/text/encoder_vocab.h"

namespace torch::nn {
class Module;
}

namespace fovea::tagging {

// The beginning of a tagger, from the options and --pretrained-model.
struct TaggerStart {
  TaggingConfig config;  // with the vocabulary's size
  text::EncoderVocab vocab;
  std::string clause_dictionary = {};  // the bytes of the signal words; "" if the model has no clauses
};

// With --pretrained-model, or when a run resumes, fields of the model's shape that have their default are those of that
// model; so are its mechanisms, and how it finds clauses, unless an --attention option is given. Throws a UsageError
// for a field that differs and for options of clauses that the model does not have, an Error for a model of another
// task, for another vocabulary, and if there is no vocabulary.
TaggerStart start_tagger(const TrainConfig& train, const TaggingConfig& given, const Options& options);

// The weights of a tagger that starts from `pretrained`. The output layer starts with the module's own weights if
// `has_same_labels` is false, and so do parameters that `pretrained` lacks, but those of mixtures of clauses start
// where little changes (nn::add_mixtures); the log says so.
nn::NamedTensors tagger_weights(const nn::Checkpoint& pretrained, const torch::nn::Module& module,
                                bool has_same_labels);

}  // namespace fovea::tagging

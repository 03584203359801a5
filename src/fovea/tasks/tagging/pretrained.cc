#include "fovea/tasks/tagging/pretrained.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/models/source_clauses.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/clauses.h"
#include "fovea/spec/key_lengths.h"
#include "fovea/train/run_folder.h"

namespace fovea::tagging {
namespace {

constexpr std::array<std::string_view, 13> kShapeFields = {"dim-emb",
                                                           "enc-depth",
                                                           "transformer-heads",
                                                           "transformer-dim-ffn",
                                                           "transformer-norm",
                                                           "transformer-norm-kind",
                                                           "transformer-positions",
                                                           "max-positions",
                                                           "norm-epsilon",
                                                           "transformer-ffn-activation",
                                                           "embedding-norm",
                                                           "token-types",
                                                           "dim-vocabs"};
// Adopted with the mechanisms.
constexpr std::string_view kClauseField = "clause-tag-column";
constexpr std::array<std::string_view, 5> kAttentionFields = {"attention", "attention-encoder", "attention-layers",
                                                              "sparsify", "attention-seed"};

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// The configuration of the encoder in a checkpoint of a tagger or of a converted encoder.
TaggingConfig config_of_pretrained(const nn::Checkpoint& checkpoint) {
  const std::string origin = checkpoint.folder / nn::kConfigFile;
  if (checkpoint.identity.task == kTask) return nn::config_of<TaggingConfig>(checkpoint.identity, origin);
  if (checkpoint.identity.task != kEncoderTask)
    throw Error(cat("--pretrained-model: '", checkpoint.folder.string(), "' is a model of the task ",
                    checkpoint.identity.task, "; expected one of the tasks ", kTask, ", ", kEncoderTask));
  TaggingConfig config;
  static_cast<EncoderConfig&>(config) = nn::config_of<EncoderConfig>(checkpoint.identity, origin);
  return config;
}

// `given` with the fields of `loaded` where it has the default.
TaggingConfig adopted(TaggingConfig given, TaggingConfig loaded) {
  TaggingConfig defaults;
  const std::vector<FieldView> own = field_views(given), theirs = field_views(loaded), usual = field_views(defaults);
  bool has_attention = false;
  for (size_t i = 0; i < own.size(); ++i)
    has_attention =
        has_attention || (is_one_of(kAttentionFields, own[i].name) && values_of(own[i]) != values_of(usual[i]));
  for (size_t i = 0; i < own.size(); ++i) {
    const bool is_attention = is_one_of(kAttentionFields, own[i].name) || own[i].name == kClauseField;
    if (!is_one_of(kShapeFields, own[i].name) && (has_attention || !is_attention)) continue;
    if (values_of(own[i]) != values_of(usual[i]) && values_of(own[i]) != values_of(theirs[i]))
      throw UsageError(cat("--", own[i].name, ": got ", join(values_of(own[i]), " "), ", but --pretrained-model has ",
                           join(values_of(theirs[i]), " "), "; leave the option out"));
    if (!values_of(theirs[i]).empty() || own[i].is_list()) assign(own[i], values_of(theirs[i]));
  }
  return given;
}

// The checkpoint whose model this training has: the run's own when it resumes.
std::optional<nn::Checkpoint> model_to_adopt(const TrainConfig& train) {
  if (train.pretrained_model.empty()) return std::nullopt;
  if (train::goes_on(train)) return nn::read_checkpoint(train.model, nn::Load::kModel, "--model");
  return nn::load_checkpoint(train.pretrained_model, nn::Load::kModel, "--pretrained-model");
}

std::string dictionary_of_beginning(const TrainConfig& train, const TaggingConfig& config, const std::string& path) {
  const bool has_clauses = uses_clauses(config);
  if (!has_clauses && config.clause_tag_column > 0)
    throw UsageError(
        "--clause-tag-column: the model has no clauses; give --attention-encoder some, such as mix(full,clause(1))");
  return models::new_clause_dictionary(path, has_clauses, train::goes_on(train) ? train.model : train.pretrained_model);
}

}  // namespace

TaggerStart start_tagger(const TrainConfig& train, const TaggingConfig& given, const Options& options) {
  const std::string& vocabs = options.vocabs;
  const std::optional<nn::Checkpoint> pretrained = model_to_adopt(train);
  if (!pretrained && vocabs.empty())
    throw UsageError("--vocabs is missing; expected a SentencePiece model (fovea vocab) or BERT's vocab.txt");
  TaggingConfig config = pretrained ? adopted(given, config_of_pretrained(*pretrained)) : given;
  text::EncoderVocab vocab =
      pretrained ? text::EncoderVocab::from_files(pretrained->identity.files, pretrained->folder.string())
                 : text::EncoderVocab::load(vocabs);
  if (pretrained && !vocabs.empty() && !text::EncoderVocab::load(vocabs).has_pieces_of(vocab))
    throw Error(cat("--vocabs: '", vocabs, "' is not the vocabulary of '", pretrained->folder.string(),
                    "'; leave the option out"));
  const int64_t wanted = config.dim_vocabs.empty() ? 0 : config.dim_vocabs.front();
  if (wanted != 0 && wanted != vocab.size())
    throw Error(cat("--dim-vocabs: got ", wanted, ", but the vocabulary has ", vocab.size(),
                    " pieces; leave the option out, its size is the vocabulary's"));
  config.dim_vocabs = {vocab.size()};
  validate(config);
  set_biases(config, {.encoder = longest_sequence(config)});
  std::string dictionary = dictionary_of_beginning(train, config, options.clause_dictionary);
  return {std::move(config), std::move(vocab), std::move(dictionary)};
}

nn::NamedTensors tagger_weights(const nn::Checkpoint& pretrained, const torch::nn::Module& module,
                                bool has_same_labels) {
  const bool is_tagger = pretrained.identity.task == kTask;
  nn::NamedTensors own = nn::parameters_of(module), weights;
  own.merge(nn::buffers_of(module));
  std::vector<std::string> fresh, mixtures, unused;
  for (const auto& [name, tensor] : pretrained.model) {
    const std::string here = is_tagger ? name : cat("encoder.", name);
    if (here.starts_with("output.") && !has_same_labels) continue;
    if (own.contains(here)) {
      weights[here] = tensor;
    } else {
      unused.push_back(here);
    }
  }
  nn::NamedTensors mixed = weights;
  nn::add_mixtures(module, mixed);
  for (const auto& [name, tensor] : mixed) {
    if (weights.emplace(name, tensor).second) mixtures.push_back(name);
  }
  for (const auto& [name, tensor] : own) {
    if (weights.emplace(name, tensor).second && !name.starts_with("output.")) fresh.push_back(name);
  }
  if (!has_same_labels)
    log::info(cat("[model] '", pretrained.folder.string(), "' ", is_tagger ? "has other labels" : "has no labels",
                  "; the output layer starts with new weights"));
  if (!fresh.empty())
    log::info(cat("[model] parameters that '", pretrained.folder.string(),
                  "' lacks start with new weights: ", join(fresh, ", ")));
  if (!mixtures.empty())
    log::info(cat("[model] mixtures of clauses that '", pretrained.folder.string(),
                  "' lacks start with little weight on the clauses: ", join(mixtures, ", ")));
  if (!unused.empty())
    log::info(cat("[model] parameters of '", pretrained.folder.string(),
                  "' that this model does not have are left out: ", join(unused, ", ")));
  return weights;
}

}  // namespace fovea::tagging

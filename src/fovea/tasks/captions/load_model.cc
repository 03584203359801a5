#include "fovea/tasks/captions/load_model.h"

#include <memory>
#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/open_checkpoint.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"
#include "fovea/tasks/captions/task.h"

namespace fovea::captions {
namespace {

text::Vocab vocab_of(const nn::Checkpoint& checkpoint, const CaptionConfig& config) {
  const auto found = checkpoint.identity.files.find(kVocabFile);
  const std::string folder = checkpoint.folder.string();
  if (found == checkpoint.identity.files.end()) throw Error(cat(folder, ": damaged: it has no ", kVocabFile));
  text::Vocab vocab = text::Vocab::from_bytes(found->second, cat(folder, "/", kVocabFile));
  if (vocab.size() == config.dim_vocabs.at(0)) return vocab;
  throw Error(cat(folder, "/", kVocabFile, ": has ", vocab.size(), " pieces, but the model in ", folder,
                  " was trained with ", config.dim_vocabs.at(0)));
}

CaptionConfig config_of_checkpoint(const nn::Checkpoint& checkpoint) {
  const std::string origin = checkpoint.folder / nn::kConfigFile;
  CaptionConfig config = nn::config_of<CaptionConfig>(checkpoint.identity, origin);
  if (vector_input(config).width == 0)
    throw Error(cat(origin, ": has neither image-shape nor dim-features; expected one of them"));
  return config;
}

// The validation refers to the others.
struct ValidatedCaptionModel {
  Options options;
  LoadedCaptionModel loaded;
  Validation validation;

  ValidatedCaptionModel(Options given, LoadedCaptionModel model)
      : options(std::move(given)),
        loaded(std::move(model)),
        validation(options, loaded.config.patch_size, inputs_of(options, loaded.config), loaded.vocab) {}
  static std::shared_ptr<const Inputs> inputs_of(const Options& options, const CaptionConfig& config) {
    if (!options.valid_features.empty()) return nullptr;
    return std::make_shared<const Inputs>(options.train_files(), config.patch_size);
  }
};

}  // namespace

LoadedCaptionModel load_caption_model(const TrainedModelOptions& options) {
  nn::set_cpu_threads(options.cpu_threads);
  const at::Device device = nn::parse_device(options.devices);
  const nn::Checkpoint checkpoint = models::open_checkpoint(options.model, {kTask});
  const CaptionConfig config = config_of_checkpoint(checkpoint);
  text::Vocab vocab = vocab_of(checkpoint, config);
  nn::Transformer model(config, std::nullopt, vector_input(config));
  nn::load_parameters(*model, checkpoint.model, checkpoint.folder / nn::kModelFile);
  const AttentionOverride& mechanisms = options;
  if (mechanisms != AttentionOverride{}) model->override_attention(mechanisms);
  nn::move_module(*model, device, options.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  model->eval();
  return {model, config, std::move(vocab)};
}

tasks::ModelValidation CaptionTask::load_validation(const TrainConfig& config, const Options& options) {
  Problems problems;
  problems.add_if(options.valid_captions.empty(), "--valid-captions is missing; expected files of captions");
  problems.add_if(options.valid_features.empty() && options.features.empty(),
                  "--valid-features is missing; expected files of images or of features");
  problems.throw_if_any();
  TrainedModelOptions model;
  model.model = config.model;
  model.devices = config.devices;
  model.cpu_threads = config.cpu_threads;
  const auto whole = std::make_shared<ValidatedCaptionModel>(options, load_caption_model(model));
  require_fitting(whole->loaded.config, whole->validation.inputs(), "--valid-features");
  return {.module = whole->loaded.model.ptr(),
          .measures = known_measures(),
          .default_measures = captions::default_measures(),
          .validate = [whole](const std::vector<std::string>& names) {
            return whole->validation.run(whole->loaded.model, names);
          }};
}

}  // namespace fovea::captions

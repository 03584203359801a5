#include "fovea/tasks/captions/load_model.h"

#include <memory>
#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/trained_model.h"
#include "fovea/tasks/captions/task.h"

namespace fovea::captions {
namespace {

text::Vocab vocab_of(const models::TrainedModel& trained, const CaptionConfig& config) {
  text::Vocab vocab = text::Vocab::from_bytes(trained.file(kVocabFile), trained.path(kVocabFile));
  trained.require_vocabulary(config.dim_vocabs, vocab.size(), cat("the size of ", kVocabFile));
  return vocab;
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
  const models::TrainedModel trained(options, {kTask});
  const auto config = trained.config<CaptionConfig>();
  if (vector_input(config).width == 0)
    throw Error(cat(trained.path(nn::kConfigFile), ": has neither image-shape nor dim-features; expected one of them"));
  text::Vocab vocab = vocab_of(trained, config);
  return {trained.with_weights(nn::Model(config, std::nullopt, nn::MediaInput{.vectors = vector_input(config)})),
          config, std::move(vocab)};
}

tasks::ModelValidation CaptionTask::load_validation(const TrainConfig& config, const Options& options) {
  Problems problems;
  problems.add_if(options.valid_captions.empty(), "--valid-captions is missing; expected files of captions");
  problems.add_if(options.valid_features.empty() && options.features.empty(),
                  "--valid-features is missing; expected files of images or of features");
  problems.throw_if_any();
  const auto whole = std::make_shared<ValidatedCaptionModel>(
      options, load_caption_model(tasks::options_of_validated<TrainedModelOptions>(config)));
  require_fitting(whole->loaded.config, whole->validation.inputs(), "--valid-features");
  return {.module = whole->loaded.model.ptr(),
          .measures = measures().known(),
          .default_measures = captions::default_measures(),
          .validate = [whole](const std::vector<std::string>& names) {
            return whole->validation.run(whole->loaded.model, names);
          }};
}

}  // namespace fovea::captions

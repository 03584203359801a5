#include <torch/nn/module.h>

#include <memory>
#include <utility>

#include "fovea/base/collective.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/nn/device.h"
#include "fovea/tasks/translation/task.h"

namespace fovea::translation {
namespace {

// The validation refers to the others.
struct ValidatedModel {
  Options options;
  LoadedModel loaded;
  TrainingData data;  // vocabularies alone
  Validation validation;

  ValidatedModel(const TrainConfig& config, const Options& given, LoadedModel model)
      : options(given),
        loaded(std::move(model)),
        data{std::move(loaded.source), std::move(loaded.target), {}, {}},
        validation(config, options, data, nn::parse_device(config.devices)) {}
};

}  // namespace

tasks::ModelValidation TranslationTask::load_validation(const TrainConfig& config, const Options& options) {
  Problems problems;
  problems.add_unless_two_sides("valid-sets", options.valid_sets);
  problems.throw_if_any();
  const auto whole =
      std::make_shared<ValidatedModel>(config, options, load_model(tasks::options_of_validated<ModelOptions>(config)));
  check_positions(whole->loaded.model->config(), data::longest_side(whole->validation.corpus()), "--valid-sets");
  return {.module = whole->loaded.model.ptr(),
          .measures = measures().known(),
          .default_measures = translation::default_measures(),
          .validate = [whole](const std::vector<std::string>& names) {
            return whole->validation.run(whole->loaded.model, names, alone());
          }};
}

}  // namespace fovea::translation

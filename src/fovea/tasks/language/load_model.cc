#include "fovea/tasks/language/load_model.h"

#include <optional>
#include <string>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/trained_model.h"

namespace fovea::language {
namespace {

text::Units load_units(const models::TrainedModel& trained) {
  const auto& files = trained.identity().files;
  if (files.size() != 1)
    throw Error(cat(trained.folder(), ": damaged: got ", files.size(),
                    " files of units; expected one, units.txt or units.spm"));
  return text::Units::from_file(files.begin()->first, files.begin()->second);
}

}  // namespace

nn::StreamCut stream_cut(const LanguageConfig& config) {
  const int64_t memory = memory_of(config);
  return memory == 0 ? nn::StreamCut{} : nn::StreamCut{.segment = config.segment_length, .memory = memory};
}

LoadedModel load_model(const LanguageModelOptions& options, std::string_view option) {
  const models::TrainedModel trained(options, {kTask}, option);
  auto config = trained.config<LanguageConfig>();
  config.memory_length = memory_of(config);  // as trained, whatever mechanism the options bring
  text::Units units = load_units(trained);
  trained.require_vocabulary(config.dim_vocabs, units.size(), cat("the size of ", units.file_name()));
  nn::Model model = trained.with_weights(nn::Model(config, std::nullopt));
  static_cast<ModelConfig&>(config) = model->config();
  if (options.memory_length >= 0) config.memory_length = options.memory_length;
  config.same_length = options.same_length || (config.same_length && config.memory_length > 0);
  validate(config);
  if (config.same_length) model->limit_reach(config.memory_length + 1);
  return {model, std::move(config), std::move(units)};
}

UnitRules unit_rules(const LoadedModel& loaded, bool allow_unk) {
  UnitRules rules;
  const bool has_documents = loaded.config.documents != "no";
  if (loaded.units.is_bytes()) {
    if (has_documents) rules.last = loaded.units.eos();
    if (!has_documents) rules.never.push_back(loaded.units.eos());
  }
  if (const auto unk = loaded.units.unk(); unk && !allow_unk) rules.never.push_back(*unk);
  return rules;
}

}  // namespace fovea::language

#include "fovea/tasks/language/load_model.h"

#include <optional>
#include <string>
#include <utility>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/models/trained_model.h"
#include "fovea/spec/positions.h"

namespace fovea::language {
namespace {

// Models may have more rows than a folder has tokens.
text::Units load_units(const models::TrainedModel& trained, const LanguageConfig& config) {
  text::Units units = text::Units::from_files(trained.identity().files, trained.folder());
  const int64_t rows = config.dim_vocabs.empty() ? 0 : config.dim_vocabs.front();
  return units.is_of_folder() && rows > units.size() ? units.with_rows(rows) : units;
}

// The schemes without the argument that no weight depends on.
PositionSchemes without_clamp(PositionSchemes schemes) {
  for (PositionScheme& scheme : schemes) {
    if (auto* relative = std::get_if<TransformerXl>(&scheme)) relative->clamp = 0;
  }
  return schemes;
}

// The trained positions with the clamp of --transformer-positions, or as they are if that is empty.
std::string positions_of(const std::string& given, const std::string& trained) {
  if (given.empty()) return trained;
  constexpr std::string_view kOption = "--transformer-positions";
  const PositionSchemes own = parse_positions(trained);
  const PositionSchemes wanted = [&] {
    try {
      return parse_positions(given);
    } catch (const UsageError& error) {
      throw UsageError(cat(kOption, ": ", error.what()));
    }
  }();
  if (!find_scheme<TransformerXl>(own))
    throw Error(cat(kOption, ": got '", given, "', but the model was trained with '", trained,
                    "'; only the clamp of transformer-xl can differ from training, so leave the option out"));
  if (without_clamp(wanted) != without_clamp(own))
    throw Error(cat(kOption, ": got '", given, "', but the model was trained with '", trained,
                    "'; expected the same with another clamp=N of transformer-xl"));
  return print(wanted);
}

}  // namespace

nn::StreamCut stream_cut(const LanguageConfig& config) {
  const int64_t memory = memory_of(config);
  return memory == 0 ? nn::StreamCut{} : nn::StreamCut{.segment = config.segment_length, .memory = memory};
}

nn::CacheType cache_type(const LoadedModel& loaded, const std::string& precision) {
  const auto type = parse_choice<nn::CacheType>(nn::kCacheTypes, precision, "--cache-precision: got");
  if (type == nn::CacheType::kModel) return type;
  if (type == nn::CacheType::kBFloat16 && loaded.model->output_weight().scalar_type() == at::kBFloat16)
    return nn::CacheType::kModel;  // it has that type already
  const int64_t layers = loaded.config.dec_depth, narrow = loaded.model->count_narrow_layers();
  if (narrow == 0) {
    throw Error(cat("--cache-precision ", precision,
                    ": got a model without a layer that can keep such keys and values ", "(--attention ",
                    loaded.config.attention, " on ", loaded.model->output_weight().device().str(),
                    "); expected layers with full attention on the CPU; leave the option out"));
  }
  if (narrow < layers)
    log::info(cat("--cache-precision ", precision, ": ", narrow, " of ", layers,
                  " layers have full attention; the others keep keys and values in the model's type"));
  return type;
}

LoadedModel load_model(const LanguageModelOptions& options, std::string_view option) {
  const models::TrainedModel trained(options, {kTask}, option);
  auto config = trained.config<LanguageConfig>();
  config.memory_length = memory_of(config);  // as trained, whatever mechanism the options bring
  config.transformer_positions = positions_of(options.transformer_positions, config.transformer_positions);
  text::Units units = load_units(trained, config);
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
  const text::Units& units = loaded.units;
  if (units.is_of_folder() || (units.is_bytes() && loaded.config.documents != "no")) {
    rules.ends = units.ends();
  } else if (units.is_bytes()) {
    rules.never.push_back(units.eos());
  }
  if (const auto unk = units.unk(); unk && !allow_unk) rules.never.push_back(*unk);
  return rules;
}

}  // namespace fovea::language

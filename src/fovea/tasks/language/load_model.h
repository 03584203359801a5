#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/nn/model.h"
#include "fovea/tasks/language/config.h"
#include "fovea/tasks/language/model_options.h"
#include "fovea/text/units.h"

namespace fovea::language {

struct LoadedModel {
  nn::Model model;
  LanguageConfig config;
  text::Units units;
};

// Sets the threads, and loads the model to its device in its precision, with its mechanisms and its memory as `options`
// has them, which `config` says. Throws an Error for a model of another task. `option` is the flag that
// named the model.
LoadedModel load_model(const LanguageModelOptions& options, std::string_view option = "--model");

// The way in which generation reads a text like training did.
nn::StreamCut stream_cut(const LanguageConfig& config);

// The type of the caches of generation, for --cache-precision. Throws an Error if no layer can have a narrower one than
// the model's; says in the log if some cannot.
nn::CacheType cache_type(const LoadedModel& loaded, const std::string& precision);

// The units that generation chooses.
struct UnitRules {
  std::vector<int64_t> never = {};  // that no text has
  std::vector<int64_t> ends = {};   // that end a text
};
UnitRules unit_rules(const LoadedModel& loaded, bool allow_unk);

}  // namespace fovea::language

#include "fovea/serve/serve_options.h"

#include <algorithm>
#include <filesystem>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"
#include "fovea/text/language_code.h"

namespace fovea::serve {
namespace {

ModelPlace model_place(const std::string& given) {
  ModelPlace place;
  const size_t equals = given.find('=');
  place.is_named = equals != std::string::npos && equals > 0 && given.substr(0, equals).find('/') == std::string::npos;
  place.folder = place.is_named ? given.substr(equals + 1) : given;
  std::filesystem::path folder = std::filesystem::path(place.folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  place.name = place.is_named ? given.substr(0, equals) : folder.filename().string();
  for (size_t dash = place.name.find('-'); place.is_named && dash != std::string::npos;
       dash = place.name.find('-', dash + 1)) {
    const std::string source = place.name.substr(0, dash), target = place.name.substr(dash + 1);
    if (!text::is_language_code(source) || !text::is_language_code(target)) continue;
    place.source = source;
    place.target = target;
    break;
  }
  return place;
}

}  // namespace

std::vector<ModelPlace> model_places(const std::vector<std::string>& models) {
  std::vector<ModelPlace> places;
  for (const std::string& given : models) {
    const ModelPlace place = model_place(given);
    if (place.folder.empty()) throw UsageError(cat("--model: got '", given, "'; expected DIR or NAME=DIR"));
    const auto same = std::ranges::find(places, place.name, &ModelPlace::name);
    if (same != places.end())
      throw Error(cat("--model: '", same->folder, "' and '", place.folder, "' both have the name '", place.name,
                      "'; name one of them, as in ", place.name, "-2=", place.folder));
    places.push_back(place);
  }
  return places;
}

void validate(const ServeOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  ModelOptions one;
  static_cast<AttentionOverride&>(one) = options;
  static_cast<MachineOptions&>(one) = options;
  one.model = options.model.empty() ? "" : options.model.front();
  one.precision = options.precision;
  add_model_problems(one, problems);
  problems.throw_if_any();
  model_places(options.model);
}

}  // namespace fovea::serve

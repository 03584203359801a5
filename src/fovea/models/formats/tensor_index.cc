#include "fovea/models/formats/tensor_index.h"

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/text/json_values.h"

namespace fovea::models {

std::map<std::string, std::string> parse_tensor_index(const std::string& json, const std::string& origin) {
  const text::Json root = text::parse_json_object(json, origin);
  std::map<std::string, std::string> places;
  for (const auto& [tensor, file] : text::json_object(root, "weight_map", origin).items()) {
    const std::string place = cat(origin, ": weight_map: ", tensor);
    if (!file.is_string()) throw Error(cat(place, ": got ", text::shown_json(file), "; expected the name of a file"));
    const auto name = file.get<std::string>();
    if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string_view("/\0", 2)) != name.npos)
      throw Error(cat(place, ": got '", name, "'; expected the name of a file in the same folder"));
    places[tensor] = name;
  }
  return places;
}

void refuse_adapter(const std::filesystem::path& folder) {
  const std::string path = folder / "adapter_config.json";
  if (!std::filesystem::exists(path) || std::filesystem::exists(folder / "config.json")) return;
  const auto base =
      text::json_text(text::parse_json_object(read_text_file(path), path), "base_model_name_or_path", path);
  throw Error(cat("'", folder.string(), "' is an adapter of PEFT's", base ? cat(" for '", one_line(*base), "'") : "",
                  ", not a model; merge it into its model with merge_and_unload(), save that, and convert its folder"));
}

}  // namespace fovea::models

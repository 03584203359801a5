#include "fovea/models/formats/tensor_index.h"

#include "fovea/base/error.h"
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

}  // namespace fovea::models

#include "fovea/models/formats/tensor_folder.h"

#include <set>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/tensor_index.h"

namespace fovea::models {

nn::NamedTensors read_tensor_folder(const std::filesystem::path& folder) {
  const std::string whole = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(whole) || !std::filesystem::exists(index)) {
    require_file(whole, "model");
    return nn::parse_safetensors(read_file(whole), whole);
  }
  const std::map<std::string, std::string> places = parse_tensor_index(read_file(index), index);
  std::set<std::string> files;
  for (const auto& [tensor, file] : places) files.insert(file);
  for (const std::string& file : files) require_file(folder / file, "model");
  nn::NamedTensors all;
  for (const std::string& file : files) {
    const std::string path = folder / file;
    for (auto& [name, tensor] : nn::parse_safetensors(read_file(path), path)) {
      const auto place = places.find(name);
      if (place == places.end() || place->second != file)
        throw Error(cat(path, ": holds the tensor '", name, "', which ", index, " does not place there"));
      all.emplace(name, tensor);
    }
  }
  for (const auto& [name, file] : places) {
    if (!all.contains(name))
      throw Error(cat(index, ": places the tensor '", name, "' in '", file, "', which does not hold it"));
  }
  return all;
}

}  // namespace fovea::models

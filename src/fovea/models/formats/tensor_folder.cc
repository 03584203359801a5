#include "fovea/models/formats/tensor_folder.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/tensor_index.h"
#include "fovea/models/formats/torch_file.h"

namespace fovea::models {
namespace {

constexpr const char *kSafetensors = "model.safetensors", *kTorch = "pytorch_model.bin";

at::ScalarType type_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kTorchTypes = {{{"Double", at::kDouble},
                                                                                        {"Float", at::kFloat},
                                                                                        {"Half", at::kHalf},
                                                                                        {"BFloat16", at::kBFloat16},
                                                                                        {"Long", at::kLong},
                                                                                        {"Int", at::kInt},
                                                                                        {"Short", at::kShort},
                                                                                        {"Char", at::kChar},
                                                                                        {"Byte", at::kByte},
                                                                                        {"Bool", at::kBool}}};
  return std::ranges::find(kTorchTypes, name, &std::pair<std::string_view, at::ScalarType>::first)->second;
}

// Tensors that share a storage in the file share one here.
nn::NamedTensors tensors_of_torch(const std::string& path) {
  const std::string file = read_file(path);
  std::map<const char*, at::Tensor> storages;
  nn::NamedTensors tensors;
  for (const TorchTensor& tensor : parse_torch_file(file, path)) {
    const at::ScalarType type = type_named(tensor.type);
    at::Tensor& storage = storages[tensor.storage.data()];
    if (!storage.defined() || storage.scalar_type() != type) {
      storage = at::empty({static_cast<int64_t>(tensor.storage.size() / c10::elementSize(type))}, type);
      std::memcpy(storage.data_ptr(), tensor.storage.data(), tensor.storage.size());
    }
    const bool is_new =
        tensors.emplace(tensor.name, storage.as_strided(tensor.shape, tensor.strides, tensor.offset)).second;
    if (!is_new) throw Error(cat(path, ": holds the tensor '", one_line(tensor.name), "' twice"));
  }
  return tensors;
}

nn::NamedTensors tensors_of_file(const std::string& path) {
  require_file(path, "model");
  return path.ends_with(".safetensors") ? nn::parse_safetensors(read_file(path), path) : tensors_of_torch(path);
}

// The tensors of the files that an index names.
nn::NamedTensors tensors_of_shards(const std::filesystem::path& folder, const std::string& index) {
  const std::map<std::string, std::string> places = parse_tensor_index(read_file(index), index);
  std::set<std::string> files;
  for (const auto& [tensor, file] : places) files.insert(file);
  for (const std::string& file : files) require_file(folder / file, "model");
  nn::NamedTensors all;
  for (const std::string& file : files) {
    const std::string path = folder / file;
    for (auto& [name, tensor] : tensors_of_file(path)) {
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

}  // namespace

std::filesystem::path weights_file(const std::filesystem::path& folder) {
  for (const char* name : {kSafetensors, kTorch}) {
    for (const std::string& file : {std::string(name), cat(name, ".index.json")})
      if (std::filesystem::exists(folder / file)) return folder / file;
  }
  return {};
}

nn::NamedTensors read_tensor_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = weights_file(folder);
  if (file.empty())
    throw Error(cat("'", folder.string(), "' has no ", kSafetensors, " and no ", kTorch,
                    "; expected one of them, or the index of its parts"));
  return file.extension() == ".json" ? tensors_of_shards(folder, file) : tensors_of_file(file);
}

}  // namespace fovea::models

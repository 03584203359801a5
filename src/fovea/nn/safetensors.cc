#include "fovea/nn/safetensors.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/safetensors_header.h"

namespace fovea::nn {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kTypes = {{{"F64", at::kDouble},
                                                                                 {"F32", at::kFloat},
                                                                                 {"F16", at::kHalf},
                                                                                 {"BF16", at::kBFloat16},
                                                                                 {"I64", at::kLong},
                                                                                 {"I32", at::kInt},
                                                                                 {"I16", at::kShort},
                                                                                 {"I8", at::kChar},
                                                                                 {"U8", at::kByte},
                                                                                 {"BOOL", at::kBool}}};

at::ScalarType type_of(const SafetensorsEntry& entry, std::string_view source) {
  for (const auto& [text, type] : kTypes) {
    if (entry.dtype == text) return type;
  }
  throw Error(cat(source, ": tensor '", entry.name, "' has dtype ", entry.dtype, ", which libtorch's CPU lacks"));
}

}  // namespace

std::string safetensors_dtype(const std::string& name, const at::Tensor& tensor) {
  for (const auto& [text, type] : kTypes) {
    if (tensor.scalar_type() == type) return std::string(text);
  }
  throw Error(cat("tensor '", name, "' has the type ", toString(tensor.scalar_type()),
                  ", which safetensors files do not hold"));
}

std::string print_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<std::pair<std::string, at::Tensor>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(name, tensor.detach().cpu().contiguous());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.element_size() > b.second.element_size(); });
  SafetensorsHeader header;
  header.metadata = metadata;
  uint64_t end = 0;
  for (const auto& [name, tensor] : order) {
    const uint64_t begin = end;
    end += tensor.nbytes();
    header.entries.push_back({name, safetensors_dtype(name, tensor), tensor.sizes().vec(), begin, end});
  }
  std::string file = print_safetensors_header(header);
  file.reserve(file.size() + end);
  for (const auto& [name, tensor] : order)
    file.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  return file;
}

NamedTensors parse_safetensors(std::string_view file, std::string_view source) {
  const SafetensorsHeader header = parse_safetensors_header(file, source);
  NamedTensors tensors;
  for (const SafetensorsEntry& entry : header.entries) {
    at::Tensor tensor = at::empty(entry.shape, type_of(entry, source));
    if (entry.end > entry.begin)
      std::memcpy(tensor.data_ptr(), file.data() + header.data_start + entry.begin, entry.end - entry.begin);
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace fovea::nn

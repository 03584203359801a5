#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Files of torch.save(), such as pytorch_model.bin, read without executing anything and without libtorch: zip archives,
// and the form of torch before 1.6.
namespace fovea::models {

struct TorchTensor {
  std::string name;
  std::string type;          // of the storage: "Float", "BFloat16", ...
  std::string_view storage;  // its bytes in the file, which tensors may share
  int64_t offset = 0;        // elements of the storage before the tensor's first
  std::vector<int64_t> shape, strides;
};

// The tensors of the dictionary that the file is, which lie within their storages and have no more elements than those.
// `file` must outlive them. Throws an Error that begins with `source` if the file is not a dictionary of tensors alone,
// is damaged, or names a class that is not of tensors.
std::vector<TorchTensor> parse_torch_file(std::string_view file, const std::string& source);

}  // namespace fovea::models

#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace fovea::kernels {

// A tensor as code without torch reads it: its first element if it lies in memory, its sizes, and strides in elements.
struct TensorView {
  enum class Element : uint8_t { kFloat32, kBFloat16, kFloat16, kFloat64, kInt32, kInt64, kOther };
  enum class Trait : uint8_t { kType, kDevice, kLayout };
  // Returns what messages call a tensor's type, device or layout: "Long", "cuda:0", "SparseCsr".
  using Name = std::string (*)(const void* tensor, Trait trait);

  const void* data = nullptr;  // null on other devices
  std::span<const int64_t> sizes = {}, strides = {};
  Element element = Element::kOther;
  int64_t device = 0;  // equal for tensors of one device
  bool on_cpu = true;
  bool dense = true;  // not sparse; only dense tensors have strides
  const void* tensor = nullptr;
  Name name = nullptr;

  size_t dim() const { return sizes.size(); }
  int64_t heads() const { return sizes[1]; }  // in both layouts of q, k and v
  int64_t width() const { return sizes.back(); }
  bool is_floating() const { return element <= Element::kFloat64; }
  bool is_integer() const { return element == Element::kInt32 || element == Element::kInt64; }
  std::string type_name() const { return name(tensor, Trait::kType); }
  std::string device_name() const { return name(tensor, Trait::kDevice); }
  std::string layout_name() const { return name(tensor, Trait::kLayout); }
};

std::string shape(const TensorView& x);  // "[2, 8, 100, 64]"

}  // namespace fovea::kernels

#include "fovea/stable/arguments.h"

#include <array>
#include <utility>

#include "fovea/base/strings.h"

namespace fovea::stable {
namespace {

// The names that torch's messages give to types.
std::string type_name(int32_t type) {
  const std::array<std::pair<int32_t, const char*>, 7> names{{{aoti_torch_dtype_float32(), "Float"},
                                                              {aoti_torch_dtype_float64(), "Double"},
                                                              {aoti_torch_dtype_float16(), "Half"},
                                                              {aoti_torch_dtype_bfloat16(), "BFloat16"},
                                                              {aoti_torch_dtype_int32(), "Int"},
                                                              {aoti_torch_dtype_int64(), "Long"},
                                                              {aoti_torch_dtype_bool(), "Bool"}}};
  for (const auto& [known, name] : names) {
    if (known == type) return name;
  }
  return cat("of type ", type);
}

}  // namespace

kernels::TensorView view_of(const Tensor& x) {
  using Element = kernels::TensorView::Element;
  int32_t type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(x.get(), &type));
  const Element element = type == aoti_torch_dtype_int32()   ? Element::kInt32
                          : type == aoti_torch_dtype_int64() ? Element::kInt64
                                                             : Element::kOther;
  const bool on_cpu = x.is_cpu();
  const auto sizes = x.sizes(), strides = x.strides();
  return {on_cpu ? x.const_data_ptr() : nullptr,
          {sizes.data(), sizes.size()},
          {strides.data(), strides.size()},
          element,
          on_cpu,
          type_name(type),
          on_cpu ? "cpu" : "another device"};
}

kernels::DType dtype_of(const Tensor& x) {
  return x.scalar_type() == torch::headeronly::ScalarType::Float ? kernels::DType::kFloat32 : kernels::DType::kBFloat16;
}

}  // namespace fovea::stable

#include "fovea/stable/arguments.h"

#include <array>
#include <utility>

#include "fovea/base/strings.h"

namespace fovea::stable {
namespace {

using kernels::TensorView;
using Element = TensorView::Element;

struct Type {
  int32_t code;
  const char* name;  // in torch's messages
  Element element;
};

const Type* type_of(int32_t code) {
  static const std::array<Type, 16> kTypes{{{aoti_torch_dtype_float32(), "Float", Element::kFloat32},
                                            {aoti_torch_dtype_bfloat16(), "BFloat16", Element::kBFloat16},
                                            {aoti_torch_dtype_int64(), "Long", Element::kInt64},
                                            {aoti_torch_dtype_int32(), "Int", Element::kInt32},
                                            {aoti_torch_dtype_float64(), "Double", Element::kFloat64},
                                            {aoti_torch_dtype_float16(), "Half", Element::kFloat16},
                                            {aoti_torch_dtype_int16(), "Short", Element::kOther},
                                            {aoti_torch_dtype_int8(), "Char", Element::kOther},
                                            {aoti_torch_dtype_uint8(), "Byte", Element::kOther},
                                            {aoti_torch_dtype_bool(), "Bool", Element::kOther},
                                            {aoti_torch_dtype_complex64(), "ComplexFloat", Element::kOther},
                                            {aoti_torch_dtype_complex128(), "ComplexDouble", Element::kOther},
                                            {aoti_torch_dtype_float8_e5m2(), "Float8_e5m2", Element::kOther},
                                            {aoti_torch_dtype_float8_e4m3fn(), "Float8_e4m3fn", Element::kOther},
                                            {aoti_torch_dtype_float8_e5m2fnuz(), "Float8_e5m2fnuz", Element::kOther},
                                            {aoti_torch_dtype_float8_e4m3fnuz(), "Float8_e4m3fnuz", Element::kOther}}};
  for (const Type& type : kTypes) {
    if (type.code == code) return &type;
  }
  return nullptr;
}

std::string device_name(AtenTensorHandle x) {
  int32_t type = 0, index = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(x, &type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(x, &index));
  const std::array<std::pair<int32_t, const char*>, 6> names{{{aoti_torch_device_type_cpu(), "cpu"},
                                                              {aoti_torch_device_type_cuda(), "cuda"},
                                                              {aoti_torch_device_type_meta(), "meta"},
                                                              {aoti_torch_device_type_xpu(), "xpu"},
                                                              {aoti_torch_device_type_mps(), "mps"},
                                                              {aoti_torch_device_type_privateuse1(), "privateuseone"}}};
  for (const auto& [known, name] : names) {
    if (known == type) return index < 0 || type == names[0].first ? name : cat(name, ':', index);
  }
  return cat("a device of type ", type);
}

std::string layout_name(AtenTensorHandle x) {
  int32_t layout = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(x, &layout));
  const std::array<std::pair<int32_t, const char*>, 7> names{{{aoti_torch_layout_sparse_coo(), "Sparse"},
                                                              {aoti_torch_layout_sparse_csr(), "SparseCsr"},
                                                              {aoti_torch_layout_sparse_csc(), "SparseCsc"},
                                                              {aoti_torch_layout_sparse_bsr(), "SparseBsr"},
                                                              {aoti_torch_layout_sparse_bsc(), "SparseBsc"},
                                                              {aoti_torch_layout__mkldnn(), "Mkldnn"},
                                                              {aoti_torch_layout_jagged(), "Jagged"}}};
  for (const auto& [known, name] : names) {
    if (known == layout) return name;
  }
  return cat("of layout ", layout);
}

std::string name_of(const void* tensor, TensorView::Trait trait) {
  const AtenTensorHandle x = static_cast<const Tensor*>(tensor)->get();
  if (trait == TensorView::Trait::kDevice) return device_name(x);
  if (trait == TensorView::Trait::kLayout) return layout_name(x);
  const int32_t code = type_code(*static_cast<const Tensor*>(tensor));
  const Type* type = type_of(code);
  return type != nullptr ? type->name : cat("of type ", code);
}

}  // namespace

int32_t type_code(const Tensor& x) {
  int32_t type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(x.get(), &type));
  return type;
}

TensorView outline_of(const Tensor& x) {
  static const int32_t kStrided = aoti_torch_layout_strided(), kCpu = aoti_torch_device_type_cpu();
  int32_t layout = 0, device = 0, index = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(x.get(), &layout));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(x.get(), &device));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(x.get(), &index));
  TensorView view{.device = int64_t{device} << 32 | static_cast<uint32_t>(index),
                  .on_cpu = device == kCpu,
                  .dense = layout == kStrided,
                  .tensor = &x,
                  .name = &name_of};
  const auto sizes = x.sizes();
  view.sizes = {sizes.data(), sizes.size()};
  if (const Type* type = type_of(type_code(x))) view.element = type->element;
  if (!view.dense) return view;
  const auto strides = x.strides();
  view.strides = {strides.data(), strides.size()};
  return view;
}

TensorView view_of(const Tensor& x) {
  TensorView view = outline_of(x);
  if (view.on_cpu && view.dense) view.data = x.const_data_ptr();
  return view;
}

std::optional<TensorView> view_of(const std::optional<Tensor>& x) {
  return x ? std::optional(view_of(*x)) : std::nullopt;
}

kernels::DType dtype_of(const Tensor& x) {
  return x.scalar_type() == torch::headeronly::ScalarType::Float ? kernels::DType::kFloat32 : kernels::DType::kBFloat16;
}

void check_count(const std::vector<int64_t>& list, size_t count, std::string_view name) {
  if (list.size() == count) return;
  throw Error(cat("attention: the list ", name, " has ", list.size(), " numbers; expected ", count,
                  "; the package's Python and its library are of different versions"));
}

}  // namespace fovea::stable

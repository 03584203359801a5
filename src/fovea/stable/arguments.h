#pragma once
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/call/tensor_view.h"

// The arguments that the dispatcher passes to an operator of torch's stable ABI.
namespace fovea::stable {

using torch::stable::Tensor;

// Takes the arguments of a call from the dispatcher's stack, in the order of the schema.
class Arguments {
 public:
  explicit Arguments(StableIValue* stack) : next_(stack) {}

  Tensor tensor() { return take<Tensor>(); }
  std::optional<Tensor> optional_tensor() { return take<std::optional<Tensor>>(); }
  std::vector<std::optional<Tensor>> tensors() { return take<std::vector<std::optional<Tensor>>>(); }
  std::vector<int64_t> integers() { return take<std::vector<int64_t>>(); }
  // A list that may be left out is then empty: torch converts None in less time than an empty list.
  std::vector<std::optional<Tensor>> optional_tensors() {
    return take<std::optional<std::vector<std::optional<Tensor>>>>().value_or(std::vector<std::optional<Tensor>>());
  }
  std::vector<int64_t> optional_integers() {
    return take<std::optional<std::vector<int64_t>>>().value_or(std::vector<int64_t>());
  }
  int64_t integer() { return take<int64_t>(); }
  double number() { return take<double>(); }
  std::optional<double> optional_number() { return take<std::optional<double>>(); }
  bool flag() { return take<bool>(); }
  // torch's own conversion of a text never frees its copy.
  std::string text() {
    const auto handle = take<StringHandle>();
    size_t length = 0;
    const char* data = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_string_length(handle, &length));
    TORCH_ERROR_CODE_CHECK(torch_string_c_str(handle, &data));
    std::string copy(data, length);
    TORCH_ERROR_CODE_CHECK(torch_delete_string(handle));
    return copy;
  }

 private:
  template <class T>
  T take() {
    return torch::stable::detail::to<T>(*next_++);
  }
  StableIValue* next_;
};

template <class T>
StableIValue result(const T& value) {
  return torch::stable::detail::from(value);
}

// The tensor as code without torch reads it; valid as long as `x`, which is not moved.
kernels::TensorView view_of(const Tensor& x);
std::optional<kernels::TensorView> view_of(const std::optional<Tensor>& x);
// The view without its data, for what torch's transforms wrap.
kernels::TensorView outline_of(const Tensor& x);

int32_t type_code(const Tensor& x);  // one of aoti_torch_dtype_*()

// The type of rows, which the operators' checks have found to be float32 or bfloat16.
kernels::DType dtype_of(const Tensor& x);

// Throws an Error unless the list has `count` numbers.
void check_count(const std::vector<int64_t>& list, size_t count, std::string_view name);

// Rows [T, H, D], whose elements lie side by side.
inline kernels::Rows<const void> read_rows(const Tensor& x) { return {x.const_data_ptr(), x.stride(0), x.stride(1)}; }
inline kernels::Rows<void> written_rows(const Tensor& x) { return {x.mutable_data_ptr(), x.stride(0), x.stride(1)}; }
template <class T>
const T* numbers_of(const std::optional<Tensor>& x) {
  return x ? static_cast<const T*>(x->const_data_ptr()) : nullptr;
}
template <class T>
T* written_numbers(const Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}
template <class T>
T* written_numbers(const std::optional<Tensor>& x) {
  return x ? written_numbers<T>(*x) : nullptr;
}

}  // namespace fovea::stable

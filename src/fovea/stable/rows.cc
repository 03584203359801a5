#include "fovea/stable/rows.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/stable/executor.h"
#include "fovea/stable/memory.h"

namespace fovea::stable {
namespace {

struct RowStrides {
  int64_t token, head;
};

bool has_whole_rows(const Tensor& x) { return x.size(-1) < 2 || x.stride(-1) == 1; }

// Nothing if no strides lead from token to token.
std::optional<RowStrides> row_strides(const Tensor& x) {
  if (!has_whole_rows(x)) return std::nullopt;
  if (x.dim() == 3) return RowStrides{x.stride(0), x.stride(1)};
  const int64_t batch = x.size(0), length = x.size(2);
  if (batch > 1 && length > 1 && x.stride(0) != length * x.stride(2)) return std::nullopt;
  return RowStrides{length > 1 ? x.stride(2) : x.stride(0), x.stride(1)};
}

// A copy of [B, H, N, D], whose rows are whole, as [B, N, H, D], contiguous.
Tensor by_tokens(const Tensor& x) {
  const int64_t batch = x.size(0), heads = x.size(1), length = x.size(2), width = x.size(3);
  const auto bytes = static_cast<int64_t>(x.element_size());
  const Tensor copy = empty({batch, length, heads, width}, type_code(x));
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = written_numbers<char>(copy);
  executor_for(batch * length * heads * width).run(batch * length, [&](int64_t token, int) {
    const char* row = from + (token / length * x.stride(0) + token % length * x.stride(2)) * bytes;
    for (int64_t h = 0; h < heads; ++h) {
      std::memcpy(to + (token * heads + h) * width * bytes, row + h * x.stride(1) * bytes,
                  static_cast<size_t>(width * bytes));
    }
  });
  return copy;
}

// Whether each element between the first and the last is one of x's, once.
bool has_no_gaps(const Tensor& x) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (x.size(d) > 1) dims.emplace_back(x.stride(d), x.size(d));
  }
  std::ranges::sort(dims);
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

}  // namespace

ReadRows::ReadRows(const Tensor& x) : kept_(has_whole_rows(x) ? x : torch::stable::contiguous(x)) {
  if (const auto strides = row_strides(kept_)) {
    rows_ = {kept_.const_data_ptr(), strides->token, strides->head};
  } else {
    kept_ = by_tokens(kept_);
    rows_ = {kept_.const_data_ptr(), x.size(1) * x.size(3), x.size(3)};
  }
}

Tensor whole(const Tensor& x) { return x.is_contiguous() ? x : torch::stable::contiguous(x); }

Tensor in_order_of_tokens(const Tensor& x) { return in_order_of_tokens(x, x.size(-1), type_code(x)); }

Tensor in_order_of_tokens(const Tensor& x, int64_t width, int32_t type) {
  const auto view = x.sizes();
  std::vector<int64_t> sizes(view.begin(), view.end());
  sizes.back() = width;
  if (x.dim() == 3) return empty(sizes, type);
  const int64_t heads = sizes[1], length = sizes[2];
  return empty(sizes, {length * heads * width, width, heads * width, 1}, type);
}

Tensor like(const Tensor& x) {
  if (!row_strides(x) || !has_no_gaps(x)) return in_order_of_tokens(x);
  const auto sizes = x.sizes(), strides = x.strides();
  return empty({sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}, type_code(x));
}

kernels::Rows<void> result_rows(const Tensor& x) {
  const RowStrides strides = *row_strides(x);
  return {x.mutable_data_ptr(), strides.token, strides.head};
}

}  // namespace fovea::stable

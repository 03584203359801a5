#include "fovea/ops/recycled.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "fovea/ops/attention_layout.h"

namespace fovea::ops::recycled_test {
namespace {

TEST(Recycled, LiesWhereADeadTensorLay) {
  // 30 MB: no other test leaves as large a workspace.
  const void* first = recycled({7500, 1000}, at::kFloat).const_data_ptr();
  const at::Tensor second = recycled({7500, 1000}, at::kFloat);
  EXPECT_EQ(second.const_data_ptr(), first);
  EXPECT_NE(recycled({7500, 1000}, at::kFloat).const_data_ptr(), first);
}

TEST(Recycled, IsATensorLikeAnyOther) {
  at::Tensor x = recycled({600, 1000}, at::kFloat).fill_(2);
  x.resize_({700, 1000});
  EXPECT_EQ(x[599][999].item<float>(), 2);
  EXPECT_EQ(recycled({600, 1000}, at::TensorOptions(at::kFloat).device(at::kMeta)).device(), at::Device(at::kMeta));
  for (const int64_t n : {2, 2000}) {  // from the heap, and not
    const at::Tensor strided = recycled({n, 8, 64}, {64, 64 * n, 1}, at::kBFloat16);
    EXPECT_EQ(strided.strides(), at::IntArrayRef({64, 64 * n, 1}));
    EXPECT_EQ(strided.scalar_type(), at::kBFloat16);
    EXPECT_EQ(strided.storage().nbytes(), static_cast<size_t>(2 * n * 8 * 64));
  }
}

TEST(RowsLike, KeepStridesWithoutGaps) {
  const at::TensorOptions meta = at::TensorOptions(at::kFloat).device(at::kMeta);
  const auto strides = [&](const at::Tensor& rows) { return rows_like(rows, meta).strides().vec(); };
  using Strides = std::vector<int64_t>;
  EXPECT_EQ(strides(at::empty({7, 3, 5})), (Strides{15, 5, 1}));
  EXPECT_EQ(strides(at::empty({3, 7, 5}).transpose(0, 1)), (Strides{5, 35, 1}));
  EXPECT_EQ(strides(at::empty({7, 9, 5}).narrow(1, 3, 3)), (Strides{15, 5, 1}));
  EXPECT_EQ(strides(at::empty({7, 1, 5}).expand({7, 3, 5})), (Strides{15, 5, 1}));
  EXPECT_EQ(strides(at::empty({7, 3, 1})).at(0), 3);
  // Overlapping windows: two dimensions of stride 1.
  EXPECT_EQ(strides(at::empty({7, 20}).unfold(1, 16, 1)), (Strides{80, 16, 1}));
}

}  // namespace
}  // namespace fovea::ops::recycled_test

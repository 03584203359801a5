#include "fovea/ops/recycled.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "fovea/base/workspace.h"

namespace fovea::ops {
namespace {

TEST(Recycled, LiesWhereADeadTensorLay) {
  const void* first = recycled({1024, 1024}, at::kFloat).const_data_ptr();
  const at::Tensor second = recycled({1024, 1024}, at::kFloat);
  EXPECT_EQ(second.const_data_ptr(), first);
  EXPECT_NE(recycled({1024, 1024}, at::kFloat).const_data_ptr(), first);
}

TEST(Recycled, HasTheStridesOfEmptyLike) {
  for (const int64_t n : {3, 700}) {  // from the heap, and not
    const at::Tensor x = at::empty({8, n, 64}), slice = at::empty({n, 3, 8, 64}).select(1, 1);
    for (const at::Tensor& like : {x, x.transpose(0, 1), slice, slice.to(at::kBFloat16)}) {
      const at::Tensor got = recycled_like(like), expected = at::empty_like(like);
      EXPECT_EQ(got.sizes(), expected.sizes());
      EXPECT_EQ(got.strides(), expected.strides());
      EXPECT_EQ(got.scalar_type(), expected.scalar_type());
    }
  }
}

TEST(Recycled, IsATensorLikeAnyOther) {
  at::Tensor x = recycled({600, 1000}, at::kFloat).fill_(2);
  x.resize_({700, 1000});
  EXPECT_EQ(x[599][999].item<float>(), 2);
  EXPECT_EQ(recycled({600, 1000}, at::TensorOptions(at::kFloat).device(at::kMeta)).device(), at::Device(at::kMeta));
}

}  // namespace
}  // namespace fovea::ops

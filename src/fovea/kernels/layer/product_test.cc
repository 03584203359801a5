#include "fovea/kernels/layer/product.h"

#include "fovea/kernels/layer/levels_test.h"

namespace fovea::kernels::product_test {
namespace {

using testing::at_every_level;
using testing::expect_close;
using testing::normals;
using testing::Values;

struct Size {
  int64_t rows, depth, columns;
};
// Edges of the tiles (4, 6, 8 rows; 8, 16, 32 columns), of the pieces (256 rows and columns; 128, 256 or 512 tokens)
// and odd depths.
constexpr Size kSizes[] = {{1, 1, 1},    {3, 2, 5},      {8, 7, 32},    {65, 33, 31},
                           {67, 64, 65}, {13, 259, 270}, {300, 513, 17}};

template <class T>
class ProductTest : public ::testing::Test {};
using Elements = ::testing::Types<float, uint16_t>;
TYPED_TEST_SUITE(ProductTest, Elements);

TYPED_TEST(ProductTest, RowsAgreeWithDouble) {
  using T = TypeParam;
  ThreadExecutor executor(2);
  for (const auto& [rows, depth, columns] : kSizes) {
    for (const bool relu : {false, true}) {
      const Values<T> a = normals<T>(rows * depth, 1), b = normals<T>(depth * columns, 2),
                      mask = normals<T>(rows * depth, 3);
      const Values<T> bias = normals<T>(columns, 4);
      std::vector<double> want, sizes;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t n = 0; n < columns; ++n) {
          double sum = bias.exact[n], size = std::abs(sum);
          for (int64_t k = 0; k < depth; ++k) {
            // With relu: b lies as weights do, transposed, and there is no mask; without: the other way about.
            if (!relu && mask.exact[r * depth + k] <= 0) continue;
            const double term = a.exact[r * depth + k] * b.exact[relu ? n * depth + k : k * columns + n];
            sum += term, size += std::abs(term);
          }
          want.push_back(relu ? std::max(sum, 0.0) : sum);
          sizes.push_back(size);
        }
      }
      at_every_level([&, rows = rows, depth = depth, columns = columns] {
        std::vector<T> out(rows * columns);
        RowProduct<T> job{.a = a.kept.data(),
                          .mask = relu ? nullptr : mask.kept.data(),
                          .b = b.kept.data(),
                          .bias = bias.kept.data(),
                          .out = out.data()};
        job.rows = rows, job.depth = depth, job.columns = columns;
        job.a_stride = job.mask_stride = depth, job.out_stride = columns;
        job.b_depth_stride = relu ? 1 : columns, job.b_column_stride = relu ? depth : 1;
        job.relu = relu;
        multiply(job, executor);
        expect_close(out, want, sizes);
      });
    }
  }
}

TYPED_TEST(ProductTest, SumsOverTokensAgreeWithDouble) {
  using T = TypeParam;
  ThreadExecutor executor(2);
  for (const auto& [rows, depth, columns] : kSizes) {
    const Values<T> a = normals<T>(rows * depth, 1), b = normals<T>(depth * columns, 2),
                    mask = normals<T>(rows * depth, 3);
    std::vector<double> want(rows * columns), sizes(rows * columns), want_rows(rows), row_sizes(rows);
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t r = 0; r < rows; ++r) {
        const double left = mask.exact[k * rows + r] > 0 ? a.exact[k * rows + r] : 0;
        want_rows[r] += left, row_sizes[r] += std::abs(left);
        for (int64_t n = 0; n < columns; ++n) {
          const double term = left * b.exact[k * columns + n];
          want[r * columns + n] += term, sizes[r * columns + n] += std::abs(term);
        }
      }
    }
    at_every_level([&, rows = rows, depth = depth, columns = columns] {
      std::vector<T> out(rows * columns), row_sums(rows);
      TokenSum<T> job{.a = a.kept.data(),
                      .mask = mask.kept.data(),
                      .b = b.kept.data(),
                      .out = out.data(),
                      .row_sums = row_sums.data()};
      job.depth = depth, job.rows = rows, job.columns = columns;
      job.a_stride = job.mask_stride = rows, job.b_stride = job.out_stride = columns;
      multiply(job, executor);
      expect_close(out, want, sizes);
      expect_close(row_sums, want_rows, row_sizes);
    });
  }
}

}  // namespace
}  // namespace fovea::kernels::product_test

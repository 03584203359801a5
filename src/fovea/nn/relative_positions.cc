#include "fovea/nn/relative_positions.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "fovea/ops/step.h"

namespace fovea::nn {
namespace {

// The offsets of keys from queries in sequences of `length` tokens, none further than `reach`.
struct Offsets {
  int64_t first, count;
};
Offsets offsets_within(int64_t length, int64_t reach, bool causal) {
  const int64_t far = std::min(std::max<int64_t>(length - 1, 0), reach);
  return {-far, causal ? far + 1 : 2 * far + 1};
}

at::Tensor offset_numbers(const Offsets& offsets, const at::TensorOptions& options) {
  return at::arange(offsets.first, offsets.first + offsets.count, options.dtype(at::kFloat));
}

// x [N, A] times rows [B, A] transposed -> [N, B]. A row of the result does not depend on the number of rows.
at::Tensor product_of_rows(const at::Tensor& x, const at::Tensor& rows) {
  return ops::linear(x, rows, std::nullopt, ops::Activation::kNone);
}

// The type in which terms are added to scores.
at::ScalarType term_type(const at::Tensor& q) { return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

}  // namespace

RelativeSchemes::RelativeSchemes(const PositionSchemes& schemes)
    : shaw(find_scheme<Shaw>(schemes)),
      transformer_xl(find_scheme<TransformerXl>(schemes)),
      alibi(find_scheme<Alibi>(schemes).has_value()) {}

void RelativeSchemes::register_shared(torch::nn::Module& owner, int64_t heads, int64_t head_dim,
                                      const InitScope& scope) {
  if (!transformer_xl) return;
  auto module = owner.register_module("relative", std::make_shared<torch::nn::Module>());
  const auto bias = [&](const char* name) {
    constexpr double kDeviation = 0.02;  // as in the code of the paper
    return module->register_parameter(name, normal_tensor({heads, head_dim}, kDeviation, scope / "relative" / name));
  };
  content_bias = bias("content_bias");
  position_bias = bias("position_bias");
}

RelativePositions::RelativePositions(const RelativeSchemes& schemes, const RelativeShape& shape, const InitScope& scope)
    : schemes_(schemes), shape_(shape) {
  if (schemes.shaw) {
    const int64_t rows = 2 * schemes.shaw->reach() + 1;
    const double limit = xavier_limit(rows, shape.head_dim);
    keys_ = register_parameter("keys", uniform_tensor({rows, shape.head_dim}, limit, scope / "keys"));
    if (schemes.shaw->values) {
      values_ = register_parameter("values", uniform_tensor({rows, shape.head_dim}, limit, scope / "values"));
    }
  }
  if (!schemes.transformer_xl) return;
  const int64_t width = shape.heads * shape.head_dim;
  const double limit = xavier_limit(width, width, std::sqrt(0.5));  // as the projections of queries and keys
  weight_ = register_parameter("weight", uniform_tensor({width, width}, limit, scope / "weight"));
}

RelativePositions::Tables RelativePositions::tables(int64_t length, const at::TensorOptions& options) const {
  Tables tables;
  tables.length = length;
  if (schemes_.alibi) {
    const Offsets offsets = offsets_within(length, length, shape_.causal);
    const at::Tensor slopes = at::tensor(alibi_slopes(shape_.heads), options.dtype(at::kDouble)).unsqueeze(1);
    tables.by_head = -slopes * offset_numbers(offsets, options).abs();
    if (options.dtype() != at::kDouble) tables.by_head = tables.by_head.to(at::kFloat);
    tables.by_head_first = offsets.first;
  }
  if (schemes_.transformer_xl) {
    const auto clamp = static_cast<int64_t>(schemes_.transformer_xl->clamp);
    const Offsets offsets = offsets_within(length, clamp > 0 ? clamp : length, shape_.causal);
    const int64_t width = shape_.heads * shape_.head_dim;
    const at::Tensor sines = distance_table(-offset_numbers(offsets, options), width).to(weight_.scalar_type());
    tables.rows = product_of_rows(sines, weight_).view({offsets.count, shape_.heads, shape_.head_dim});
    tables.rows_first = offsets.first;
  }
  return tables;
}

ops::OffsetTerms RelativePositions::terms(const at::Tensor& q, const Tables& tables, double scale) const {
  ops::OffsetTerms terms;
  if (schemes_.alibi) {
    terms.by_head = tables.by_head;
    terms.by_head_first = tables.by_head_first;
  }
  if (schemes_.shaw) {
    // Sums in float32: the scores that these are added to have no fewer digits.
    const at::ScalarType type = term_type(q);
    const int64_t reach = schemes_.shaw->reach(), met = shape_.causal ? reach + 1 : 2 * reach + 1;  // no later keys
    const at::Tensor products = product_of_rows(q.to(type).reshape({-1, q.size(2)}), keys_.narrow(0, 0, met).to(type));
    terms.by_query = products.view({q.size(0), q.size(1), met}) * scale;
    terms.by_query_first = -reach;
    if (values_.defined()) {
      terms.values = values_.narrow(0, 0, met).unsqueeze(1);
      terms.values_first = -reach;
      terms.product = [](const at::Tensor& sums, const at::Tensor& values) {
        return product_of_rows(sums, values.t());
      };
    }
  }
  if (schemes_.transformer_xl) {
    terms.queries = q + schemes_.position_bias;
    terms.rows = tables.rows;
    terms.rows_first = tables.rows_first;
  }
  return terms;
}

at::Tensor RelativePositions::content(const at::Tensor& q) const {
  return schemes_.transformer_xl ? q + schemes_.content_bias : q;
}

std::vector<double> alibi_slopes(int64_t heads) {
  const auto sequence = [](int64_t count) {
    std::vector<double> slopes;
    for (int64_t h = 1; h <= count; ++h) {
      slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(count)));
    }
    return slopes;
  };
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes = sequence(power);
  const std::vector<double> finer = sequence(2 * power);
  for (size_t i = 0; std::ssize(slopes) < heads; i += 2) slopes.push_back(finer[i]);
  return slopes;
}

at::Tensor distance_table(const at::Tensor& distances, int64_t width) {
  const at::Tensor exponents =
      at::arange(0, width, 2, distances.options().dtype(at::kDouble)) / static_cast<double>(width);
  const at::Tensor frequencies = at::pow(10000.0, exponents.neg());
  const at::Tensor angles = distances.to(at::kDouble).unsqueeze(1) * frequencies;
  return at::cat({angles.sin(), angles.cos()}, 1).narrow(1, 0, width).to(at::kFloat);
}

}  // namespace fovea::nn

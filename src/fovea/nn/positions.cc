#include "fovea/nn/positions.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::nn {

Positions::Positions(const StackConfig& config, const std::vector<int64_t>& image_shape, const InitScope& scope)
    : width_(config.dim_emb) {
  const PositionSchemes schemes = parse_positions(config.transformer_positions);
  sinusoidal_ = find_scheme<Sinusoidal>(schemes);
  const double stddev = 1 / std::sqrt(static_cast<double>(width_));
  const auto learned = [&](const char* name, int64_t rows) {
    return register_parameter(name, normal_tensor({rows, width_}, stddev, scope / name));
  };
  if (find_scheme<Learned>(schemes)) weight_ = learned("weight", config.max_positions);
  if (find_scheme<ImagePositions>(schemes)) {
    TORCH_INTERNAL_ASSERT(image_shape.size() == 3, "positions of images for a model without them");
    image_ = {learned("rows", image_shape[0]), learned("columns", image_shape[1]), learned("channels", image_shape[2])};
  }
}

PositionVectors Positions::vectors(const TokenPositions& positions, const at::Tensor& like) {
  if (image_) return image_->vectors(positions);
  return {table(positions.longest, like), positions.position.to(like.device())};
}

at::Tensor Positions::table(int64_t length, const at::Tensor& like) {
  if (weight_.defined()) {
    if (length > weight_.size(0)) {
      throw Error(cat("a text of ", length, " tokens; the model has position vectors for ", weight_.size(0),
                      " (--max-positions); shorten the text"));
    }
    return weight_;
  }
  if (!sinusoidal_) return {};
  const bool fits = cached_.defined() && cached_.size(0) >= length && cached_.dtype() == like.dtype() &&
                    cached_.device() == like.device();
  if (fits) return cached_;
  const c10::InferenceMode normal(false);  // the table outlives this pass, a later one may need gradients
  cached_ = sinusoidal_table(std::max<int64_t>(256, 2 * length), width_, *sinusoidal_).to(like.options());
  return cached_;
}

at::Tensor sinusoidal_table(int64_t rows, int64_t width, const Sinusoidal& scheme) {
  at::Tensor table = at::zeros({rows, width}, at::kDouble);  // an odd width keeps a zero in its last column
  auto* data = table.mutable_data_ptr<double>();
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t steps = scheme.paper ? half : std::max<int64_t>(1, half - 1);
    const double frequency = std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(steps));
    for (int64_t row = 0; row < rows; ++row) {
      const double angle = (static_cast<double>(row) + scheme.first) * frequency;
      data[row * width + i] = std::sin(angle);
      data[row * width + half + i] = std::cos(angle);
    }
  }
  return table;
}

TokenPositions token_positions(const at::Tensor& offsets, std::span<const int64_t> before) {
  const auto* bounds = offsets.const_data_ptr<int64_t>();
  const int64_t sequences = offsets.numel() - 1;
  TokenPositions result{at::empty({bounds[sequences]}, at::kLong), 0};
  auto* position = result.position.mutable_data_ptr<int64_t>();
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t first = before.empty() ? 0 : before[static_cast<size_t>(b)];
    for (int64_t i = bounds[b]; i < bounds[b + 1]; ++i) position[i] = first + i - bounds[b];
    if (bounds[b + 1] > bounds[b]) result.longest = std::max(result.longest, first + bounds[b + 1] - bounds[b]);
  }
  return result;
}

}  // namespace fovea::nn

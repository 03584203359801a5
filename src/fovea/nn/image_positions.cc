#include <ATen/ops/arange.h>
#include <ATen/ops/div.h>
#include <ATen/ops/remainder.h>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/positions.h"

namespace fovea::nn {

// A step of generation reads a few tokens, and gets a table of their rows alone. A pass over whole images gets that of
// the image.
PositionVectors ImageTables::vectors(const TokenPositions& positions) const {
  const int64_t height = rows.size(0), width = columns.size(0), depth = channels.size(0);
  const int64_t values = height * width * depth, tokens = positions.position.numel();
  if (positions.longest > values) {
    throw Error(cat("a sequence of ", positions.longest, " values; the model's images have ", values, " (", height, "x",
                    width, "x", depth, ")"));
  }
  const at::Tensor place = positions.position.to(rows.device());
  if (tokens < values) {
    const at::Tensor pixel = at::div(place, depth, "floor");
    const at::Tensor table = rows.index_select(0, at::div(pixel, width, "floor")) +
                             columns.index_select(0, at::remainder(pixel, width)) +
                             channels.index_select(0, at::remainder(place, depth));
    return {table, at::arange(tokens, place.options())};
  }
  const int64_t model_width = rows.size(1);
  const at::Tensor table = rows.view({height, 1, 1, model_width}) + columns.view({1, width, 1, model_width}) +
                           channels.view({1, 1, depth, model_width});
  return {table.reshape({values, model_width}), place};
}

}  // namespace fovea::nn

#include "fovea/inspect/one_shape.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/layer_override.h"

namespace fovea::inspect {
namespace {

std::string shape_of(const ModelConfig& model) {
  return cat(model.enc_depth > 0 ? cat(model.enc_depth, " + ") : "", model.dec_depth, " layers of ",
             model.transformer_heads, " heads");
}

// The mechanisms of all layers as they are computed, because options can say the same in several ways.
std::string mechanisms_of(const ModelConfig& model) {
  std::string text = model.sparsify;
  for (const Sublayer sublayer : sublayers_of(model)) {
    for (int64_t layer = 0; layer < depth_of(model, sublayer); ++layer)
      text += cat(" ", print(attention_of(model, sublayer, layer)));
  }
  return text;
}

// Returns what `other` has that `first` does not have; empty if they are of one shape.
std::string difference_of(const ComparedModel& first, const ComparedModel& other) {
  const std::string shape = shape_of(first.config), other_shape = shape_of(other.config),
                    of = cat(" '", first.name, "'");
  if (shape != other_shape) return cat(other_shape, ", but", of, " has ", shape);
  if (mechanisms_of(first.config) != mechanisms_of(other.config)) return cat("other mechanisms than", of);
  if (first.units != other.units) return cat("another vocabulary than", of);
  for (const auto& [name, value] : first.options) {
    const std::string& theirs = other.options.at(name);
    if (value != theirs) return cat("--", name, " ", theirs, ", but", of, " has ", value);
  }
  return "";
}

}  // namespace

void require_one_shape(const ComparedModel& first, const ComparedModel& other) {
  if (const std::string difference = difference_of(first, other); !difference.empty())
    throw Error(cat("--model: '", other.name, "' has ", difference,
                    "; expected models of one shape, such as seeds of one training"));
}

}  // namespace fovea::inspect

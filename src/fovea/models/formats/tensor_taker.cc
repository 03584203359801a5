#include "fovea/models/formats/tensor_taker.h"

#include <ATen/ops/cat.h>

#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::models {

TensorTaker::TensorTaker(nn::NamedTensors tensors, std::string origin, std::string shapes_from)
    : tensors_(std::move(tensors)), origin_(std::move(origin)), shapes_from_(std::move(shapes_from)) {}

at::Tensor TensorTaker::take(const std::string& name, const std::vector<int64_t>& shape) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw Error(cat(origin_, ": tensor '", name, "' is missing"));
  const at::Tensor tensor = found->second;
  if (tensor.sizes() != at::IntArrayRef(shape))
    throw Error(cat(origin_, ": tensor '", name, "' has the shape ", tensor.sizes(), ", ", shapes_from_, " needs ",
                    at::IntArrayRef(shape)));
  if (!tensor.is_floating_point())
    throw Error(cat(origin_, ": tensor '", name, "' holds whole numbers; expected weights"));
  tensors_.erase(found);
  return tensor.to(at::kFloat);
}

void TensorTaker::stand_in(const std::string& name, std::initializer_list<std::string> others) {
  for (const std::string& other : others) {
    const auto found = tensors_.find(other);
    if (has(name) || found == tensors_.end()) continue;
    tensors_.emplace(name, found->second);
    tensors_.erase(other);
  }
}

std::vector<std::string> TensorTaker::rest() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

void TensorTaker::require_empty() const {
  if (tensors_.empty()) return;
  const std::vector<std::string> names = rest();
  throw Error(cat(origin_, ": holds ", names.size(),
                  " tensors that a model of these options does not have, the first '", names.front(),
                  "'; nothing was written"));
}

nn::NamedTensors take_all(TensorTaker& tensors, std::span<const TensorLine> list) {
  nn::NamedTensors weights;
  for (const auto& [own_name, theirs, columns, form] : list) {
    const bool is_vector = columns == 0;
    std::vector<at::Tensor> parts;
    for (const auto& [name, rows] : theirs) {
      if (form == TensorForm::kOurs) {
        parts.push_back(tensors.take(name, is_vector ? std::vector{rows} : std::vector{rows, columns}));
      } else {
        const at::Tensor part = tensors.take(name, {is_vector ? 1 : columns, rows});
        parts.push_back(is_vector ? part.flatten() : part.t());
      }
    }
    weights[own_name] = (parts.size() == 1 ? parts.front() : at::cat(parts)).contiguous();
  }
  return weights;
}

nn::NamedTensors foreign_tensors(const nn::NamedTensors& weights, std::span<const TensorLine> list,
                                 at::ScalarType type) {
  nn::NamedTensors tensors;
  for (const TensorLine& line : list) {
    const at::Tensor own = weights.at(line.own_name).to(type);
    int64_t first = 0;
    for (const auto& [name, rows] : line.parts) {
      tensors[name] = own.narrow(0, first, rows).contiguous();
      first += rows;
    }
  }
  return tensors;
}

}  // namespace fovea::models

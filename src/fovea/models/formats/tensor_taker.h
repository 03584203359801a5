#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "fovea/nn/safetensors.h"

namespace fovea::models {

// Takes the tensors of another system's file one by one, so that what nobody took is known at the end.
class TensorTaker {
 public:
  // `origin` begins the errors: the file's name. `shapes_from` says what fixes the expected shapes: "config.json".
  TensorTaker(nn::NamedTensors tensors, std::string origin, std::string shapes_from);

  bool has(const std::string& name) const { return tensors_.contains(name); }
  // The tensor as float32. Throws an Error that names it if it is missing, of another shape, or not of real numbers.
  at::Tensor take(const std::string& name, const std::vector<int64_t>& shape);
  // A table that a file holds once for several names may have any of them: if `name` is missing, the first of `others`
  // that is there takes its place.
  void stand_in(const std::string& name, std::initializer_list<std::string> others);
  void drop(const std::string& name) { tensors_.erase(name); }
  // Names of tensors that nobody took.
  std::vector<std::string> rest() const;
  // Throws an Error if there are any.
  void require_empty() const;

 private:
  nn::NamedTensors tensors_;
  std::string origin_, shapes_from_;
};

// How another system stores a tensor: as ours, or a matrix [in, out] in place of [out, in], and a vector [1, M] in
// place of [M].
enum class TensorForm : uint8_t { kOurs, kTransposed };

// A line of the list of a model's tensors by two systems' names: a tensor of ours, and theirs, which it stacks by rows.
struct TensorLine {
  struct Part {
    std::string name;
    int64_t rows;
  };
  std::string own_name;
  std::vector<Part> parts;
  int64_t columns = 0;  // 0: a vector
  TensorForm form = TensorForm::kOurs;
};
// Takes the tensors of the list out of a file, by our names.
nn::NamedTensors take_all(TensorTaker& tensors, std::span<const TensorLine> list);
// The tensors of the list by the other system's names, in the type `type`, for a file; all lines are in our form.
nn::NamedTensors foreign_tensors(const nn::NamedTensors& weights, std::span<const TensorLine> list,
                                 at::ScalarType type = at::kFloat);

}  // namespace fovea::models

#pragma once
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::nn {

// Sums over the tokens of an update that change the model's buffers, such as the moving averages of k-means. They are
// constants of the passes, and are applied once an update, however many passes it has.
class UpdateSums {
 public:
  using Apply = std::function<void(const std::vector<at::Tensor>& sums)>;
  // Adds the sums of one pass to those of the same owner, whose `apply` will get the totals. The owners keep their
  // order.
  void add(const void* owner, const std::vector<at::Tensor>& sums, Apply apply);
  void add(const UpdateSums& pass);
  void apply() const;
  // All sums, owner by owner; and the same owners with other sums.
  std::vector<at::Tensor> tensors() const;
  UpdateSums with(std::span<const at::Tensor> sums) const;

 private:
  struct Entry {
    const void* owner;
    std::vector<at::Tensor> sums;
    Apply apply;
  };
  std::vector<Entry> entries_;
};

// The results of a pass besides its output, if ForwardContext::extras asks for them.
class PassExtras {
 public:
  // A term of the loss that is a mean, [] with a graph. Terms add up.
  void add_loss(const at::Tensor& term) { loss_ = loss_.defined() ? loss_ + term : term; }
  const at::Tensor& loss() const { return loss_; }  // undefined: no term

  // A figure for the log; figures of one name are averaged. The name must outlive the object.
  void add_note(std::string_view name, double value);
  // Like add_note(), but the greatest figure of one name counts.
  void add_greatest(std::string_view name, double value);
  std::vector<std::pair<std::string_view, double>> notes() const;

  UpdateSums& sums() { return sums_; }
  const UpdateSums& sums() const { return sums_; }

  // Takes over the figures and sums of `part`, but not its loss.
  void add_figures(const PassExtras& part);

 private:
  struct Mean {
    double sum = 0, count = 0;
  };
  at::Tensor loss_;
  std::map<std::string_view, Mean> notes_;
  std::map<std::string_view, double> greatest_;
  UpdateSums sums_;
};

}  // namespace fovea::nn

#include "fovea/ops/transform_function.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "fovea/ops/layer_tensors.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HeldTransform : torch::CustomClassHolder {
  explicit HeldTransform(Transform t) : transform(t) {}
  Transform transform;
};

class TransformFunction : public torch::autograd::Function<TransformFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& scores, const std::optional<at::Tensor>& alpha,
                            const std::optional<at::Tensor>& dropped, const Transform& transform) {
    const ScoreMatrix rows{scores, tensor_or_none(dropped), tensor_or_none(alpha)};
    const at::Tensor weights = transform_forward(transform, rows);
    context->save_for_backward({scores, rows.alpha, rows.dropped, weights});
    context->saved_data["transform"] = c10::IValue::make_capsule(c10::make_intrusive<HeldTransform>(transform));
    return weights;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const auto held = context->saved_data.at("transform").toCapsule();
    const TransformGradient gradient = transform_backward(static_cast<const HeldTransform&>(*held).transform,
                                                          {saved[0], saved[2], saved[1]}, saved[3], grads[0]);
    return {gradient.scores, gradient.alpha, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor differentiable_transform(const Transform& transform, const ScoreMatrix& rows) {
  return TransformFunction::apply(rows.scores, some_or_none(rows.alpha), some_or_none(rows.dropped), transform);
}

}  // namespace fovea::ops

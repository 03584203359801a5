#include "fovea/ops/attention_checks.h"

#include "fovea/ops/attention_layout.h"

namespace fovea::ops {

std::string shape(const at::Tensor& x) { return kernels::shape({.sizes = {x.sizes().data(), x.sizes().size()}}); }

at::ScalarType term_type(const at::Tensor& q) { return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

kernels::QkvViews views_of(const CoreTensors& x) { return {view_of(x.q), view_of(x.k), view_of(x.v)}; }

kernels::LayerViews layer_views(const AttentionOptions& options) {
  return {.alpha = view_of(options.alpha),
          .sinks = view_of(options.sinks),
          .gain = view_of(options.gain),
          .gate = view_of(options.gate),
          .bias = view_of(options.bias),
          .vectors = vectors_of(options),
          .drawn_seed = view_of(options.drawn_seed)};
}

kernels::TermViews term_views(const TermTensors& terms) {
  return {view_of_defined(terms.by_head), view_of_defined(terms.by_query), view_of_defined(terms.queries),
          view_of_defined(terms.rows)};
}

}  // namespace fovea::ops

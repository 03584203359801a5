#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/choices.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/routing.h"

// Routed attention with given centroids as an operator of torch: otherwise models alone have centroids.
namespace {

// One causal layer as training runs it: queries and keys q, values v [1, H, N, D], centroids [H, C, D] -> the output,
// and the mean square distance of the queries to their centroids, both with a graph.
std::tuple<at::Tensor, at::Tensor> routed(const at::Tensor& q, const at::Tensor& v, const at::Tensor& centroids,
                                          std::string_view spec, std::string_view self_key, bool scaled) {
  std::vector<fovea::ops::RoutedReport> reports;
  fovea::ops::RoutingInputs inputs;
  inputs.centroids = centroids;
  inputs.self = fovea::parse_choice<fovea::ops::SelfKey>("keep|last|never", self_key, "routed: self_key: got");
  inputs.scaled = scaled;
  inputs.reports = &reports;
  fovea::ops::AttentionOptions options;
  options.kind = fovea::AttentionKind::kCausal;
  options.routing = &inputs;
  at::Tensor out = fovea::ops::attention(q, q, v, std::string(spec), options);
  return {std::move(out), reports.at(0).sides.at(0).distance};
}

}  // namespace

TORCH_LIBRARY(fovea_bench, m) {
  m.def("routed(Tensor q, Tensor v, Tensor centroids, str spec, str self_key, bool scaled) -> (Tensor, Tensor)",
        TORCH_FN(routed));
}

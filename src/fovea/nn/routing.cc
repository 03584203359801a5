#include "fovea/nn/routing.h"

#include <ATen/ops/layer_norm.h>

#include <algorithm>

#include "fovea/base/choices.h"

namespace fovea::nn {
namespace {

constexpr double kCountEps = 1e-5;

// Names in the log.
constexpr std::string_view kCommitmentNote = "routing-commitment", kNoneNote = "routing-none",
                           kSeveralNote = "routing-several", kLargestNote = "routing-largest",
                           kSmallestNote = "routing-smallest";

// Adds the share of tokens that are nearest to the largest and to the smallest cluster of a head, averaged over heads.
void add_size_notes(const at::Tensor& counts, PassExtras& extras) {
  const at::Tensor shares = counts / counts.sum(1, true).clamp_min(1);
  extras.add_note(kLargestNote, shares.amax(1).mean().item<double>());
  extras.add_note(kSmallestNote, shares.amin(1).mean().item<double>());
}

}  // namespace

std::vector<int64_t> clusters_of_heads(const LayerSpec& mechanism) {
  std::vector<int64_t> clusters;
  for (const HeadGroup& group : mechanism) {
    if (group.spec.route() && group.spec.route()->has_centroids())
      clusters.insert(clusters.end(), static_cast<size_t>(group.num_heads), group.spec.route()->clusters);
  }
  return clusters;
}

bool has_routes(const LayerSpec& mechanism) {
  return std::ranges::any_of(mechanism, [](const HeadGroup& group) { return group.spec.route() != nullptr; });
}

ops::RoutingInputs routing_inputs(const RoutingConfig& config) {
  ops::RoutingInputs inputs;
  inputs.keys = config.routing_keys;
  inputs.self = parse_choice<ops::SelfKey>("keep|last|never", config.routing_self, "--routing-self: got");
  inputs.scaled = config.routing_scale == "sqrt";
  return inputs;
}

Routing::Routing(const LayerSpec& mechanism, int64_t head_dim, const RoutingConfig& config, const InitScope& scope)
    : clusters_(clusters_of_heads(mechanism)), decay_(config.routing_decay) {
  const int64_t heads = std::ssize(clusters_), most = std::ranges::max(clusters_);
  const at::Tensor drawn = normal_tensor({heads, most, head_dim}, 1, scope / "centroids");
  const at::Tensor start = scope.blank() ? drawn : at::layer_norm(drawn, {head_dim}, {}, {}, 1e-6);
  centroids_ = register_buffer("centroids", start);
  counts_ = register_buffer("counts", constant_tensor({heads, most}, config.routing_start == "fixed" ? 1 : 0, scope));
  means_ = register_buffer("means", scope.blank() ? start.detach() : start.clone());
}

at::Tensor Routing::centroids() const {
  return centroids_.scalar_type() == at::kDouble ? centroids_ : centroids_.to(at::kFloat);
}

void Routing::update(int64_t first_head, const at::Tensor& counts, const at::Tensor& sums) {
  const int64_t heads = counts.size(0), clusters = counts.size(1);
  const auto own = [&](const at::Tensor& all) { return all.narrow(0, first_head, heads).narrow(1, 0, clusters); };
  at::Tensor count = own(counts_), mean = own(means_);
  count.mul_(decay_).add_(counts.to(count.options()), 1 - decay_);
  mean.mul_(decay_).add_(sums.to(mean.options()), 1 - decay_);
  const at::Tensor total = count.sum(1, true);
  const at::Tensor smoothed = (count + kCountEps) / (total + static_cast<double>(clusters) * kCountEps) * total;
  own(centroids_).copy_(mean / smoothed.unsqueeze(2));
}

RoutedPass::RoutedPass(const Of& of, const ForwardContext& context, bool observed)
    : of_(of), inputs_(routing_inputs(of.config)) {
  if (of.routing) inputs_.centroids = of.routing->centroids();
  inputs_.memory_queries = of.memory_queries;
  if (context.extras != nullptr) inputs_.reports = &reports_;
  if (observed) inputs_.rows = &rows_;
}

const ops::RoutingInputs& RoutedPass::known() {
  inputs_.rows = nullptr, inputs_.known = &rows_;
  return inputs_;
}

void RoutedPass::report(const ForwardContext& context) const {
  if (reports_.empty()) return;
  PassExtras& extras = *context.extras;
  std::vector<at::Tensor> sums;
  std::vector<int64_t> heads;  // the first of each side
  for (const ops::RoutedReport& report : reports_) {
    const double rows = std::max(report.rows, 1.0);
    extras.add_note(kNoneNote, report.in_none / rows);
    extras.add_note(kSeveralNote, report.in_several / rows);
    for (const ops::RoutedSide& side : report.sides) {
      extras.add_note(kCommitmentNote, of_.config.routing_commitment * side.distance.item<double>());
      add_size_notes(side.counts, extras);
      if (!context.training) continue;
      if (of_.config.routing_commitment > 0) extras.add_loss(side.distance * of_.config.routing_commitment);
      sums.push_back(side.counts);
      sums.push_back(side.sums);
      heads.push_back(report.first_head);
    }
  }
  if (sums.empty()) return;
  extras.sums().add(of_.routing.get(), sums, [routing = of_.routing, heads](const std::vector<at::Tensor>& totals) {
    for (size_t i = 0; i < heads.size(); ++i) routing->update(heads[i], totals[2 * i], totals[2 * i + 1]);
  });
}

}  // namespace fovea::nn

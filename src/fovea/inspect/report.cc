#include "fovea/inspect/report.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/strings.h"
#include "fovea/models/diverged.h"
#include "fovea/nn/clause_attention.h"

namespace fovea::inspect {
namespace {

// The lists of a batch of one sentence.
std::vector<analysis::ReportClusters> clusters_of(const std::vector<ops::RoutedRows>& groups) {
  std::vector<analysis::ReportClusters> out;
  for (const ops::RoutedRows& group : groups) {
    for (int64_t head = 0; head < group.heads; ++head) {
      analysis::ReportClusters clusters = {group.first_head + head, {}};
      for (int64_t c = 0; c < group.num_clusters; ++c) {
        const auto list = static_cast<size_t>(head * group.num_clusters + c);
        auto& tokens = clusters.members.emplace_back();
        for (int64_t i = group.queries.offsets[list]; i < group.queries.offsets[list + 1]; ++i)
          tokens.push_back(group.queries.rows[static_cast<size_t>(i)] / group.heads);
      }
      out.push_back(std::move(clusters));
    }
  }
  return out;
}

// For each token, the lowest level in use at which a clause begins with it; 0: none.
std::vector<int64_t> clause_marks(const nn::SeenAttention& seen) {
  std::vector<int64_t> marks(static_cast<size_t>(seen.q.size(0)));
  for (const nn::ClauseHeads& heads : nn::clause_heads(resolve(seen.spec, seen.place.heads))) {
    if (!heads.clauses) continue;
    for (const int64_t level : heads.clauses->levels) {
      const at::Tensor& offsets = seen.clauses->of_level(level);
      for (int64_t i = 0; i + 1 < offsets.numel(); ++i) {
        int64_t& mark = marks[static_cast<size_t>(offsets.const_data_ptr<int64_t>()[i])];
        mark = mark == 0 ? level : std::min(mark, level);
      }
    }
  }
  return marks;
}

}  // namespace

void ReportObserver::add(const nn::SeenAttention& seen) {
  if (seen.clauses != nullptr) report_.mark_clauses(clause_marks(seen));
  const nn::AttentionPlace& place = seen.place;
  at::Tensor own = seen.dense()[0].to(at::kCPU, at::kFloat);
  // Keys of zeros before the text (--span-cold-cache) are not tokens.
  if (place.kind == AttentionKind::kCausal) own = own.narrow(2, own.size(2) - own.size(1), own.size(1));
  own = own.contiguous();
  if (!own.isfinite().all().item<bool>()) models::refuse_diverged();
  using analysis::ReportSublayer;
  static constexpr std::array kSublayers = {ReportSublayer::kEncoder, ReportSublayer::kDecoder,
                                            ReportSublayer::kCross};  // in the order of AttentionKind
  const auto kind = static_cast<size_t>(place.kind);
  report_.add({.sublayer = kSublayers.at(kind),
               .layer = ++layers_.at(kind),
               .weights = {own.const_data_ptr<float>(), own.size(0), own.size(1), own.size(2),
                           place.kind == AttentionKind::kCausal},
               .clusters = clusters_of(seen.routed),
               .spans = seen.spans});
}

std::string mechanisms_text(const ModelConfig& config, Sublayer sublayer, int64_t depth) {
  std::vector<std::string> parts;
  const auto text_of = [&](int64_t layer) {
    const LayerSpec spec = attention_of(config, sublayer, layer);
    const LayerSpec shown = config.sparsify == "train" ? without_selection(spec) : spec;
    return shown.size() == 1 ? print(shown.front().spec) : print(shown);  // one mechanism without the number of heads
  };
  for (int64_t first = 0, end = 0; first < depth; first = end) {
    const std::string text = text_of(first);
    for (end = first + 1; end < depth && text_of(end) == text;) ++end;
    if (first == 0 && end == depth) return text;
    parts.push_back(cat("layer", end > first + 1 ? cat("s ", first + 1, "-", end) : cat(" ", end), " ", text));
  }
  return join(parts, "; ");
}

void add_report_sweep(const std::vector<std::string>& entries, std::string_view unit,
                      const std::function<models::GivenScore(const std::string& entry)>& measure,
                      analysis::Report& report) {
  if (entries.empty()) return;
  Sweep sweep{.unit = std::string(unit), .units = 0, .beam_size = 0, .points = {}};
  analysis::ReportSweep shown{.unit = sweep.unit, .units = 0, .points = {}, .plot = {}};
  log::Progress progress("measuring mechanisms", static_cast<double>(entries.size()));
  for (const std::string& entry : entries) {
    throw_if_interrupted("the report");
    const models::GivenScore loss = measure(entry);
    if (!std::isfinite(loss.nll)) models::refuse_diverged();
    sweep.points.push_back({entry, loss.mean_nll()});
    shown.points.push_back({entry, sweep.points.back().loss});
    sweep.units = shown.units = loss.tokens;
    progress.at(static_cast<double>(sweep.points.size()));
  }
  progress.finish();
  shown.plot = sweep_plot(sweep);
  report.set_sweep(std::move(shown));
}

}  // namespace fovea::inspect

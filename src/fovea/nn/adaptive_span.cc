#include "fovea/nn/adaptive_span.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/nn/index_tensor.h"

namespace fovea::nn {
namespace {

// Names in the log, and of the parameter.
constexpr std::string_view kMeanNote = "span-mean", kLargestNote = "span-largest", kWithRampNote = "span-with-ramp";
constexpr const char *kModule = "span", *kParameter = "share";

at::Tensor column(const std::vector<AdaptiveSpan>& spans, int64_t AdaptiveSpan::*member,
                  const at::TensorOptions& options) {
  std::vector<double> values;
  for (const AdaptiveSpan& span : spans) values.push_back(static_cast<double>(span.*member));
  return at::tensor(values, options.dtype(at::kDouble)).unsqueeze(1);
}

// The logarithm of m(t) for t = reach ... 1, [S, reach] double. Its gradient is 0 where m is.
at::Tensor log_masks(const at::Tensor& share, const std::vector<AdaptiveSpan>& spans, int64_t reach) {
  const at::TensorOptions options = share.options();
  const at::Tensor before = at::arange(reach - 1, -1, -1, options.dtype(at::kDouble));  // t - 1
  const at::Tensor length = share.to(at::kDouble).unsqueeze(1) * column(spans, &AdaptiveSpan::limit, options);
  const at::Tensor mask = ((length - before) / column(spans, &AdaptiveSpan::ramp, options) + 1).clamp(0, 1);
  const at::Tensor some = mask > 0;
  return at::where(some, at::where(some, mask, at::ones_like(mask)).log(),
                   at::full({}, -std::numeric_limits<double>::infinity(), mask.options()));
}

}  // namespace

void SpanScheme::register_table(torch::nn::Module& owner, int64_t longest, int64_t head_dim, const InitScope& scope) {
  if (longest == 0) return;
  auto module = owner.register_module("distances", std::make_shared<torch::nn::Module>());
  distances =
      module->register_parameter("weight", normal_tensor({longest, head_dim}, 1, scope / "distances" / "weight"));
}

AdaptiveSpans::AdaptiveSpans(const LayerSpec& mechanism, const SpanScheme& scheme)
    : spans_(spans_of_heads(mechanism)), scheme_(scheme) {
  for (const auto& span : spans_) {
    if (span) own_.push_back(*span);
  }
  share_ = register_parameter(kParameter, at::full({std::ssize(own_)}, scheme.config.span_start, at::kFloat));
}

bool AdaptiveSpans::fits(const LayerSpec& mechanism) const {
  const auto asked = spans_of_heads(mechanism);
  for (size_t head = 0; head < asked.size(); ++head) {
    if (!asked[head]) continue;
    const auto& own = spans_.at(head);
    if (!own || asked[head]->ramp != own->ramp || asked[head]->limit > own->limit) return false;
  }
  return true;
}

AdaptiveSpans::Tables AdaptiveSpans::tables(const LayerSpec& mechanism) const {
  const auto of = [&](LayerSpec spec) {
    AttentionLayerPointer layer = resolved_layer(spec, std::ssize(spans_));
    return Tables{std::move(spec), std::move(layer), {}, 0};
  };
  if (longest_span(mechanism) == 0) return of(mechanism);
  const std::vector<double> z = shares();
  std::vector<int64_t> reaches, rows;  // of each head; rows: of the masks
  int64_t own = 0, longest = 0;
  for (const auto& span : spans_) {
    rows.push_back(std::min(own, std::ssize(own_) - 1));  // a head without a span takes no row: any will do
    reaches.push_back(span ? reach_of(*span, z.at(static_cast<size_t>(own++))) : 0);
    longest = std::max(longest, reaches.back());
  }
  Tables tables = of(cut_spans(mechanism, reaches));
  tables.by_head = log_masks(share_, own_, longest).index_select(0, index_tensor(std::move(rows)).to(share_.device()));
  if (share_.scalar_type() != at::kDouble) tables.by_head = tables.by_head.to(at::kFloat);
  tables.by_head_first = -longest;
  return tables;
}

ops::OffsetTerms AdaptiveSpans::terms(const at::Tensor& q, const Tables& tables) const {
  ops::OffsetTerms terms;
  terms.by_head = tables.by_head;
  terms.by_head_first = tables.by_head_first;
  terms.queries = q;
  terms.rows = scheme_.distances.unsqueeze(1);
  terms.rows_first = -scheme_.distances.size(0);
  terms.for_spans = true;
  return terms;
}

std::vector<double> AdaptiveSpans::shares() const {
  const at::Tensor shares = share_.detach().to(at::kCPU, at::kDouble);
  return {shares.const_data_ptr<double>(), shares.const_data_ptr<double>() + shares.numel()};
}

std::vector<std::optional<double>> AdaptiveSpans::lengths(const LayerSpec& mechanism) const {
  const std::vector<double> z = shares();
  const auto asked = spans_of_heads(mechanism);
  std::vector<std::optional<double>> lengths(asked.size());
  for (size_t head = 0, next = 0; head < spans_.size(); ++head) {
    if (!spans_[head]) continue;
    const double length = span_of(*spans_[head], z.at(next++));
    if (asked[head]) lengths[head] = std::min(length, static_cast<double>(asked[head]->limit));
  }
  return lengths;
}

void AdaptiveSpans::report(bool training, PassExtras& extras) const {
  const std::vector<double> z = shares();
  for (size_t i = 0; i < own_.size(); ++i) {
    extras.add_note(kMeanNote, span_of(own_[i], z[i]));
    extras.add_note(kWithRampNote, span_with_ramp(own_[i], z[i]));
    extras.add_greatest(kLargestNote, span_of(own_[i], z[i]));
  }
  if (!training || scheme_.config.span_loss == 0) return;
  const at::Tensor limits = column(own_, &AdaptiveSpan::limit, share_.options()).squeeze(1).to(share_.scalar_type());
  extras.add_loss((share_ * limits).mean() * scheme_.config.span_loss);
}

ColdKeys with_cold_keys(const WarmKeys& keys, const at::Tensor& q_offsets, int64_t reach) {
  const auto* queries = q_offsets.const_data_ptr<int64_t>();
  const auto* begins = keys.begins.const_data_ptr<int64_t>();
  const auto* lengths = keys.lengths.const_data_ptr<int64_t>();
  const int64_t* tokens = keys.tokens ? keys.tokens->const_data_ptr<int64_t>() : nullptr;
  std::vector<int64_t> rows, new_begins, new_lengths;
  for (int64_t b = 0; b < keys.lengths.numel(); ++b) {
    const int64_t before = lengths[b] - (queries[b + 1] - queries[b]);
    const int64_t zeros = std::max<int64_t>(0, reach - before);
    new_begins.push_back(std::ssize(rows));
    new_lengths.push_back(zeros + lengths[b]);
    rows.insert(rows.end(), static_cast<size_t>(zeros), 0);
    for (int64_t i = begins[b]; i < begins[b] + lengths[b]; ++i)
      rows.push_back(1 + (tokens == nullptr ? i : tokens[i]));
  }
  const at::Tensor places = index_tensor(std::move(rows)).to(keys.k.device());
  const auto chosen = [&](const at::Tensor& x) {
    return at::cat({at::zeros({1, x.size(1), x.size(2)}, x.options()), x}).index_select(0, places);
  };
  return {chosen(keys.k), chosen(keys.v), index_tensor(std::move(new_begins)), index_tensor(std::move(new_lengths))};
}

ParameterRules span_rules(const torch::nn::Module& model) {
  ParameterRules rules;
  const std::string ending = cat(".", kModule, ".", kParameter);
  for (const auto& parameter : model.named_parameters()) {
    if (parameter.key().ends_with(ending)) rules[parameter.key()] = {.float32 = true, .low = 0, .high = 1};
  }
  return rules;
}

}  // namespace fovea::nn

#include "fovea/nn/cache_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <variant>
#include <vector>

#include "fovea/base/huge_pages.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/attention.h"

namespace fovea::nn {

namespace {

at::Tensor heads_first(const CacheRows::Shape& shape, int64_t tokens) {
  at::TensorOptions options = shape.options;
  if (shape.type != CacheType::kModel)
    options = options.dtype(shape.type == CacheType::kInt8 ? at::kChar : at::kBFloat16);
  const at::Tensor data = at::empty({2, shape.heads, tokens, shape.head_dim}, options);
  if (data.device().is_cpu()) advise_huge_pages(data.data_ptr(), data.nbytes());
  return data.permute({2, 0, 1, 3});
}

}  // namespace

CacheRows::CacheRows(const Shape& shape, int64_t tokens) : is_narrow_(shape.type != CacheType::kModel) {
  data_ = is_narrow_ || shape.layout == CacheLayout::kHeadsFirst
              ? heads_first(shape, tokens)
              : at::empty({tokens, 2, shape.heads, shape.head_dim}, shape.options);
  if (shape.type == CacheType::kInt8)
    steps_ = at::empty({2, shape.heads, tokens}, shape.options.dtype(at::kFloat)).permute({2, 0, 1});
}

ops::NarrowRows CacheRows::narrow_half(int64_t which) const {
  return {data_.select(1, which), steps_.defined() ? steps_.select(1, which) : at::Tensor()};
}

int64_t CacheRows::bytes() const {
  const auto of = [](const at::Tensor& x) { return x.defined() ? static_cast<int64_t>(x.nbytes()) : 0; };
  return of(data_) + of(steps_);
}

void CacheRows::write(const at::Tensor& kept, const at::Tensor& places, int64_t first) {
  if (is_narrow_) {
    for (const int64_t which : {0, 1}) ops::pack_narrow_rows(kept.select(1, which), narrow_half(which), places, first);
  } else if (places.defined()) {
    data_.index_copy_(0, places, kept);
  } else {
    data_.narrow(0, first, kept.size(0)).copy_(kept);
  }
}

void CacheRows::copy(const TokenMove& move) { take(*this, std::span(&move, 1)); }

void CacheRows::take(const CacheRows& from, std::span<const TokenMove> moves) {
  for (const auto& [begin, to, count] : moves) {
    if (count == 0) continue;
    data_.narrow(0, to, count).copy_(from.data_.narrow(0, begin, count));
    if (steps_.defined()) steps_.narrow(0, to, count).copy_(from.steps_.narrow(0, begin, count));
  }
}

void CacheRows::take(const CacheRows& from, const at::Tensor& tokens) {
  const at::Tensor places = tokens.to(data_.device());
  data_.narrow(0, 0, tokens.size(0)).copy_(from.data_.index_select(0, places));
  if (steps_.defined()) steps_.narrow(0, 0, tokens.size(0)).copy_(from.steps_.index_select(0, places));
}

bool reads_narrow_rows(const Attention& attention) {
  const LayerSpec& layer = attention.mechanism().evaluation;
  if (attention.has_terms() || attention.indexed().evaluation > 0 || layer.size() != 1 ||
      attention.place().head_dim() > ops::most_narrow_head_dim())
    return false;
  const AttentionSpec& spec = layer.front().spec;
  return spec.route() == nullptr && spec.blocks() == nullptr && spec.pairs().is_full() && !spec.selects() &&
         !spec.cap && std::holds_alternative<Softmax>(spec.transform) && std::holds_alternative<NoNorm>(spec.norm);
}

namespace {

// The rows of sequences, one after the other, in the type.
at::Tensor widened_ranges(const ops::NarrowRows& rows, std::span<const TokenMove> ranges, at::ScalarType type) {
  std::vector<at::Tensor> all;
  for (const TokenMove& range : ranges) {
    const auto part = [&](const at::Tensor& x) { return x.defined() ? x.narrow(0, range.from, range.count) : x; };
    all.push_back(ops::widened({part(rows.data), part(rows.steps)}, type));
  }
  return all.size() == 1 ? all.front() : at::cat(all);
}

// Sequences with several new tokens read what their keys and values stand for.
at::Tensor attend_widened(const at::Tensor& q, const NarrowAttention& keys, std::span<const TokenMove> ranges,
                          at::Tensor offsets) {
  std::vector<int64_t> k_offsets = {0};
  for (const TokenMove& range : ranges) k_offsets.push_back(k_offsets.back() + range.count);
  ops::AttentionOptions options;
  options.kind = AttentionKind::kCausal;
  options.q_offsets = std::move(offsets);
  options.k_offsets = index_tensor(std::move(k_offsets));
  options.enable_gqa = keys.rows.narrow_half(0).data.size(1) < q.size(1);
  const at::ScalarType type = q.scalar_type();
  return ops::attention(q, widened_ranges(keys.rows.narrow_half(0), ranges, type),
                        widened_ranges(keys.rows.narrow_half(1), ranges, type), "full", options);
}

}  // namespace

at::Tensor attend_narrow(const at::Tensor& q, const NarrowAttention& keys) {
  const auto *bounds = keys.offsets.const_data_ptr<int64_t>(), *begins = keys.begins.const_data_ptr<int64_t>(),
             *lengths = keys.lengths.const_data_ptr<int64_t>();
  std::vector<int64_t> singles, single_tokens, tokens, offsets = {0};
  std::vector<TokenMove> ranges;
  for (int64_t b = 0; b + 1 < keys.offsets.numel(); ++b) {
    const int64_t count = bounds[b + 1] - bounds[b];
    if (count == 1) {
      singles.push_back(b), single_tokens.push_back(bounds[b]);
    } else if (count > 1) {
      for (int64_t t = bounds[b]; t < bounds[b + 1]; ++t) tokens.push_back(t);
      offsets.push_back(std::ssize(tokens));
      ranges.push_back({.from = begins[b], .to = 0, .count = lengths[b]});
    }
  }
  const auto step = [&](const at::Tensor& queries, const at::Tensor& first, const at::Tensor& count) {
    const auto [out, not_finite] =
        ops::attend_narrow_rows(queries, {keys.rows.narrow_half(0), keys.rows.narrow_half(1), first, count},
                                1 / std::sqrt(static_cast<double>(q.size(2))));
    // A value may count there whose weight is zero, so the query reads the widened keys and values.
    for (const int64_t row : not_finite) {
      const TokenMove range = {.from = first[row].item<int64_t>(), .to = 0, .count = count[row].item<int64_t>()};
      out[row].copy_(attend_widened(queries.narrow(0, row, 1), keys, {&range, 1}, index_tensor({0, 1}))[0]);
    }
    return out;
  };
  if (std::ssize(singles) == q.size(0) && std::ssize(singles) == keys.begins.numel())
    return step(q, keys.begins, keys.lengths);
  at::Tensor out = at::empty(q.sizes(), q.options());
  if (!singles.empty()) {
    const at::Tensor rows = index_tensor(std::move(singles)), places = index_tensor(std::move(single_tokens));
    out.index_copy_(
        0, places,
        step(q.index_select(0, places), keys.begins.index_select(0, rows), keys.lengths.index_select(0, rows)));
  }
  if (!ranges.empty()) {
    const at::Tensor places = index_tensor(std::move(tokens));
    out.index_copy_(0, places,
                    attend_widened(q.index_select(0, places), keys, ranges, index_tensor(std::move(offsets))));
  }
  return out;
}

}  // namespace fovea::nn

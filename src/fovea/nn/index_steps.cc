#include "fovea/nn/index_steps.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "fovea/nn/indexer.h"

namespace fovea::nn {
namespace {

constexpr int64_t kPiece = 64;  // keys that rows share

}  // namespace

std::unique_ptr<IndexSteps> IndexSteps::of(const Attention& attention, int64_t rows) {
  const int64_t count = attention.indexed().evaluation;
  return count == 0 ? nullptr : std::unique_ptr<IndexSteps>(new IndexSteps(attention, rows, count));
}

void IndexSteps::append(const at::Tensor& keys, const StepPlaces& places) {
  const auto* begins = places.keys.begins.const_data_ptr<int64_t>();
  const auto* lengths = places.keys.lengths.const_data_ptr<int64_t>();
  const int64_t* tokens = places.keys.tokens ? places.keys.tokens->const_data_ptr<int64_t>() : nullptr;
  std::vector<int64_t> added, counts;
  for (size_t r = 0; r < rows_.size(); ++r) {
    Row& row = rows_[r];
    if (row.first != places.first[r]) row = {places.first[r], 0, {}, {}};
    for (int64_t i = row.known; i < lengths[r]; ++i) {
      const int64_t place = begins[r] + i;
      added.push_back(tokens == nullptr ? place : tokens[place]);
    }
    counts.push_back(lengths[r] - row.known);
    row.known = lengths[r];
  }
  const at::Tensor projected =
      attention_.indexer().keys(keys.index_select(0, at::tensor(added, at::kLong).to(keys.device())));
  int64_t begin = 0;
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (counts[r] == 0) continue;
    Row& row = rows_[r];
    at::Tensor rest = projected.narrow(0, begin, counts[r]);
    begin += counts[r];
    if (row.rest.defined()) rest = at::cat({row.rest, rest});
    for (; rest.size(0) >= kPiece; rest = rest.narrow(0, kPiece, rest.size(0) - kPiece)) {
      row.whole.push_back(rest.narrow(0, 0, kPiece));
    }
    row.rest = rest;
  }
}

at::Tensor IndexSteps::choose(const at::Tensor& q, const at::Tensor& keys, const StepPlaces& places) {
  append(keys, places);
  std::vector<at::Tensor> all;
  at::Tensor k_offsets = at::zeros({static_cast<int64_t>(rows_.size()) + 1}, at::kLong);
  auto* ends = k_offsets.mutable_data_ptr<int64_t>();
  for (size_t r = 0; r < rows_.size(); ++r) {
    all.insert(all.end(), rows_[r].whole.begin(), rows_[r].whole.end());
    if (rows_[r].rest.defined()) all.push_back(rows_[r].rest);
    ends[r + 1] = ends[r] + rows_[r].known;
  }
  ops::IndexOptions options;
  options.q_offsets = places.offsets, options.k_offsets = k_offsets;
  return attention_.indexer().choose_among(q, at::cat(all), options, count_);
}

void IndexSteps::inherit(std::span<const int64_t> parents) {
  std::vector<Row> rows;
  for (const int64_t parent : parents) rows.push_back(rows_.at(static_cast<size_t>(parent)));
  rows_.swap(rows);
}

}  // namespace fovea::nn

#include "fovea/nn/block_steps.h"

#include <utility>

#include "fovea/kernels/indexer/block_topk.h"
#include "fovea/ops/block_choice.h"

namespace fovea::nn {

std::unique_ptr<BlockSteps> BlockSteps::of(const Attention& attention, int64_t rows, const at::TensorOptions& options) {
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  if (!options.device().is_cpu() || (type != at::kFloat && type != at::kBFloat16)) return nullptr;
  std::unique_ptr<BlockSteps> steps(new BlockSteps());
  int64_t begin = 0;
  for (const HeadGroup& group : resolve(attention.mechanism().evaluation, attention.place().heads)) {
    if (const BlockChoice* choice = group.spec.blocks())
      steps->groups_.push_back({*choice, begin, group.num_heads, std::vector<Row>(static_cast<size_t>(rows))});
    begin += group.num_heads;
  }
  if (steps->groups_.empty()) return nullptr;
  steps->heads_per_key_ = attention.place().heads / attention.place().key_heads();
  return steps;
}

void BlockSteps::summarise(Group& group, int64_t row, const at::Tensor& keys, const StepPlaces& places) const {
  const auto r = static_cast<size_t>(row);
  Row& own = group.rows[r];
  if (own.first != places.first[r]) own = {places.first[r], {}};
  const int64_t begin = places.keys.begins.const_data_ptr<int64_t>()[row];
  const int64_t whole = places.keys.lengths.const_data_ptr<int64_t>()[row] / group.choice.block;
  kernels::BlockKeys block{.k = ops::rows_to_read(keys), .dtype = ops::type_to_read(keys)};
  block.key_heads = keys.size(1), block.head_dim = keys.size(2), block.count = group.choice.block;
  block.score = ops::score_of(group.choice);
  if (places.keys.tokens) block.places = places.keys.tokens->const_data_ptr<int64_t>();
  const int64_t floats = block.key_heads * kernels::summary_floats(block.head_dim, block.score);
  while (std::ssize(own.blocks) < whole) {
    block.first = begin + std::ssize(own.blocks) * block.count;
    std::vector<float> summary(static_cast<size_t>(floats));
    kernels::summarise_keys(block, summary.data());
    own.blocks.push_back(std::make_shared<const std::vector<float>>(std::move(summary)));
  }
}

std::vector<at::Tensor> BlockSteps::choose(const at::Tensor& q, const at::Tensor& keys, const StepPlaces& places) {
  const auto* offsets = places.offsets.const_data_ptr<int64_t>();
  const auto* lengths = places.keys.lengths.const_data_ptr<int64_t>();
  std::vector<kernels::Sequence> sequences;
  for (int64_t r = 0; r + 1 < places.offsets.numel(); ++r)
    sequences.push_back({offsets[r], offsets[r + 1] - offsets[r], 0, lengths[r]});
  std::vector<at::Tensor> lists;
  for (Group& group : groups_) {
    std::vector<std::vector<const float*>> pointers;
    for (int64_t r = 0; r < std::ssize(sequences); ++r) {
      summarise(group, r, keys, places);
      std::vector<const float*>& own = pointers.emplace_back();
      for (const Summary& block : group.rows[static_cast<size_t>(r)].blocks) own.push_back(block->data());
    }
    const std::vector<std::span<const float* const>> kept(pointers.begin(), pointers.end());
    const at::Tensor queries = q.narrow(1, group.begin, group.count);
    kernels::BlockTopk job;
    job.q = ops::rows_to_read(queries), job.dtype = ops::type_to_read(queries);
    job.heads = group.count, job.head_dim = q.size(2);
    job.keys = {heads_per_key_, group.begin % heads_per_key_};
    job.block = group.choice.block, job.best = group.choice.best, job.score = ops::score_of(group.choice);
    job.sequences = sequences;
    job.kept = kept, job.kept_head = group.begin / heads_per_key_;
    lists.push_back(ops::listed_blocks(job, q.size(0)));
  }
  return lists;
}

void BlockSteps::inherit(std::span<const int64_t> parents) {
  for (Group& group : groups_) {
    std::vector<Row> rows;
    for (const int64_t parent : parents) rows.push_back(group.rows.at(static_cast<size_t>(parent)));
    group.rows.swap(rows);
  }
}

void BlockSteps::add_rows(int64_t count) {
  for (Group& group : groups_) group.rows.resize(group.rows.size() + static_cast<size_t>(count));
}

}  // namespace fovea::nn

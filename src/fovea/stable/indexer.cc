#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "fovea/kernels/call/indexer.h"
#include "fovea/kernels/indexer/block_topk.h"
#include "fovea/kernels/indexer/index_loss.h"
#include "fovea/kernels/indexer/index_topk.h"
#include "fovea/stable/arguments.h"
#include "fovea/stable/copies.h"
#include "fovea/stable/executor.h"
#include "fovea/stable/memory.h"

// The conditions of the indexer's operators, as an operator that reads no numbers; and its kernels, as operators on
// contiguous CPU tensors that Python has checked by it.
namespace fovea::stable {
namespace {

kernels::ChosenKeys chosen_of(const Tensor& indices, int64_t keys) {
  return {numbers_of<int32_t>(indices), indices.size(0), indices.size(1), keys, indices.size(2)};
}

// The tensors and the counts of the operator `name` in the order of its schema, offsets and lengths last.
void kernel_check_index(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const std::string name = in.text();
  const std::vector<std::optional<Tensor>> tensors = in.tensors();
  const std::vector<int64_t> counts = in.integers();
  std::array<std::optional<kernels::TensorView>, 5> x;
  for (size_t i = 0; i < std::min(x.size(), tensors.size()); ++i) {
    if (tensors[i]) x[i] = outline_of(*tensors[i]);
  }
  if (name == "index_topk") {
    kernels::check_index_topk({x[0].value(), x[1].value(), x[2].value(), x[3], x[4]}, counts.at(0));
  } else if (name == "block_topk") {
    kernels::check_block_topk({x[0].value(), x[1].value(), x[2], x[3], x[4]}, counts.at(0), counts.at(1));
  } else if (name == "index_target") {
    kernels::check_index_target({x[0].value(), x[1].value(), x[2].value()});
  } else {
    const kernels::IndexLossViews views{x[0].value(), x[1].value(), x[2].value(), x[3].value(), x[4].value()};
    kernels::check_index_loss(views);
    if (name == "index_loss_kernel") kernels::check_index_loss_kernel(views);
  }
}

std::vector<kernels::Sequence> sequences_of(const Tensor& rows) {
  std::vector<kernels::Sequence> all;
  const auto* numbers = numbers_of<int64_t>(rows);
  for (int64_t s = 0; s < rows.size(0); ++s, numbers += 4)
    all.push_back({numbers[0], numbers[1], numbers[2], numbers[3]});
  return all;
}

// q [T_q, H, D], k [T_k, H_kv, D], sequences [S, 4] int64 -> [T_q, H, count] int32. `choice` is the keys of a block,
// how many blocks, whether by bounds, and whether causal.
void kernel_block_topk(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor q = in.tensor(), k = in.tensor(), sequences = in.tensor();
  const std::vector<int64_t> choice = in.integers();
  check_count(choice, 4, "choice");
  const std::vector<kernels::Sequence> all = sequences_of(sequences);
  kernels::BlockTopk job;
  job.q = {q.const_data_ptr(), q.size(1) * q.size(2), q.size(2)};
  job.k = {k.const_data_ptr(), k.size(1) * k.size(2), k.size(2)};
  job.dtype = dtype_of(q);
  job.heads = q.size(1), job.head_dim = q.size(2), job.keys.share = q.size(1) / k.size(1);
  job.block = choice[0], job.best = choice[1];
  job.score = choice[2] != 0 ? kernels::BlockScore::kBounds : kernels::BlockScore::kMean;
  job.causal = choice[3] != 0;
  job.sequences = all;
  const kernels::BlockLists lists = kernels::block_topk(job, executor_for(q.numel() * k.size(0)));
  const Tensor out = empty({q.size(0), q.size(1), lists.count}, aoti_torch_dtype_int32());
  std::fill_n(written_numbers<int32_t>(out), q.size(0) * q.size(1) * lists.count, -1);  // tokens of no sequence
  std::copy(lists.blocks.begin(), lists.blocks.end(), written_numbers<int32_t>(out));
  stack[0] = result(out);
}

// q [T_q, H, D], k [T_k, D], weights [T_q, H] float, sequences [S, 4] int64, out [T_q, k_best] int32.
void kernel_index_topk(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor q = in.tensor(), k = in.tensor(), weights = in.tensor(), sequences = in.tensor();
  const bool causal = in.flag();
  const Tensor out = in.tensor();
  kernels::check_index_keys(k.size(0));
  const std::vector<kernels::Sequence> all = sequences_of(sequences);
  kernels::IndexTopk job;
  job.q = q.const_data_ptr(), job.k = k.const_data_ptr(), job.weights = numbers_of<float>(weights);
  job.dtype = dtype_of(q);
  job.indices = written_numbers<int32_t>(out);
  job.heads = q.size(1), job.head_dim = q.size(2), job.k_best = out.size(1), job.causal = causal;
  job.sequences = all;
  kernels::index_topk(job, executor_for(q.numel() * k.size(0)));
}

// q [B, S, H, W], k [B, H_kv, T, W] and out [B, S, n] float, W a multiple of 16; indices [B, S, n] int32.
void kernel_index_target(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor q = in.tensor(), k = in.tensor(), indices = in.tensor();
  const double scale = in.number();
  const Tensor out = in.tensor();
  kernels::IndexTarget job;
  job.q = numbers_of<float>(q), job.k = numbers_of<float>(k);
  job.chosen = chosen_of(indices, k.size(2)), job.weights = written_numbers<float>(out);
  job.heads = q.size(2), job.key_heads = k.size(1), job.width = q.size(3), job.scale = static_cast<float>(scale);
  kernels::index_target(job, executor_for(q.numel() * indices.size(2)));
}

// q [B, S, H, W], k [B, T, W], weights [B, S, H], target and indices [B, S, n]; gradients like q, k and weights.
void kernel_index_loss(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor q = in.tensor(), k = in.tensor(), weights = in.tensor(), indices = in.tensor(), target = in.tensor();
  const std::optional<Tensor> grad_q = in.optional_tensor(), grad_k = in.optional_tensor(),
                              grad_weights = in.optional_tensor();
  kernels::IndexLoss job;
  job.q = numbers_of<float>(q), job.k = numbers_of<float>(k), job.weights = numbers_of<float>(weights);
  job.target = numbers_of<float>(target), job.chosen = chosen_of(indices, k.size(1));
  job.heads = q.size(2), job.width = q.size(3);
  job.grad_q = written_numbers<float>(grad_q), job.grad_k = written_numbers<float>(grad_k);
  job.grad_weights = written_numbers<float>(grad_weights);
  const kernels::IndexLossSum sum = kernels::index_loss(job, executor_for(q.numel() * indices.size(2)));
  stack[0] = result(sum.loss), stack[1] = result(sum.queries);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def("kernel_check_index(str name, Tensor?[] tensors, int[] counts) -> ()");
  m.def("kernel_block_topk(Tensor q, Tensor k, Tensor sequences, int[] choice) -> Tensor");
  m.def("kernel_index_topk(Tensor q, Tensor k, Tensor weights, Tensor sequences, bool causal, Tensor(a!) out) -> ()");
  m.def("kernel_index_target(Tensor q, Tensor k, Tensor indices, float scale, Tensor(a!) out) -> ()");
  m.def(
      "kernel_index_loss(Tensor q, Tensor k, Tensor weights, Tensor indices, Tensor target, Tensor(a!)? grad_q, "
      "Tensor(b!)? grad_k, Tensor(c!)? grad_weights) -> (float loss, int queries)");
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CompositeImplicitAutograd, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_check_index", &kernel_check_index);
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_block_topk", &kernel_block_topk);
  m.impl("kernel_index_topk", &kernel_index_topk);
  m.impl("kernel_index_target", &kernel_index_target);
  m.impl("kernel_index_loss", &kernel_index_loss);
}

}  // namespace fovea::stable

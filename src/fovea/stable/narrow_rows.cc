#include "fovea/kernels/attention/cpu/narrow_rows.h"

#include <optional>
#include <string>

#include "fovea/base/error.h"
#include "fovea/stable/arguments.h"
#include "fovea/stable/copies.h"
#include "fovea/stable/executor.h"

// Keys and values of a cache in bfloat16 or 8 bits, and steps of decoding that read them, as operators on CPU tensors
// that python/fovea/transformers/_narrow.py allocates.
namespace fovea::stable {
namespace {

using kernels::NarrowType;

kernels::NarrowRows narrow_rows(const Tensor& data, const std::optional<Tensor>& steps) {
  kernels::NarrowRows rows{steps ? NarrowType::kInt8 : NarrowType::kBFloat16, read_rows(data), {}};
  if (steps) rows.steps = {numbers_of<float>(steps), steps->stride(0), steps->stride(1)};
  return rows;
}

// rows [T, H, D] float32 or bfloat16 to the tokens places [T] of data [*, H, D] int8 and steps [*, H] float32.
void kernel_pack_narrow(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor rows = in.tensor(), data = in.tensor(), steps = in.tensor(), places = in.tensor();
  kernels::NarrowPack pack{.rows = read_rows(rows), .dtype = dtype_of(rows)};
  pack.count = rows.size(0), pack.num_heads = rows.size(1), pack.head_dim = rows.size(2);
  pack.tokens = numbers_of<int64_t>(places);
  pack.to = {NarrowType::kInt8, written_rows(data), {written_numbers<float>(steps), steps.stride(0), steps.stride(1)}};
  kernels::pack_narrow_rows(pack, torch_executor());
}

// q and out [B, H, D]; k and v [*, K, D] bfloat16, or int8 with their steps [*, K]. Returns how many rows of the batch
// hold a number that is not finite.
void kernel_narrow_step(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor q = in.tensor(), k = in.tensor(), v = in.tensor();
  const std::optional<Tensor> k_steps = in.optional_tensor(), v_steps = in.optional_tensor();
  const Tensor begins = in.tensor(), lengths = in.tensor();
  const double scale = in.number();
  const Tensor out = in.tensor();
  kernels::NarrowStep step{.q = read_rows(q),
                           .out = written_rows(out),
                           .dtype = dtype_of(q),
                           .keys = narrow_rows(k, k_steps),
                           .values = narrow_rows(v, v_steps)};
  step.begins = numbers_of<int64_t>(begins), step.lengths = numbers_of<int64_t>(lengths);
  step.count = q.size(0), step.num_heads = q.size(1), step.head_dim = q.size(2);
  step.share = q.size(1) / k.size(1), step.scale = static_cast<float>(scale);
  if (step.head_dim > kernels::kMaxNarrowHeadDim)
    throw Error("attention: narrow keys have at most " + std::to_string(kernels::kMaxNarrowHeadDim) +
                " numbers a head, got " + std::to_string(step.head_dim));
  stack[0] = result(std::ssize(kernels::attend_narrow_rows(step, torch_executor())));
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def("kernel_pack_narrow(Tensor rows, Tensor(a!) data, Tensor(b!) steps, Tensor places) -> ()");
  m.def(
      "kernel_narrow_step(Tensor q, Tensor k, Tensor v, Tensor? k_steps, Tensor? v_steps, Tensor begins, "
      "Tensor lengths, float scale, Tensor(a!) out) -> int");
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_pack_narrow", &kernel_pack_narrow);
  m.impl("kernel_narrow_step", &kernel_narrow_step);
}

}  // namespace fovea::stable

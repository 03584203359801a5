#include "fovea/kernels/attention/cpu/key_screen.h"

#include <optional>
#include <string>

#include "fovea/spec/attention_spec.h"
#include "fovea/stable/arguments.h"
#include "fovea/stable/copies.h"
#include "fovea/stable/executor.h"

// The 8-bit copy of a cache's keys, and steps of decoding that read it, as operators on CPU tensors that
// python/fovea/transformers/_cache.py allocates.
namespace fovea::stable {
namespace {

// Returns the only mechanism of a layer whose steps read the copy.
std::optional<AttentionSpec> screened_mechanism(const std::string& text) {
  const LayerSpec layer = parse_layer_spec(text);
  const bool reads = layer.size() == 1 && std::holds_alternative<NoNorm>(layer[0].spec.norm) &&
                     kernels::reads_key_screen(layer[0].spec);
  return reads ? std::optional(layer[0].spec) : std::nullopt;
}

void reads_key_screen(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const bool reads = screened_mechanism(in.text()).has_value();
  stack[0] = result(reads);
}

// keys [T, H, D] float32 or bfloat16, places [T] or none: rows of the copy, else first, first + 1, ...; rows [*, H,
// bytes] uint8, steps [*, H] float32 with a head's numbers side by side, extents [H, 3] and centre [H, D] float32.
void kernel_pack_keys(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor keys = in.tensor(), rows = in.tensor(), steps = in.tensor(), extents = in.tensor();
  const Tensor centre = in.tensor();
  const std::optional<Tensor> places = in.optional_tensor();
  const int64_t first = in.integer();
  kernels::pack_key_screen({.keys = read_rows(keys),
                            .dtype = dtype_of(keys),
                            .num_heads = keys.size(1),
                            .head_dim = keys.size(2),
                            .count = keys.size(0),
                            .centre = {numbers_of<float>(centre), 0, centre.stride(0)},
                            .tokens = numbers_of<int64_t>(places),
                            .first = first,
                            .rows = {written_numbers<uint8_t>(rows), rows.stride(0), rows.stride(1)},
                            .steps = {written_numbers<float>(steps), 1, steps.stride(1)},
                            .extents = written_numbers<float>(extents)},
                           torch_executor());
}

// One query for each sequence: q and out [B, H, D] over keys begins[b] ... begins[b] + lengths[b] - 1 of k and v.
void kernel_screened_step(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor q = in.tensor(), k = in.tensor(), v = in.tensor();
  const std::string text = in.text();
  const Tensor begins = in.tensor(), lengths = in.tensor();
  const Tensor rows = in.tensor(), steps = in.tensor(), extents = in.tensor();
  const double scale = in.number();
  const Tensor out = in.tensor();
  const std::optional<AttentionSpec> spec = screened_mechanism(text);
  if (!spec) throw Error("attention: the steps of '" + text + "' do not read a copy of the keys; call attention");
  kernels::AttentionProblem problem;
  problem.spec = *spec;
  problem.kind = AttentionKind::kCausal;
  problem.dtype = dtype_of(q);
  problem.num_heads = q.size(1), problem.head_dim = q.size(2);
  problem.keys = {q.size(1) / k.size(1), 0};
  const auto *first = numbers_of<int64_t>(begins), *count = numbers_of<int64_t>(lengths);
  for (int64_t b = 0; b < q.size(0); ++b) problem.sequences.push_back({b, 1, first[b], count[b]});
  kernels::AttentionForward job;
  job.q = read_rows(q), job.k = read_rows(k), job.v = read_rows(v), job.out = written_rows(out);
  job.scale = static_cast<float>(scale);
  job.screen = {{written_numbers<uint8_t>(rows), rows.stride(0), rows.stride(1)},
                {numbers_of<float>(steps), 1, steps.stride(1)},
                numbers_of<float>(extents)};
  const kernels::KernelChoice choice(problem);
  if (choice.tasks().empty())
    throw Error("attention: FOVEA_KERNEL names the reference, which reads no copy of the keys");
  choice.forward(job, torch_executor());
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def("reads_key_screen(str spec) -> bool");
  m.def(
      "kernel_pack_keys(Tensor keys, Tensor(a!) rows, Tensor(b!) steps, Tensor(c!) extents, Tensor centre, "
      "Tensor? places, int first) -> ()");
  m.def(
      "kernel_screened_step(Tensor q, Tensor k, Tensor v, str spec, Tensor begins, Tensor lengths, Tensor rows, "
      "Tensor steps, Tensor extents, float scale, Tensor(a!) out) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CompositeExplicitAutograd, m) {
  if (!is_first_copy()) return;
  m.impl("reads_key_screen", &reads_key_screen);
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_pack_keys", &kernel_pack_keys);
  m.impl("kernel_screened_step", &kernel_screened_step);
}

}  // namespace fovea::stable

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/call/layout.h"
#include "fovea/spec/attention_cache.h"
#include "fovea/stable/copies.h"
#include "fovea/stable/executor.h"
#include "fovea/stable/memory.h"
#include "fovea/stable/problem.h"

// Calls of the usual kind in one step, since a short call costs less than the Python of the general way: one mechanism
// on dense CPU tensors [B, H, N, D] or [T, H, D], without alpha, terms by offset or lists of pairs.
// python/fovea/_stable/_plain.py decides which calls these are; nobody else calls these operators.
namespace fovea::stable {
namespace {

// ---- dense tensors [B, H, N, D] and packed ones [T, H, D] as rows of tokens [T, H, D], without views of torch ----

int32_t type_of(const Tensor& x) {
  int32_t type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(x.get(), &type));
  return type;
}

struct RowStrides {
  int64_t token, head;
};

// Nothing if no strides lead from token to token.
std::optional<RowStrides> row_strides(const Tensor& x) {
  if (x.dim() == 3) return RowStrides{x.stride(0), x.stride(1)};
  const int64_t batch = x.size(0), length = x.size(2);
  if (batch > 1 && length > 1 && x.stride(0) != length * x.stride(2)) return std::nullopt;
  return RowStrides{length > 1 ? x.stride(2) : x.stride(0), x.stride(1)};
}

// A copy of [B, H, N, D] as [B, N, H, D], contiguous.
Tensor by_tokens(const Tensor& x) {
  const int64_t batch = x.size(0), heads = x.size(1), length = x.size(2), width = x.size(3);
  const auto bytes = static_cast<int64_t>(x.element_size());
  const Tensor copy = empty({batch, length, heads, width}, type_of(x));
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = written_numbers<char>(copy);
  executor_for(batch * length * heads * width).run(batch * length, [&](int64_t token, int) {
    const char* row = from + (token / length * x.stride(0) + token % length * x.stride(2)) * bytes;
    for (int64_t h = 0; h < heads; ++h) {
      std::memcpy(to + (token * heads + h) * width * bytes, row + h * x.stride(1) * bytes,
                  static_cast<size_t>(width * bytes));
    }
  });
  return copy;
}

// Whether each element between the first and the last is one of x's, once.
bool has_no_gaps(const Tensor& x) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (x.size(d) > 1) dims.emplace_back(x.stride(d), x.size(d));
  }
  std::ranges::sort(dims);
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

// The rows of a tensor for kernels to read, valid as long as this lives; a copy if no strides lead to them.
class ReadRows {
 public:
  explicit ReadRows(const Tensor& x);
  const kernels::Rows<const void>& rows() const { return rows_; }

 private:
  Tensor kept_;  // what the rows point into
  kernels::Rows<const void> rows_;
};

ReadRows::ReadRows(const Tensor& x) : kept_(x) {
  if (const auto strides = row_strides(x)) {
    rows_ = {x.const_data_ptr(), strides->token, strides->head};
  } else {
    kept_ = by_tokens(x);
    rows_ = {kept_.const_data_ptr(), x.size(1) * x.size(3), x.size(3)};
  }
}

// An uninitialised tensor of x's sizes and type for a result: tokens follow one another.
Tensor in_order_of_tokens(const Tensor& x) {
  const auto view = x.sizes();
  const std::vector<int64_t> sizes(view.begin(), view.end());
  if (x.dim() == 3) return empty(sizes, type_of(x));
  const int64_t heads = sizes[1], length = sizes[2], width = sizes[3];
  return empty(sizes, {length * heads * width, width, heads * width, 1}, type_of(x));
}

// An uninitialised tensor of x's sizes and type for its gradient, with its strides if they leave no gaps and lead to
// rows; otherwise tokens follow one another.
Tensor like(const Tensor& x) {
  if (!row_strides(x) || !has_no_gaps(x)) return in_order_of_tokens(x);
  const auto sizes = x.sizes(), strides = x.strides();
  return empty({sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}, type_of(x));
}

// The rows of a tensor that in_order_of_tokens() or like() made.
kernels::Rows<void> result_rows(const Tensor& x) {
  const RowStrides strides = *row_strides(x);
  return {x.mutable_data_ptr(), strides.token, strides.head};
}

// ---- the operators ----

using kernels::AttentionProblem;
using kernels::Sequence;

// The arguments that forward and backward share.
struct PlainArguments {
  explicit PlainArguments(Arguments& in)
      : q(in.tensor()),
        k(in.tensor()),
        v(in.tensor()),
        layout{in.optional_tensor(), in.optional_tensor(), in.optional_tensor(),
               in.optional_tensor(), in.optional_tensor(), in.optional_tensor()},
        spec(in.text()),
        kind(in.text()),
        scale(in.number()),
        dropout(in.number()),
        share(in.integer()),
        seed(in.integer()),
        layer(in.integer()),
        dropout_seed(in.integer()) {}

  bool is_packed() const { return q.dim() == 3; }
  int64_t tokens() const { return is_packed() ? q.size(0) : q.size(0) * q.size(2); }

  Tensor q, k, v;
  std::array<std::optional<Tensor>, kLayouts> layout;
  std::string spec, kind;
  double scale, dropout;
  int64_t share, seed, layer, dropout_seed;
};

enum class Phase : uint8_t { kInference, kTraining };

AttentionProblem problem_of(const PlainArguments& call, Phase phase) {
  AttentionProblem problem;
  problem.spec = parse_attention_once(call.spec);
  problem.kind = parse_kind(call.kind);
  problem.dtype = dtype_of(call.q);
  problem.num_heads = call.q.size(1), problem.head_dim = call.q.size(-1);
  problem.keys = {call.share, 0};
  problem.needs_backward = phase == Phase::kTraining;
  problem.dropout = static_cast<float>(call.dropout);
  validate(problem.spec, problem.kind);
  return problem;
}

LayoutArguments layout_of(const PlainArguments& call) {
  const auto view = [&](Layout place) {
    const std::optional<Tensor>& given = call.layout[place];
    return given ? std::optional(view_of(*given)) : std::nullopt;
  };
  const bool packed = call.is_packed();
  return {{packed, packed ? 1 : call.q.size(0), call.q.size(packed ? 0 : 2), call.k.size(packed ? 0 : 2)},
          {view(kQueryOffsets), view(kKeyOffsets), view(kKeyBegins), view(kKeyTokens), view(kQueryLengths),
           view(kKeyLengths)}};
}

kernels::RandomStream stream_of(const PlainArguments& call) {
  return {static_cast<uint64_t>(call.seed), static_cast<uint64_t>(call.dropout_seed), call.layer, 0};
}

// out as q, and what backward needs; out is [0] if no kernel takes the call.
void kernel_plain(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const PlainArguments call(in);
  AttentionProblem problem = problem_of(call, in.flag() ? Phase::kTraining : Phase::kInference);
  const LayoutArguments layout = layout_of(call);
  problem.sequences = kernels::read_sequences(layout.sizes, layout.vectors);
  problem.keys_listed = layout.vectors.k_tokens.has_value();
  const std::span<const int64_t> key_tokens = kernels::read_key_tokens(layout.sizes, layout.vectors);
  const kernels::KernelChoice choice(problem);
  const int32_t floats = aoti_torch_dtype_float32(), integers = aoti_torch_dtype_int32();
  if (choice.tasks().empty()) {
    stack[0] = result(empty({0}, floats)), stack[1] = result(empty({0}, floats)),
    stack[2] = result(empty({0}, integers));
    return;
  }
  const int64_t tokens = call.tokens(), heads = problem.num_heads;
  const kernels::SavedPerRow saved = problem.needs_backward ? kernels::saved_at_most(problem) : kernels::SavedPerRow{};
  const Tensor out = in_order_of_tokens(call.q), stats = empty({tokens, heads, saved.floats}, floats),
               kept = empty({tokens, heads, saved.ints}, integers);
  clear_padding(out, problem, &Sequence::q_length);
  const ReadRows q(call.q), k(call.k), v(call.v);
  kernels::AttentionForward job;
  job.q = q.rows(), job.k = k.rows(), job.v = v.rows(), job.out = result_rows(out);
  job.key_tokens = key_tokens.data();
  job.scale = static_cast<float>(call.scale);
  job.random = stream_of(call);
  if (problem.needs_backward) {
    job.stats = written_numbers<float>(stats), job.kept = written_numbers<int32_t>(kept);
    job.saved = saved;
  }
  choice.forward(job, torch_executor());
  stack[0] = result(out), stack[1] = result(stats), stack[2] = result(kept);
}

// The gradients of q, k and v; `out`, `stats` and `kept` are kernel_plain's.
void kernel_plain_backward(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const PlainArguments call(in);
  const Tensor grad_out = in.tensor(), out = in.tensor(), stats = in.tensor(), kept = in.tensor();
  AttentionProblem problem = problem_of(call, Phase::kTraining);
  const LayoutArguments layout = layout_of(call);
  problem.sequences = kernels::read_sequences(layout.sizes, layout.vectors);
  const kernels::KernelChoice choice(problem);
  const Tensor grad_q = like(call.q), grad_k = like(call.k), grad_v = like(call.v);
  clear_padding(grad_q, problem, &Sequence::q_length);
  clear_padding(grad_k, problem, &Sequence::k_length);
  clear_padding(grad_v, problem, &Sequence::k_length);
  const ReadRows q(call.q), k(call.k), v(call.v), results(out), cotangents(grad_out);
  kernels::AttentionBackward job;
  job.q = q.rows(), job.k = k.rows(), job.v = v.rows(), job.out = results.rows(), job.grad_out = cotangents.rows();
  job.grad_q = result_rows(grad_q), job.grad_k = result_rows(grad_k), job.grad_v = result_rows(grad_v);
  job.scale = static_cast<float>(call.scale);
  job.random = stream_of(call);
  job.stats = static_cast<const float*>(stats.const_data_ptr());
  job.kept = static_cast<const int32_t*>(kept.const_data_ptr());
  job.saved = {stats.size(2), kept.size(2)};
  choice.backward(job, torch_executor());
  stack[0] = result(grad_q), stack[1] = result(grad_k), stack[2] = result(grad_v);
}

}  // namespace

// The arguments of both, in the order in which PlainArguments takes them.
#define FOVEA_PLAIN_ARGUMENTS                                                                                        \
  "Tensor q, Tensor k, Tensor v, Tensor? q_offsets, Tensor? k_offsets, Tensor? k_begins, Tensor? k_tokens, Tensor? " \
  "q_lengths, Tensor? k_lengths, str spec, str kind, float scale, float dropout, int share, int seed, int layer, "   \
  "int dropout_seed, "

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def("kernel_plain(" FOVEA_PLAIN_ARGUMENTS "bool training) -> (Tensor out, Tensor stats, Tensor kept)");
  m.def("kernel_plain_backward(" FOVEA_PLAIN_ARGUMENTS
        "Tensor grad_out, Tensor out, Tensor stats, Tensor kept) -> (Tensor grad_q, Tensor grad_k, Tensor grad_v)");
}
// For inputs that require gradients too: Python calls these operators where nothing is recorded.
STABLE_TORCH_LIBRARY_IMPL(fovea, CompositeImplicitAutograd, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_plain", &kernel_plain);
  m.impl("kernel_plain_backward", &kernel_plain_backward);
}

}  // namespace fovea::stable

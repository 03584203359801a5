#include <algorithm>
#include <cstring>

#include "fovea/kernels/attention/dropout.h"
#include "fovea/kernels/call/counts.h"
#include "fovea/kernels/call/layout.h"
#include "fovea/kernels/call/lists.h"
#include "fovea/spec/attention_cache.h"
#include "fovea/stable/call.h"
#include "fovea/stable/copies.h"
#include "fovea/stable/executor.h"
#include "fovea/stable/memory.h"
#include "fovea/stable/rows.h"

// Operators for the reference in Python: the sequences of a call, and masks of the pairs of some queries.
namespace fovea::stable {
namespace {

using kernels::AttentionProblem;
using kernels::Sequence;

// [S, 4] int64: q_begin, q_length, k_begin, k_length. `sizes` are packed, batch, queries and keys.
void kernel_sequences(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const OptionalTensors layout = in.tensors();
  const kernels::CallSizes sizes = sizes_of(in.integers());
  const kernels::SequenceVectors vectors = vectors_of(layout);
  const std::vector<Sequence> all = kernels::read_sequences(sizes, vectors);
  kernels::read_key_tokens(sizes, vectors);
  const Tensor out = empty({std::ssize(all), 4}, aoti_torch_dtype_int64());
  auto* to = written_numbers<int64_t>(out);
  for (const Sequence& s : all) {
    for (const int64_t number : {s.q_begin, s.q_length, s.k_begin, s.k_length}) *to++ = number;
  }
  stack[0] = result(out);
}

// The lists of a call on the CPU, sorted and checked: [T_q, 1 or list_heads, count] int32. list_heads 0: all heads
// share them.
void kernel_lists(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor given = whole(in.tensor());
  const OptionalTensors layout = in.tensors();
  const std::string kind = in.text();
  const kernels::CallSizes sizes = sizes_of(in.integers());
  const int64_t block = in.integer(), list_heads = in.integer(), count = given.size(-1);
  AttentionProblem problem;
  problem.kind = parse_kind(kind);
  problem.num_heads = list_heads;
  problem.given = {.block = block,
                   .count = count,
                   .heads = list_heads > 0 ? kernels::ListHeads::kOfQueries : kernels::ListHeads::kShared};
  problem.sequences = kernels::read_sequences(sizes, vectors_of(layout));
  const int64_t tokens = sizes.batch * sizes.queries, heads = std::max<int64_t>(list_heads, 1);
  const Tensor room = empty({tokens * heads * count + kernels::kReadBehindLists}, aoti_torch_dtype_int32());
  kernels::sort_lists(view_of(given), sizes.packed, problem, written_numbers<int32_t>(room), torch_executor());
  const Tensor out = empty({tokens, heads, count}, aoti_torch_dtype_int32());
  std::copy_n(numbers_of<int32_t>(room), tokens * heads * count, written_numbers<int32_t>(out));
  stack[0] = result(out);
}

// Which part of a spec's pairs a mask is about.
enum class Part : uint8_t { kCandidates, kKept };

// True for the pairs of one sequence's queries first ... first + count - 1 that the part contains: bool
// [H, count, k_length], or [1, count, k_length] if all heads share them.
// `place` is q_length, k_length, first, count and the number of heads.
void kernel_pairs(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const std::string spec = in.text(), kind = in.text();
  const auto part = static_cast<Part>(in.integer());
  const std::vector<int64_t> place = in.integers(), stream = in.integers();
  check_count(place, 5, "place");
  const AttentionSpec parsed = parse_attention_once(spec);
  const bool keeps = part == Part::kKept;
  if (keeps && !parsed.keep) throw Error("attention: the spec keeps no pairs");
  const Pairs& pairs = keeps ? *parsed.keep : parsed.pairs();
  AttentionProblem problem;
  problem.kind = parse_kind(kind);
  const Sequence sequence{0, place[0], 0, place[1]};
  const kernels::RandomStream random = stream_of(stream);
  const int64_t first = place[2], count = place[3], keys = place[1], heads = uses_random(pairs) ? place[4] : 1;
  const Tensor out = empty({heads, count, keys}, aoti_torch_dtype_bool());
  auto* mask = written_numbers<bool>(out);
  std::memset(mask, 0, static_cast<size_t>(heads * count * keys));
  executor_for(heads * count * keys).run(heads * count, [&](int64_t row, int) {
    const int64_t head = row / count, query = first + row % count;
    for (const Span& span : spans(pairs, kernels::row_of(problem, sequence, query, random.pattern(head)))) {
      std::fill_n(mask + row * keys + span.begin, span.end - span.begin, true);
    }
  });
  stack[0] = result(out);
}

// The numbers of candidates of a layer's queries: float [B, N_q, H]; 1 under heads whose queries are not scaled, and of
// padding. query [B, N_q, M] and key [B, N_k, M] tell their sizes alone.
void kernel_counts(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor query = in.tensor(), key = in.tensor();
  const std::string spec = in.text(), kind = in.text();
  const std::optional<Tensor> q_lengths = in.optional_tensor(), k_lengths = in.optional_tensor();
  const int64_t heads = in.integer();
  const std::vector<int64_t> stream = in.integers();
  const LayerSpec layer = resolve(parse_layer_spec(spec), heads);
  const kernels::CallSizes sizes{.batch = query.size(0), .queries = query.size(1), .keys = key.size(1)};
  kernels::SequenceVectors lengths;
  lengths.q_lengths = view_of(q_lengths), lengths.k_lengths = view_of(k_lengths);
  const std::vector<Sequence> sequences = kernels::read_sequences(sizes, lengths);
  const int64_t numbers = sizes.batch * sizes.queries * heads;
  const Tensor out = empty({sizes.batch, sizes.queries, heads}, aoti_torch_dtype_float32());
  auto* counts = written_numbers<float>(out);
  std::fill_n(counts, numbers, 1.0F);
  kernels::count_candidates(
      {.heads = layer, .kind = parse_kind(kind), .sequences = sequences, .random = stream_of(stream)}, counts,
      executor_for(numbers));
  stack[0] = result(out);
}

// 1 / (1 - rate) or 0 for the pairs of `count` query tokens from the token `first` on: float [H, count, keys].
void kernel_dropout(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const auto rate = static_cast<float>(in.number());
  const std::vector<int64_t> place = in.integers(), stream = in.integers();
  check_count(place, 4, "place");
  const int64_t heads = place[0], first = place[1], count = place[2], keys = place[3];
  const kernels::RandomStream random = stream_of(stream);
  const Tensor out = empty({heads, count, keys}, aoti_torch_dtype_float32());
  auto* factors = written_numbers<float>(out);
  const uint32_t threshold = kernels::dropout_threshold(rate);
  const float survivor = kernels::dropout_scale(rate);
  executor_for(heads * count * keys).run(heads * count, [&](int64_t row, int) {
    const uint32_t key =
        kernels::dropout_row_key(random.dropout_key, random.first_head + row / count, first + row % count);
    for (int64_t j = 0; j < keys; ++j) {
      const bool stays = kernels::dropout_keeps(key, static_cast<uint32_t>(j), threshold);
      factors[row * keys + j] = stays ? survivor : 0.0F;
    }
  });
  stack[0] = result(out);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def("kernel_sequences(Tensor?[] layout, int[] sizes) -> Tensor");
  m.def("kernel_lists(Tensor given, Tensor?[] layout, str kind, int[] sizes, int block, int key_heads) -> Tensor");
  m.def("kernel_pairs(str spec, str kind, int part, int[] place, int[] stream) -> Tensor");
  m.def(
      "kernel_counts(Tensor query, Tensor key, str spec, str kind, Tensor? q_lengths, Tensor? k_lengths, int heads, "
      "int[] stream) -> Tensor");
  m.def("kernel_dropout(float rate, int[] place, int[] stream) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CompositeExplicitAutograd, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_sequences", &kernel_sequences);
  m.impl("kernel_lists", &kernel_lists);
  m.impl("kernel_pairs", &kernel_pairs);
  m.impl("kernel_counts", &kernel_counts);
  m.impl("kernel_dropout", &kernel_dropout);
}

}  // namespace fovea::stable

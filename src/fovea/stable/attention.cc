
#include "fovea/kernels/call/layout.h"
#include "fovea/stable/copies.h"
#include "fovea/stable/executor.h"
#include "fovea/stable/problem.h"

// The kernels of attention as operators on CPU tensors by tokens, [T, H, D]. Python checks the tensors, allocates what
// is returned and adds derivatives; nobody else calls these.
namespace fovea::stable {
namespace {

using kernels::AttentionProblem;
using kernels::Sequence;
using OptionalTensors = std::vector<std::optional<Tensor>>;

// The arguments that forward and backward share.
struct SharedArguments {
  explicit SharedArguments(Arguments& in)
      : q(in.tensor()),
        k(in.tensor()),
        v(in.tensor()),
        alpha(in.optional_tensor()),
        terms(in.tensors()),
        layout(in.tensors()),
        lists(in.optional_tensor()),
        spec(in.text()),
        kind(in.text()),
        scale(in.number()),
        dropout(in.number()),
        numbers(in.integers()),
        stream(in.integers()) {}

  Tensor q, k, v;
  std::optional<Tensor> alpha;    // [H] float32
  OptionalTensors terms, layout;  // terms: by_head, by_query, queries, rows
  std::optional<Tensor> lists;    // as fovea::kernel_lists returns them
  std::string spec, kind;
  double scale, dropout;
  std::vector<int64_t> numbers, stream;
};

AttentionProblem problem_with_sequences(const SharedArguments& call) {
  AttentionProblem problem = problem_of({call.spec, call.kind, call.dropout, call.numbers});
  const LayoutArguments layout = layout_of(call.numbers, call.layout);
  problem.sequences = kernels::read_sequences(layout.sizes, layout.vectors);
  problem.keys_listed = layout.vectors.k_tokens.has_value();
  return problem;
}

kernels::GivenLists given_of(const std::optional<Tensor>& lists) {
  if (!lists) return {};
  return {numbers_of<int32_t>(lists), lists->size(1) * lists->size(2), lists->size(1) > 1 ? lists->size(2) : 0};
}

kernels::Rows<const float> float_rows(const Tensor& x) {
  return {static_cast<const float*>(x.const_data_ptr()), x.stride(0), x.stride(1)};
}
kernels::Rows<float> written_float_rows(const Tensor& x) {
  return {written_numbers<float>(x), x.stride(0), x.stride(1)};
}

kernels::OffsetTerms terms_of(const OptionalTensors& given) {
  kernels::OffsetTerms terms;
  if (given.size() != 4) return terms;
  terms.by_head = numbers_of<float>(given[0]);
  if (given[1]) terms.by_query = float_rows(*given[1]);
  if (!given[3]) return terms;
  terms.queries = read_rows(*given[2]), terms.rows = read_rows(*given[3]);
  if (given[3]->size(1) == 1) terms.rows.head_stride = 0;
  return terms;
}

// True if a kernel took the call; otherwise nothing is written, and the reference is asked for.
void kernel_forward(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const SharedArguments call(in);
  const Tensor out = in.tensor(), stats = in.tensor(), kept = in.tensor(), sums = in.tensor();
  const AttentionProblem problem = problem_with_sequences(call);
  const LayoutArguments layout = layout_of(call.numbers, call.layout);
  const std::span<const int64_t> key_tokens = kernels::read_key_tokens(layout.sizes, layout.vectors);
  const kernels::KernelChoice choice(problem);
  const bool taken = !choice.tasks().empty();
  if (taken) {
    clear_padding(out, problem, &Sequence::q_length);
    kernels::AttentionForward job;
    job.q = read_rows(call.q), job.k = read_rows(call.k), job.v = read_rows(call.v), job.out = written_rows(out);
    job.key_tokens = key_tokens.data();
    job.scale = static_cast<float>(call.scale), job.alpha = numbers_of<float>(call.alpha);
    job.random = stream_of(call.stream);
    job.terms = terms_of(call.terms), job.given = given_of(call.lists);
    if (problem.offsets.sums.count > 0) {
      clear_padding(sums, problem, &Sequence::q_length);
      job.terms.sums = written_float_rows(sums);
    }
    if (problem.needs_backward) {
      job.stats = written_numbers<float>(stats), job.kept = written_numbers<int32_t>(kept);
      job.saved = {stats.size(2), kept.size(2)};
    }
    choice.forward(job, torch_executor());
  }
  stack[0] = result(taken);
}

// `grad_terms` are by_head [H, count], by_query and queries as the terms and rows [count, H, D]; terms that are not
// wanted are absent. by_head and rows begin as zeros.
void kernel_backward(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const SharedArguments call(in);
  const Tensor grad_out = in.tensor();
  const std::optional<Tensor> grad_sums = in.optional_tensor();
  const Tensor out = in.tensor(), stats = in.tensor(), kept = in.tensor(), sums = in.tensor();
  const Tensor grad_q = in.tensor(), grad_k = in.tensor(), grad_v = in.tensor();
  const std::optional<Tensor> grad_alpha = in.optional_tensor();
  const OptionalTensors grad_terms = in.tensors();
  const AttentionProblem problem = problem_with_sequences(call);
  const kernels::KernelChoice choice(problem);
  const bool taken = !choice.tasks().empty();
  if (taken) {
    clear_padding(grad_q, problem, &Sequence::q_length);
    clear_padding(grad_k, problem, &Sequence::k_length);
    clear_padding(grad_v, problem, &Sequence::k_length);
    kernels::AttentionBackward job;
    job.q = read_rows(call.q), job.k = read_rows(call.k), job.v = read_rows(call.v);
    job.out = read_rows(out), job.grad_out = read_rows(grad_out);
    job.grad_q = written_rows(grad_q), job.grad_k = written_rows(grad_k), job.grad_v = written_rows(grad_v);
    job.scale = static_cast<float>(call.scale), job.alpha = numbers_of<float>(call.alpha);
    job.grad_alpha = written_numbers<float>(grad_alpha);
    job.random = stream_of(call.stream);
    job.stats = static_cast<const float*>(stats.const_data_ptr());
    job.kept = static_cast<const int32_t*>(kept.const_data_ptr());
    job.saved = {stats.size(2), kept.size(2)};
    job.terms = terms_of(call.terms), job.given = given_of(call.lists);
    job.grad_terms.by_head = written_numbers<float>(grad_terms.at(0));
    if (grad_terms.at(1)) {
      clear_padding(*grad_terms[1], problem, &Sequence::q_length);
      job.grad_terms.by_query = written_float_rows(*grad_terms[1]);
    }
    if (grad_terms.at(2)) {
      clear_padding(*grad_terms[2], problem, &Sequence::q_length);
      job.grad_terms.queries = written_rows(*grad_terms[2]);
    }
    job.grad_terms.rows = written_numbers<float>(grad_terms.at(3));
    if (problem.offsets.sums.count > 0) job.terms.sums = written_float_rows(sums);
    if (grad_sums) job.grad_terms.sums = float_rows(*grad_sums);
    choice.backward(job, torch_executor());
  }
  stack[0] = result(taken);
}

}  // namespace

// The arguments of both, in the order in which SharedArguments takes them.
#define FOVEA_SHARED_ARGUMENTS                                                                                \
  "Tensor q, Tensor k, Tensor v, Tensor? alpha, Tensor?[] terms, Tensor?[] layout, Tensor? lists, str spec, " \
  "str kind, float scale, float dropout, int[] numbers, int[] stream, "

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def("kernel_forward(" FOVEA_SHARED_ARGUMENTS
        "Tensor(a!) out, Tensor(b!) stats, Tensor(c!) kept, Tensor(d!) sums) -> bool");
  m.def("kernel_backward(" FOVEA_SHARED_ARGUMENTS
        "Tensor grad_out, Tensor? grad_sums, Tensor out, Tensor stats, Tensor kept, Tensor sums, Tensor(a!) grad_q, "
        "Tensor(b!) grad_k, Tensor(c!) grad_v, Tensor(d!)? grad_alpha, Tensor?[] grad_terms) -> bool");
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_forward", &kernel_forward);
  m.impl("kernel_backward", &kernel_backward);
}

}  // namespace fovea::stable

#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/call/lists.h"
#include "fovea/stable/call.h"
#include "fovea/stable/copies.h"
#include "fovea/stable/executor.h"
#include "fovea/stable/memory.h"
#include "fovea/stable/rows.h"

// The attention of head groups by kernels, as operators with the arguments of fovea::attention_forward and
// fovea::attention_backward. They check the call on any device. Python adds derivatives, and the reference where no
// kernel takes the call.
namespace fovea::stable {
namespace {

using kernels::AttentionProblem;
using kernels::Phase;
using kernels::Sequence;
using kernels::TensorView;

// Zeroes a result [T, H, D] or [B, H, N, D] unless the sequences, whose rows kernels write, hold all of its tokens: the
// rest is padding.
const Tensor& clear_padding(const Tensor& x, const AttentionProblem& problem, int64_t Sequence::*length) {
  const int64_t tokens = x.dim() == 4 ? x.size(0) * x.size(2) : x.size(0);
  int64_t covered = 0;
  for (const Sequence& s : problem.sequences) covered += s.*length;
  if (covered != tokens) TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(x.get()));
  return x;
}

Tensor zeros(const std::vector<int64_t>& sizes) {
  const Tensor x = empty(sizes, aoti_torch_dtype_float32());
  TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(x.get()));
  return x;
}

std::optional<ReadRows> rows_of(const std::optional<Tensor>& x) {
  return x ? std::optional<ReadRows>(*x) : std::nullopt;
}

// The tensors of a call as kernels read them. They hold what the pointers lead to.
class Inputs {
 public:
  Inputs(const CallArguments& call, const AttentionProblem& problem)
      : q(call.q),
        k(call.k),
        v(call.v),
        by_query_(rows_of(call.terms[kByQuery])),
        queries_(rows_of(call.terms[kTermQueries])),
        rows_(rows_of(call.terms[kTermRows])) {
    if (call.alpha) alpha_ = whole(*call.alpha);
    if (call.terms[kByHead]) by_head_ = whole(*call.terms[kByHead]);
    terms.by_head = numbers_of<float>(by_head_);
    if (by_query_) terms.by_query = by_query_->floats();
    if (rows_) {
      terms.queries = queries_->rows(), terms.rows = rows_->rows();
      if (call.terms[kTermRows]->size(1) == 1) terms.rows.head_stride = 0;
    }
    if (problem.given.any()) sort(*call.layout[kLists], problem, call.q.dim() == 3);
  }
  const float* alpha() const { return numbers_of<float>(alpha_); }

  ReadRows q, k, v;
  kernels::OffsetTerms terms;
  kernels::GivenLists given;

 private:
  void sort(const Tensor& lists, const AttentionProblem& problem, bool packed) {
    const Tensor entries = whole(lists);
    const int64_t count = problem.given.count, heads = problem.list_heads();
    lists_ = empty({entries.numel() + kernels::kReadBehindLists}, aoti_torch_dtype_int32());
    kernels::sort_lists(view_of(entries), packed, problem, written_numbers<int32_t>(*lists_), torch_executor());
    given = {numbers_of<int32_t>(lists_), heads * count, heads > 1 ? count : 0};
  }

  std::optional<Tensor> alpha_, by_head_, lists_;
  std::optional<ReadRows> by_query_, queries_, rows_;
};

struct ForwardResult {
  std::optional<Tensor> out, stats, kept, sums;
};

// Room for what forward leaves to backward.
void add_saved(const PreparedCall& call, ForwardResult& result) {
  const kernels::SavedPerRow saved = call.saved();
  result.stats = empty({call.tokens(), saved.floats}, aoti_torch_dtype_float32());
  result.kept = empty({call.tokens(), saved.ints}, aoti_torch_dtype_int32());
}

void forward_by_kernels(const CallArguments& args, const PreparedCall& call, const Tensor& out, ForwardResult& result) {
  const AttentionProblem& problem = call.problem();
  const Inputs inputs(args, problem);
  kernels::AttentionForward job;
  job.q = inputs.q.rows(), job.k = inputs.k.rows(), job.v = inputs.v.rows();
  job.out = result_rows(clear_padding(out, problem, &Sequence::q_length));
  job.key_tokens = call.key_tokens();
  job.scale = static_cast<float>(args.scale), job.alpha = inputs.alpha();
  job.random = args.random();
  job.terms = inputs.terms, job.given = inputs.given;
  if (const int64_t count = problem.offsets.sums.count; count > 0) {
    result.sums = in_order_of_tokens(args.q, count, aoti_torch_dtype_float32());
    job.terms.sums = result_floats(clear_padding(*result.sums, problem, &Sequence::q_length));
  }
  if (problem.needs_backward) {
    job.stats = written_numbers<float>(*result.stats), job.kept = written_numbers<int32_t>(*result.kept);
  }
  call.kernels()->forward(job, torch_executor());
}

// Returns whether kernels took the call; if so, out if no tensor was given for it, and the sums of weights by offset if
// the call asks for them. `stats` and `kept` have room for backward, by kernels or not; they are left out without it.
void kernel_forward(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const CallArguments args(in);
  const Phase phase = in.flag() ? Phase::kTraining : Phase::kInference;
  const std::optional<Tensor> given = in.optional_tensor();
  const PreparedCall call(args, phase);
  const bool taken = call.kernels() != nullptr;
  ForwardResult made;
  if (phase == Phase::kTraining) add_saved(call, made);
  if (taken) {
    const Tensor out = given ? *given : in_order_of_tokens(args.q);
    forward_by_kernels(args, call, out, made);
    if (!given) made.out = out;
  }
  stack[0] = result(taken), stack[1] = result(made.out);
  stack[2] = result(made.stats), stack[3] = result(made.kept), stack[4] = result(made.sums);
}

// ---- backward ----

// The gradient of out and what forward left.
struct BackwardInputs {
  explicit BackwardInputs(Arguments& in)
      : grad_out(in.tensor()),
        grad_sums(in.optional_tensor()),
        out(in.tensor()),
        stats(in.tensor()),
        kept(in.tensor()),
        sums(in.optional_tensor()) {}
  Tensor grad_out;
  std::optional<Tensor> grad_sums;
  Tensor out, stats, kept;
  std::optional<Tensor> sums;
};

void check_as_q(const TensorView& x, const TensorView& q, std::string_view name) {
  if (std::ranges::equal(x.sizes, q.sizes) && x.element == q.element && x.device == q.device) return;
  const auto told = [](const TensorView& t) { return cat(t.type_name(), ' ', shape(t)); };
  throw Error(cat("attention: ", name, " is ", told(x), " on ", x.device_name(), "; expected it as q, ", told(q),
                  " on ", q.device_name()));
}

void check_left(const Tensor& x, TensorView::Element element, int64_t tokens, int64_t each, std::string_view name) {
  const TensorView view = view_of(x);
  const bool fits = view.dim() == 2 && view.sizes[0] == tokens && view.sizes[1] == each;
  if (fits && view.element == element && view.on_cpu && x.is_contiguous()) return;
  throw Error(cat("attention: ", name, " is ", view.type_name(), ' ', shape(view), "; expected what forward left, ",
                  element == TensorView::Element::kFloat32 ? "Float" : "Int", " [", tokens, ", ", each, ']'));
}

void check_backward(const CallArguments& args, const PreparedCall& call, const BackwardInputs& given) {
  kernels::check_differentiable(vectors_of(args.layout));
  const TensorView q = view_of(args.q);
  check_as_q(view_of(given.grad_out), q, "grad_out"), check_as_q(view_of(given.out), q, "out");
  if (const int64_t count = call.problem().offsets.sums.count; count > 0) {
    if (!given.sums) throw Error("attention: got no sums; expected what forward left");
    kernels::check_sums(q, view_of(*given.sums), count);
    if (given.grad_sums) kernels::check_sums(q, view_of(*given.grad_sums), count);
  }
  if (!q.on_cpu) return;  // no kernel reads the rest
  const kernels::SavedPerRow saved = call.saved();
  check_left(given.stats, TensorView::Element::kFloat32, call.tokens(), saved.floats, "stats");
  check_left(given.kept, TensorView::Element::kInt32, call.tokens(), saved.ints, "kept");
}

// The gradients that kernels write; of terms, those of `wanted`, a bit each.
struct Gradients {
  Gradients(const CallArguments& args, int64_t wanted, const OptionalTensors& given)
      : q(room(given, 0, args.q)), k(room(given, 1, args.k)), v(room(given, 2, args.v)) {
    const int64_t heads = args.q.size(1);
    if (args.alpha) alpha = zeros({heads});
    const auto wants = [&](Term term) { return (wanted >> term & 1) != 0 && args.terms[term].has_value(); };
    if (wants(kByHead)) terms[kByHead] = zeros({heads, args.terms[kByHead]->size(1)});
    if (wants(kByQuery)) {
      terms[kByQuery] = in_order_of_tokens(args.q, args.terms[kByQuery]->size(-1), aoti_torch_dtype_float32());
    }
    if (wants(kTermQueries)) terms[kTermQueries] = like(*args.terms[kTermQueries]);
    if (wants(kTermRows)) terms[kTermRows] = zeros({args.terms[kTermRows]->size(0), heads, args.q.size(-1)});
  }

  Tensor q, k, v;
  std::optional<Tensor> alpha, terms[kTerms];

 private:
  static Tensor room(const OptionalTensors& given, size_t place, const Tensor& x) {
    return place < given.size() && given[place] ? *given[place] : like(x);
  }
};

void backward_by_kernels(const CallArguments& args, const PreparedCall& call, const BackwardInputs& given,
                         const Gradients& grads) {
  const AttentionProblem& problem = call.problem();
  const Inputs inputs(args, problem);
  const ReadRows out(given.out), grad_out(given.grad_out);
  const std::optional<ReadRows> grad_sums = rows_of(given.grad_sums);
  kernels::AttentionBackward job;
  job.q = inputs.q.rows(), job.k = inputs.k.rows(), job.v = inputs.v.rows();
  job.out = out.rows(), job.grad_out = grad_out.rows();
  job.grad_q = result_rows(clear_padding(grads.q, problem, &Sequence::q_length));
  job.grad_k = result_rows(clear_padding(grads.k, problem, &Sequence::k_length));
  job.grad_v = result_rows(clear_padding(grads.v, problem, &Sequence::k_length));
  job.scale = static_cast<float>(args.scale), job.alpha = inputs.alpha();
  job.grad_alpha = written_numbers<float>(grads.alpha);
  job.random = args.random();
  job.stats = static_cast<const float*>(given.stats.const_data_ptr());
  job.kept = static_cast<const int32_t*>(given.kept.const_data_ptr());
  job.terms = inputs.terms, job.given = inputs.given;
  job.grad_terms.by_head = written_numbers<float>(grads.terms[kByHead]);
  if (const auto& x = grads.terms[kByQuery]) {
    job.grad_terms.by_query = result_floats(clear_padding(*x, problem, &Sequence::q_length));
  }
  if (const auto& x = grads.terms[kTermQueries]) {
    job.grad_terms.queries = result_rows(clear_padding(*x, problem, &Sequence::q_length));
  }
  job.grad_terms.rows = written_numbers<float>(grads.terms[kTermRows]);
  if (problem.offsets.sums.count > 0) job.terms.sums = result_floats(*given.sums);
  if (grad_sums) job.grad_terms.sums = grad_sums->floats();
  call.kernels()->backward(job, torch_executor());
}

// Returns whether kernels took the call; if so, the gradients of q, k and v for which no tensor was given, that of
// alpha as float, and those of the wanted terms: as the terms, those of offset_rows for each head, [count, H, D] in
// float.
void kernel_backward(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const CallArguments args(in);
  const BackwardInputs given(in);
  const int64_t wanted = in.integer();
  const OptionalTensors rooms = in.optional_tensors();
  const PreparedCall call(args, Phase::kTraining);
  check_backward(args, call, given);
  const bool taken = call.kernels() != nullptr;
  stack[0] = result(taken);
  if (!taken) {
    for (int place = 1; place < 9; ++place) stack[place] = result(std::optional<Tensor>());
    return;
  }
  const Gradients grads(args, wanted, rooms);
  backward_by_kernels(args, call, given, grads);
  const auto made = [&](size_t place, const Tensor& x) {
    return result(place < rooms.size() && rooms[place] ? std::nullopt : std::optional(x));
  };
  stack[1] = made(0, grads.q), stack[2] = made(1, grads.k), stack[3] = made(2, grads.v);
  stack[4] = result(grads.alpha);
  for (int term = 0; term < kTerms; ++term) stack[5 + term] = result(grads.terms[term]);
}

// ---- what needs no numbers ----

// How many floats and integers forward leaves for a token of the call on the CPU.
void kernel_saved(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const CallArguments args(in);
  const kernels::CoreCall core = args.core();
  kernels::check_layout(core.x);
  const AttentionLayerPointer layer = resolved_layer(args.spec, core.x.q.heads());
  AttentionProblem problem = kernels::problem_of(core, layer->groups, Phase::kTraining);
  problem.needs_backward = core.x.q.element != TensorView::Element::kFloat16;
  const kernels::SavedPerRow saved =
      saved_per_token(kernels::grouped_call(layer->groups, problem, 1, /*terms_for_spans=*/false));
  stack[0] = result(saved.floats), stack[1] = result(saved.ints);
}

// The walk through the list of kernels for each head group of a call with one sequence as long as q and k.
void kernel_explain(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const Tensor q = in.tensor(), k = in.tensor(), v = in.tensor();
  const std::string spec = in.text(), kind = in.text();
  kernels::CoreCall core{.x = {view_of(q), view_of(k), view_of(v)}, .kind = parse_kind(kind)};
  core.dropout = in.number();
  const Phase phase = in.flag() ? Phase::kTraining : Phase::kInference;
  kernels::check_layout(core.x);
  core.keys = kernels::key_sharing(core.x.q, core.x.k);
  const AttentionLayerPointer layer = resolved_layer(spec, core.x.q.heads());
  std::vector<AttentionLayer::Group> groups = layer->listed;
  for (AttentionLayer::Group& group : groups) group.reads_alpha = false;  // whatever its values
  AttentionProblem problem = kernels::problem_of(core, groups, phase);
  const kernels::CallSizes sizes = kernels::sizes_of(core.x.q, core.x.k);
  problem.sequences = {{0, sizes.queries, 0, sizes.keys}};
  std::string text;
  size_t at = 0;
  for (kernels::GroupProblem& group : kernels::grouped_call(groups, problem, 1, false).groups) {
    AttentionProblem& own = group.problem;
    const AttentionSpec& given = layer->groups[at++].spec;
    if (const BlockChoice* blocks = given.blocks())
      own.given = {.block = blocks->block, .count = blocks->best, .heads = kernels::ListHeads::kOfQueries};
    if (groups.size() > 1) text += cat(print(given), ", ", own.num_heads, " heads:\n");
    text += cat(kernels::explain(own), '\n');
  }
  text.pop_back();
  stack[0] = result(text);
}

}  // namespace

// The arguments of fovea::attention_forward, which CallArguments takes.
#define FOVEA_CALL_ARGUMENTS                                                                                     \
  "Tensor q, Tensor k, Tensor v, Tensor? alpha, Tensor?[]? terms, int[]? offsets, Tensor?[]? layout, str spec, " \
  "str kind, float scale, float dropout, int[]? stream, int dropout_seed"

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def("kernel_forward(" FOVEA_CALL_ARGUMENTS
        ", bool needs_backward, Tensor(a!)? out) -> (bool taken, Tensor? made, Tensor? stats, Tensor? kept, Tensor? "
        "sums)");
  m.def("kernel_backward(" FOVEA_CALL_ARGUMENTS
        ", Tensor grad_out, Tensor? grad_sums, Tensor out, Tensor stats, Tensor kept, Tensor? sums, int wanted, "
        "Tensor?[]? rooms) -> (bool taken, Tensor? q, Tensor? k, Tensor? v, Tensor? alpha, Tensor? by_head, "
        "Tensor? by_query, Tensor? queries, Tensor? rows)");
  m.def("kernel_saved(" FOVEA_CALL_ARGUMENTS ") -> (int floats, int ints)");
  m.def("kernel_explain(Tensor q, Tensor k, Tensor v, str spec, str kind, float dropout, bool needs_backward) -> str");
}
// For inputs that require gradients too: Python calls these operators where nothing is recorded.
STABLE_TORCH_LIBRARY_IMPL(fovea, CompositeImplicitAutograd, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_forward", &kernel_forward);
  m.impl("kernel_backward", &kernel_backward);
  m.impl("kernel_saved", &kernel_saved);
  m.impl("kernel_explain", &kernel_explain);
}

}  // namespace fovea::stable

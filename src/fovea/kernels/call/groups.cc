#include "fovea/kernels/call/groups.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/kernels/attention/cpu/key_screen.h"
#include "fovea/kernels/attention/cpu/screen_copy.h"

namespace fovea::kernels {
namespace {

int64_t bytes_of(DType dtype) { return dtype == DType::kBFloat16 ? 2 : dtype == DType::kFloat64 ? 8 : 4; }

// The rows of the heads from `head` on.
template <class T>
Rows<T> from_head(Rows<T> rows, int64_t head) {
  if (rows.data != nullptr) rows.data += head * rows.head_stride;
  return rows;
}
template <class Void>
Rows<Void> from_head(Rows<Void> rows, int64_t head, DType dtype) requires std::is_void_v<Void> {
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  if (rows.data != nullptr) rows.data = static_cast<Byte*>(rows.data) + head * rows.head_stride * bytes_of(dtype);
  return rows;
}

// The rows of the tokens from `token` on.
template <class Void>
Rows<Void> from_token(const Rows<Void>& rows, int64_t token, DType dtype) {
  return {from_head(Rows<Void>{rows.data, 0, rows.token_stride}, token, dtype).data, rows.token_stride,
          rows.head_stride};
}

template <class T>
T* at(T* values, int64_t place) {
  return values == nullptr ? nullptr : values + place;
}

// Cuts a term to the offsets that the keys of a span can have. Returns how many entries lie before them.
int64_t cut(OffsetRange& range, int64_t span) {
  if (range.count == 0) return 0;
  const int64_t begin = range.index(-span), end = range.index(-1) + 1;
  range = {range.first + begin, end - begin};
  return begin;
}

// The part of a group's table by_head within the table of all heads; it is a copy if the group reads fewer offsets.
class HeadTable {
 public:
  HeadTable(const GroupedCall& call, const GroupProblem& group) : call_(call), group_(group) {}
  const float* read(const float* all) {
    const int64_t count = group_.problem.offsets.by_head.count;
    if (all == nullptr || count == 0) return nullptr;
    if (!is_cut()) return row(all, 0);
    copy_.resize(static_cast<size_t>(group_.problem.num_heads * count));
    for (int64_t h = 0; h < group_.problem.num_heads; ++h) std::copy_n(row(all, h), count, copy_.data() + h * count);
    return copy_.data();
  }
  // The table to which the group's kernels write; write() then brings it into place.
  float* written(float* all) {
    const int64_t count = group_.problem.offsets.by_head.count;
    if (all == nullptr || count == 0) return nullptr;
    if (!is_cut()) return row(all, 0);
    copy_.assign(static_cast<size_t>(group_.problem.num_heads * count), 0);
    return copy_.data();
  }
  void write(float* all) const {
    const int64_t count = group_.problem.offsets.by_head.count;
    for (int64_t h = 0; !copy_.empty() && h < group_.problem.num_heads; ++h)
      std::copy_n(copy_.data() + h * count, count, row(all, h));
  }

 private:
  bool is_cut() const { return group_.problem.offsets.by_head.count != call_.offsets.by_head.count; }
  template <class T>
  T* row(T* all, int64_t head) const {
    return all + (group_.first_head + head) * call_.offsets.by_head.count + group_.by_head_begin;
  }
  const GroupedCall& call_;
  const GroupProblem& group_;
  std::vector<float> copy_;
};

// The gradient of a group's rows within that of all heads, [count, H, D].
class RowGradients {
 public:
  RowGradients(const GroupedCall& call, const GroupProblem& group, float* all)
      : group_(group), all_(group.problem.offsets.product.count == 0 ? nullptr : all), heads_(call.num_heads) {
    if (all_ != nullptr && !is_whole()) copy_.assign(static_cast<size_t>(count() * each()), 0);
  }
  float* get() { return copy_.empty() ? at(all_, group_.rows_begin * each()) : copy_.data(); }
  void write() const {
    for (int64_t o = 0; !copy_.empty() && o < count(); ++o) {
      float* to = all_ + ((group_.rows_begin + o) * heads_ + group_.first_head) * group_.problem.head_dim;
      std::copy_n(copy_.data() + o * each(), each(), to);
    }
  }

 private:
  bool is_whole() const { return group_.problem.num_heads == heads_; }
  int64_t count() const { return group_.problem.offsets.product.count; }
  int64_t each() const { return group_.problem.num_heads * group_.problem.head_dim; }
  const GroupProblem& group_;
  float* all_;
  int64_t heads_;
  std::vector<float> copy_;
};

// The gradient of k or v for a group whose first head of them has one already, of the group before: computed apart,
// and added to that head.
class SharedKeyGradient {
 public:
  SharedKeyGradient(const AttentionProblem& problem, const Rows<void>& own)
      : problem_(problem), own_(own), heads_(problem.num_key_heads()) {
    int64_t tokens = 0;
    for (const Sequence& s : problem.sequences) tokens = std::max(tokens, s.k_begin + s.k_length);
    room_.resize(static_cast<size_t>(tokens * heads_ * problem.head_dim * bytes_of(problem.dtype)));
  }
  Rows<void> rows() { return {room_.data(), heads_ * problem_.head_dim, problem_.head_dim}; }
  void add() {
    std::vector<float> sum(static_cast<size_t>(padded_width(problem_.head_dim))), other(sum.size());
    for (int64_t h = 0; h < heads_; ++h) {
      const Rows<void> room = rows();
      const OneHead<const void> from({room.data, room.token_stride, room.head_stride}, problem_, h);
      const OneHead<const void> before({own_.data, own_.token_stride, own_.head_stride}, problem_, h);
      const OneHead<void> to(own_, problem_, h);
      for (const Sequence& s : problem_.sequences) {
        for (int64_t token = s.k_begin; token < s.k_begin + s.k_length; ++token) {
          read_row(from, token, sum.data());
          if (h == 0) {
            read_row(before, token, other.data());
            for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
          }
          write_row(to, token, sum.data(), 1);
        }
      }
    }
  }

 private:
  const AttentionProblem& problem_;
  Rows<void> own_;
  int64_t heads_;
  std::vector<char> room_;
};

OffsetTerms terms_of(const GroupProblem& group, const OffsetTerms& all) {
  const OffsetRanges& has = group.problem.offsets;
  const DType dtype = group.problem.dtype;
  OffsetTerms own;
  if (has.by_query.count > 0) own.by_query = from_head(all.by_query, group.first_head);
  if (has.product.count > 0) {
    own.queries = from_head(all.queries, group.first_head, dtype);
    own.rows = from_token(from_head(all.rows, group.first_head, dtype), group.rows_begin, dtype);
  }
  if (has.sums.count > 0) own.sums = from_head(all.sums, group.first_head);
  return own;
}

GivenLists lists_of(const GroupProblem& group, const GivenLists& all) {
  switch (group.problem.given.heads) {
    case ListHeads::kOfKeys:
      return from_head(all, group.first_key_head);
    case ListHeads::kOfQueries:
      return from_head(all, group.first_head);
    default:
      return all;
  }
}

RandomStream random_of(const GroupProblem& group, RandomStream all) {
  all.first_head += group.first_head;
  return all;
}

void forward_group(const GroupedCall& call, const GroupProblem& group, const KernelChoice& choice,
                   const AttentionForward& arrays, Executor& executor) {
  const int64_t head = group.first_head, key_head = group.first_key_head;
  const DType dtype = group.problem.dtype;
  HeadTable by_head(call, group);
  AttentionForward own = arrays;
  own.q = from_head(arrays.q, head, dtype), own.out = from_head(arrays.out, head, dtype);
  own.k = from_head(arrays.k, key_head, dtype), own.v = from_head(arrays.v, key_head, dtype);
  own.alpha = group.reads_alpha ? arrays.alpha + head : nullptr;
  own.stats = at(arrays.stats, group.saved_begin.floats), own.kept = at(arrays.kept, group.saved_begin.ints);
  own.saved = group.saved;
  own.random = random_of(group, arrays.random);
  own.terms = terms_of(group, arrays.terms), own.terms.by_head = by_head.read(arrays.terms.by_head);
  own.given = lists_of(group, arrays.given);
  own.screen.rows = from_head(arrays.screen.rows, key_head),
  own.screen.steps = from_head(arrays.screen.steps, key_head);
  own.screen.extents = at(arrays.screen.extents, key_head * kKeyScreenExtents);
  choice.forward(own, executor);
}

// The gradients of k and v of heads that the group before shares are added to.
void backward_group(const GroupedCall& call, const GroupProblem& group, const KernelChoice& choice,
                    const AttentionBackward& arrays, Executor& executor) {
  const int64_t head = group.first_head, key_head = group.first_key_head;
  const DType dtype = group.problem.dtype;
  HeadTable by_head(call, group), grad_by_head(call, group);
  RowGradients grad_rows(call, group, arrays.grad_terms.rows);
  AttentionBackward own = arrays;
  own.q = from_head(arrays.q, head, dtype), own.out = from_head(arrays.out, head, dtype);
  own.k = from_head(arrays.k, key_head, dtype), own.v = from_head(arrays.v, key_head, dtype);
  own.grad_out = from_head(arrays.grad_out, head, dtype), own.grad_q = from_head(arrays.grad_q, head, dtype);
  own.grad_k = from_head(arrays.grad_k, key_head, dtype), own.grad_v = from_head(arrays.grad_v, key_head, dtype);
  own.alpha = group.reads_alpha ? arrays.alpha + head : nullptr;
  own.grad_alpha = group.reads_alpha ? at(arrays.grad_alpha, head) : nullptr;
  own.stats = at(arrays.stats, group.saved_begin.floats), own.kept = at(arrays.kept, group.saved_begin.ints);
  own.saved = group.saved;
  own.random = random_of(group, arrays.random);
  own.terms = terms_of(group, arrays.terms), own.terms.by_head = by_head.read(arrays.terms.by_head);
  own.given = lists_of(group, arrays.given);
  const OffsetGradients& grads = arrays.grad_terms;
  own.grad_terms = {};
  if (group.problem.offsets.sums.count > 0) own.grad_terms.sums = from_head(grads.sums, head);
  own.grad_terms.by_head = grad_by_head.written(grads.by_head);
  if (group.problem.offsets.by_query.count > 0) own.grad_terms.by_query = from_head(grads.by_query, head);
  if (group.problem.offsets.product.count > 0) own.grad_terms.queries = from_head(grads.queries, head, dtype);
  own.grad_terms.rows = grad_rows.get();
  if (group.shares_keys_before) {
    SharedKeyGradient k(group.problem, own.grad_k), v(group.problem, own.grad_v);
    own.grad_k = k.rows(), own.grad_v = v.rows();
    choice.backward(own, executor);
    k.add(), v.add();
  } else {
    choice.backward(own, executor);
  }
  grad_by_head.write(grads.by_head), grad_rows.write();
}

}  // namespace

void check_group(const AttentionProblem& problem) {
  validate(problem.spec, problem.kind);
  if (problem.offsets.any() && problem.kind == AttentionKind::kCross) {
    throw Error("attention: terms by offset are for self-attention; cross-attention has no offsets, leave them out");
  }
}

GroupedCall grouped_call(std::span<const AttentionLayer::Group> groups, const AttentionProblem& call, int64_t tokens,
                         bool terms_for_spans) {
  GroupedCall all{.num_heads = call.num_heads, .offsets = call.offsets};
  int64_t head = 0, last_key_head = -1;
  for (const AttentionLayer::Group& each : groups) {
    GroupProblem group{.problem = call, .first_head = head, .first_key_head = call.key_head(head)};
    AttentionProblem& own = group.problem;
    own.spec = each.spec, own.num_heads = each.num_heads;
    own.keys.skipped = (call.keys.skipped + head) % call.keys.share;
    check_group(own);
    if (terms_for_spans && each.span == 0) own.offsets = {};
    if (each.span > 0) {
      group.by_head_begin = cut(own.offsets.by_head, each.span);
      group.rows_begin = cut(own.offsets.product, each.span);
    }
    group.reads_alpha = each.reads_alpha;
    group.shares_keys_before = group.first_key_head == last_key_head;
    last_key_head = group.first_key_head + own.num_key_heads() - 1;
    if (own.needs_backward) group.saved = saved_at_most(own);
    group.saved_begin = all.saved;
    all.saved.floats += tokens * own.num_heads * group.saved.floats;
    all.saved.ints += tokens * own.num_heads * group.saved.ints;
    head += own.num_heads;
    all.groups.push_back(std::move(group));
  }
  return all;
}

GroupKernels::GroupKernels(const GroupedCall& call) : call_(call) {
  for (const GroupProblem& group : call.groups) {
    KernelChoice choice(group.problem);
    if (!choice.tasks().empty()) choices_.push_back(std::move(choice));
  }
}

void GroupKernels::forward(const AttentionForward& arrays, Executor& executor) const {
  for (size_t g = 0; g < choices_.size(); ++g) forward_group(call_, call_.groups[g], choices_[g], arrays, executor);
}

void GroupKernels::backward(const AttentionBackward& arrays, Executor& executor) const {
  for (size_t g = 0; g < choices_.size(); ++g) backward_group(call_, call_.groups[g], choices_[g], arrays, executor);
}

}  // namespace fovea::kernels

#include <algorithm>

#include "fovea/spec/attention_spec.h"

namespace fovea {

const Pairs& AttentionSpec::pairs() const {
  static const Pairs kFull;
  const auto* patterns = std::get_if<Pairs>(&source);
  return patterns != nullptr ? *patterns : kFull;
}

namespace {

bool in_tree(const Pairs& pairs, const Row& row, int64_t key) {
  const auto in = [&](const Pairs& part) { return in_tree(part, row, key); };
  switch (pairs.op) {
    case Pairs::Op::kUnion:
      return std::any_of(pairs.parts.begin(), pairs.parts.end(), in);
    case Pairs::Op::kIntersection:
      return std::all_of(pairs.parts.begin(), pairs.parts.end(), in);
    case Pairs::Op::kLeaf:
      break;
  }
  return std::visit([&](const auto& pattern) { return pattern.contains(row, key); }, pairs.leaf);
}

// Sorted, disjoint, with touching ranges joined.
void normalise(std::vector<Span>& list) {
  const auto before = [](const Span& a, const Span& b) { return a.begin < b.begin; };
  if (!std::is_sorted(list.begin(), list.end(), before)) std::sort(list.begin(), list.end(), before);
  size_t kept = 0;
  for (const Span& span : list) {
    if (kept > 0 && span.begin <= list[kept - 1].end) {
      list[kept - 1].end = std::max(list[kept - 1].end, span.end);
    } else {
      list[kept++] = span;
    }
  }
  list.resize(kept);
}

std::vector<Span> intersection(const std::vector<Span>& a, const std::vector<Span>& b) {
  std::vector<Span> out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Span both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (both.begin < both.end) out.push_back(both);
    a[i].end < b[j].end ? ++i : ++j;
  }
  return out;
}

std::vector<Span> union_of_parts(const std::vector<Pairs>& parts, const Row& row) {
  std::vector<Span> out;
  for (const Pairs& part : parts) {
    const std::vector<Span> list = spans(part, row);
    out.insert(out.end(), list.begin(), list.end());
  }
  normalise(out);
  return out;
}

std::vector<Span> leaf_spans(const Pattern& leaf, const Row& row) {
  std::vector<Span> out;
  const auto emit = [&](Span span) {
    span = {std::max<int64_t>(span.begin, 0), std::min(span.end, row.limit())};
    if (span.begin < span.end) out.push_back(span);
  };
  std::visit([&](const auto& pattern) { pattern.spans(row, emit); }, leaf);
  normalise(out);
  return out;
}

}  // namespace

bool contains(const Pairs& pairs, const Row& row, int64_t key) {
  return key >= 0 && key < row.limit() && in_tree(pairs, row, key);
}

std::vector<Span> spans(const Pairs& pairs, const Row& row) {
  if (row.limit() <= 0) return {};
  switch (pairs.op) {
    case Pairs::Op::kUnion:
      return union_of_parts(pairs.parts, row);
    case Pairs::Op::kIntersection: {
      std::vector<Span> out = {{0, row.limit()}};
      for (const Pairs& part : pairs.parts) out = intersection(out, spans(part, row));
      return out;
    }
    case Pairs::Op::kLeaf:
      break;
  }
  return leaf_spans(pairs.leaf, row);
}

int64_t candidate_count(const Pairs& pairs, const Row& row) {
  if (pairs.is_full()) return std::max<int64_t>(row.limit(), 0);
  int64_t total = 0;
  for (const Span& span : spans(pairs, row)) total += span.end - span.begin;
  return total;
}

bool uses_random(const Pairs& pairs) {
  if (pairs.op == Pairs::Op::kLeaf) return std::visit([]<class P>(const P&) { return P::kDraws; }, pairs.leaf);
  return std::any_of(pairs.parts.begin(), pairs.parts.end(), [](const Pairs& part) { return uses_random(part); });
}

bool uses_random(const AttentionSpec& spec) {
  if (spec.route() && !spec.route()->has_centroids()) return true;
  return uses_random(spec.pairs()) || (spec.keep && uses_random(*spec.keep));
}

bool uses_random(const LayerSpec& spec) {
  return std::any_of(spec.begin(), spec.end(), [](const HeadGroup& group) { return uses_random(group.spec); });
}

}  // namespace fovea

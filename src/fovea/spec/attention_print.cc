#include <algorithm>

#include "fovea/base/choices.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/spec/attention_names.h"
#include "fovea/spec/attention_spec.h"

namespace fovea {
namespace {

// Union: everything | full = full. Intersection: x & full = x. Equal parts count once.
Pairs canonical_pairs(Pairs pairs) {
  if (pairs.op == Pairs::Op::kLeaf) {
    pairs.parts.clear();
    return pairs;
  }
  std::vector<Pairs> flat;
  const auto add = [&](Pairs part) {
    if (std::find(flat.begin(), flat.end(), part) == flat.end()) flat.push_back(std::move(part));
  };
  bool any_full = pairs.parts.empty();
  for (Pairs& raw : pairs.parts) {
    Pairs part = canonical_pairs(std::move(raw));
    if (part.is_full()) {
      any_full = true;
    } else if (part.op == pairs.op) {
      for (Pairs& inner : part.parts) add(std::move(inner));
    } else {
      add(std::move(part));
    }
  }
  if (flat.empty() || (any_full && pairs.op == Pairs::Op::kUnion)) return {};
  if (flat.size() == 1) return std::move(flat.front());
  return {pairs.op, Full{}, std::move(flat)};
}

std::string text_of(int64_t value) { return std::to_string(value); }

// An argument with the comma before it; nothing if the word of a WordField is left out.
template <class T, class Choice>
std::string argument_text(const T& item, const WordField<T, Choice>& field, bool is_first) {
  const auto place = static_cast<size_t>(item.*field.member);
  return place == 0 ? "" : cat(is_first ? "" : ",", choice_at(field.words, place - 1));
}
template <class T>
std::string argument_text(const T& item, const auto& field, bool is_first) {
  const std::string comma = is_first ? "" : ",";
  if constexpr (requires { field.chosen; }) {
    if (field.chosen && T{}.*field.chosen && item.*field.chosen) return "";  // it may be left out
    return comma + (field.chosen && item.*field.chosen ? std::string(field.keyword) : shortest(item.*field.member));
  } else {
    return comma + text_of(item.*field.member);
  }
}

// name(arguments), from the fields of a pattern, source, transform or norm.
template <class T>
std::string call(const T& item) {
  std::string arguments;
  const auto add = [&](const auto& field) { arguments += argument_text(item, field, arguments.empty()); };
  std::apply([&](const auto&... field) { (add(field), ...); }, T::fields());
  return arguments.empty() ? std::string(T::kName) : cat(T::kName, "(", arguments, ")");
}

std::string call(const Pairs& pairs) {
  if (pairs.op == Pairs::Op::kLeaf) return std::visit([](const auto& pattern) { return call(pattern); }, pairs.leaf);
  const bool is_union = pairs.op == Pairs::Op::kUnion;
  std::string out;
  for (const Pairs& part : pairs.parts) {
    if (!out.empty()) out += is_union ? "|" : "&";
    out += part.op == Pairs::Op::kUnion && !is_union ? "(" + call(part) + ")" : call(part);
  }
  return out;
}

Transform canonical_transform(Transform transform) {
  if (const auto* sink = std::get_if<Sink>(&transform); sink != nullptr && sink->learned) return Sink{};
  if (const auto* sigmoid = std::get_if<Sigmoid>(&transform); sigmoid != nullptr && sigmoid->by_length)
    return Sigmoid{};
  Entmax* const entmax = std::get_if<Entmax>(&transform);
  if (!entmax) return transform;
  if (entmax->learned) return Entmax{.alpha = Entmax{}.alpha, .learned = true};
  if (entmax->alpha == 1) return Softmax{};
  if (entmax->alpha == 2) return Sparsemax{};
  return transform;
}

std::string call(const ClauseAttention& clauses) {
  using Weights = ClauseAttention::Weights;
  const auto level = [](int64_t l) { return cat(ClauseAttention::kClause, "(", text_of(l), ")"); };
  if (!clauses.is_mixture()) return level(clauses.levels.front());
  std::vector<std::string> parts = {std::string(Full::kName)};
  for (const int64_t l : clauses.levels) parts.push_back(level(l));
  if (clauses.weights == Weights::kConstant) parts.push_back(cat("constant(", shortest(clauses.constant), ")"));
  if (clauses.weights == Weights::kByToken) parts.emplace_back("token");
  return cat(ClauseAttention::kMix, "(", join(parts, ","), ")");
}

}  // namespace

AttentionSpec canonical(AttentionSpec spec) {
  if (auto* pairs = std::get_if<Pairs>(&spec.source)) *pairs = canonical_pairs(std::move(*pairs));
  if (const auto* top_p = std::get_if<TopP>(&spec.selection); top_p != nullptr && top_p->p >= 1) spec.selection = All{};
  if (!spec.selects()) spec.keep.reset();
  if (spec.keep) spec.keep = canonical_pairs(std::move(*spec.keep));
  spec.transform = canonical_transform(spec.transform);
  return spec;
}

std::string print(const Pairs& pairs) { return call(canonical_pairs(pairs)); }

std::string print(const AttentionSpec& given) {
  const AttentionSpec spec = canonical(given);
  std::vector<std::string> parts;
  const auto add = [&](const auto& item) { parts.push_back(call(item)); };
  if (const auto* pairs = std::get_if<Pairs>(&spec.source); pairs == nullptr || !pairs->is_full())
    std::visit(add, spec.source);
  if (spec.cap) add(*spec.cap);
  if (spec.selects()) {
    std::string selection = std::visit([](const auto& item) { return call(item); }, spec.selection);
    if (spec.keep) selection.insert(selection.size() - 1, ",keep=" + call(*spec.keep));
    parts.push_back(std::move(selection));
  }
  if (spec.transform.index() != 0) std::visit(add, spec.transform);
  if (spec.norm.index() != 0) std::visit(add, spec.norm);
  if (spec.scale) add(*spec.scale);
  if (spec.gate) add(*spec.gate);
  return parts.empty() ? std::string(Full::kName) : join(parts, "+");
}

size_t hash_value(const AttentionSpec& spec) {
  uint64_t hash = 0;
  for (const char c : print(spec)) hash = hash_combine(hash, static_cast<unsigned char>(c));
  return static_cast<size_t>(hash);
}

}  // namespace fovea

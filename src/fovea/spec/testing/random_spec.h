#pragma once
#include <type_traits>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/spec/attention_names.h"
#include "fovea/spec/attention_spec.h"

// Random specs for derived tests, drawn from the lists alone: a new pattern or transform is in them at once.
namespace fovea {

inline Pattern random_pattern(Rng& rng, bool positional) {
  Pattern out;
  size_t index = rng.below(std::variant_size_v<Pattern>);
  for_each_type<Pattern>([&]<class P>(P pattern) {
    if (index-- != 0) return;
    const auto draw = [&](const auto& field) {
      pattern.*field.member = field.min + static_cast<int64_t>(rng.below(12));
    };
    std::apply([&](const auto&... field) { (draw(field), ...); }, P::fields());
    if constexpr (requires { pattern.problem(); }) {
      while (!pattern.problem().empty()) std::apply([&](const auto&... field) { (draw(field), ...); }, P::fields());
    }
    out = pattern;
  });
  const bool is_positional = std::visit([]<class P>(const P&) { return P::kPositional; }, out);
  return is_positional && !positional ? random_pattern(rng, positional) : out;
}

inline Pairs random_pairs(Rng& rng, int depth, bool positional = true) {
  if (depth == 0 || rng.below(3) == 0) return {Pairs::Op::kLeaf, random_pattern(rng, positional), {}};
  Pairs out{rng.below(2) == 0 ? Pairs::Op::kUnion : Pairs::Op::kIntersection, Full{}, {}};
  for (uint64_t part = 0, count = 2 + rng.below(2); part < count; ++part)
    out.parts.push_back(random_pairs(rng, depth - 1, positional));
  return out;
}

template <class List>
List random_item(Rng& rng) {
  List out;
  size_t index = rng.below(std::variant_size_v<List>);
  for_each_type<List>([&]<class T>(T item) {
    if (index-- != 0) return;
    const auto draw = [&](const auto& field) {
      if constexpr (requires { field.words; }) {
        using Choice = std::remove_cvref_t<decltype(item.*field.member)>;
        item.*field.member = static_cast<Choice>(rng.below(split(field.words, '|').size() + 1));
      } else if constexpr (std::is_same_v<std::remove_cvref_t<decltype(item.*field.member)>, int64_t>) {
        item.*field.member = field.min + static_cast<int64_t>(rng.below(8));
      } else if (!field.keyword.empty() && rng.below(3) == 0) {
        item.*field.chosen = true;
      } else {
        if (field.chosen) item.*field.chosen = false;
        const double from = std::max(field.min, -1.0);
        item.*field.member = from + rng.uniform() * std::min(2.0, field.max - from);
      }
    };
    std::apply([&](const auto&... field) { (draw(field), ...); }, T::fields());
    out = item;
  });
  return out;
}

inline AttentionSpec random_spec(Rng& rng, int depth = 3, bool positional = true) {
  AttentionSpec out;
  out.source = random_pairs(rng, depth, positional);
  out.selection = random_item<Selection>(rng);
  if (out.selects() && rng.below(2) == 0) out.keep = random_pairs(rng, 1, positional);
  out.transform = random_item<Transform>(rng);
  out.norm = random_item<Norm>(rng);
  return canonical(out);
}

}  // namespace fovea

#include "fovea/tasks/translation/corrupt_pairs.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/shuffle.h"
#include "fovea/base/strings.h"

namespace fovea::translation {
namespace {

using Text = std::string;

// The parts of a text that its length counts, and that a corruption changes.
enum class Unit : uint8_t { kWord, kCharacter };

bool is_one_word(const TextPair& pair) { return split_words(pair.target).size() == 1; }

// A text has one unit, so that lengths compare: a single word in a text of words is not a line of characters.
Unit unit_of(const std::vector<TextPair>& pairs) {
  return 2 * std::ranges::count_if(pairs, is_one_word) > std::ssize(pairs) ? Unit::kCharacter : Unit::kWord;
}

// A target in its units.
struct TextUnits {
  std::vector<Text> units;
  Text between;

  TextUnits(std::string_view text, Unit unit) {
    if (unit == Unit::kWord) {
      units = split_words(text), between = " ";
      return;
    }
    for (std::string_view rest = trim(text); !rest.empty();) {
      const size_t size = first_character(rest).size;
      units.emplace_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
  }
  size_t size() const { return units.size(); }
  Text joined(size_t first, size_t last) const { return join(std::span(units).subspan(first, last - first), between); }
};

bool ends_clause(std::string_view unit) {
  static constexpr std::array<std::string_view, 12> kMarks = {
      ",", ";", ":", ".", "!", "?", "\uff0c", "\uff1b", "\uff1a", "\u3002", "\uff01", "\uff1f"};
  return std::ranges::any_of(kMarks, [&](std::string_view mark) { return unit.ends_with(mark); });
}

// Makes targets wrong with the help of all pairs, which have no empty sides.
class Corrupter {
 public:
  Corrupter(const std::vector<TextPair>& pairs, Corruption how, uint64_t seed)
      : pairs_(pairs), how_(how), unit_(unit_of(pairs)), rng_(seed) {
    order_.resize(pairs.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    shuffle(order_, rng_);
    if (how == Corruption::kNeighbour) {
      for (const TextPair& pair : pairs) lengths_.push_back(TextUnits(pair.target, unit_).size());
      std::ranges::stable_sort(order_, [&](size_t a, size_t b) { return lengths_[a] < lengths_[b]; });
    }
    place_.resize(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
  }

  // The wrong target of a pair; nothing if there is none.
  std::optional<Text> wrong_target(size_t pair) {
    const TextUnits target(pairs_[pair].target, unit_);
    std::optional<Text> wrong;
    switch (how_) {
      case Corruption::kShuffled:
        wrong = other_target(pair);
        break;
      case Corruption::kNeighbour:
        wrong = nearest_target(pair);
        break;
      case Corruption::kHalved:
        if (target.size() > 1) wrong = target.joined(0, target.size() / 2);
        break;
      case Corruption::kSwapped:
        wrong = with_other_word(pair, target);
        break;
      case Corruption::kInserted:
        wrong = with_other_clause(pair, target);
        break;
      case Corruption::kUntranslated:
        wrong = pairs_[pair].source;
        break;
    }
    return wrong && *wrong != pairs_[pair].target ? wrong : std::nullopt;
  }

 private:
  bool is_other(size_t pair, size_t other) const { return pairs_[other].target != pairs_[pair].target; }

  // The target of the next pair in a random order.
  std::optional<Text> other_target(size_t pair) const {
    for (size_t step = 1; step < order_.size(); ++step) {
      const size_t other = order_[(place_[pair] + step) % order_.size()];
      if (is_other(pair, other)) return pairs_[other].target;
    }
    return std::nullopt;
  }

  std::optional<Text> nearest_target(size_t pair) const {
    const size_t count = order_.size();
    size_t above = place_[pair] + 1, below = place_[pair];  // the next to look at: order_[above], order_[below - 1]
    while (above < count || below > 0) {
      const bool takes_above = below == 0 || (above < count && lengths_[order_[above]] - lengths_[pair] <=
                                                                   lengths_[pair] - lengths_[order_[below - 1]]);
      const size_t other = takes_above ? order_[above++] : order_[--below];
      if (is_other(pair, other)) return pairs_[other].target;
    }
    return std::nullopt;
  }

  // A random other pair with another target, after a few tries.
  std::optional<TextUnits> random_other(size_t pair) {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      const size_t other = rng_.below(pairs_.size());
      if (is_other(pair, other)) return TextUnits(pairs_[other].target, unit_);
    }
    return std::nullopt;
  }

  std::optional<Text> with_other_word(size_t pair, TextUnits target) {
    const std::optional<TextUnits> other = random_other(pair);
    if (!other) return std::nullopt;
    Text& word = target.units[rng_.below(target.size())];
    std::vector<Text> candidates;
    std::ranges::copy_if(other->units, std::back_inserter(candidates), [&](const Text& unit) { return unit != word; });
    if (candidates.empty()) return std::nullopt;
    word = candidates[rng_.below(candidates.size())];
    return target.joined(0, target.size());
  }

  std::optional<Text> with_other_clause(size_t pair, const TextUnits& target) {
    const std::optional<TextUnits> other = random_other(pair);
    if (!other) return std::nullopt;
    std::vector<std::pair<size_t, size_t>> clauses;  // of two words at least
    size_t first = 0;
    for (size_t i = 0; i < other->size(); ++i) {
      if (!ends_clause(other->units[i]) && i + 1 < other->size()) continue;
      if (i > first) clauses.emplace_back(first, i + 1);
      first = i + 1;
    }
    if (clauses.empty()) clauses.emplace_back(0, other->size());
    const auto [begin, end] = clauses[rng_.below(clauses.size())];
    return cat(target.joined(0, target.size()), target.between, other->joined(begin, end));
  }

  const std::vector<TextPair>& pairs_;
  Corruption how_;
  Unit unit_;
  Rng rng_;
  std::vector<size_t> order_, place_;  // place_[pair]: where it is in order_
  std::vector<size_t> lengths_;        // of targets, for kNeighbour
};

}  // namespace

CorruptedPairs corrupt(const std::vector<TextPair>& pairs, Corruption how, uint64_t seed) {
  std::vector<TextPair> usable;
  std::ranges::copy_if(pairs, std::back_inserter(usable),
                       [](const TextPair& pair) { return !is_empty_line(pair.source) && !is_empty_line(pair.target); });
  CorruptedPairs result;
  Corrupter corrupter(usable, how, seed);
  for (size_t i = 0; i < usable.size(); ++i) {
    std::optional<std::string> wrong = corrupter.wrong_target(i);
    if (!wrong) continue;
    result.good.push_back(usable[i]);
    result.bad.push_back({usable[i].source, std::move(*wrong), usable[i].line});
  }
  return result;
}

}  // namespace fovea::translation

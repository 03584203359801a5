#include "fovea/search/sample.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"

namespace fovea::search {
namespace {

constexpr float kNoLimit = -std::numeric_limits<float>::infinity();

// A token that may be drawn, with a probability in proportion to its weight.
struct Choice {
  double weight;  // e^((logit - greatest) / temperature)
  float logit;
  int32_t token;
};

// The greatest logit, or NaN if one is NaN.
float greatest_of(std::span<const float> logits) {
  float greatest = kNoLimit;
  bool has_nan = false;
  for (const float logit : logits) {
    has_nan |= std::isnan(logit);
    greatest = std::max(greatest, logit);
  }
  return has_nan ? std::numeric_limits<float>::quiet_NaN() : greatest;
}

// The k-th greatest of the logits, 0 < k < their number. Candidates are pruned when they are 2 k, so that few of a
// large vocabulary are moved.
float kth_greatest(std::span<const float> logits, size_t k) {
  std::vector<float> candidates;
  candidates.reserve(2 * k);
  const auto kth = [&] {
    const auto place = candidates.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(candidates.begin(), place, candidates.end(), std::greater<>());
    return *place;
  };
  float least = kNoLimit;
  for (const float logit : logits) {
    if (candidates.size() >= k && logit <= least) continue;
    candidates.push_back(logit);
    if (candidates.size() < 2 * k) continue;
    least = kth();
    candidates.resize(k);
  }
  return kth();
}

// The tokens with logits of at least `least`, in their order.
std::vector<Choice> choices_of(std::span<const float> logits, float least, float greatest, double temperature) {
  std::vector<Choice> choices;
  if (least == kNoLimit) choices.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] < least) continue;
    const double weight = std::exp((double{logits[i]} - double{greatest}) / temperature);
    choices.push_back({weight, logits[i], static_cast<int32_t>(i)});
  }
  return choices;
}

double mass_of(std::span<const Choice> choices) {
  double sum = 0;
  for (const Choice& choice : choices) sum += choice.weight;
  return sum;
}

// Keeps the fewest most probable choices, one at least, whose mass is at least `mass`, in the order of their tokens.
// Halves the part in which the last of them lies, instead of sorting all.
void keep_most_probable(std::vector<Choice>& choices, double mass) {
  constexpr size_t kFew = 64;
  const auto precedes = [](const Choice& a, const Choice& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  const auto at = [&](size_t i) { return choices.begin() + static_cast<std::ptrdiff_t>(i); };
  size_t begin = 0, end = choices.size();  // what stands before `begin` is kept and has the mass `sum`
  double sum = 0;
  while (end - begin > kFew) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(at(begin), at(middle), at(end), precedes);
    const double half = mass_of({at(begin), at(middle)});
    if (sum + half >= mass) {
      end = middle;
    } else {
      begin = middle, sum += half;
    }
  }
  std::sort(at(begin), at(end), precedes);
  while (begin < end && (begin == 0 || sum < mass)) sum += choices[begin++].weight;
  choices.resize(begin);
  std::ranges::sort(choices, {}, &Choice::token);
}

void apply_top_p(std::vector<Choice>& choices, double top_p) {
  const double total = mass_of(choices);
  // Choices this improbable have less than 1 - top_p together, so none of them is kept.
  const double least = (1 - top_p) * total / (2 * static_cast<double>(choices.size()));
  std::erase_if(choices, [&](const Choice& choice) { return choice.weight < least; });
  keep_most_probable(choices, top_p * total);
}

// `share` in [0, 1) of the mass lies before the end of the token's own part of it.
int64_t token_at(const std::vector<Choice>& choices, double share) {
  const double place = share * mass_of(choices);
  double sum = 0;
  int64_t last = kNotFinite;
  for (const Choice& choice : choices) {
    sum += choice.weight;
    if (choice.weight > 0) last = choice.token;  // where rounding makes `place` the whole mass
    if (sum > place) return choice.token;
  }
  return last;
}

}  // namespace

void validate(const SampleOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    throw Error(cat("sample: temperature ", options.temperature, " is not a finite number of at least 0"));
  }
  if (options.top_k < 0) throw Error(cat("sample: top_k ", options.top_k, " is not at least 0"));
  const double p = options.top_p;
  if (!(p > 0 && p <= 1)) throw Error(cat("sample: top_p ", p, " is not in (0, 1]"));
}

int64_t sample(std::span<const float> logits, const SampleOptions& options, uint64_t seed, uint64_t counter) {
  validate(options);
  const float greatest = greatest_of(logits);
  if (!std::isfinite(greatest)) return kNotFinite;
  if (options.temperature == 0 || options.top_k == 1) return std::ranges::find(logits, greatest) - logits.begin();
  const bool all = options.top_k == 0 || std::cmp_greater_equal(options.top_k, logits.size());
  const float least = all ? kNoLimit : kth_greatest(logits, static_cast<size_t>(options.top_k));
  std::vector<Choice> choices = choices_of(logits, least, greatest, options.temperature);
  if (options.top_p < 1) apply_top_p(choices, options.top_p);
  return token_at(choices, Rng(seed, counter).uniform());
}

}  // namespace fovea::search

#include "fovea/metrics/cider.h"

#include <algorithm>
#include <cmath>

#include "fovea/metrics/unicode.h"

namespace fovea::metrics {

Cider::Words Cider::words_of(std::string_view text) {
  std::u32string decoded = decode_utf8(text);
  if (lowercase_) decoded = lower_case(decoded);
  Words words;
  for (const std::u32string_view word : split_words(decoded)) words.push_back(numbers_(word));
  return words;
}

void Cider::add(std::string_view hypothesis, std::span<const std::string> references) {
  Image image{words_of(hypothesis), {}};
  for (const std::string& reference : references) image.references.push_back(words_of(reference));
  for (size_t n = 0; n < kOrder; ++n) {
    GramCounts seen;
    for (const Words& reference : image.references) seen.merge(count_grams(reference, n + 1, kWordBits));
    for (const auto& [gram, count] : seen) ++images_with_[n][gram];
  }
  images_.push_back(std::move(image));
}

Cider::Vector Cider::vector_of(const Words& words) const {
  const double all = std::log(static_cast<double>(images_.size()));
  Vector vector;
  vector.length = std::max<double>(0, static_cast<double>(words.size()) - 1);
  for (size_t n = 0; n < kOrder; ++n) {
    double sum = 0;
    for (const auto& [gram, count] : count_grams(words, n + 1, kWordBits)) {
      const auto found = images_with_[n].find(gram);
      const double images = found == images_with_[n].end() ? 1 : static_cast<double>(found->second);
      const double weight = static_cast<double>(count) * (all - std::log(images));
      vector.weights[n].emplace(gram, weight);
      sum += weight * weight;
    }
    vector.norms[n] = std::sqrt(sum);
  }
  return vector;
}

double Cider::similarity(const Vector& hypothesis, const Vector& reference) {
  constexpr double kSigma = 6;
  double total = 0;
  for (size_t n = 0; n < kOrder; ++n) {
    const double norms = hypothesis.norms[n] * reference.norms[n];
    if (norms == 0) continue;
    double product = 0;
    for (const auto& [gram, weight] : hypothesis.weights[n]) {
      const auto found = reference.weights[n].find(gram);
      if (found != reference.weights[n].end()) product += std::min(weight, found->second) * found->second;
    }
    total += product / norms;
  }
  const double difference = hypothesis.length - reference.length;
  return total / kOrder * std::exp(-difference * difference / (2 * kSigma * kSigma));
}

std::vector<double> Cider::scores() const {
  constexpr double kScale = 10 * 100;  // CIDEr's own factor, and ours for percentages
  std::vector<double> scores;
  scores.reserve(images_.size());
  for (const Image& image : images_) {
    const Vector hypothesis = vector_of(image.hypothesis);
    double sum = 0;
    for (const Words& reference : image.references) sum += similarity(hypothesis, vector_of(reference));
    scores.push_back(kScale * sum / static_cast<double>(image.references.size()));
  }
  return scores;
}

}  // namespace fovea::metrics

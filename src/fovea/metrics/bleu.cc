#include "fovea/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/ngrams.h"
#include "fovea/metrics/tokenize.h"
#include "fovea/metrics/unicode.h"

namespace fovea::metrics {
namespace {

using Words = std::vector<uint32_t>;

int64_t closest_length(int64_t length, std::span<const Words> references) {
  int64_t closest = -1;
  for (const Words& reference : references) {
    const int64_t candidate = std::ssize(reference);
    const int64_t distance = std::abs(length - candidate), best = std::abs(length - closest);
    if (closest < 0 || distance < best || (distance == best && candidate < closest)) closest = candidate;
  }
  return closest;
}

BleuStats count_segment(const Words& hypothesis, std::span<const Words> references) {
  BleuStats stats;
  stats.hypothesis_length = std::ssize(hypothesis);
  stats.reference_length = closest_length(stats.hypothesis_length, references);
  for (size_t n = 1; n <= kBleuOrder; ++n) {
    GramCounts most;
    for (const Words& reference : references)
      for (const auto& [gram, count] : count_grams(reference, n, kWordBits)) most[gram] = std::max(most[gram], count);
    const GramCounts counts = count_grams(hypothesis, n, kWordBits);
    stats.correct[n - 1] = matches_of(counts, most);
    stats.total[n - 1] = total_of(counts);
  }
  return stats;
}

template <class Split>
BleuStats segment_of(std::string_view hypothesis, std::span<const std::string> references, const Split& split) {
  if (references.empty()) throw Error("BLEU: got no reference; expected at least one a segment");
  WordNumbers numbers;
  const Words words = split(hypothesis, numbers);
  std::vector<Words> reference_words;
  reference_words.reserve(references.size());
  for (const std::string& reference : references) reference_words.push_back(split(reference, numbers));
  return count_segment(words, reference_words);
}

double brevity_penalty(const BleuStats& stats) {
  if (stats.hypothesis_length >= stats.reference_length) return 1;
  if (stats.hypothesis_length == 0) return 0;
  return std::exp(1 - static_cast<double>(stats.reference_length) / static_cast<double>(stats.hypothesis_length));
}

double floored_log(double value) { return value == 0 ? -9999999999.0 : std::log(value); }

BleuScore start_score(const BleuStats& stats) {
  BleuScore score;
  score.brevity_penalty = brevity_penalty(stats);
  score.hypothesis_length = stats.hypothesis_length;
  score.reference_length = stats.reference_length;
  return score;
}

bool matches_nothing(const BleuStats& stats) {
  return std::all_of(stats.correct.begin(), stats.correct.end(), [](int64_t correct) { return correct == 0; });
}

double default_smooth_value(const BleuOptions& options) {
  if (options.smooth_value >= 0) return options.smooth_value;
  return options.smooth_method == "floor" ? 0.1 : 1;
}

}  // namespace

BleuStats& BleuStats::operator+=(const BleuStats& other) {
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  for (size_t n = 0; n < kBleuOrder; ++n) {
    correct[n] += other.correct[n];
    total[n] += other.total[n];
  }
  return *this;
}

std::string BleuScore::verbose() const {
  std::vector<std::string> parts;
  for (const double precision : precisions) parts.push_back(fixed(precision, 1));
  const double ratio =
      reference_length > 0 ? static_cast<double>(hypothesis_length) / static_cast<double>(reference_length) : 0;
  return cat(join(parts, "/"), " (BP = ", fixed(brevity_penalty, 3), " ratio = ", fixed(ratio, 3),
             " hyp_len = ", hypothesis_length, " ref_len = ", reference_length, ")");
}

Bleu::Bleu(BleuOptions options) : options_(std::move(options)) {
  find_tokenizer(options_.tokenize);
  const std::vector<std::string> known = {"exp", "floor", "add-k", "none"};
  if (std::find(known.begin(), known.end(), options_.smooth_method) == known.end())
    throw UsageError(cat("--smooth-method: got '", options_.smooth_method, "'; expected one of ", join(known, ", "),
                         did_you_mean(options_.smooth_method, known)));
}

BleuStats Bleu::segment(std::string_view hypothesis, std::span<const std::string> references) const {
  const Tokenizer& tokenizer = find_tokenizer(options_.tokenize);
  return segment_of(hypothesis, references, [&](std::string_view line, WordNumbers& numbers) {
    std::u32string text = decode_utf8(line);
    if (options_.lowercase) text = lower_case(text);
    text = tokenizer.tokenize(strip_right(text));
    Words words;
    for (const std::u32string_view word : split_words(text)) words.push_back(numbers(word));
    return words;
  });
}

BleuScore Bleu::score(const BleuStats& stats) const {
  BleuScore score = start_score(stats);
  if (matches_nothing(stats)) return score;
  const std::string& method = options_.smooth_method;
  const double value = default_smooth_value(options_);
  double halvings = 1;
  size_t order = kBleuOrder;
  for (size_t n = 0; n < kBleuOrder; ++n) {
    const double added = method == "add-k" && n > 0 ? value : 0;
    const double correct = static_cast<double>(stats.correct[n]) + added;
    const double total = static_cast<double>(stats.total[n]) + added;
    if (total == 0) break;
    if (options_.effective_order) order = n + 1;
    if (correct > 0) {
      score.precisions[n] = 100. * correct / total;
    } else if (method == "exp") {
      halvings *= 2;
      score.precisions[n] = 100. / (halvings * total);
    } else if (method == "floor") {
      score.precisions[n] = 100. * value / total;
    }
  }
  double logs = 0;
  for (size_t n = 0; n < order; ++n) logs += floored_log(score.precisions[n]);
  score.score = score.brevity_penalty * std::exp(logs / static_cast<double>(order));
  return score;
}

std::string Bleu::signature(size_t references) const {
  std::string smooth = options_.smooth_method;
  if (smooth == "floor" || smooth == "add-k") smooth += cat("[", fixed(default_smooth_value(options_), 2), "]");
  return cat("nrefs:", references, "|case:", options_.lowercase ? "lc" : "mixed",
             "|eff:", options_.effective_order ? "yes" : "no", "|tok:", options_.tokenize, "|smooth:", smooth,
             "|version:", kSacrebleuVersion);
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::string> references,
                      const BleuOptions& options) {
  if (hypotheses.size() != references.size())
    throw Error(cat("BLEU: got ", hypotheses.size(), " hypotheses and ", references.size(),
                    " references; expected as many of each"));
  const Bleu bleu(options);
  BleuStats stats;
  for (size_t i = 0; i < hypotheses.size(); ++i) stats += bleu.segment(hypotheses[i], references.subspan(i, 1));
  return bleu.score(stats);
}

BleuStats multi_bleu_segment(std::string_view hypothesis, std::span<const std::string> references, bool lowercase) {
  return segment_of(hypothesis, references, [&](std::string_view line, WordNumbers& numbers) {
    Words words;
    for (const std::string& word : fovea::split_words(line)) {
      const std::u32string decoded = decode_utf8(word);
      words.push_back(numbers(lowercase ? lower_case(decoded) : decoded));
    }
    return words;
  });
}

BleuScore multi_bleu(const BleuStats& stats) {
  BleuScore score = start_score(stats);
  double logs = 0;
  for (size_t n = 0; n < kBleuOrder; ++n) {
    const double precision =
        stats.total[n] > 0 ? static_cast<double>(stats.correct[n]) / static_cast<double>(stats.total[n]) : 0;
    score.precisions[n] = 100 * precision;
    logs += floored_log(precision);
  }
  score.score = 100 * score.brevity_penalty * std::exp(logs / kBleuOrder);
  return score;
}

std::string multi_bleu_line(const BleuScore& score) {
  if (score.reference_length == 0) return "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)";
  std::vector<std::string> parts;
  for (const double precision : score.precisions) parts.push_back(fixed(precision, 1));
  const double ratio = static_cast<double>(score.hypothesis_length) / static_cast<double>(score.reference_length);
  return cat("BLEU = ", fixed(score.score, 2), ", ", join(parts, "/"), " (BP=", fixed(score.brevity_penalty, 3),
             ", ratio=", fixed(ratio, 3), ", hyp_len=", score.hypothesis_length, ", ref_len=", score.reference_length,
             ")");
}

}  // namespace fovea::metrics

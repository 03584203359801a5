#include "fovea/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

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

// A match takes the characters beside its hyphen with it, so the second hyphen of "a-b-c" stays.
std::string split_compounds(std::string_view line) {
  std::string text;
  size_t done = 0;
  for (size_t i = 1; i + 1 < line.size(); ++i) {
    if (line[i] != '-' || i <= done || fovea::is_space(line[i - 1]) || fovea::is_space(line[i + 1])) continue;
    text += cat(line.substr(done, i - done), " ##AT##-##AT## ", line.substr(i + 1, 1));
    done = i + 2;
  }
  return text + std::string(line.substr(std::min(done, line.size())));
}

std::vector<std::string> smooth_names() {
  std::vector<std::string> names;
  for (const SmoothMethod& method : kSmoothMethods) names.emplace_back(method.name);
  return names;
}

SmoothMethod smooth_method(const BleuOptions& options) {
  constexpr double kDefault = -1;
  if (options.smooth_value < 0 && options.smooth_value != kDefault)
    throw UsageError(cat("--smooth-value: got ", shortest(options.smooth_value),
                         "; expected a value from 0 on, or -1 for the method's default"));
  for (SmoothMethod method : kSmoothMethods) {
    if (method.name != options.smooth_method) continue;
    if (method.value && options.smooth_value >= 0) method.value = options.smooth_value;
    return method;
  }
  const std::vector<std::string> known = smooth_names();
  throw UsageError(cat("--smooth-method: got '", options.smooth_method, "'; expected one of ", join(known, ", "),
                       did_you_mean(options.smooth_method, known)));
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

std::string_view smooth_choices() {
  static const std::string kChoices = join(smooth_names(), "|");
  return kChoices;
}

std::string_view smooth_value_help() {
  static const std::string kHelp = [] {
    std::vector<std::string> names, values;
    for (const SmoothMethod& method : kSmoothMethods) {
      if (!method.value) continue;
      names.emplace_back(method.name);
      values.push_back(shortest(*method.value));
    }
    return cat("value of ", join(names, " and "), "; -1: their defaults, ", join(values, " and "));
  }();
  return kHelp;
}

Bleu::Bleu(BleuOptions options) : options_(std::move(options)), smooth_(smooth_method(options_)) {
  find_tokenizer(options_.tokenize);
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
  const Smoothing method = smooth_.kind;
  const double value = smooth_.value.value_or(0);
  double halvings = 1;
  size_t order = kBleuOrder;
  for (size_t n = 0; n < kBleuOrder; ++n) {
    const double added = method == Smoothing::kAddK && n > 0 ? value : 0;
    const double correct = static_cast<double>(stats.correct[n]) + added;
    const double total = static_cast<double>(stats.total[n]) + added;
    if (total == 0) break;
    if (options_.effective_order) order = n + 1;
    if (correct > 0) {
      score.precisions[n] = 100. * correct / total;
    } else if (method == Smoothing::kExp) {
      halvings *= 2;
      score.precisions[n] = 100. / (halvings * total);
    } else if (method == Smoothing::kFloor) {
      score.precisions[n] = 100. * value / total;
    }
  }
  double logs = 0;
  for (size_t n = 0; n < order; ++n) logs += floored_log(score.precisions[n]);
  score.score = score.brevity_penalty * std::exp(logs / static_cast<double>(order));
  return score;
}

std::string Bleu::signature(size_t references) const {
  std::string smooth(smooth_.name);
  if (smooth_.value) smooth += cat("[", fixed(*smooth_.value, 2), "]");
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

BleuStats multi_bleu_segment(std::string_view hypothesis, std::span<const std::string> references,
                             const MultiBleuOptions& options) {
  return segment_of(hypothesis, references, [&](std::string_view line, WordNumbers& numbers) {
    Words words;
    const std::string text = options.compound_split ? split_compounds(line) : std::string(line);
    for (const std::string& word : fovea::split_words(text)) {
      const std::u32string decoded = decode_utf8(word);
      words.push_back(numbers(options.lowercase ? lower_case(decoded) : decoded));
    }
    return words;
  });
}

std::string multi_bleu_signature(const MultiBleuOptions& options, size_t references) {
  return cat("nrefs:", references, "|case:", options.lowercase ? "lc" : "mixed", "|tok:none",
             options.compound_split ? "|split:compounds" : "", "|smooth:none");
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

std::string multi_bleu_line(const BleuScore& score, int width) {
  if (score.reference_length == 0) return "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)";
  std::vector<std::string> parts;
  for (const double precision : score.precisions) parts.push_back(fixed(precision, 1));
  const double ratio = static_cast<double>(score.hypothesis_length) / static_cast<double>(score.reference_length);
  return cat("BLEU = ", fixed(score.score, width), ", ", join(parts, "/"), " (BP=", fixed(score.brevity_penalty, 3),
             ", ratio=", fixed(ratio, 3), ", hyp_len=", score.hypothesis_length, ", ref_len=", score.reference_length,
             ")");
}

}  // namespace fovea::metrics

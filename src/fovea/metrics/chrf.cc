#include "fovea/metrics/chrf.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/bleu.h"
#include "fovea/metrics/ngrams.h"
#include "fovea/metrics/unicode.h"

namespace fovea::metrics {
namespace {

constexpr size_t kCharacterOrder = 6;
constexpr int kCharacterBits = 21;
constexpr double kBetaSquared = 4;

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Words with one punctuation mark split off, from the end if there is one, else from the start.
std::vector<uint32_t> split_marks(std::u32string_view text, WordNumbers& numbers) {
  std::vector<uint32_t> words;
  for (const std::u32string_view word : split_words(text)) {
    if (word.size() > 1 && is_ascii_punctuation(word.back())) {
      words.push_back(numbers(word.substr(0, word.size() - 1)));
      words.push_back(numbers(word.substr(word.size() - 1)));
    } else if (word.size() > 1 && is_ascii_punctuation(word.front())) {
      words.push_back(numbers(word.substr(0, 1)));
      words.push_back(numbers(word.substr(1)));
    } else {
      words.push_back(numbers(word));
    }
  }
  return words;
}

std::vector<GramCounts> all_grams(std::string_view line, const ChrfOptions& options, WordNumbers& numbers) {
  // sacreBLEU's command reads lines without the white space at their ends.
  std::u32string text(strip_right(decode_utf8(line)));
  if (options.lowercase) text = lower_case(text);
  const std::u32string characters = options.whitespace ? text : without_spaces(text);
  std::vector<GramCounts> grams;
  for (size_t n = 1; n <= kCharacterOrder; ++n) grams.push_back(count_grams(characters, n, kCharacterBits));
  if (options.word_order == 0) return grams;
  const std::vector<uint32_t> words = split_marks(text, numbers);
  for (size_t n = 1; n <= static_cast<size_t>(options.word_order); ++n)
    grams.push_back(count_grams(words, n, kWordBits));
  return grams;
}

}  // namespace

ChrfStats& ChrfStats::operator+=(const ChrfStats& other) {
  orders.resize(std::max(orders.size(), other.orders.size()));
  for (size_t i = 0; i < other.orders.size(); ++i) {
    orders[i].hypothesis += other.orders[i].hypothesis;
    orders[i].reference += other.orders[i].reference;
    orders[i].matches += other.orders[i].matches;
  }
  return *this;
}

ChrfStats Chrf::segment(std::string_view hypothesis, std::span<const std::string> references) const {
  if (references.empty()) throw Error("chrF: got no reference; expected at least one a segment");
  WordNumbers numbers;
  const std::vector<GramCounts> grams = all_grams(hypothesis, options_, numbers);
  ChrfStats best;
  double best_score = -1;
  for (const std::string& reference : references) {
    const std::vector<GramCounts> wanted = all_grams(reference, options_, numbers);
    ChrfStats stats;
    for (size_t i = 0; i < grams.size(); ++i)
      // A reference too short to have such n-grams says nothing about the hypothesis's.
      stats.orders.push_back({.hypothesis = wanted[i].empty() ? 0 : total_of(grams[i]),
                              .reference = total_of(wanted[i]),
                              .matches = matches_of(grams[i], wanted[i])});
    const double value = score(stats);
    if (value > best_score) {
      best_score = value;
      best = std::move(stats);
    }
  }
  return best;
}

double Chrf::score(const ChrfStats& stats) const {
  double precision = 0, recall = 0, orders = 0;
  for (const ChrfStats::Order& order : stats.orders) {
    if (order.hypothesis == 0 || order.reference == 0) continue;
    precision += static_cast<double>(order.matches) / static_cast<double>(order.hypothesis);
    recall += static_cast<double>(order.matches) / static_cast<double>(order.reference);
    ++orders;
  }
  if (orders == 0) return 0;
  precision /= orders;
  recall /= orders;
  if (precision + recall == 0) return 0;
  return 100 * ((1 + kBetaSquared) * precision * recall / (kBetaSquared * precision + recall));
}

std::string Chrf::name() const { return "chrF2" + std::string(static_cast<size_t>(options_.word_order), '+'); }

std::string Chrf::signature(size_t references) const {
  return cat("nrefs:", references, "|case:", options_.lowercase ? "lc" : "mixed", "|eff:yes|nc:", kCharacterOrder,
             "|nw:", options_.word_order, "|space:", options_.whitespace ? "yes" : "no",
             "|version:", kSacrebleuVersion);
}

}  // namespace fovea::metrics

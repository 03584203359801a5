#include "fovea/metrics/ter.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/bleu.h"
#include "fovea/metrics/edit_band.h"
#include "fovea/metrics/ngrams.h"
#include "fovea/metrics/tokenize.h"
#include "fovea/metrics/unicode.h"

namespace fovea::metrics {
namespace {

using TerWords = std::span<const uint32_t>;

constexpr int64_t kMaxShiftWords = 10, kMaxShiftDistance = 50, kMaxShiftTries = 1000;

// The number of errors before each word, and before the end.
class ErrorCounts {
 public:
  ErrorCounts() = default;
  explicit ErrorCounts(const std::vector<bool>& errors) {
    for (const bool is_error : errors) before_.push_back(before_.back() + (is_error ? 1 : 0));
  }
  bool any(int64_t first, int64_t count) const {
    return before_[static_cast<size_t>(first + count)] > before_[static_cast<size_t>(first)];
  }

 private:
  std::vector<int64_t> before_ = {0};
};

// `length` words of the hypothesis from `start` on that move before its word `target`, and the edits that this saves.
// The order is tercom's: the shift that saves the most, then the longest one, the earliest one, and that to the
// earliest place.
struct Shift {
  int64_t saved = 0, length = 0, start = 0, target = 0;
  bool is_better_than(const Shift& other) const {
    if (saved != other.saved) return saved > other.saved;
    if (length != other.length) return length > other.length;
    return start != other.start ? start < other.start : target < other.target;
  }
};

// The words that a shift changes, as they are after it.
struct ShiftedWords {
  int64_t first = 0;
  std::vector<uint32_t> words;
};

ShiftedWords shifted(const std::vector<uint32_t>& words, const Shift& shift) {
  int64_t first = shift.target, middle = shift.start, last = shift.start + shift.length;
  if (shift.target >= shift.start) {
    // A target among the words themselves moves them by their distance from it.
    const bool is_inside = shift.target <= last;
    first = shift.start;
    middle = last;
    last = is_inside ? std::min(shift.target + shift.length, std::ssize(words)) : shift.target;
  }
  ShiftedWords result{first, {words.begin() + first, words.begin() + last}};
  std::rotate(result.words.begin(), result.words.begin() + (middle - first), result.words.end());
  return result;
}

// The greedy search of shifts in one segment.
class ShiftSearch {
 public:
  ShiftSearch(TerWords hypothesis, TerWords reference) : band_(hypothesis, reference), reference_(reference) {}

  int64_t edits() {
    int64_t shifts = 0;
    while (shift_once()) ++shifts;
    return shifts + band_.distance();
  }

 private:
  // Makes the best shift. Returns false if no shift saves an edit, or if the tries are used up, which loses the best
  // shift up to there.
  bool shift_once() {
    alignment_ = band_.alignment();
    hypothesis_errors_ = ErrorCounts(alignment_.hypothesis_errors);
    reference_errors_ = ErrorCounts(alignment_.reference_errors);
    best_ = {};
    for (int64_t start = 0; start < std::ssize(band_.hypothesis()); ++start) {
      throw_if_interrupted("evaluating");
      const int64_t first = std::max<int64_t>(0, start - kMaxShiftDistance);
      const int64_t last = std::min(std::ssize(reference_), start + kMaxShiftDistance + 1);
      for (int64_t place = first; place < last && tries_ < kMaxShiftTries; ++place) try_words(start, place);
    }
    if (best_.saved == 0 || tries_ >= kMaxShiftTries) return false;
    const ShiftedWords after = shifted(band_.hypothesis(), best_);
    band_.change(after.first, after.words);
    return true;
  }

  // Tries all shifts of words that begin at `start` and equal the reference's from `place` on.
  void try_words(int64_t start, int64_t place) {
    const std::vector<uint32_t>& words = band_.hypothesis();
    const int64_t most = std::min({kMaxShiftWords, std::ssize(words) - start, std::ssize(reference_) - place});
    for (int64_t length = 1; length <= most; ++length) {
      const int64_t last = length - 1;
      if (words[static_cast<size_t>(start + last)] != reference_[static_cast<size_t>(place + last)]) return;
      if (is_worth_a_try(start, place, length)) try_targets({.length = length, .start = start}, place);
    }
  }

  // Both the words and the place that they could go to must have an error, and the words must not stand there already.
  bool is_worth_a_try(int64_t start, int64_t place, int64_t length) const {
    const int64_t now = alignment_.places[static_cast<size_t>(place)];
    const bool stands_there = start <= now && now < start + length;
    return !stands_there && hypothesis_errors_.any(start, length) && reference_errors_.any(place, length);
  }

  // The targets are before all words, if the place is the first one, and after the words that are aligned with the word
  // before the place and with those of the place.
  void try_targets(Shift shift, int64_t place) {
    int64_t tried = -1;
    for (int64_t word = place - 1; word < place + shift.length; ++word) {
      shift.target = word < 0 ? 0 : alignment_.places[static_cast<size_t>(word)] + 1;
      if (shift.target == tried) continue;
      tried = shift.target;
      ++tries_;
      const ShiftedWords after = shifted(band_.hypothesis(), shift);
      shift.saved = band_.distance() - band_.distance_with(after.first, after.words);
      if (shift.saved > 0 && shift.is_better_than(best_)) best_ = shift;
    }
  }

  EditBand band_;
  TerWords reference_;
  EditBand::Alignment alignment_;
  ErrorCounts hypothesis_errors_, reference_errors_;
  Shift best_;
  int64_t tries_ = 0;
};

// The words of a line, each behind one blank.
std::u32string tokenized(std::u32string text, const TerOptions& options) {
  if (!options.case_sensitive) text = lower_case(text);
  if (options.normalized) text = normalize_tercom(text, options.asian_support);
  if (options.no_punct) text = without_marks(text, options.asian_support);
  std::u32string words;
  for (const std::u32string_view word : split_words(text)) {
    if (!words.empty()) words += U' ';
    words += word;
  }
  return words;
}

std::vector<uint32_t> numbered(std::u32string_view text, WordNumbers& numbers) {
  std::vector<uint32_t> words;
  for (const std::u32string_view word : split_words(text)) words.push_back(numbers(word));
  return words;
}

std::u32string decoded(std::string_view line) { return std::u32string(strip_right(decode_utf8(line))); }

}  // namespace

TerStats& TerStats::operator+=(const TerStats& other) {
  edits += other.edits;
  reference_length += other.reference_length;
  return *this;
}

int64_t ter_edits(std::span<const uint32_t> hypothesis, std::span<const uint32_t> reference) {
  return reference.empty() ? std::ssize(hypothesis) : ShiftSearch(hypothesis, reference).edits();
}

TerStats Ter::segment(std::string_view hypothesis, std::span<const std::string> references) const {
  if (references.empty()) throw Error("TER: got no reference; expected at least one a segment");
  WordNumbers numbers;
  const std::vector<uint32_t> words = numbered(tokenized(decoded(hypothesis), options_), numbers);
  TerStats stats{.edits = std::numeric_limits<int64_t>::max()};
  int64_t lengths = 0;
  for (const std::string& reference : references) {
    // sacreBLEU tokenises references twice, which splits a few more words where blanks of other kinds lie beside marks.
    const std::vector<uint32_t> wanted =
        numbered(tokenized(tokenized(decoded(reference), options_), options_), numbers);
    stats.edits = std::min(stats.edits, ter_edits(words, wanted));
    lengths += std::ssize(wanted);
  }
  stats.reference_length = static_cast<double>(lengths) / static_cast<double>(references.size());
  return stats;
}

double Ter::score(const TerStats& stats) const {
  if (stats.reference_length > 0) return 100 * (static_cast<double>(stats.edits) / stats.reference_length);
  return stats.edits > 0 ? 100 : 0;
}

std::string Ter::signature(size_t references) const {
  const auto yes = [](bool is_so) { return is_so ? "yes" : "no"; };
  return cat("nrefs:", references, "|case:", options_.case_sensitive ? "mixed" : "lc",
             "|tok:tercom|norm:", yes(options_.normalized), "|punct:", yes(!options_.no_punct),
             "|asian:", yes(options_.asian_support), "|version:", kSacrebleuVersion);
}

}  // namespace fovea::metrics

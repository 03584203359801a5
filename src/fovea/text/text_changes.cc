#include "fovea/text/text_changes.h"

#include <algorithm>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

// The text without blanks at the ends, and with single ones inside.
std::string with_single_blanks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

// The beginning of the character in which a byte lies.
size_t character_begin(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return std::min(at, text.size());
}

// The text around a byte, in one line.
std::string excerpt(std::string_view text, size_t at) {
  constexpr size_t kBefore = 24, kBehind = 36;  // bytes
  const size_t begin = character_begin(text, at > kBefore ? at - kBefore : 0);
  const size_t end = character_begin(text, at + kBehind);
  return one_line(cat(begin > 0 ? "…" : "", text.substr(begin, end - begin), end < text.size() ? "…" : ""));
}

}  // namespace

void TextChanges::add(std::string_view line) {
  constexpr int64_t kAll = 10'000, kEach = 256;
  if (!is_needed_ || is_empty_line(line)) return;
  if (++seen_ > kAll && seen_ % kEach != 0) return;
  ++checked_;
  const std::string before = with_single_blanks(line), after = with_single_blanks(vocab_.spelt(line));
  if (before == after || changed_++ > 0) return;
  const auto at = static_cast<size_t>(std::ranges::mismatch(before, after).in1 - before.begin());
  before_ = excerpt(before, at);
  after_ = excerpt(after, at);
}

bool TextChanges::are_many() const {
  constexpr int64_t kOneOf = 100;
  return changed_ > 0 && changed_ * kOneOf >= checked_;
}

std::string TextChanges::in_words() const {
  const double share = static_cast<double>(changed_) / static_cast<double>(std::max<int64_t>(checked_, 1));
  return cat(fixed(100 * share, 2), "% of ", thousands(checked_), " lines, such as '", before_, "' to '", after_, "'");
}

std::string change_warning(const TextChanges& changes, const Vocab& vocab, std::string_view what) {
  if (!changes.are_many()) return "";
  const std::string& name = vocab.normalization();
  return cat("[data] the normalisation of the vocabulary", name.empty() ? "" : cat(" (", name, ")"), " changes ", what,
             ": ", changes.in_words(),
             "; the model learns and writes the changed form; a vocabulary of fovea vocab --normalization identity "
             "keeps text as it is");
}

void warn_of_changes(const TextChanges& changes, const Vocab& vocab, std::string_view what) {
  const std::string warning = change_warning(changes, vocab, what);
  if (!warning.empty()) log::warn(warning);
}

}  // namespace fovea::text

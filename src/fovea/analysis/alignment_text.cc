#include <algorithm>
#include <charconv>
#include <utility>

#include "fovea/analysis/alignment.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::analysis {
namespace {

constexpr int64_t kMostUnits = int64_t{1} << 40;  // far more than a line has, and far from an overflow

// The number that `text` begins with, which is removed; -1 if there is none.
int64_t take_number(std::string_view& text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text.front() == '-' || value > kMostUnits) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

[[noreturn]] void refuse_link(std::string_view text, const LinkFormat& format) {
  throw Error(cat("got '", text, "'; expected links such as ", format.base, "-", format.base + 1,
                  ", or with p or ? in place of - for possible ones, between blanks"));
}

}  // namespace

std::string print(const Links& links) {
  std::vector<std::string> texts;
  texts.reserve(links.size());
  for (const Link& link : links) texts.push_back(cat(link.source, "-", link.target));
  return join(texts, " ");
}

GoldLinks parse_gold_links(std::string_view line, const LinkFormat& format, const SentenceLengths& lengths) {
  GoldLinks gold;
  for (const std::string& word : split_words(line)) {
    std::string_view rest = word;
    const int64_t first = take_number(rest);
    const char sign = rest.empty() ? ' ' : rest.front();
    rest.remove_prefix(std::min<size_t>(1, rest.size()));
    const int64_t second = rest.empty() ? -1 : take_number(rest);
    const bool is_possible = sign == 'p' || sign == '?';
    if (first < 0 || second < 0 || !rest.empty() || (sign != '-' && !is_possible)) refuse_link(word, format);
    Link link{first - format.base, second - format.base};
    if (format.reversed) std::swap(link.source, link.target);
    if (std::min(link.source, link.target) < 0 || link.source >= lengths.source || link.target >= lengths.target) {
      const std::string other = format.base == 0 ? "--gold-base 1, " : "";
      throw Error(cat("link ", word, " is outside of the sentences, which have ", lengths.source, " source and ",
                      lengths.target, " target words, counted from ", format.base, "; is it for another text, or does ",
                      "it need ", other, "--gold-reversed?"));
    }
    if (!is_possible) gold.sure.push_back(link);
    gold.possible.push_back(link);
  }
  sort_links(gold.sure);
  sort_links(gold.possible);
  return gold;
}

}  // namespace fovea::analysis

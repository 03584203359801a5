#include "fovea/text/corpus_clean.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "fovea/base/empty_line.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/entities.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}

// "<b>", "</a>", "<br/>", "<!-- -->", "<?x?>": what follows "<" tells a tag from "a < b".
size_t tag_end(std::string_view text, size_t at) {
  if (at + 1 >= text.size()) return std::string_view::npos;
  const char next = text[at + 1];
  if (std::isalpha(static_cast<unsigned char>(next)) == 0 && next != '/' && next != '!' && next != '?')
    return std::string_view::npos;
  const size_t end = text.find_first_of("<>", at + 1);
  return end == std::string_view::npos || text[end] == '<' ? std::string_view::npos : end;
}

// Whether the tag in brackets, "<br/>" or "</P>", keeps apart the words around it.
bool parts_words(std::string_view tag) {
  tag.remove_prefix(tag.starts_with("</") ? 2 : 1);
  return is_block_element(lower(tag.substr(0, tag.find_first_of(" \t\r\n\f/>"))));
}

// "&amp;", "&#39;"
bool is_entity(std::string_view text, size_t at) {
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#", at + 1);
  return end != std::string_view::npos && text[end] == ';' && end > at + 1;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }

// Positions of `mark` before a letter; none if it also stands elsewhere, where it means something else, as in "R&D". In
// prose it stands before a word, and "~5" is a number.
std::vector<size_t> mark_positions(std::string_view text, char mark, Kind kind) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != mark || (mark == '&' && is_entity(text, i))) continue;
    if (i + 1 >= text.size() || !is_letter(text[i + 1])) return {};
    if (kind != Kind::kInterface && is_digit(text[i + 1])) return {};
    const bool inside = i > 0 && is_letter(text[i - 1]);
    if (inside && (kind != Kind::kInterface || (is_capital(text[i - 1]) && is_capital(text[i + 1])))) return {};
    positions.push_back(i);
  }
  return positions;
}

// "文件(_F)", "Datei (&F)": the whole of the brackets goes. In prose "(~8)" and "(_x)" are text.
bool strip_bracketed(std::string& text, char mark, Kind kind) {
  const size_t at = text.find(std::string("(") + mark);
  if (at == std::string::npos || at + 3 >= text.size() || text[at + 3] != ')') return false;
  if (kind != Kind::kInterface && !is_capital(text[at + 2])) return false;
  text.erase(at, 4);
  return true;
}

// "_" inside a word is an accelerator in "E_xit", but part of the name in "max_size": names are the same on both sides.
// So it is before a word in prose; captions may well be the same.
bool in_shared_word(const std::string& text, size_t at, const std::string& other, Kind kind) {
  size_t begin = at, end = at + 1;
  while (begin > 0 && text[begin - 1] != ' ') --begin;
  while (end < text.size() && text[end] != ' ') ++end;
  return (begin < at || kind != Kind::kInterface) && other.find(text.substr(begin, end - begin)) != std::string::npos;
}

// Text in UTF-16 is full of NUL bytes.
bool is_text(const std::string& text) { return is_valid_utf8(text) && text.find('\0') == std::string::npos; }

// U+FFFD stands for what could not be decoded, here or by who wrote the file.
bool is_decoded(const std::string& text) { return is_text(text) && text.find("\ufffd") == std::string::npos; }

using Reason = std::function<bool(const Pair&)>;
struct Filter {
  std::string name;
  Reason drops;
};

void apply(std::vector<Pair>& pairs, const Filter& filter, std::vector<CorpusReport::Count>& dropped) {
  log::Progress progress("checking pairs: " + filter.name, static_cast<double>(pairs.size()));
  int64_t seen = 0;
  const auto drops = [&](const Pair& pair) {
    if ((++seen & 0xfff) == 0) {
      throw_if_interrupted("cleaning");
      progress.at(static_cast<double>(seen));
    }
    return filter.drops(pair);
  };
  const auto count = static_cast<int64_t>(std::erase_if(pairs, drops));
  dropped.push_back({filter.name, count});
}

double share_copied(const Pair& pair) {
  std::unordered_map<std::string, int64_t> words;
  const std::vector<std::string> target = folded_words(pair.target);
  for (const std::string& word : target) ++words[word];
  int64_t copied = 0, counted = 0;
  for (const std::string& word : folded_words(pair.source)) {
    ++counted;
    const auto found = words.find(word);
    if (found == words.end() || found->second == 0) continue;
    --found->second;
    ++copied;
  }
  const auto longer = std::max<int64_t>(counted, std::ssize(target));
  return longer == 0 ? 0 : static_cast<double>(copied) / static_cast<double>(longer);
}

// Lengths are compared after scaling by the corpus's own proportion (Chinese is a third as long as English), with a
// few characters added to both so that short captions may differ.
double length_proportion(const std::vector<Pair>& pairs) {
  double source = 1, target = 1;
  for (const Pair& pair : pairs) {
    source += static_cast<double>(measure(pair.source).characters);
    target += static_cast<double>(measure(pair.target).characters);
  }
  return target / source;
}

bool lengths_differ(const Pair& pair, double proportion, double max_ratio) {
  constexpr double kSlack = 10;
  const double source = static_cast<double>(measure(pair.source).characters) * std::sqrt(proportion) + kSlack;
  const double target = static_cast<double>(measure(pair.target).characters) / std::sqrt(proportion) + kSlack;
  return std::max(source / target, target / source) > max_ratio;
}

double most_words(const Pair& pair) { return std::max(measure(pair.source).words, measure(pair.target).words); }
double fewest_words(const Pair& pair) { return std::min(measure(pair.source).words, measure(pair.target).words); }

}  // namespace

std::string strip_tags(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t end = text[i] == '<' ? tag_end(text, i) : std::string::npos;
    if (end == std::string::npos) {
      out.push_back(text[i++]);
    } else {
      if (parts_words(std::string_view(text).substr(i, end + 1 - i))) out.push_back(' ');
      i = end + 1;
    }
  }
  return out;
}

std::string strip_markup(const std::string& text) { return decode_entities(strip_tags(text)); }

void strip_accelerators(std::string& source, std::string& target, Kind kind) {
  for (const char mark : {'_', '&', '~'}) {
    bool bracketed = strip_bracketed(source, mark, kind);
    bracketed = strip_bracketed(target, mark, kind) || bracketed;
    const std::vector<size_t> in_source = mark_positions(source, mark, kind),
                              in_target = mark_positions(target, mark, kind);
    const bool one_each = in_source.size() == 1 && in_target.size() == 1;
    // Prose must show the mark on both sides; captions are known to have one.
    if (!one_each && kind != Kind::kInterface && !bracketed) continue;
    const bool named = (in_source.size() == 1 && in_shared_word(source, in_source[0], target, kind)) ||
                       (in_target.size() == 1 && in_shared_word(target, in_target[0], source, kind));
    if (named) continue;
    if (in_source.size() == 1) source.erase(in_source[0], 1);
    if (in_target.size() == 1) target.erase(in_target[0], 1);
  }
}

Rewriter::Rewriter(const CorpusOptions& options)
    : options_(options),
      counts_({{"accelerators removed"},
               {"markup removed; --keep-markup keeps it"},
               {"entities decoded; --keep-markup keeps them"},
               {"white space and Unicode normalised"}}) {}

void Rewriter::rewrite(Pair& pair, Kind kind) {
  if (!is_text(pair.source) || !is_text(pair.target)) return;
  const auto changed = [this](size_t which, bool differs) { counts_[which].pairs += differs ? 1 : 0; };
  const Pair given = pair;
  if (!options_.keep_accelerators) strip_accelerators(pair.source, pair.target, kind);
  changed(0, given.source != pair.source || given.target != pair.target);
  if (!options_.keep_markup) {
    const auto apply_to_both = [&](size_t which, const auto& step) {
      const Pair before = pair;
      pair.source = step(pair.source), pair.target = step(pair.target);
      changed(which, before.source != pair.source || before.target != pair.target);
    };
    apply_to_both(1, strip_tags);
    apply_to_both(2, decode_entities);
  }
  const std::string source = normalise(pair.source), target = normalise(pair.target);
  changed(3, source != pair.source || target != pair.target);
  pair.source = source;
  pair.target = target;
}

void drop_unusable(std::vector<Pair>& pairs, const CorpusOptions& options, std::vector<CorpusReport::Count>& dropped) {
  const auto drop = [&](const std::string& name, const Reason& reason) { apply(pairs, {name, reason}, dropped); };
  drop("cannot be decoded", [](const Pair& p) { return !is_decoded(p.source) || !is_decoded(p.target); });
  drop("empty", [](const Pair& p) { return is_empty_line(p.source) || is_empty_line(p.target); });
  drop("no letters", [](const Pair& p) { return measure(p.source).letters == 0 || measure(p.target).letters == 0; });
  drop(cat("shorter than ", options.min_words, " words"), [&](const Pair& p) {
    return options.min_words > 1 && fewest_words(p) < static_cast<double>(options.min_words);
  });
  drop(cat("longer than ", options.max_words, " words"),
       [&](const Pair& p) { return most_words(p) > static_cast<double>(options.max_words); });
  drop("untranslated", [&](const Pair& p) { return p.source == p.target || share_copied(p) > options.max_copied; });
  const double proportion = length_proportion(pairs);
  drop("lengths too different", [&](const Pair& p) { return lengths_differ(p, proportion, options.max_ratio); });
  if (options.keep_duplicates) return;
  std::unordered_set<std::string> seen;
  drop("duplicate", [&](const Pair& p) { return !seen.insert(folded(p.source) + '\n' + folded(p.target)).second; });
}

std::vector<DropReason> document_reasons(const std::vector<Pair>& documents, const CorpusOptions& options) {
  const double proportion = length_proportion(documents);
  std::vector<DropReason> reasons = {
      {"cannot be decoded", [](const Pair& p) { return !is_decoded(p.source) || !is_decoded(p.target); }},
      {"no letters", [](const Pair& p) { return measure(p.source).letters == 0 || measure(p.target).letters == 0; }},
      {"untranslated",
       [most = options.max_copied](const Pair& p) { return p.source == p.target || share_copied(p) > most; }},
      {"lengths too different",
       [=, most = options.max_ratio](const Pair& p) { return lengths_differ(p, proportion, most); }}};
  if (options.keep_duplicates) return reasons;
  const auto seen = std::make_shared<std::unordered_set<std::string>>();
  reasons.push_back({"duplicate", [seen](const Pair& p) {
                       return !seen->insert(folded(p.source) + '\n' + folded(p.target)).second;
                     }});
  return reasons;
}

}  // namespace fovea::text

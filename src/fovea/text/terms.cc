#include "fovea/text/terms.h"

#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/text/spreadsheet_lines.h"
#include "fovea/text/unicode.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

struct Character {
  std::string_view bytes;
  UChar32 code;
  bool is_part() const {  // of a word with others
    return (u_isalnum(code) != 0 || (U_MASK(u_charType(code)) & U_GC_M_MASK) != 0) && !stands_alone(bytes);
  }
};

std::vector<Character> characters_of(std::string_view text) {
  std::vector<Character> characters;
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    UChar32 code = 0;
    U8_NEXT_OR_FFFD(bytes, i, text.size(), code);
    characters.push_back({text.substr(begin, i - begin), code});
  }
  return characters;
}

std::string change_first(std::string_view text, UChar32 (*change)(UChar32)) {
  if (text.empty()) return {};
  const Character first = characters_of(text.substr(0, std::min<size_t>(text.size(), U8_MAX_LENGTH))).front();
  const UChar32 changed = change(first.code);
  if (changed == first.code) return std::string(text);
  std::string result;
  icu::UnicodeString(changed).toUTF8String(result);
  return result + std::string(text.substr(first.bytes.size()));
}

}  // namespace

std::vector<std::string> term_words(std::string_view text) {
  std::vector<std::string> words;
  const std::vector<Character> all = characters_of(text);
  bool is_open = false;  // the last word may go on
  for (size_t i = 0; i < all.size(); ++i) {
    const bool hyphen = all[i].bytes == "-" && is_open && i + 1 < all.size() && all[i + 1].is_part();
    if (all[i].is_part() || hyphen) {
      if (!is_open) words.emplace_back();
      words.back() += all[i].bytes;
      is_open = true;
      continue;
    }
    is_open = false;
    if (unseen_size(all[i].bytes) == 0) words.emplace_back(all[i].bytes);
  }
  return words;
}

std::string with_capital(std::string_view text) { return change_first(text, u_totitle); }

bool begins_inside_word(std::string_view text) {
  const std::vector<Character> all = characters_of(text);
  return !all.empty() && all.front().is_part();
}

bool ends_inside_word(std::string_view text) {
  const std::vector<Character> all = characters_of(text);
  return !all.empty() && all.back().is_part();
}

TermList::TermList(std::vector<Term> terms, std::string name) : terms_(std::move(terms)), name_(std::move(name)) {
  Known known;
  for (size_t t = 0; t < terms_.size(); ++t) add(t, known);
}

size_t TermList::node_of(const std::vector<std::string>& words) {
  size_t node = 0;
  for (const std::string& word : words) {
    const uint32_t number = words_.try_emplace(word, static_cast<uint32_t>(words_.size())).first->second;
    const auto [found, is_new] = next_.try_emplace(branch(node, number), ends_.size());
    node = found->second;
    if (is_new) ends_.emplace_back();
  }
  return node;
}

void TermList::add(size_t term, Known& known) {
  const Term& added = terms_[term];
  const std::vector<std::string> words = term_words(normalise(added.source));
  if (words.empty() || term_words(added.target).empty()) {
    throw Error(cat(where(added), ": got a term without a ", words.empty() ? "source" : "target",
                    "; expected words on both sides of the tab"));
  }
  if (words.size() > kMostWords)
    throw Error(cat(where(added), ": got a source of ", words.size(), " words; expected at most ", kMostWords));
  const size_t node = node_of(words);
  if (!known.emplace(node, added.target).second) return;
  std::vector<size_t>& terms = ends_[node];
  if (terms.size() == kMostAlternatives)
    throw Error(cat(where(added), ": got more than ", kMostAlternatives, " translations of one source; keep the best"));
  terms.push_back(term);
}

std::string TermList::where(const Term& term) const { return term.line > 0 ? cat(name_, ", line ", term.line) : name_; }

size_t TermList::memory() const {
  constexpr size_t kOfWord = 80, kOfBranch = 80, kOfTerm = 160;  // with what containers and the heap add
  return words_.size() * kOfWord + ends_.size() * kOfBranch + terms_.size() * kOfTerm;
}

namespace {

// The columns of the line, which is number `line` of `name`.
Term term_of(const std::vector<std::string>& columns, int64_t line, const std::string& name) {
  if (columns.size() != 2) {
    const size_t tabs = columns.size() - 1;
    throw Error(cat(name, ", line ", line, ": got ", tabs == 0 ? "no tab" : cat(tabs, " tabs"),
                    "; expected SOURCE<TAB>TARGET"));
  }
  return {std::string(trim(columns[0])), std::string(trim(columns[1])), line};
}

}  // namespace

TermList TermList::from_text(std::string_view text, const std::string& name) {
  struct Row {
    std::vector<std::string> columns;
    int64_t line;
  };
  std::vector<Row> plain, unquoted;
  SpreadsheetLines spreadsheet;
  int64_t number = 0;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (const std::optional<BadByte> bad = find_bad_byte(line))
      throw Error(cat(name, ", line ", number, ": ", bad->why));
    if (is_empty_line(line)) continue;
    spreadsheet.add(line, [&](const std::vector<std::string>& columns) { unquoted.push_back({columns, number}); });
    plain.push_back({split(line, '\t'), number});
  }
  std::vector<Term> terms;
  for (const Row& row : spreadsheet.is_spreadsheet() ? unquoted : plain)
    terms.push_back(term_of(row.columns, row.line, name));
  if (terms.empty()) throw Error(cat(name, ": got no term; expected lines SOURCE<TAB>TARGET"));
  return {std::move(terms), name};
}

TermList TermList::load(const std::string& path) {
  LineReader reader(path, Content::kBytes);
  return from_text(reader.rest(), path);
}

uint32_t TermList::number_of(const std::string& word) const {
  const auto found = words_.find(word);
  return found == words_.end() ? kNoWord : found->second;
}

// The words at `place`, the first of them as `first`.
TermList::Match TermList::longest_at(const std::vector<uint32_t>& words, size_t place, uint32_t first) const {
  Match best;
  size_t node = 0;
  for (size_t at = place; at < words.size(); ++at) {
    const auto found = next_.find(branch(node, at == place ? first : words[at]));
    if (found == next_.end()) break;
    node = found->second;
    if (!ends_[node].empty()) best = {at + 1 - place, node};
  }
  return best;
}

std::vector<std::vector<size_t>> TermList::find(std::string_view line) const {
  const std::vector<std::string> words = term_words(normalise(line));
  std::vector<uint32_t> numbers;
  for (const std::string& word : words) numbers.push_back(number_of(word));
  const auto begins = std::ranges::find_if(words, begins_inside_word);
  const auto first_word = static_cast<size_t>(begins - words.begin());
  std::vector<std::vector<size_t>> found;
  for (size_t place = 0; place < words.size();) {
    Match match = longest_at(numbers, place, numbers[place]);
    if (place == first_word) {
      const Match small = longest_at(numbers, place, number_of(change_first(words[place], u_tolower)));
      if (small.words > match.words) match = small;
    }
    place += std::max<size_t>(match.words, 1);
    if (match.words > 0) found.push_back(ends_[match.node]);
  }
  return found;
}

}  // namespace fovea::text

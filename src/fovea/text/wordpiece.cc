#include "fovea/text/wordpiece.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/code_points.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

// Control, format and private characters, as in transformers; tab and line ends are white space instead. Code points
// that are not assigned are text: they may be letters of a newer Unicode.
bool is_wordpiece_control(UChar32 c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  constexpr uint32_t kControl = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;
  return (U_MASK(u_charType(c)) & kControl) != 0;
}

bool is_wordpiece_space(UChar32 c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || u_isUWhiteSpace(c) != 0;
}

// All of ASCII that is neither letter nor digit, "$" and "+" too, and Unicode's punctuation.
bool is_wordpiece_punctuation(UChar32 c) {
  if (c < 0x80) return c > ' ' && c < 0x7f && u_isalnum(c) == 0;
  return (U_MASK(u_charType(c)) & U_GC_P_MASK) != 0;
}

struct CharacterRange {
  UChar32 first, last;
};
// The blocks of ideographs that BERT's tokeniser names; kana and Hangul are not among them.
constexpr std::array<CharacterRange, 8> kIdeographs = {{{0x4e00, 0x9fff},
                                                        {0x3400, 0x4dbf},
                                                        {0x20000, 0x2a6df},
                                                        {0x2a700, 0x2b73f},
                                                        {0x2b740, 0x2b81f},
                                                        {0x2b820, 0x2ceaf},
                                                        {0xf900, 0xfaff},
                                                        {0x2f800, 0x2fa1f}}};

bool is_ideograph(UChar32 c) {
  return std::ranges::any_of(kIdeographs, [c](const CharacterRange& r) { return r.first <= c && c <= r.last; });
}

int64_t count_code_points(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string without_accents(const std::string& word) {
  if (is_ascii(word)) return word;
  std::string out;
  each_character(nfd(word), [&](UChar32 c) {
    if (u_charType(c) != U_NON_SPACING_MARK) append_character(out, c);
  });
  return out;
}

// White space is a blank, blanks stand around ideographs, and control characters are left out, as the options have it.
std::string cleaned(std::string_view text, const WordPieceOptions& options) {
  std::string out;
  each_character(text, [&](UChar32 c) {
    if (options.drop_controls && (c == 0 || c == 0xfffd || is_wordpiece_control(c))) return;
    if (is_wordpiece_space(c)) {
      out.push_back(' ');
    } else if (options.split_chinese && is_ideograph(c)) {
      out.push_back(' ');
      append_character(out, c);
      out.push_back(' ');
    } else {
      append_character(out, c);
    }
  });
  return out;
}

std::string normal_form(const std::string& word, const WordPieceOptions& options) {
  const std::string folded = options.lowercase ? lower_case(word) : word;
  return options.strip_accents ? without_accents(folded) : folded;
}

// Each punctuation character a word of its own.
void split_punctuation(const std::string& word, std::vector<std::string>& words) {
  bool begins = true;
  each_character(word, [&](UChar32 c) {
    const bool is_mark = is_wordpiece_punctuation(c);
    if (begins || is_mark) words.emplace_back();
    append_character(words.back(), c);
    begins = is_mark;
  });
}

}  // namespace

std::vector<std::string> basic_words(std::string_view text, const WordPieceOptions& options) {
  std::vector<std::string> words;
  for (const std::string& word : split(cleaned(text, options), ' '))
    if (!word.empty()) split_punctuation(normal_form(word, options), words);
  return words;
}

bool is_punctuation(std::string_view character) {
  bool is_mark = false;
  each_character(character, [&](UChar32 c) { is_mark = is_wordpiece_punctuation(c); });
  return is_mark;
}

WordPiece::WordPiece(WordPieceModel model, const std::string& name) : model_(std::move(model)) {
  read_pieces(name);
  add_tokens(name);
  unk_ = id_of(model_.rules.unknown, name);
  cls_ = id_of(model_.rules.begin, name);
  sep_ = id_of(model_.rules.end, name);
}

void WordPiece::read_pieces(const std::string& name) {
  if (model_.pieces.empty()) throw Error(cat(name, ": the file is empty; expected one piece per line"));
  if (!is_valid_utf8(model_.pieces)) throw Error(cat(name, ": is not UTF-8; expected one piece per line"));
  pieces_ = split(model_.pieces, '\n');
  if (pieces_.back().empty()) pieces_.pop_back();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    std::string& piece = pieces_[i];
    if (piece.ends_with('\r')) piece.pop_back();
    longest_ = std::max(longest_, piece.size());
    ids_[piece] = static_cast<int64_t>(i);
  }
}

void WordPiece::add_tokens(const std::string& name) {
  const int64_t listed = size();
  std::unordered_map<int64_t, const AddedToken*> owners;
  for (const AddedToken& token : model_.added) {
    const auto own = ids_.find(token.content);
    const int64_t expected = own == ids_.end() ? token.id : own->second;
    const std::string place = cat(name, ": the added token '", token.content, "' has the number ", token.id);
    if (token.id < 0 || token.id >= listed + std::ssize(model_.added) + kMostUnusedNumbers)
      throw Error(cat(place, ", but there are ", listed, " pieces; expected the next number"));
    if (token.id != expected) throw Error(cat(place, ", but the piece of this name has ", expected));
    if (own == ids_.end() && token.id < listed && !piece(token.id).empty())
      throw Error(cat(place, " of the piece '", piece(token.id), "'; expected one from ", listed, " on"));
    if (!owners.emplace(token.id, &token).second)
      throw Error(cat(place, " of the added token '", owners.at(token.id)->content, "'"));
    if (token.id >= size()) pieces_.resize(static_cast<size_t>(token.id) + 1);
    pieces_[static_cast<size_t>(token.id)] = token.content;
    if (token.normalized) {
      normalized_.add(normal_form(cleaned(token.content, model_.options), model_.options), token);
    } else {
      raw_.add(token.content, token);
    }
  }
}

int64_t WordPiece::id_of(const std::string& piece, const std::string& name) const {
  if (const auto found = ids_.find(piece); found != ids_.end()) return found->second;
  const auto added = std::ranges::find(model_.added, piece, &AddedToken::content);
  if (added != model_.added.end()) return added->id;
  throw Error(cat(name, ": the piece ", piece, " is missing; expected BERT's list of pieces"));
}

std::vector<int64_t> WordPiece::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  if (raw_.empty() && normalized_.empty()) {
    encode_text(text, ids);
    return ids;
  }
  for (const TokenOrText& part : raw_.split(text)) {
    if (part.token) {
      ids.push_back(*part.token);
    } else {
      encode_text(part.text, ids);
    }
  }
  return ids;
}

void WordPiece::encode_text(std::string_view text, std::vector<int64_t>& ids) const {
  if (normalized_.empty()) {
    for (const std::string& word : basic_words(text, model_.options)) encode_word(word, ids);
    return;
  }
  const std::string normal = normal_form(cleaned(text, model_.options), model_.options);
  // The text is in its normal form already.
  const WordPieceOptions only_split{
      .lowercase = false, .strip_accents = false, .split_chinese = false, .drop_controls = false};
  for (const TokenOrText& part : normalized_.split(normal)) {
    if (part.token) {
      ids.push_back(*part.token);
      continue;
    }
    for (const std::string& word : basic_words(part.text, only_split)) encode_word(word, ids);
  }
}

void WordPiece::encode_word(const std::string& word, std::vector<int64_t>& ids) const {
  const size_t before = ids.size();
  bool is_known = count_code_points(word) <= model_.rules.most_characters;
  for (size_t begin = 0; is_known && begin < word.size();) {
    const std::string_view prefix = begin == 0 ? std::string_view() : model_.rules.continued;
    // A piece ends between characters: bytes that cannot begin one are skipped from the right.
    size_t end = std::min(word.size(), begin + longest_);
    const auto splits_character = [&] {
      return end < word.size() && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80;
    };
    is_known = false;
    for (; end > begin; --end) {
      if (splits_character()) continue;
      const auto found = ids_.find(cat(prefix, word.substr(begin, end - begin)));
      if (found == ids_.end()) continue;
      ids.push_back(found->second);
      is_known = true;
      break;
    }
    begin = end;
  }
  if (is_known) return;
  ids.resize(before);
  ids.push_back(unk_);
}

bool is_cased_vocabulary(std::string_view contents) {
  for (const std::string& piece : split(contents, '\n')) {
    if (piece.starts_with('[')) continue;
    bool has_capital = false;
    each_character(piece, [&](UChar32 c) { has_capital = has_capital || u_isupper(c) != 0; });
    if (has_capital) return true;
  }
  return false;
}

}  // namespace fovea::text

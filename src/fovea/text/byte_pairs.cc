#include "fovea/text/byte_pairs.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <charconv>
#include <queue>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/unicode.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

uint64_t key_of(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// Tokens of a word that are still apart, as a list in which a joined token leaves its place.
struct Part {
  int32_t id, before, after;  // neighbours; -1: none
};
struct Candidate {
  int32_t rank, at, result;
  // The heap's top is its greatest: the lowest rank and, for equal ranks, the first place.
  bool operator<(const Candidate& other) const { return std::pair(rank, at) > std::pair(other.rank, other.at); }
};

// A blank becomes U+2581.
std::string with_signs(std::string_view text) {
  std::string changed;
  for (const char c : text) {
    if (c == ' ') {
      changed += kBlankSign;
    } else {
      changed += c;
    }
  }
  return changed;
}

bool is_letter(UChar32 c) { return (U_MASK(u_charType(c)) & U_GC_L_MASK) != 0; }

// Characters before which a cut changes nothing if letters stand on both sides.
bool is_break(UChar32 c) { return c == ' ' || c == '\n' || c == 0x3001 || c == 0x3002 || c == 0xff0c; }

}  // namespace

std::optional<unsigned char> byte_of_fallback(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const char *first = token.data() + 3, *last = first + 2;
  const auto [end, error] = std::from_chars(first, last, value, 16);
  if (error != std::errc() || end != last) return std::nullopt;
  return static_cast<unsigned char>(value);
}

BytePairs::BytePairs(BytePairModel model, const std::string& origin) : model_(std::move(model)) {
  for (const std::string& pattern : model_.patterns) patterns_.emplace_back(pattern, cat(origin, ": pre_tokenizer"));
  index_bytes(origin);
  merges_.reserve(model_.merges.size());
  for (size_t rank = 0; rank < model_.merges.size(); ++rank) {
    const auto& [left, right, result] = model_.merges[rank];
    merges_[key_of(left, right)] = {static_cast<int32_t>(rank), result};
  }
  index_added();
  index_characters();
  can_cut_ = cuts_at_words();
}

void BytePairs::index_characters() {
  for (auto& [text, id] : model_.characters) characters_.emplace(std::move(text), id);
  for (const std::string& token : model_.tokens) {
    const size_t word = token.find_first_not_of(' ');
    if (word != std::string::npos && token.find(' ', word) != std::string::npos) reaches_over_signs_ = true;
  }
  model_.characters.clear();
}

void BytePairs::index_bytes(const std::string& origin) {
  bytes_.fill(-1);
  std::vector<bool> is_added(model_.tokens.size());
  for (const AddedToken& token : model_.added) is_added.at(static_cast<size_t>(token.id)) = true;
  for (size_t id = 0; id < model_.tokens.size(); ++id) {
    const std::string& token = model_.tokens[id];
    if (token.empty() || is_added[id]) continue;
    if (token.size() == 1 && !model_.signs) bytes_[static_cast<unsigned char>(token[0])] = static_cast<int32_t>(id);
    if (model_.keeps_words) words_.emplace(token, static_cast<int32_t>(id));
  }
  for (const auto& [text, id] : model_.characters) {
    if (const auto byte = byte_of_fallback(text)) bytes_[*byte] = id;
  }
  std::erase_if(model_.characters, [](const auto& token) { return byte_of_fallback(token.first).has_value(); });
  const auto missing = std::ranges::find(bytes_, -1);
  if (missing != bytes_.end())
    throw Error(cat(origin, ": model: the vocabulary has no token for the byte ", missing - bytes_.begin(),
                    "; expected one for each of the 256 bytes"));
}

void BytePairs::index_added() {
  for (const AddedToken& token : model_.added)
    (token.normalized ? normal_ : plain_).add(token.normalized ? normalized(token.content) : token.content, token);
}

// The text of a token that is found in normalised text.
std::string BytePairs::normalized(const std::string& content) const {
  if (model_.signs && model_.signs->is_normalizer)
    return cat(model_.signs->before == BlankSigns::Before::kNothing ? "" : kBlankSign, with_signs(content));
  return model_.composes ? nfc(content) : content;
}

int64_t BytePairs::find(std::string_view content) const {
  const auto found = std::ranges::find(model_.added, content, &AddedToken::content);
  if (found != model_.added.end()) return found->id;
  const auto token = std::ranges::find(model_.tokens, content);
  return token == model_.tokens.end() || content.empty() ? -1 : token - model_.tokens.begin();
}

void BytePairs::encode(std::string_view text, bool at_begin, std::vector<int32_t>& ids) const {
  for (const TokenOrText& part : plain_.split(text)) {
    const bool is_first = part.text.data() == text.data();
    if (part.token) {
      ids.push_back(static_cast<int32_t>(*part.token));
    } else if (model_.signs) {
      encode_signs(part.text, {.is_first = at_begin && is_first, .is_behind_token = !is_first}, ids);
    } else {
      encode_normal(part.text, at_begin || part.text.data() != text.data(), ids);
    }
  }
}

void BytePairs::encode_normal(std::string_view text, bool at_begin, std::vector<int32_t>& ids) const {
  const std::string composed = model_.composes ? nfc(text) : "";
  if (model_.composes) text = composed;
  for (const TokenOrText& part : normal_.split(text)) {
    if (part.token) {
      ids.push_back(static_cast<int32_t>(*part.token));
    } else {
      encode_text(part.text, at_begin || part.text.data() != text.data(), ids);
    }
  }
}

void BytePairs::encode_text(std::string_view text, bool at_begin, std::vector<int32_t>& ids) const {
  std::string with_blank;
  if (model_.adds_blank && at_begin && !text.empty() && !text.starts_with(' ')) {
    with_blank = cat(" ", text);
    text = with_blank;
  }
  const auto split = [&](const auto& self, std::string_view part, size_t pattern) -> void {
    if (pattern == patterns_.size()) return encode_word(part, ids);
    patterns_[pattern].split(part, [&](std::string_view next) { self(self, next, pattern + 1); });
  };
  split(split, text, 0);
}

bool BytePairs::has_blank_before(const Place& place) const {
  const BlankSigns::Before before = model_.signs->before;
  return (before == BlankSigns::Before::kFirst && place.is_first) ||
         (before == BlankSigns::Before::kEach && (place.is_first || place.is_behind_token));
}

void BytePairs::encode_signs(std::string_view text, const Place& place, std::vector<int32_t>& ids) const {
  const bool is_normalizer = model_.signs->is_normalizer;
  std::string whole;
  if (is_normalizer) {
    whole = cat(has_blank_before(place) ? kBlankSign : "", with_signs(text));
    text = whole;
  }
  for (const TokenOrText& part : normal_.split(text)) {
    if (part.token) {
      ids.push_back(static_cast<int32_t>(*part.token));
      continue;
    }
    if (is_normalizer) {
      encode_characters(part.text, ids);
      continue;
    }
    const bool begins = part.text.data() == text.data();
    const Place own = {.is_first = place.is_first && begins, .is_behind_token = place.is_behind_token || !begins};
    std::string own_text = with_signs(part.text);
    if (has_blank_before(own) && !own_text.starts_with(kBlankSign)) own_text.insert(0, kBlankSign);
    encode_characters(own_text, ids);
  }
}

// Merges the characters of a text, or of each of its words.
void BytePairs::encode_characters(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<int32_t> tokens;
  while (!text.empty()) {
    if (model_.signs->splits && text.starts_with(kBlankSign) && !tokens.empty()) merge(std::exchange(tokens, {}), ids);
    const std::string_view character = text.substr(0, first_character(text).size);
    text.remove_prefix(character.size());
    if (const auto found = characters_.find(character); found != characters_.end()) {
      tokens.push_back(found->second);
    } else {
      for (const char byte : character) tokens.push_back(bytes_[static_cast<unsigned char>(byte)]);
    }
  }
  merge(tokens, ids);
}

void BytePairs::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (model_.keeps_words) {
    if (const auto found = words_.find(word); found != words_.end()) return ids.push_back(found->second);
  }
  std::vector<int32_t> tokens;
  tokens.reserve(word.size());
  for (const char byte : word) tokens.push_back(bytes_[static_cast<unsigned char>(byte)]);
  merge(tokens, ids);
}

void BytePairs::merge(std::span<const int32_t> tokens, std::vector<int32_t>& ids) const {
  const auto size = static_cast<int32_t>(tokens.size());
  std::vector<Part> parts;
  parts.reserve(tokens.size());
  for (int32_t i = 0; i < size; ++i)
    parts.push_back({tokens[static_cast<size_t>(i)], i - 1, i + 1 < size ? i + 1 : -1});
  std::priority_queue<Candidate> heap;
  const auto add = [&](int32_t at) {
    const Part& part = parts[static_cast<size_t>(at)];
    if (part.after < 0) return;
    const auto found = merges_.find(key_of(part.id, parts[static_cast<size_t>(part.after)].id));
    if (found != merges_.end()) heap.push({found->second.rank, at, found->second.result});
  };
  for (int32_t i = 0; i < size; ++i) add(i);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    Part& left = parts[static_cast<size_t>(best.at)];
    if (left.id < 0 || left.after < 0) continue;
    Part& right = parts[static_cast<size_t>(left.after)];
    // The two tokens may be others by now.
    const auto now = merges_.find(key_of(left.id, right.id));
    if (now == merges_.end() || now->second.result != best.result) continue;
    left.id = best.result;
    right.id = -1;
    left.after = right.after;
    if (left.after >= 0) parts[static_cast<size_t>(left.after)].before = best.at;
    if (left.before >= 0) add(left.before);
    add(best.at);
  }
  for (int32_t at = size > 0 ? 0 : -1; at >= 0; at = parts[static_cast<size_t>(at)].after)
    ids.push_back(parts[static_cast<size_t>(at)].id);
}

// Whether a word ends before a blank, a line end or a full stop whatever follows: true of the expressions of GPT-2,
// Llama and Qwen. No added token may reach over such a place.
bool BytePairs::cuts_at_words() const {
  for (const AddedToken& token : model_.added) {
    const bool reaches = token.lstrip || token.rstrip ||
                         std::ranges::any_of(token.content, [](char c) { return c == ' ' || c == '\n'; }) ||
                         token.content.find("\u3001") != std::string::npos ||
                         token.content.find("\u3002") != std::string::npos ||
                         token.content.find("\uff0c") != std::string::npos;
    if (reaches) return false;
  }
  if (model_.signs) return !reaches_over_signs_;
  if (patterns_.empty()) return false;
  for (const std::string_view place : {" ", "\n", "\u3001", "\u3002", "\uff0c"}) {
    for (const std::string_view next : {"b", "'", "\u4e00"}) {
      const std::string text = cat("a", place, next);
      bool is_cut = false;
      patterns_.front().split(text, [&](std::string_view part) { is_cut = is_cut || part == "a"; });
      if (!is_cut) return false;
    }
  }
  return true;
}

// Before the blank of a word: a single one that no line end or further blank follows.
size_t BytePairs::cut_at_sign(std::string_view text, size_t most) const {
  constexpr std::string_view kNoWord = " \r\n";
  for (size_t blank = text.rfind(' ', most); blank != std::string_view::npos && blank > 0;
       blank = text.rfind(' ', blank - 1)) {
    if (blank + 1 == text.size() || kNoWord.find(text[blank + 1]) != std::string_view::npos) continue;
    const std::string_view before = text.substr(0, blank), behind = text.substr(blank + 1);
    if (!before.ends_with(' ') && !before.ends_with(kBlankSign) && !behind.starts_with(kBlankSign)) return blank;
  }
  return 0;
}

size_t BytePairs::cut(std::string_view text, size_t most) const {
  if (!can_cut_) return 0;
  if (model_.signs) return cut_at_sign(text, most);
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t at = std::min<int64_t>(static_cast<int64_t>(most), size - 1); at > 0; --at) {
    if ((bytes[at] & 0xc0) == 0x80) continue;
    int64_t next = at, before = at - 1;
    while (before > 0 && (bytes[before] & 0xc0) == 0x80) --before;
    UChar32 here = 0, after = 0, last = 0;
    U8_NEXT(bytes, next, size, here);
    if (!is_break(here) || next >= size) continue;
    U8_NEXT(bytes, next, size, after);
    U8_NEXT(bytes, before, at, last);
    if (after >= 0 && last >= 0 && is_letter(after) && is_letter(last)) return static_cast<size_t>(at);
  }
  return 0;
}

}  // namespace fovea::text

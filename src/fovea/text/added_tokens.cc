#include "fovea/text/added_tokens.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

// Characters that the regular expression \w matches.
bool is_of_a_word(UChar32 c) {
  constexpr uint32_t kOfWords = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(c) != 0 || (U_MASK(u_charType(c)) & kOfWords) != 0 || c == 0x200c || c == 0x200d;
}

// The character that begins with the byte `at`.
UChar32 character_from(std::string_view text, size_t at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  UChar32 character = ' ';
  U8_NEXT_OR_FFFD(bytes, at, text.size(), character);
  return character;
}

bool stands_alone_at(std::string_view text, size_t begin, size_t end) {
  size_t before = begin;
  while (before > 0 && (static_cast<unsigned char>(text[--before]) & 0xc0) == 0x80) {
  }
  const bool begins_word = begin > 0 && is_of_a_word(character_from(text, before));
  return !begins_word && (end == text.size() || !is_of_a_word(character_from(text, end)));
}

// The bytes of the character of Unicode's class White_Space that `text` begins with; 0 if it begins with none.
size_t space_size(std::string_view text) {
  const bool is_separator = !text.empty() && text[0] >= '\x1c' && text[0] <= '\x1f';
  return is_separator ? 0 : white_space_size(text);
}

// The place behind the white space that begins at `at`.
size_t end_of_blanks(std::string_view text, size_t at) {
  while (at < text.size()) {
    const size_t size = space_size(text.substr(at));
    if (size == 0) break;
    at += size;
  }
  return at;
}

// The beginning of the white space that ends at `end`, not before `least`.
size_t begin_of_blanks(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    size_t begin = end - 1;
    while (begin > least && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    if (space_size(text.substr(begin, end - begin)) != end - begin) break;
    end = begin;
  }
  return end;
}

}  // namespace

void TokenFinder::add(const std::string& content, const AddedToken& token) {
  if (content.empty()) return;
  uint32_t node = 0;
  for (const char byte : content)
    node = next_.try_emplace(branch(node, byte), static_cast<uint32_t>(next_.size() + 1)).first->second;
  tokens_[node] = {token.id, token.single_word, token.lstrip, token.rstrip};
  begins_[static_cast<unsigned char>(content.front())] = true;
}

const TokenFinder::Found* TokenFinder::find(std::string_view text, size_t at, size_t& size) const {
  if (!begins_[static_cast<unsigned char>(text[at])]) return nullptr;
  const Found* longest = nullptr;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto next = next_.find(branch(node, text[i]));
    if (next == next_.end()) break;
    node = next->second;
    const auto found = tokens_.find(node);
    if (found == tokens_.end()) continue;
    size = i + 1 - at;
    longest = &found->second;
  }
  return longest;
}

std::vector<TokenOrText> TokenFinder::split(std::string_view text) const {
  std::vector<TokenOrText> parts;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    size_t size = 0;
    const Found* const found = find(text, at, size);
    if (found == nullptr) {
      ++at;
      continue;
    }
    // A token that must be a word and is not one still hides the tokens within it.
    if (!found->single_word || stands_alone_at(text, at, at + size)) {
      const size_t first = found->lstrip ? begin_of_blanks(text, begin, at) : at;
      const size_t last = found->rstrip ? end_of_blanks(text, at + size) : at + size;
      if (begin < first) parts.push_back({.text = text.substr(begin, first - begin)});
      parts.push_back({.text = text.substr(first, last - first), .token = found->id});
      begin = last;
    }
    at += size;
  }
  if (begin < text.size()) parts.push_back({.text = text.substr(begin)});
  return parts;
}

}  // namespace fovea::text

#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fovea::text {

// A token that is found in the text itself, before the text is cut into words: `AddedToken` of transformers.
struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool single_word = false;             // only if no character of a word stands beside it
  bool lstrip = false, rstrip = false;  // takes the white space before it, behind it
  bool normalized = false;  // is found in the text without its case and accents, as far as the options drop them
  bool special = false;
  bool operator==(const AddedToken&) const = default;
};

// A text between added tokens, or one of them.
struct TokenOrText {
  std::string_view text;
  std::optional<int64_t> token = {};
};

// Finds tokens in a text: from left to right, at each place the longest that begins there.
class TokenFinder {
 public:
  // An empty content is never found.
  void add(const std::string& content, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }
  std::vector<TokenOrText> split(std::string_view text) const;

 private:
  struct Found {
    int64_t id;
    bool single_word, lstrip, rstrip;
  };
  // The longest token at a place, and its bytes.
  const Found* find(std::string_view text, size_t at, size_t& size) const;

  std::unordered_map<std::string, Found> tokens_;
  std::array<std::vector<size_t>, 256> sizes_;  // of the tokens that begin with a byte, falling
};

}  // namespace fovea::text

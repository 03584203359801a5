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

  // The nodes of a tree whose branches are bytes: each token is a way from node 0.
  static uint64_t branch(uint32_t node, char byte) { return (uint64_t{node} << 8) | static_cast<unsigned char>(byte); }
  std::unordered_map<uint64_t, uint32_t> next_;  // nodes, by their branches
  std::unordered_map<uint32_t, Found> tokens_;   // by the nodes where they end
  std::array<bool, 256> begins_ = {};            // whether a token begins with the byte
};

}  // namespace fovea::text

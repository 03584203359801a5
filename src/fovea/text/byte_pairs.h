#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fovea/text/added_tokens.h"
#include "fovea/text/split_pattern.h"
#include "fovea/text/unit_split.h"

namespace fovea::text {

// The blanks of a tokeniser whose text is characters, where U+2581 stands for each blank.
struct BlankSigns {
  enum class Before : uint8_t { kNothing, kFirst, kEach };  // texts: none, that at the beginning, or behind tokens too
  Before before = Before::kNothing;                         // the texts before which a blank is put
  bool is_normalizer = false;  // before tokens are found that are found in normalised text, even before a blank
  bool splits = false;         // no token reaches over the beginning of a word
};

// A BPE tokeniser as its file has it (byte_pairs_json.h): of bytes, or of characters with the bytes of each that the
// vocabulary lacks (byte fallback). Two tokens are joined by the merge of the lowest rank, which is its place in the
// list.
struct BytePairModel {
  struct Merge {
    int32_t left, right, result;  // tokens
  };
  std::vector<std::string> tokens;  // bytes of each token by its number; "" of numbers without a token
  std::vector<Merge> merges;
  std::vector<std::string> patterns;  // split the text one after the other
  std::vector<AddedToken> added;
  bool composes = false;            // characters are composed before (NFC)
  bool adds_blank = false;          // before a text that does not begin with one
  bool keeps_words = false;         // a word that is a token is that token, whatever the merges give ("ignore_merges")
  std::string begin_content;        // the added token with which every text begins; "" if there is none
  std::optional<BlankSigns> signs;  // of characters with byte fallback; none: of bytes
  std::vector<std::pair<std::string, int32_t>> characters;  // the tokens of one character each
  bool drops_blank = false;                                 // a decoded text lacks the blank at its beginning
};

// The byte of a token such as "<0x0A>", which stands for a byte of a character that the vocabulary lacks.
std::optional<unsigned char> byte_of_fallback(std::string_view token);

// Encodes text as the library `tokenizers` does, without the token that begins every text.
class BytePairs {
 public:
  // Throws an Error that begins with `origin` if the model lacks a byte, or if a pattern is not one.
  BytePairs(BytePairModel model, const std::string& origin);

  int64_t size() const { return static_cast<int64_t>(model_.tokens.size()); }
  const BytePairModel& model() const { return model_; }
  // The text that a token stands for, which may be a part of a character; "" of a number without a token.
  const std::string& surface(int64_t id) const { return model_.tokens.at(static_cast<size_t>(id)); }
  // The token of this text, or -1; an added token if there is one.
  int64_t find(std::string_view content) const;

  // Appends the tokens of UTF-8 text. `at_begin`: the text does not continue another.
  void encode(std::string_view text, bool at_begin, std::vector<int32_t>& ids) const;
  // The largest place, at most `most`, at which `text` may be cut without a change of its tokens, whatever follows it;
  // 0 if there is none. It is behind a letter and before a blank, a line end or a full stop that a letter follows.
  size_t cut(std::string_view text, size_t most) const;

 private:
  struct MergeResult {
    int32_t rank, result;
  };
  void encode_normal(std::string_view text, bool at_begin, std::vector<int32_t>& ids) const;
  void encode_text(std::string_view text, bool at_begin, std::vector<int32_t>& ids) const;
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;
  // Encode characters with byte fallback. `is_first`: the part stands at the beginning of all text.
  struct Place {
    bool is_first, is_behind_token;
  };
  void encode_signs(std::string_view text, const Place& place, std::vector<int32_t>& ids) const;
  void encode_characters(std::string_view text, std::vector<int32_t>& ids) const;
  bool has_blank_before(const Place& place) const;
  void merge(std::span<const int32_t> tokens, std::vector<int32_t>& ids) const;
  void index_bytes(const std::string& origin);
  void index_characters();
  size_t cut_at_sign(std::string_view text, size_t most) const;
  void index_added();
  bool cuts_at_words() const;
  std::string normalized(const std::string& content) const;

  BytePairModel model_;
  std::vector<SplitPattern> patterns_;
  std::array<int32_t, 256> bytes_{};
  std::unordered_map<uint64_t, MergeResult> merges_;                           // by (left, right)
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> words_;  // with keeps_words
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> characters_;
  TokenFinder plain_, normal_;  // added tokens, found before and after NFC
  bool can_cut_ = false;
  bool reaches_over_signs_ = false;  // a token has U+2581 behind another character
};

}  // namespace fovea::text

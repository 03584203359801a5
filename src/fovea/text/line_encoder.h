#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fovea/text/units.h"
#include "fovea/text/vocab.h"

namespace fovea::text {

// Encodes line after line of a large text, for one thread. It keeps the pieces of words, because most words of a text
// have occurred in it before. BPE without normalisation encodes each word by itself; other models encode each line as a
// whole. The result is that of Vocab::encode().
class LineEncoder {
 public:
  // `vocab` must outlive this.
  explicit LineEncoder(const Vocab& vocab);
  // Appends the pieces of a line, without </s>.
  void encode(std::string_view line, std::vector<int32_t>& ids);
  std::vector<int64_t> encode(std::string_view line);

 private:
  static constexpr size_t kWordBytes = 30, kWordIds = 8, kWords = 1 << 15;
  // A word takes the place of another with the same lowest bits of its hash.
  struct Word {
    uint8_t bytes = 0, ids = 0;
    std::array<char, kWordBytes> text;
    std::array<int32_t, kWordIds> pieces;
  };
  void encode_word(std::string_view word, std::vector<int32_t>& ids);

  const Vocab* vocab_;
  bool by_words_;
  std::vector<Word> words_;  // [kWords] once they are needed
};

// Encodes a large text into the units of a language model, line by line as LineEncoder does if the units have lines.
class UnitEncoder {
 public:
  // `units` must outlive this.
  explicit UnitEncoder(const Units& units);
  // As Units::encode().
  void encode(std::string_view text, std::vector<int32_t>& ids, Units::Begin begin);

 private:
  const Units& units_;
  std::vector<LineEncoder> lines_;  // one, or none if units have no lines
};

}  // namespace fovea::text

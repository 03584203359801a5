#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/vocab.h"

namespace fovea::text {

// The units that a language model's text consists of: the 256 bytes and </s>, or the pieces of a SentencePiece model.
//
// With bytes, a text is its bytes, line ends too; </s> stands only between documents. With a model, a text is encoded
// line by line, and </s> follows each line: it is the line end, "\n" or "\r\n". A last line without one gets none.
class Units {
 public:
  static Units bytes();
  // Loads the value of an option: "bytes", or the path of a SentencePiece model. Throws an Error that names the path.
  static Units load(const std::string& value);
  // Reads the file that a checkpoint keeps under file_name(). Throws an Error that names the file.
  static Units from_file(const std::string& name, const std::string& contents);

  bool is_bytes() const { return vocab_ == nullptr; }
  const Vocab& vocab() const { return *vocab_; }  // not of bytes
  std::string_view unit_name() const;             // "byte", "piece", "word" or "char"
  int64_t size() const;
  int64_t eos() const;
  std::optional<int64_t> unk() const;  // none of bytes

  // The beginning of a text that encode() is given: the beginning of a line, or a place where cut() cut one.
  enum class Begin : uint8_t { kLine, kInside };
  // Appends the units of a text of any number of lines. Text before a line end, or with bytes before any place, does
  // not change the units of the text after it.
  void encode(std::string_view text, std::vector<int32_t>& ids, Begin begin = Begin::kLine) const;
  // The largest place, at most `most`, at which `text` may be cut without a change of its units, whatever follows it;
  // 0 if there is none. It is behind a line end, else in a long line before the blank of a word or between characters.
  size_t cut(std::string_view text, size_t most) const;
  // The text, with "\n" for each </s> of a model; of bytes, </s> gives nothing. See UnitDecoder for parts of a text.
  std::string decode(std::span<const int64_t> ids) const;

  std::string file_name() const;  // "units.spm", or "units.txt" of bytes
  std::string contents() const;

 private:
  explicit Units(std::shared_ptr<const Vocab> vocab) : vocab_(std::move(vocab)) {}
  std::shared_ptr<const Vocab> vocab_;  // null: bytes
};

}  // namespace fovea::text

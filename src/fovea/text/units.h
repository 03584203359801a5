#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/vocab.h"

namespace fovea::text {

// The units that a language model's text consists of: the 256 bytes and </s>; the pieces of a SentencePiece model; or
// the tokens of a folder of Hugging Face's, which has a tokenizer.json with a BPE model or a SentencePiece model
// tokenizer.model, and a tokenizer_config.json. The first of both counts, as in transformers.
//
// With bytes and with tokens, a text is encoded whole, line ends too; </s> stands only between documents. With a
// SentencePiece model of `fovea vocab`, a text is encoded line by line, and </s> follows each line: it is the line end,
// "\n" or "\r\n". A last line without one gets none.
class Units {
 public:
  static Units bytes();
  // Loads the value of an option: "bytes", the path of a SentencePiece model, or a folder with the files of tokens.
  // Throws an Error that names the path.
  static Units load(const std::string& value);
  // Reads the file of bytes or of pieces that a checkpoint keeps under file_name(). Throws an Error that names the
  // file.
  static Units from_file(const std::string& name, const std::string& contents);
  // Reads what files() returned. Errors begin with `origin`, a folder.
  static Units from_files(const std::map<std::string, std::string>& files, const std::string& origin);

  bool is_bytes() const { return parts_ == nullptr; }
  // Whether text is encoded line by line.
  bool has_lines() const;
  // Whether the units are tokens of another system, of which models may have more rows than there are tokens.
  bool is_of_folder() const;
  const Vocab* vocab() const;          // null without a SentencePiece model
  std::string_view unit_name() const;  // "byte", "piece", "word", "char" or "token"
  int64_t size() const;
  int64_t begin() const;  // what a model reads before a text: eos(), or a unit of its own
  int64_t eos() const;
  // The units that end a text that a model makes: eos(), and the others that a folder names.
  std::vector<int64_t> ends() const;
  std::optional<int64_t> unk() const;  // none of bytes and of BPE
  // The number of the unit of a folder with this text; none if there is none.
  std::optional<int64_t> find(const std::string& token) const;
  // A decoded text lacks the blank at its beginning.
  bool drops_first_blank() const;
  // Returns the units with more numbers, `rows` in all, of which the additional ones stand for no text.
  Units with_rows(int64_t rows) const;

  // The beginning of a text that encode() is given: the beginning of a line, or a place where cut() cut one.
  enum class Begin : uint8_t { kLine, kInside };
  // Appends the units of a text of any number of lines. Text before a line end, or with bytes before any place, does
  // not change the units of the text after it; with tokens, text before a place that cut() returns.
  void encode(std::string_view text, std::vector<int32_t>& ids, Begin begin = Begin::kLine) const;
  // The largest place, at most `most`, at which `text` may be cut without a change of its units, whatever follows it;
  // 0 if there is none. It is behind a line end, else in a long line before the blank of a word or between characters.
  size_t cut(std::string_view text, size_t most) const;
  // The text, with "\n" for each </s> of lines; otherwise </s> gives nothing. See UnitDecoder for parts of a text.
  std::string decode(std::span<const int64_t> ids) const;
  // The text of a unit behind others, which may be a part of a character: "\n" of the </s> of lines, "" of other
  // control units.
  std::string surface(int64_t id) const;
  // Whether a unit's surface may be a part of a character.
  bool is_partial(int64_t id) const;

  // The template of conversations that a folder brings, and the tokens that it names; none if it has no template.
  struct ChatForm {
    std::string text, file;  // Jinja, and the file that has it
    std::string begin, end;  // bos_token and eos_token; "" if there is none
  };
  std::optional<ChatForm> chat_form() const;

  std::string file_name() const;  // "units.spm", or "units.txt" of bytes
  std::string contents() const;
  // All files that a checkpoint keeps, by name.
  std::map<std::string, std::string> files() const;

 private:
  struct Parts;
  explicit Units(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  static Units of_vocab(Vocab vocab);
  size_t cut_at_blank(std::string_view text, size_t most) const;

  std::shared_ptr<const Parts> parts_;  // null: bytes
  int64_t rows_ = 0;                    // 0: as many as there are units
};

// The files of a folder of Hugging Face's that tokens need, and the files that say what ends a text and how a chat
// is written. If only config.json names the ends, generation_config.json is made from it. Throws an Error that names
// what is missing.
std::map<std::string, std::string> token_files(const std::string& folder);

}  // namespace fovea::text

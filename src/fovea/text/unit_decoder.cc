#include "fovea/text/unit_decoder.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

constexpr std::string_view kReplacement = "\ufffd";

// SentencePiece decodes each byte that belongs to no character to U+FFFD.
std::string with_replacements(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const CharacterStart start = first_character(bytes);
    const bool is_whole = start.kind == CharacterStart::Kind::kWhole;
    text += is_whole ? bytes.substr(0, start.size) : kReplacement;
    bytes.remove_prefix(is_whole ? start.size : 1);
  }
  return text;
}

}  // namespace

std::string UnitDecoder::push(int64_t id) {
  if (id < 0 || id >= units_.size()) throw Error(cat("got unit ", id, "; expected 0 to ", units_.size() - 1));
  const bool is_end = id == units_.eos();
  if (!is_end && units_.is_partial(id)) {
    held_ += units_.surface(id);
    return take_whole_characters();
  }
  std::string text = take_all();
  if (!is_end) return text + piece_text(id);
  is_line_empty_ = true;
  return text + units_.surface(id);
}

std::string UnitDecoder::finish() {
  std::string text = take_all();
  is_line_empty_ = true;
  return text;
}

std::string UnitDecoder::take_whole_characters() {
  const size_t waiting = cut_character(held_);
  std::string rest = held_.substr(held_.size() - waiting);
  held_.resize(held_.size() - waiting);
  std::string text = take_all();
  held_ = std::move(rest);
  return text;
}

std::string UnitDecoder::take_all() {
  std::string text = units_.has_lines() ? with_replacements(held_) : held_;
  held_.clear();
  if (is_line_empty_ && units_.drops_first_blank() && text.starts_with(' ')) {
    text.erase(0, 1);
    is_line_empty_ = false;
    return text;
  }
  is_line_empty_ = is_line_empty_ && text.empty();
  return text;
}

std::string UnitDecoder::piece_text(int64_t id) {
  const Vocab& vocab = *units_.vocab();
  std::string text = units_.surface(id);
  const bool may_drop =
      vocab.leading_blanks() != LeadingBlanks::kKept && (id != vocab.unk() || vocab.type() == VocabType::kWord);
  const bool drops_blank = is_line_empty_ && may_drop && text.starts_with(' ');
  if (drops_blank) text.erase(0, 1);
  const bool has_dropped_all = drops_blank && vocab.leading_blanks() == LeadingBlanks::kFirstDropped;
  is_line_empty_ = is_line_empty_ && text.empty() && !has_dropped_all;
  return text;
}

}  // namespace fovea::text

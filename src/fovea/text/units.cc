#include "fovea/text/units.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/unit_decoder.h"
#include "fovea/text/unit_split.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

constexpr std::string_view kBytesName = "bytes", kBytesFile = "units.txt", kVocabFile = "units.spm";
constexpr int64_t kNumBytes = 256;

}  // namespace

Units Units::bytes() { return Units(nullptr); }

Units Units::load(const std::string& value) {
  if (value == kBytesName) return bytes();
  return Units(std::make_shared<const Vocab>(Vocab::load(value)));
}

Units Units::from_file(const std::string& name, const std::string& contents) {
  if (name == kVocabFile) return Units(std::make_shared<const Vocab>(Vocab::from_bytes(contents, name)));
  if (name != kBytesFile)
    throw Error(cat("units of text: got the file '", name, "'; expected ", kVocabFile, " or ", kBytesFile));
  if (trim(contents) != kBytesName)
    throw Error(cat("units of text: '", name, "' is damaged; expected the word '", kBytesName, "' in it"));
  return bytes();
}

std::string_view Units::unit_name() const {
  if (is_bytes()) return "byte";
  if (vocab_->type() == VocabType::kWord) return "word";
  return vocab_->type() == VocabType::kChar ? "char" : "piece";
}

int64_t Units::size() const { return is_bytes() ? kNumBytes + 1 : vocab_->size(); }
int64_t Units::eos() const { return is_bytes() ? kNumBytes : vocab_->eos(); }
std::optional<int64_t> Units::unk() const { return is_bytes() ? std::nullopt : std::optional(vocab_->unk()); }
std::string Units::file_name() const { return std::string(is_bytes() ? kBytesFile : kVocabFile); }
std::string Units::contents() const { return is_bytes() ? cat(kBytesName, "\n") : vocab_->bytes(); }

void Units::encode(std::string_view text, std::vector<int32_t>& ids, Begin begin) const {
  if (is_bytes()) {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return;
  }
  // The vocabulary puts a blank before a line, which stands for the one at which the line was cut.
  if (begin == Begin::kInside && vocab_->splits_at_blanks() && text.starts_with(' ')) text.remove_prefix(1);
  each_line(text, [&](std::string_view line, bool has_end) {
    vocab_->encode(line, ids);
    if (has_end) ids.push_back(static_cast<int32_t>(vocab_->eos()));
  });
}

size_t Units::cut(std::string_view text, size_t most) const {
  std::string_view part = text.substr(0, most);
  const size_t line_end = part.rfind('\n');
  if (line_end != std::string_view::npos) return line_end + 1;
  if (is_bytes()) return part.size() - cut_character(part);
  if (vocab_->splits_anywhere()) {
    while (part.ends_with('\r')) part.remove_suffix(1);  // it may be half of a line end
    return part.size() - cut_character(part);
  }
  if (!vocab_->splits_at_blanks()) return 0;
  // The cut is before the blank of a word: the last of several blanks, and none at the end of a line.
  constexpr std::string_view kNoWord = " \r\n";
  for (size_t blank = text.rfind(' ', most); blank != std::string_view::npos && blank > 0;
       blank = text.rfind(' ', blank - 1)) {
    if (blank + 1 < text.size() && kNoWord.find(text[blank + 1]) == std::string_view::npos) return blank;
  }
  return 0;
}

std::string Units::decode(std::span<const int64_t> ids) const {
  UnitDecoder decoder(*this);
  std::string text;
  for (const int64_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

}  // namespace fovea::text

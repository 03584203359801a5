#include "fovea/text/line_encoder.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "fovea/base/strings.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/unit_split.h"

namespace fovea::text {
namespace {

// Whether a line has the pieces of its words, if single blanks stand between them: no piece and no rule of
// normalisation reaches over a blank, and no word begins with an unknown piece, which would be one with the unknown
// piece before it. The scores of unigram models are sums over the line, which round otherwise in a word alone.
bool encodes_by_words(const Vocab& vocab) {
  if (vocab.type() != VocabType::kBpe || !vocab.splits_at_blanks()) return false;
  const ModelSpec spec = read_model_spec(vocab.bytes());
  const std::optional<int64_t> blank = vocab.find(kBlankSign);
  return !spec.has_charsmap && spec.has_usual_blanks && !spec.has_plain_blanks && blank && *blank != vocab.unk();
}

bool has_single_blanks(std::string_view line) {
  return !line.starts_with(' ') && !line.ends_with(' ') && line.find("  ") == std::string_view::npos &&
         line.find(kBlankSign) == std::string_view::npos;
}

}  // namespace

LineEncoder::LineEncoder(const Vocab& vocab) : vocab_(&vocab), by_words_(encodes_by_words(vocab)) {}

void LineEncoder::encode(std::string_view line, std::vector<int32_t>& ids) {
  if (!by_words_ || line.empty() || !has_single_blanks(line) || !is_valid_utf8(line)) return vocab_->encode(line, ids);
  if (words_.empty()) words_.resize(kWords);
  for (;;) {
    const size_t end = line.find(' ');
    encode_word(line.substr(0, end), ids);
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

std::vector<int64_t> LineEncoder::encode(std::string_view line) {
  std::vector<int32_t> ids;
  encode(line, ids);
  return {ids.begin(), ids.end()};
}

void LineEncoder::encode_word(std::string_view text, std::vector<int32_t>& ids) {
  if (text.size() > kWordBytes) return vocab_->encode(text, ids);
  Word& word = words_[XXH3_64bits(text.data(), text.size()) % kWords];
  if (word.bytes != text.size() || std::memcmp(word.text.data(), text.data(), text.size()) != 0) {
    const size_t before = ids.size();
    vocab_->encode(text, ids);
    if (ids.size() - before > kWordIds) return;
    word.bytes = static_cast<uint8_t>(text.size());
    word.ids = static_cast<uint8_t>(ids.size() - before);
    std::ranges::copy(text, word.text.begin());
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), word.pieces.begin());
    return;
  }
  ids.insert(ids.end(), word.pieces.begin(), word.pieces.begin() + word.ids);
}

UnitEncoder::UnitEncoder(const Units& units) : units_(units) {
  if (units.has_lines()) lines_.emplace_back(*units.vocab());
}

void UnitEncoder::encode(std::string_view text, std::vector<int32_t>& ids, Units::Begin begin) {
  if (lines_.empty() || begin != Units::Begin::kLine) return units_.encode(text, ids, begin);
  each_line(text, [&](std::string_view line, bool has_end) {
    lines_.front().encode(line, ids);
    if (has_end) ids.push_back(static_cast<int32_t>(units_.eos()));
  });
}

}  // namespace fovea::text

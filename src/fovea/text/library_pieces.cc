#include "fovea/text/library_pieces.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/long_lines.h"
#include "fovea/text/unit_split.h"

namespace fovea::text {

void require_encoded(const sentencepiece::util::Status& status) {
  if (!status.ok()) throw Error(cat("vocabulary: a line cannot be split into pieces: ", status.ToString()));
}

namespace {

// Appends the library's pieces of a text that begins at byte `first` of a line.
void append_pieces(const sentencepiece::SentencePieceProcessor& processor, std::string_view text, size_t first,
                   std::vector<LibraryPiece>& pieces) {
  sentencepiece::ImmutableSentencePieceText result;
  require_encoded(processor.Encode(absl::string_view(text.data(), text.size()), result.mutable_proto()));
  for (size_t i = 0; i < result.pieces_size(); ++i) {
    const auto found = result.pieces(static_cast<int>(i));
    pieces.push_back(
        {static_cast<int>(found.id()), first + found.begin(), first + found.end(), std::string(found.piece())});
  }
}

// Whether the text has no piece but unknown ones and, at its beginning, those of a blank.
bool is_all_unknown(const sentencepiece::SentencePieceProcessor& processor, std::string_view text) {
  std::vector<LibraryPiece> pieces;
  append_pieces(processor, text, 0, pieces);
  const auto known = std::ranges::find_if_not(pieces, [](const auto& piece) { return piece.text == kBlankSign; });
  return known != pieces.end() &&
         std::all_of(known, pieces.end(), [&](const auto& piece) { return processor.IsUnknown(piece.id); });
}

}  // namespace

std::vector<LibraryPiece> library_pieces(const sentencepiece::SentencePieceProcessor& processor, const ModelSpec& spec,
                                         std::string_view line) {
  const bool has_units = spec.type == VocabType::kWord || spec.type == VocabType::kChar;
  std::vector<LibraryPiece> pieces;
  if (line.size() <= kLongLine || (has_units && !spec.is_counted)) {
    append_pieces(processor, line, 0, pieces);
    return pieces;
  }
  if (has_units) {
    const PartEnd end = spec.type == VocabType::kChar ? PartEnd::kCharacter : PartEnd::kWord;
    for (const std::string_view part : parts_of_line(line, end, kLongLine / 2)) {
      const auto begin = static_cast<size_t>(part.data() - line.data());
      const size_t before = pieces.size();
      append_pieces(processor, part, begin, pieces);
      if (begin > 0 && pieces.size() > before)
        pieces[before].begin = std::min(pieces[before].begin, begin);  // a word has its blank
    }
    return pieces;
  }
  const ShortLine shorter =
      without_long_runs(line, [&](std::string_view text) { return is_all_unknown(processor, text); });
  append_pieces(processor, shorter.text, 0, pieces);
  for (LibraryPiece& piece : pieces) {
    const bool has_cut = shorter.has_cut(piece.begin, piece.end), has_blank = piece.text.starts_with(kBlankSign);
    piece.begin = shorter.in_line(piece.begin);
    piece.end = shorter.in_line(piece.end);
    if (has_cut) piece.text = cat(has_blank ? kBlankSign : "", line.substr(piece.begin, piece.end - piece.begin));
  }
  return pieces;
}

}  // namespace fovea::text

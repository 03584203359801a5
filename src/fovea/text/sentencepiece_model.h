#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/vocab.h"

namespace fovea::text {

// Stands for a blank in pieces.
inline constexpr std::string_view kBlankSign = "\u2581";

// Numbers of fields and of kinds of pieces in sentencepiece_model.proto.
namespace proto {
inline constexpr uint64_t kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3, kDenormalizerSpec = 5;  // of a model
inline constexpr uint64_t kPieceText = 1, kPieceScore = 2, kPieceKind = 3;                            // of a piece
inline constexpr uint64_t kNormalPiece = 1, kUnknownPiece = 2, kControlPiece = 3, kUserPiece = 4,
                          kUnusedPiece = 5;  // kPieceKind
inline constexpr uint64_t kModelType = 3, kVocabSize = 4, kUnkId = 40, kBosId = 41, kEosId = 42, kPadId = 43,
                          kUnkSurface = 44, kBlankAsSuffix = 24, kUserSymbols = 31;  // of the trainer's spec
inline constexpr uint64_t kNormalizerName = 1, kCharsmap = 2, kDummyPrefix = 3, kRemoveBlanks = 4,
                          kEscapeBlanks = 5;  // of the normalizer's spec
}  // namespace proto

// The specs of a serialised model, with the library's defaults for fields that they leave out.
struct ModelSpec {
  VocabType type = VocabType::kUnigram;
  bool add_dummy_prefix = true;          // a line is encoded with a blank before it
  bool remove_extra_whitespaces = true;  // blanks at the ends of a line, and all but one of a run
  bool has_charsmap = false;             // characters are normalised
  std::string normalization;             // the name of the rules, of kNormalizationNames in models of `fovea vocab`
  bool has_usual_blanks = true;          // a blank stands before a word, as U+2581
  bool has_plain_blanks = false;         // in pieces that are found before a line is encoded
  bool is_counted = false;               // write_counted_model() would give a model that encodes as this one
  std::vector<std::string> marks;        // pieces of is_language_mark() that came after the model's training; control
                                         // pieces print nothing, pieces of the user themselves
};
// Whether a piece is a mark of the wanted language, such as ">>fra<<", which OPUS-MT puts before the pieces of a line.
bool is_language_mark(std::string_view text);
// ">>fra<<" of "fra", and the other way round.
std::string language_mark(std::string_view code);
std::string code_of_mark(std::string_view mark);
// The mark at the beginning of a text, behind blanks; empty if there is none. A vocabulary need not have it.
std::string_view leading_language_mark(std::string_view text);

// A damaged model gives what was read of it so far.
ModelSpec read_model_spec(std::string_view model);

struct CountedPiece {
  std::string text;  // with U+2581 for a blank
  int64_t count = 0;
};
// A serialised model of words or characters: </s> is 0, <unk> is 1, then come the control pieces and the others. Words
// stand between white space (kWhiteSpaces) and are printed with one blank between them, unknown ones as <unk>; of
// characters none is changed, and unknown ones are printed as U+2047.
std::string write_counted_model(VocabType type, const std::vector<CountedPiece>& pieces,
                                const std::vector<std::string>& control_pieces = {});

}  // namespace fovea::text

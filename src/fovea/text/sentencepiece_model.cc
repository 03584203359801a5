#include "fovea/text/sentencepiece_model.h"

#include <algorithm>
#include <cmath>

#include "fovea/base/protobuf.h"
#include "fovea/text/charsmap.h"

namespace fovea::text {
namespace {

// A model, its trainer's and its normalizer's spec, as far as they decide how text is encoded.
struct Encoding {
  bool has_usual_pieces = true;
  std::string_view charsmap;
  std::vector<std::string_view> user_symbols;  // of the training
};

void read_piece(std::string_view message, ModelSpec& spec, Encoding& encoding) {
  bool is_of_user = false;
  std::string_view text;
  all_protobuf_fields(message, [&](const ProtobufField& field) {
    if (field.number == proto::kPieceText && field.bytes) text = *field.bytes;
    if (field.number != proto::kPieceKind || !field.value) return true;
    encoding.has_usual_pieces &= *field.value >= proto::kNormalPiece && *field.value <= proto::kControlPiece;
    is_of_user = *field.value == proto::kUserPiece;
    return true;
  });
  spec.has_plain_blanks |= is_of_user && text.find(' ') != std::string_view::npos;
  if (is_of_user && is_language_mark(text)) spec.marks.emplace_back(text);
}

void read_trainer_spec(std::string_view message, ModelSpec& spec, Encoding& encoding) {
  all_protobuf_fields(message, [&](const ProtobufField& field) {
    if (field.number == proto::kUserSymbols && field.bytes) encoding.user_symbols.push_back(*field.bytes);
    if (field.number == proto::kBlankAsSuffix && field.value) spec.has_usual_blanks &= *field.value == 0;
    if (field.number == proto::kModelType && field.value && *field.value >= 1 && *field.value <= 4)
      spec.type = static_cast<VocabType>(*field.value);
    return true;
  });
}

void read_normalizer_spec(std::string_view message, ModelSpec& spec, Encoding& encoding) {
  all_protobuf_fields(message, [&](const ProtobufField& field) {
    if (field.number == proto::kEscapeBlanks && field.value) spec.has_usual_blanks &= *field.value != 0;
    if (field.number == proto::kDummyPrefix && field.value) spec.add_dummy_prefix = *field.value != 0;
    if (field.number == proto::kRemoveBlanks && field.value) spec.remove_extra_whitespaces = *field.value != 0;
    if (field.number == proto::kCharsmap && field.bytes) encoding.charsmap = *field.bytes;
    if (field.number == proto::kNormalizerName && field.bytes) spec.normalization = *field.bytes;
    return true;
  });
}

// Whether the normalizer is that of normalizer_spec() below.
bool has_counted_normalizer(const ModelSpec& spec, const Encoding& encoding) {
  const bool is_word = spec.type == VocabType::kWord;
  if (!is_word && spec.type != VocabType::kChar) return false;
  return spec.add_dummy_prefix == is_word && spec.remove_extra_whitespaces == is_word &&
         encoding.charsmap == (is_word ? white_space_charsmap() : "");
}

std::string piece_message(std::string_view text, double score, uint64_t kind) {
  std::string message;
  put_protobuf_bytes(message, proto::kPieceText, text);
  put_protobuf_float(message, proto::kPieceScore, static_cast<float>(score));
  if (kind != proto::kNormalPiece) put_protobuf_number(message, proto::kPieceKind, static_cast<int64_t>(kind));
  return message;
}

std::string trainer_spec(VocabType type, size_t size) {
  std::string spec;
  put_protobuf_number(spec, proto::kModelType, static_cast<int64_t>(type));
  put_protobuf_number(spec, proto::kVocabSize, static_cast<int64_t>(size));
  put_protobuf_number(spec, proto::kUnkId, 1);
  put_protobuf_number(spec, proto::kBosId, -1);
  put_protobuf_number(spec, proto::kEosId, 0);
  put_protobuf_number(spec, proto::kPadId, -1);
  put_protobuf_bytes(spec, proto::kUnkSurface, type == VocabType::kWord ? " <unk>" : "\u2047");
  return spec;
}

std::string normalizer_spec(VocabType type) {
  const bool is_word = type == VocabType::kWord;
  std::string spec;
  put_protobuf_bytes(spec, proto::kNormalizerName, is_word ? "white_space" : "identity");
  if (is_word) put_protobuf_bytes(spec, proto::kCharsmap, white_space_charsmap());
  put_protobuf_number(spec, proto::kDummyPrefix, is_word ? 1 : 0);
  put_protobuf_number(spec, proto::kRemoveBlanks, is_word ? 1 : 0);
  return spec;
}

}  // namespace

bool is_language_mark(std::string_view text) {
  return text.size() > 4 && text.starts_with(">>") && text.ends_with("<<");
}

std::string_view leading_language_mark(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const size_t end = text.find("<<");
  if (end == std::string_view::npos) return {};
  const std::string_view mark = text.substr(0, end + 2);
  return is_language_mark(mark) ? mark : std::string_view();
}

ModelSpec read_model_spec(std::string_view model) {
  ModelSpec spec;
  Encoding encoding;
  all_protobuf_fields(model, [&](const ProtobufField& field) {
    if (field.number == proto::kPieces && field.bytes) read_piece(*field.bytes, spec, encoding);
    if (field.number == proto::kTrainerSpec && field.bytes) read_trainer_spec(*field.bytes, spec, encoding);
    if (field.number == proto::kNormalizerSpec && field.bytes) read_normalizer_spec(*field.bytes, spec, encoding);
    return true;
  });
  std::erase_if(spec.marks, [&](const std::string& mark) {
    return std::ranges::find(encoding.user_symbols, mark) != encoding.user_symbols.end();
  });
  spec.has_charsmap = !encoding.charsmap.empty();
  spec.is_counted = spec.has_usual_blanks && encoding.has_usual_pieces && has_counted_normalizer(spec, encoding);
  return spec;
}

std::string write_counted_model(VocabType type, const std::vector<CountedPiece>& pieces,
                                const std::vector<std::string>& control_pieces) {
  double total = 0;
  for (const CountedPiece& piece : pieces) total += static_cast<double>(piece.count);
  std::string model;
  put_protobuf_bytes(model, proto::kPieces, piece_message("</s>", 0, proto::kControlPiece));
  put_protobuf_bytes(model, proto::kPieces, piece_message("<unk>", 0, proto::kUnknownPiece));
  for (const std::string& piece : control_pieces)
    put_protobuf_bytes(model, proto::kPieces, piece_message(piece, 0, proto::kControlPiece));
  for (const CountedPiece& piece : pieces) {
    const double score = std::log(static_cast<double>(piece.count) / total);
    put_protobuf_bytes(model, proto::kPieces, piece_message(piece.text, score, proto::kNormalPiece));
  }
  put_protobuf_bytes(model, proto::kTrainerSpec, trainer_spec(type, pieces.size() + control_pieces.size() + 2));
  put_protobuf_bytes(model, proto::kNormalizerSpec, normalizer_spec(type));
  return model;
}

}  // namespace fovea::text

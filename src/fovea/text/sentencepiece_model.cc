#include "fovea/text/sentencepiece_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/protobuf.h"
#include "fovea/base/strings.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

// A double array of darts-clone (see sentencepiece_check.cc). Each beginning of a key has a block of 256 units, in
// which the unit of the next byte has that byte as its number. No key begins with another one; all have the value 0,
// which is the first unit of the last block.
class WhiteSpaceTrie {
 public:
  WhiteSpaceTrie() {
    for (const std::string_view space : kWhiteSpaces) number_beginnings(space);
    number_beginnings(kBlankSign);
    units_.resize(kBlock * (blocks_.size() + 2));
    units_[0] = offset_bits(0, blocks_[""]);
    for (const auto& [beginning, block] : blocks_) units_[kBlock * block] = kNoLabel;
    units_[kBlock * value_block()] = kIsValue;
    for (const std::string_view space : kWhiteSpaces) add(space);
    add(kBlankSign);
  }
  const std::vector<uint32_t>& units() const { return units_; }

 private:
  static constexpr uint32_t kBlock = 256, kHasLeaf = 1U << 8, kIsValue = 1U << 31;
  static constexpr uint32_t kNoLabel = 0xff;  // at the place of byte 0

  static uint32_t offset_bits(uint32_t unit, uint32_t block) { return (unit ^ (kBlock * block)) << 10; }
  uint32_t value_block() const { return static_cast<uint32_t>(blocks_.size()) + 1; }

  void number_beginnings(std::string_view key) {
    for (size_t size = 0; size < key.size(); ++size)
      blocks_.emplace(key.substr(0, size), static_cast<uint32_t>(blocks_.size()) + 1);
  }

  void add(std::string_view key) {
    for (size_t size = 0; size < key.size(); ++size) {
      const auto byte = static_cast<unsigned char>(key[size]);
      const uint32_t unit = kBlock * blocks_[key.substr(0, size)] + byte;
      const bool is_last = size + 1 == key.size();
      const uint32_t next = is_last ? value_block() : blocks_[key.substr(0, size + 1)];
      units_[unit] = offset_bits(unit, next) | (is_last ? kHasLeaf : 0) | byte;
    }
  }

  std::map<std::string_view, uint32_t> blocks_;  // by the beginning of keys, from 1
  std::vector<uint32_t> units_;
};

// SentencePiece's compiled form of the rule that each of kWhiteSpaces, and U+2581, which is the library's sign of a
// blank, becomes a blank.
std::string white_space_charsmap() {
  const std::vector<uint32_t> units = WhiteSpaceTrie().units();
  const auto size = static_cast<uint32_t>(units.size() * sizeof(units[0]));
  std::string map(sizeof(size) + size, '\0');
  std::memcpy(map.data(), &size, sizeof(size));
  std::memcpy(map.data() + sizeof(size), units.data(), size);
  return map + std::string(" \0", 2);
}

// A model, its trainer's and its normalizer's spec, as far as they decide how text is encoded.
struct Encoding {
  bool has_usual_pieces = true;
  std::string_view charsmap;
  std::set<std::string_view> user_symbols;  // of the training
};

void read_piece(std::string_view message, ModelSpec& spec, Encoding& encoding) {
  bool is_of_user = false, is_control = false;
  std::string_view text;
  all_protobuf_fields(message, [&](const ProtobufField& field) {
    if (field.number == proto::kPieceText && field.bytes) text = *field.bytes;
    if (field.number != proto::kPieceKind || !field.value) return true;
    encoding.has_usual_pieces &= *field.value >= proto::kNormalPiece && *field.value <= proto::kControlPiece;
    is_of_user = *field.value == proto::kUserPiece;
    is_control = *field.value == proto::kControlPiece;
    return true;
  });
  spec.has_plain_blanks |= is_of_user && text.find(' ') != std::string_view::npos;
  if ((is_of_user || is_control) && is_language_mark(text)) spec.marks.emplace_back(text);
}

void read_trainer_spec(std::string_view message, ModelSpec& spec, Encoding& encoding) {
  all_protobuf_fields(message, [&](const ProtobufField& field) {
    if (field.number == proto::kUserSymbols && field.bytes) encoding.user_symbols.insert(*field.bytes);
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

std::string language_mark(std::string_view code) { return cat(">>", code, "<<"); }

std::string code_of_mark(std::string_view mark) { return std::string(mark.substr(2, mark.size() - 4)); }

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
  std::erase_if(spec.marks, [&](const std::string& mark) { return encoding.user_symbols.contains(mark); });
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

#include "fovea/text/piece_order.h"

#include <unordered_map>

#include "fovea/base/error.h"
#include "fovea/base/protobuf.h"
#include "fovea/base/strings.h"
#include "fovea/text/sentencepiece_model.h"

namespace fovea::text {
namespace {

struct Piece {
  std::string_view message;
  uint64_t kind = proto::kNormalPiece;
  bool used = false;
};

// The pieces of a model, and its other fields as they are.
struct Parts {
  std::unordered_map<std::string_view, Piece> pieces;
  std::string rest;
};

Parts parts_of(std::string_view model, const std::string& name) {
  Parts parts;
  const bool sound = all_protobuf_fields(model, [&](const ProtobufField& field) {
    if (field.number != proto::kPieces) {
      // The model's own test texts have the numbers of its pieces.
      if (field.bytes && (field.number <= proto::kNormalizerSpec || field.number == proto::kDenormalizerSpec))
        put_protobuf_bytes(parts.rest, field.number, *field.bytes);
      return true;
    }
    if (!field.bytes) return false;
    Piece piece{.message = *field.bytes};
    std::string_view text;
    const bool is_message = all_protobuf_fields(piece.message, [&](const ProtobufField& own) {
      if (own.number == proto::kPieceText && own.bytes) text = *own.bytes;
      if (own.number == proto::kPieceKind && own.value) piece.kind = *own.value;
      return true;
    });
    parts.pieces.emplace(text, piece);
    return is_message;
  });
  if (!sound) throw Error(cat(name, ": is not a SentencePiece model, or is cut short"));
  return parts;
}

std::string new_piece(std::string_view text, NewPieces how) {
  uint64_t kind = proto::kUnusedPiece;
  if (is_language_mark(text)) kind = proto::kUserPiece;
  if (text == "<pad>" || text == "</s>" || how == NewPieces::kPrintNothing) kind = proto::kControlPiece;
  std::string message;
  put_protobuf_bytes(message, proto::kPieceText, text);
  put_protobuf_float(message, proto::kPieceScore, 0);
  put_protobuf_number(message, proto::kPieceKind, static_cast<int64_t>(kind));
  return message;
}

}  // namespace

OrderedModel with_piece_order(std::string_view model, const std::vector<std::string>& pieces, const std::string& name,
                              NewPieces new_pieces) {
  Parts parts = parts_of(model, name);
  OrderedModel ordered;
  bool has_unknown = false, has_end = false;
  for (const std::string& text : pieces) {
    const auto found = parts.pieces.find(text);
    has_end |= text == "</s>";
    if (found == parts.pieces.end()) {
      put_protobuf_bytes(ordered.bytes, proto::kPieces, new_piece(text, new_pieces));
      continue;
    }
    if (found->second.used) throw Error(cat(name, ": the piece '", text, "' has two numbers"));
    found->second.used = true;
    has_unknown |= found->second.kind == proto::kUnknownPiece;
    put_protobuf_bytes(ordered.bytes, proto::kPieces, found->second.message);
  }
  if (!has_unknown) throw Error(cat(name, ": the list of pieces lacks the model's piece for unknown text, '<unk>'"));
  if (!has_end) throw Error(cat(name, ": the list of pieces lacks '</s>'"));
  for (const auto& [text, piece] : parts.pieces)
    ordered.dropped += !piece.used && piece.kind == proto::kNormalPiece ? 1 : 0;
  ordered.bytes += parts.rest;
  return ordered;
}

}  // namespace fovea::text

#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// SentencePiece models whose pieces other systems number in another way than the model does.
namespace fovea::text {

struct OrderedModel {
  std::string bytes;    // the serialised model
  int64_t dropped = 0;  // normal pieces of the first model that the list does not have
};

// The model with its pieces in the order of `pieces`, which must have </s> and the model's piece for unknown text. It
// splits text as before, as long as no piece is dropped. Pieces of the list that the model does not have are never made
// from text: ">>de<<", a mark of the wanted language, is the exception, and stands for itself in the text. At the
// beginning of a line, a mark stands alone, and what follows is split as a line of its own (Vocab). <pad> and </s>
// print nothing, and with kPrintNothing no piece that the model does not have does, marks neither. Throws an Error that
// begins with `name`.
enum class NewPieces : uint8_t { kPrintTheirName, kPrintNothing };
OrderedModel with_piece_order(std::string_view model, const std::vector<std::string>& pieces, const std::string& name,
                              NewPieces new_pieces = NewPieces::kPrintTheirName);

}  // namespace fovea::text

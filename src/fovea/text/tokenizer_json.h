#pragma once
#include <span>
#include <string>
#include <vector>

#include "fovea/text/wordpiece.h"

namespace fovea::text {

// Returns the model of a tokenizer.json's text, the form of Hugging Face's library `tokenizers`. Throws an Error that
// begins with `origin` if it is not a WordPiece tokeniser with BERT's normaliser and words, or if a value is not of its
// type or range.
WordPieceModel parse_tokenizer_json(const std::string& json, const std::string& origin);

// Lists of added tokens in JSON, as in tokenizer.json and as checkpoints keep them.
std::vector<AddedToken> parse_added_tokens(const std::string& json, const std::string& origin);
std::string print_added_tokens(std::span<const AddedToken> tokens);

}  // namespace fovea::text

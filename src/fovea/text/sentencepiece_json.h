#pragma once
#include <string>
#include <string_view>
#include <vector>

// NLLB's tokenizer.json, the form in which the library `tokenizers` has a SentencePiece model of BPE. Each function
// throws an Error that begins with `origin` for another kind of tokeniser, and for a value that is not of its type or
// range.
namespace fovea::text {

// The tokens by their numbers: those of the model, and the added tokens, of which codes of languages such as deu_Latn
// are marks, >>deu_Latn<<.
std::vector<std::string> parse_nllb_pieces(const std::string& json, const std::string& origin);

// Whether a text has the form of NLLB's codes of languages, such as eng_Latn.
bool is_nllb_code(std::string_view text);

// The serialised SentencePiece model that splits text like the tokeniser. It has the pieces of text, <unk>, <s> and
// </s>, in an order of its own.
std::string parse_nllb_model(const std::string& json, const std::string& origin);

}  // namespace fovea::text

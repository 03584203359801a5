#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "fovea/text/byte_pairs.h"

namespace fovea::text {

// Reads a tokenizer.json of the library `tokenizers` with a BPE model: of bytes, as GPT-2, Llama 3 and Qwen have, or of
// characters with byte fallback, as Llama 2 and Mistral have.
// Throws an Error that begins with `origin` for another kind of tokeniser, a part that is not known, or a value that is
// not of its type or range.
BytePairModel parse_byte_pairs_json(const std::string& json, const std::string& origin);

// Whether a tokenizer.json has a BPE model.
bool is_byte_pairs_json(const std::string& json, const std::string& origin);

// A token that a tokenizer_config.json names ("eos_token"), as a text or as an object with its content.
std::optional<std::string> token_of_config(const std::string& json, const std::string& name, const std::string& origin);
// Whether a tokenizer_config.json says that the token bos_token begins every text; none if it says nothing.
std::optional<bool> add_bos_of_config(const std::string& json, const std::string& origin);

}  // namespace fovea::text

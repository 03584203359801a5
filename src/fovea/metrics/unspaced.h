#pragma once
#include <span>
#include <string>
#include <string_view>

// Text in scripts that put no blanks between words, such as Chinese, Japanese and Thai.
namespace fovea::metrics {

// The tokenizer that gives BLEU words for the references, if `tokenize` would take whole clauses for words: "zh" for
// Chinese, "char" for the other scripts. Empty if `tokenize` is right, or if the words of the text stand apart already.
std::string_view better_tokenizer(std::span<const std::string> references, std::string_view tokenize);

// The hint to use `better` for the option of that name.
std::string unspaced_message(std::string_view option, std::string_view tokenize, std::string_view better);

}  // namespace fovea::metrics

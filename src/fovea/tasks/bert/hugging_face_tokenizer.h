#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "fovea/text/encoder_vocab.h"

// The tokeniser of a folder in the form of Hugging Face's `transformers`: tokenizer.json, as transformers 5 writes it,
// or vocab.txt, each with tokenizer_config.json and older files beside it, if they are there.
namespace fovea::bert {

struct FolderTokenizer {
  text::EncoderVocab vocab;
  std::string file;  // with the pieces, for messages
};

// If both files are there, tokenizer.json counts. Throws an Error of one line that names the file and the field for
// what is missing, damaged, or not BERT's tokeniser.
FolderTokenizer read_tokenizer(const std::filesystem::path& folder);

// Writes vocab.txt and tokenizer_config.json. Throws an Error if the two cannot express the tokeniser.
void require_writable_tokenizer(const text::EncoderVocab& vocab);
void write_tokenizer(const text::EncoderVocab& vocab, int64_t most_tokens, const std::filesystem::path& folder);

}  // namespace fovea::bert

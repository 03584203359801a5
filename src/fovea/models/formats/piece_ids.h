#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/models/formats/foreign_model.h"

// The numbers that other systems give to the pieces of SentencePiece models.
namespace fovea::models {

struct VocabPair {
  text::Vocab source, target;
};

// The pieces in the order of their numbers: of a vocab.json or an OPUS-MT vocab.yml ("piece: number"), or of a list in
// JSON (CTranslate2's vocabularies). Throws an Error that begins with the file's name if numbers are missing or given
// twice.
std::vector<std::string> read_piece_list(const std::string& path);

// `model` with its pieces in the order of `pieces`. Warns about pieces of the model that the list lacks.
text::Vocab ordered_vocab(const std::string& model, const std::vector<std::string>& pieces);

// The vocabularies that `files.vocabs` names, with the numbers of `files.vocab_ids`, if it is given.
VocabPair read_vocabs(const ForeignFiles& files);

}  // namespace fovea::models

#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fovea/text/vocab.h"

namespace fovea::text {

// A line as pieces that know their words. Words stand between ASCII white space, as in files of word alignments.
struct WordPieces {
  std::vector<int64_t> pieces;  // token ids without </s>; none if the line is empty (base/empty_line.h)
  std::vector<int64_t> words;   // the word of each piece, from 0, never falling
  int64_t num_words = 0;
};

// Returns the pieces of encode(). A piece belongs to the word in which its text begins, whatever the vocabulary's
// normalisation made of the text; a piece that is only a blank belongs to the word behind it.
WordPieces encode_words(const Vocab& vocab, std::string_view line);

// Like encode_words(), for pieces that a model produced; the words are those of the text that they spell.
WordPieces words_of_pieces(const Vocab& vocab, std::span<const int64_t> pieces);

// Leaves out the pieces after the first `most`; the words stay as many.
void cut(WordPieces& line, int64_t most);

}  // namespace fovea::text

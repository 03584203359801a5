#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/search/beam.h"
#include "fovea/spec/beam_config.h"
#include "fovea/text/vocab.h"

// Texts that a model has written, and how commands print them.
namespace fovea::models {

struct WrittenText {
  std::string text;
  double log_prob = 0, score = 0;  // as the search has them (search/beam.h)
};

// The text of tokens as one line: a vocabulary with --byte-fallback can spell the end of a line.
std::string line_of(const text::Vocab& vocab, const std::vector<int64_t>& tokens);
WrittenText written_text(const text::Vocab& vocab, const search::Hypothesis& hypothesis);

// The lines of print_texts().
std::string printed_texts(const BeamConfig& form, int64_t number, std::span<const WrittenText> best);

// Prints the texts of input `number` (from 0), best first, in the form that --n-best or --scores asks for: all of them,
// or the best one with its score, or that alone.
void print_texts(LineWriter& output, const BeamConfig& form, int64_t number, std::span<const WrittenText> best);

// Call this when an exception ends the work after the texts of `inputs` inputs, such as "3,200 lines", were written:
// keeps them under a name that says that the file is partial, and warns. Throws nothing.
void keep_partial(LineWriter& output, const std::string& inputs) noexcept;

// Whether progress can be shown: between texts on a terminal it would be in their way. `output` is the option's value.
bool has_room_for_progress(const std::string& output);

}  // namespace fovea::models

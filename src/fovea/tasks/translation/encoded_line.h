#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "fovea/models/batches.h"
#include "fovea/spec/model_config.h"
#include "fovea/text/vocab.h"

// Lines as a model of translation reads them, and the warnings about cut and odd lines.
namespace fovea::translation {

using models::Sentence;

// Token ids of a line, at most max_length of them, and </s>. An empty line (base/empty_line.h) is </s> alone.
struct Encoded {
  Sentence tokens;
  int64_t cut_from = 0;  // the line's length in tokens, if it was cut
};
Encoded encode_line(const text::Vocab& vocab, const std::string& line, int64_t max_length);
Encoded with_limit(Sentence tokens, int64_t eos, int64_t max_length);  // of all tokens of a line, without </s>

// The number of tokens of a line that are read.
struct LineLimit {
  int64_t tokens = 0;
  std::string_view set_by;  // an option, or the model
};
LineLimit line_limit(const ModelConfig& model, int64_t max_length);
std::string cut_message(const Encoded& encoded, const LineLimit& limit);
void warn_of_cut_lines(int64_t count, const LineLimit& limit);  // at the end, of all; none is no warning

std::string unknown_message(int64_t tokens);  // "2 tokens are text that the vocabulary lacks"
std::string count_lines(int64_t count);       // "1 line", "2,000 lines"

// Counts lines with something odd about them; warns of the first few.
class LineWarnings {
 public:
  void warn(int64_t line, std::string_view what);  // "line 7 " and what; line: its number, from 1
  int64_t count() const { return count_; }

 private:
  int64_t count_ = 0;
};

}  // namespace fovea::translation

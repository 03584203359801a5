#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "fovea/serve/request_fields.h"
#include "fovea/tasks/language/completion.h"
#include "fovea/text/unit_decoder.h"
#include "fovea/text/units.h"

namespace fovea::serve {

// OpenAI's form of log-probabilities, for a text whose tokens come in parts. The tokens together are the text. A token
// that is only a part of a character is shown as its bytes, such as "bytes:\xe2\x82".
class TokenLogProbs {
 public:
  explicit TokenLogProbs(const text::Units& units) : units_(&units), decoder_(units) {}

  // The text begins behind these units.
  void skip(std::span<const int64_t> units);
  // The lists "tokens", "token_logprobs", "top_logprobs" and "text_offset" of the next tokens. An offset counts the
  // characters of the text before the one that the token begins or continues.
  Json add(std::span<const language::CompletionUnit> units);

 private:
  std::string token_text(int64_t unit);
  // Whether the next byte of the text belongs to the character that the bytes before it began.
  bool continues_character(char byte);

  const text::Units* units_;
  text::UnitDecoder decoder_;
  int64_t characters_ = 0;  // that the tokens so far have begun
  std::string open_;        // bytes of a character that is not whole yet
};

}  // namespace fovea::serve

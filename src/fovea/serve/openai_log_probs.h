#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/serve/context.h"
#include "fovea/tasks/language/engine.h"
#include "fovea/text/unit_decoder.h"

namespace fovea::serve {

// OpenAI's form of log-probabilities, for a text whose tokens come in parts. The tokens together are the text. A token
// that is only a part of a character is shown as its bytes, such as "bytes:\xe2\x82".
class TokenLogProbs {
 public:
  explicit TokenLogProbs(const language::CompletionEngine& engine) : engine_(&engine), decoder_(engine.model().units) {}

  // The text begins behind these units.
  void skip(std::span<const int64_t> units);
  // The lists "tokens", "token_logprobs", "top_logprobs" and "text_offset" of the next tokens. An offset counts the
  // characters of the text before the one that the token begins or continues.
  Json add(std::span<const language::CompletionUnit> units);

 private:
  std::string token_text(int64_t unit);

  const language::CompletionEngine* engine_;
  text::UnitDecoder decoder_;
  int64_t characters_ = 0;  // that the tokens so far have begun
};

// Appends the lists of `next` to those of `all`, which may be null.
void append_log_probs(Json& all, Json next);

}  // namespace fovea::serve

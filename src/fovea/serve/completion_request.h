#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/serve/context.h"
#include "fovea/tasks/language/completion.h"

// The parts that requests of OpenAI's clients for texts of a language model share: completions and chats.
namespace fovea::serve {

// The wishes of a request for all its texts.
struct CompletionWishes {
  std::string model;
  int64_t count = 1;                 // texts for each prompt
  std::optional<int64_t> log_probs;  // alternatives beside each unit
  bool echo = false, streams = false, shows_usage = false;
  bool is_chat = false;
  bool scores_prompt() const { return echo && log_probs; }
};

// Throws an HttpError for wishes that the models do not know.
CompletionWishes wishes_of(const Fields& fields, const std::string& model);

// A request without its prompt and seed; `usual_units` if it does not say how many units it wants.
language::CompletionRequest request_of(const Fields& fields, const CompletionWishes& wishes,
                                       const ServeOptions& options, int64_t usual_units);

// The units of a prompt's text, without the one that begins a text.
std::vector<int64_t> encoded_prompt(const ServedModel& model, const std::string& prompt);

// The seed that a request names, or a random one.
int64_t seed_of(const Fields& fields);

// Throws an HttpError if the model has no room for `units` behind a prompt.
void require_room(const ServedModel& model, int64_t prompt, int64_t units);

}  // namespace fovea::serve

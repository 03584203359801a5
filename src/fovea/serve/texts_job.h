#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/serve/completion_request.h"
#include "fovea/serve/token_log_probs.h"

namespace fovea::serve {

// A text that grows.
struct Choice {
  std::string text;  // without the prompt
  std::optional<language::CompletionEnd> end;
  std::optional<TokenLogProbs> scores;  // if log-probabilities are wanted
  Json log_probs;                       // of all parts so far; not of a stream
};

// The texts that a language model makes for a request, which answers at once or as a stream of events, as completions
// or as messages of a chat.
struct TextsJob : Job {
  using Job::Job;
  PartInput input(size_t part) override { return requests[part]; }
  void take(size_t part, PartOutput& output) override;
  void fail(const JobFailure& failure) override {
    exchange->answer(kOpenAi.refusal(failure.status, failure.message, {}));
  }
  double work(size_t part) const override;
  double least_steps() const override;
  bool may_end_early(size_t part) const;
  double prompt_pieces(size_t part) const;  // steps that read the prompt, if no beginning of it is known
  // Adds a text: a request with its prompt and seed.
  void add(language::CompletionRequest request);

  std::vector<language::CompletionRequest> requests;
  CompletionWishes wishes;
  Json head;                         // of each object that is sent
  std::vector<std::string> prompts;  // as texts
  std::vector<Choice> choices;
  int64_t prompt_units = 0, new_units = 0;
  int64_t kept_units = 0;    // of the prompts, whose states were kept
  bool may_be_kept = false;  // the model may know the beginnings of prompts
  size_t left = 0;
  bool has_begun = false;  // the stream; of the worker's thread
};

// Queues a job whose texts are there. `object` is the name of the answer's form: "text_completion".
void queue_texts(Context& context, const std::shared_ptr<TextsJob>& job, const char* object);

}  // namespace fovea::serve

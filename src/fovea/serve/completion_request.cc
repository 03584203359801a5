#include "fovea/serve/completion_request.h"

#include <algorithm>
#include <random>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/serve/openai.h"
#include "fovea/text/utf8.h"

namespace fovea::serve {
namespace {

// Refuses the settings of other servers that would change the text, unless they have the value that changes nothing.
void refuse_other_sampling(const Fields& fields) {
  struct Setting {
    const char* name;
    double neutral;
  };
  for (const Setting& setting : {Setting{"min_p", 0},
                                 {"repetition_penalty", 1},
                                 {"repeat_penalty", 1},
                                 {"length_penalty", 1},
                                 {"typical_p", 1},
                                 {"tfs_z", 1},
                                 {"mirostat", 0},
                                 {"min_tokens", 0},
                                 {"prompt_logprobs", 0}}) {
    const auto given = fields.number(setting.name, -1e9, 1e9);
    if (given && *given != setting.neutral)
      throw HttpError(400,
                      cat(setting.name, ": got ", shortest(*given),
                          "; the models do not know it; leave it out, or send ", shortest(setting.neutral)),
                      setting.name);
  }
  for (const char* const name :
       {"use_beam_search", "ignore_eos", "stop_token_ids", "bad_words", "allowed_token_ids", "grammar", "json_schema",
        "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "response_format"})
    fields.refuse(name, "the models do not know it; leave it out");
}

// Every text of the request looks for each stop behind each token, so they are few and short.
std::vector<std::string> stops_of(const Fields& fields) {
  constexpr size_t kMostStops = 64, kMostStopBytes = 2000;
  std::vector<std::string> stops = fields.texts("stop");
  if (std::ranges::find(stops, "") != stops.end())
    throw HttpError(400, "stop: got an empty text; expected words that end the completion", "stop");
  size_t bytes = 0;
  for (const std::string& stop : stops) bytes += stop.size();
  if (stops.size() > kMostStops || bytes > kMostStopBytes)
    throw HttpError(400,
                    cat("stop: got ", stops.size(), " texts of ", bytes, " bytes together; expected at most ",
                        kMostStops, " of ", kMostStopBytes, " bytes"),
                    "stop");
  return stops;
}

}  // namespace

std::vector<int64_t> encoded_prompt(const ServedModel& model, const std::string& prompt) {
  const text::Units& units = model.texts().units();
  if (!units.is_bytes() && !is_valid_utf8(prompt))
    throw HttpError(400,
                    cat("prompt: got bytes that are not UTF-8; the model reads ", units.unit_name(),
                        "s; convert the prompt to UTF-8"),
                    "prompt");
  std::vector<int32_t> ids;
  units.encode(prompt, ids);
  return {ids.begin(), ids.end()};
}

CompletionWishes wishes_of(const Fields& fields, const std::string& model) {
  CompletionWishes wishes;
  wishes.model = model;
  wishes.count = fields.whole("n", 1, 128).value_or(1);
  wishes.echo = fields.truth("echo").value_or(false);
  wishes.streams = fields.truth("stream").value_or(false);
  wishes.shows_usage = wants_stream_usage(fields);
  for (const char* const name : {"suffix", "logit_bias"})
    fields.refuse(name, "the models do not know it; leave it out");
  for (const char* const name : {"presence_penalty", "frequency_penalty"})
    if (fields.number(name, -2, 2).value_or(0) != 0) throw HttpError(400, cat(name, ": expected 0"), name);
  refuse_other_sampling(fields);
  const auto best_of = fields.whole("best_of", 1, 1000);
  if (best_of && *best_of != wishes.count) throw HttpError(400, "best_of: expected the value of n", "best_of");
  return wishes;
}

language::CompletionRequest request_of(const Fields& fields, const CompletionWishes& wishes,
                                       const ServeOptions& options, int64_t usual_units) {
  language::CompletionRequest request;
  request.max_units =
      fields.whole("max_tokens", 0, options.max_new_tokens).value_or(std::min(usual_units, options.max_new_tokens));
  request.choice.temperature = fields.number("temperature", 0, 1e6).value_or(1);
  request.choice.top_p = fields.number("top_p", 0, 1).value_or(1);
  if (request.choice.top_p == 0)
    throw HttpError(400, "top_p: got 0; expected a probability above 0, at most 1", "top_p");
  // Other servers take -1 for all units, too.
  request.choice.top_k = std::max<int64_t>(fields.whole("top_k", -1, 1'000'000'000).value_or(0), 0);
  if (fields.has("stop")) request.stop = stops_of(fields);
  request.num_top = wishes.log_probs;
  request.scores_prompt = wishes.scores_prompt() || request.max_units == 0;
  request.allow_unk = options.allow_unk;
  return request;
}

void require_room(const ServedModel& model, int64_t prompt, int64_t units) {
  const std::optional<int64_t> longest = model.texts().longest(prompt);
  if (longest && units > *longest)
    throw HttpError(400,
                    cat("max_tokens: got ", units, " behind a prompt of ", prompt, " tokens; the model has room for ",
                        std::max<int64_t>(*longest, 0)),
                    "max_tokens");
}

int64_t seed_of(const Fields& fields) {
  if (const auto seed = fields.whole("seed", -(int64_t{1} << 53), int64_t{1} << 53)) return *seed;
  std::random_device random;
  return static_cast<int64_t>(random());
}

}  // namespace fovea::serve

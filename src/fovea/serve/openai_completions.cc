// POST /v1/completions: texts that a language model continues, at once or as a stream of events.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/models/draft_seed.h"
#include "fovea/serve/context.h"
#include "fovea/serve/openai.h"
#include "fovea/serve/token_log_probs.h"
#include "fovea/serve/translate_texts.h"
#include "fovea/text/unit_decoder.h"
#include "fovea/text/utf8.h"

namespace fovea::serve {
namespace {

// Appends the lists of `next` to those of `all`, which may be null.
void append_log_probs(Json& all, Json next) {
  if (all.is_null()) {
    all = std::move(next);
    return;
  }
  for (auto& [name, list] : next.items()) all[name].insert(all[name].end(), list.begin(), list.end());
}

using Prompts = std::vector<std::vector<int64_t>>;

// The wishes of a request for all its texts.
struct CompletionWishes {
  std::string model;
  int64_t count = 1;                 // texts for each prompt
  std::optional<int64_t> log_probs;  // alternatives beside each unit
  bool echo = false, streams = false, shows_usage = false;
  bool scores_prompt() const { return echo && log_probs; }
};

// A text that grows.
struct Choice {
  std::string text;  // without the prompt
  std::optional<language::CompletionEnd> end;
  std::optional<TokenLogProbs> scores;  // if log-probabilities are wanted
  Json log_probs;                       // of all parts so far; not of a stream
};

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

  std::vector<language::CompletionRequest> requests;
  CompletionWishes wishes;
  Json head;                         // of each object that is sent
  std::vector<std::string> prompts;  // as texts
  std::vector<Choice> choices;
  int64_t prompt_units = 0, new_units = 0;
  size_t left = 0;
  bool has_begun = false;  // the stream; of the worker's thread
};

// The units that a text adds, each in a step of its own, and the pieces of its prompt, whose last one is read in the
// first of these steps. A text that may end early is as long as the model's other texts.
double TextsJob::work(size_t part) const {
  const language::CompletionRequest& request = requests[part];
  const auto pieces = static_cast<double>(std::ssize(request.prompt) / models::kPromptPiece);
  const auto most = static_cast<double>(request.max_units);
  return pieces + (may_end_early(part) ? std::min(most, model->pace().mean_text()) : most);
}

double TextsJob::least_steps() const {
  double most = 0;
  for (size_t part = 0; part < requests.size(); ++part)
    if (!may_end_early(part)) most = std::max(most, work(part));
  return most;
}

bool TextsJob::may_end_early(size_t part) const { return model->texts().ends_texts() || !requests[part].stop.empty(); }

std::vector<int64_t> encoded(const ServedModel& model, const std::string& prompt) {
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

std::vector<int64_t> units_of(const Json& list, int64_t size) {
  std::vector<int64_t> units;
  for (const Json& unit : list) {
    if (!unit.is_number_integer() || unit < 0 || unit >= size)
      throw HttpError(400, cat("prompt: got ", text::shown_json(unit), "; expected tokens from 0 to ", size - 1),
                      "prompt");
    units.push_back(unit.get<int64_t>());
  }
  return units;
}

// A prompt is a text, a list of texts, a list of tokens, or a list of these.
Prompts prompts_of(const Fields& fields, const ServedModel& model) {
  const Json* const value = fields.find("prompt");
  const int64_t size = model.texts().units().size();
  if (value == nullptr) return {{}};
  if (value->is_string()) return {encoded(model, value->get<std::string>())};
  if (!value->is_array() || value->empty())
    throw HttpError(400, cat("prompt: got ", text::shown_json(*value), "; expected a text, texts, or tokens"),
                    "prompt");
  if (value->front().is_number()) return {units_of(*value, size)};
  Prompts prompts;
  for (const Json& item : *value) {
    if (item.is_string()) {
      prompts.push_back(encoded(model, item.get<std::string>()));
    } else if (item.is_array()) {
      prompts.push_back(units_of(item, size));
    } else {
      throw HttpError(400, cat("prompt: got ", text::shown_json(item), "; expected a text or a list of tokens"),
                      "prompt");
    }
  }
  return prompts;
}

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

CompletionWishes wishes_of(const Fields& fields, const std::string& model) {
  CompletionWishes wishes;
  wishes.model = model;
  wishes.count = fields.whole("n", 1, 128).value_or(1);
  wishes.log_probs = fields.whole("logprobs", 0, 20);
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

language::CompletionRequest request_of(const Fields& fields, const CompletionWishes& wishes,
                                       const ServeOptions& options) {
  language::CompletionRequest request;
  request.max_units =
      fields.whole("max_tokens", 0, options.max_new_tokens).value_or(std::min<int64_t>(16, options.max_new_tokens));
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

Json reason_json(const std::optional<language::CompletionEnd>& end) {
  if (!end) return nullptr;
  return *end == language::CompletionEnd::kStop ? "stop" : "length";
}

Json completion_usage(const TextsJob& job) {
  return {{"prompt_tokens", job.prompt_units},
          {"completion_tokens", job.new_units},
          {"total_tokens", job.prompt_units + job.new_units}};
}

// The characters of a prompt. Bytes that begin another one at its end belong to the text behind it.
std::string text_of(const ServedModel& model, const std::vector<int64_t>& prompt) {
  text::UnitDecoder decoder(model.texts().units());
  std::string text;
  for (const int64_t unit : prompt) text += decoder.push(unit);
  return text;
}

Choice new_choice(const TextsJob& job, const std::vector<int64_t>& prompt) {
  Choice choice;
  if (!job.wishes.log_probs) return choice;
  choice.scores.emplace(job.model->texts().units());
  if (!job.wishes.echo) choice.scores->skip(prompt);
  return choice;
}

const std::string& prompt_of(const TextsJob& job, size_t index) {
  return job.prompts[index / static_cast<size_t>(job.wishes.count)];
}

void send_part(TextsJob& job, size_t index, const language::CompletionPart& part, Json log_probs) {
  if (part.text.empty() && log_probs.is_null() && !part.end) return;
  Json event = job.head;
  event["choices"] = Json::array({{{"index", index},
                                   {"text", part.text},
                                   {"logprobs", std::move(log_probs)},
                                   {"finish_reason", reason_json(part.end)}}});
  job.exchange->push(event_text(event));
}

void end_stream(TextsJob& job) {
  if (job.wishes.shows_usage) {
    Json event = job.head;
    event["choices"] = Json::array();
    event["usage"] = completion_usage(job);
    job.exchange->push(event_text(event));
  }
  job.exchange->push("data: [DONE]\n\n");
  job.exchange->end();
}

void answer_whole(TextsJob& job) {
  Json answer = job.head;
  answer["choices"] = Json::array();
  for (size_t i = 0; i < job.choices.size(); ++i) {
    const Choice& choice = job.choices[i];
    answer["choices"].push_back({{"index", i},
                                 {"text", (job.wishes.echo ? prompt_of(job, i) : "") + choice.text},
                                 {"logprobs", choice.log_probs},
                                 {"finish_reason", reason_json(choice.end)}});
  }
  answer["usage"] = completion_usage(job);
  job.exchange->answer(json_response(answer));
}

void begin_stream(TextsJob& job) {
  job.exchange->begin(event_stream());
  if (!job.wishes.echo) return;
  for (size_t i = 0; i < job.choices.size(); ++i) {
    language::CompletionPart part;
    part.text = prompt_of(job, i);
    send_part(job, i, part, {});
  }
}

void take_part(TextsJob& job, size_t index, const language::CompletionPart& part) {
  // A stream begins with its first part: before it, a refusal can still have its status.
  if (job.wishes.streams && !std::exchange(job.has_begun, true)) begin_stream(job);
  Choice& choice = job.choices[index];
  Json log_probs;
  if (choice.scores) {
    if (job.wishes.scores_prompt()) append_log_probs(log_probs, choice.scores->add(part.prompt));
    append_log_probs(log_probs, choice.scores->add(part.units));
  }
  if (job.wishes.streams) {
    send_part(job, index, part, std::move(log_probs));
  } else if (choice.scores) {
    append_log_probs(choice.log_probs, std::move(log_probs));
  }
  choice.text += part.text;
  job.new_units += std::ssize(part.units);
  if (!part.end) return;
  choice.end = part.end;
  if (--job.left > 0) return;
  if (job.wishes.streams) {
    end_stream(job);
  } else {
    answer_whole(job);
  }
}

void TextsJob::take(size_t part, PartOutput& output) {
  take_part(*this, part, std::get<language::CompletionPart>(output));
}

int64_t seed_of(const Fields& fields) {
  if (const auto seed = fields.whole("seed", -(int64_t{1} << 53), int64_t{1} << 53)) return *seed;
  std::random_device random;
  return static_cast<int64_t>(random());
}

// A text takes a row for each --max-new-tokens tokens of its prompt and its end, because a row's memory grows with
// them.
int64_t rows_of(const TextsJob& job, const ServeOptions& options) {
  const int64_t tokens_of_a_row = std::max(options.max_new_tokens, options.mini_batch_words);
  int64_t rows = 1;
  for (const language::CompletionRequest& request : job.requests)
    rows = std::max(rows, (std::ssize(request.prompt) + request.max_units) / tokens_of_a_row);
  return rows;
}

}  // namespace

void complete(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Fields fields(exchange->request());
  const auto name = fields.text("model");
  if (!name) throw HttpError(400, "model is missing; GET /v1/models lists the names", "model");
  const auto job = std::make_shared<TextsJob>(exchange, context.models.named(*name));
  if (job->model->translates())
    throw HttpError(400, cat("model: '", *name, "' translates; use /translate or /v1/chat/completions"), "model");
  job->wishes = wishes_of(fields, *name);
  language::CompletionRequest request = request_of(fields, job->wishes, context.options);
  const Prompts prompts = prompts_of(fields, *job->model);
  const int64_t seed = seed_of(fields), count = job->wishes.count, total = count * std::ssize(prompts);
  if (total > context.options.max_texts)
    throw HttpError(413, cat("got ", total, " texts to make; expected at most ", context.options.max_texts), "prompt");
  for (const std::vector<int64_t>& prompt : prompts) {
    require_waiting(*exchange);
    require_room(*job->model, std::ssize(prompt), request.max_units);
    job->prompts.push_back(text_of(*job->model, prompt));
    job->prompt_units += std::ssize(prompt);
    require_tokens(context, count * (job->prompt_units + 1));
  }
  for (int64_t i = 0; i < total; ++i) {
    request.prompt = prompts[static_cast<size_t>(i / count)];
    request.seed = models::draft_seed(seed, i, count);
    job->part_tokens.push_back(std::ssize(request.prompt) + 1);
    job->choices.push_back(new_choice(*job, request.prompt));
    job->requests.push_back(request);
  }
  job->left = job->requests.size();
  job->head = {{"id", cat("cmpl-", exchange->request().id)},
               {"object", "text_completion"},
               {"created", std::time(nullptr)},
               {"model", *name}};
  job->part_rows = rows_of(*job, context.options);
  job->longest_piece = models::kPromptPiece;
  job->answers_in_parts = job->wishes.streams;
  queue_job(context, job);
}

}  // namespace fovea::serve

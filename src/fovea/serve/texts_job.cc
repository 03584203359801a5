#include "fovea/serve/texts_job.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/serve/openai.h"
#include "fovea/serve/translate_texts.h"
#include "fovea/text/unit_decoder.h"

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

Json reason_json(const std::optional<language::CompletionEnd>& end) {
  if (!end) return nullptr;
  return *end == language::CompletionEnd::kStop ? "stop" : "length";
}

Json completion_usage(const TextsJob& job) {
  return {{"prompt_tokens", job.prompt_units},
          {"completion_tokens", job.new_units},
          {"total_tokens", job.prompt_units + job.new_units},
          {"prompt_tokens_details", {{"cached_tokens", job.kept_units}}}};
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

// The texts of choices in the form of the answer: whole messages, or what is new of them in a stream.
Json choice_json(const TextsJob& job, size_t index, const std::string& text) {
  if (!job.wishes.is_chat) return {{"index", index}, {"text", text}};
  return {{"index", index}, {"message", {{"role", "assistant"}, {"content", text}}}};
}
Json delta_json(const TextsJob& job, size_t index, const std::string& text) {
  if (!job.wishes.is_chat) return {{"index", index}, {"text", text}};
  Json delta = Json::object();
  if (!text.empty()) delta["content"] = text;
  return {{"index", index}, {"delta", std::move(delta)}};
}

void send_part(TextsJob& job, size_t index, const language::CompletionPart& part, Json log_probs) {
  if (part.text.empty() && log_probs.is_null() && !part.end) return;
  Json event = job.head;
  Json choice = delta_json(job, index, part.text);
  choice["logprobs"] = std::move(log_probs);
  choice["finish_reason"] = reason_json(part.end);
  event["choices"] = Json::array({std::move(choice)});
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
    Json made = choice_json(job, i, (job.wishes.echo ? prompt_of(job, i) : "") + choice.text);
    made["logprobs"] = choice.log_probs;
    made["finish_reason"] = reason_json(choice.end);
    answer["choices"].push_back(std::move(made));
  }
  answer["usage"] = completion_usage(job);
  job.exchange->answer(json_response(answer));
}

void begin_stream(TextsJob& job) {
  job.exchange->begin(event_stream());
  if (job.wishes.is_chat) {
    for (size_t i = 0; i < job.choices.size(); ++i) {
      Json event = job.head;
      event["choices"] = Json::array({{{"index", i},
                                       {"delta", {{"role", "assistant"}, {"content", ""}}},
                                       {"logprobs", nullptr},
                                       {"finish_reason", nullptr}}});
      job.exchange->push(event_text(event));
    }
  }
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
  job.kept_units += part.kept;
  if (!part.end) return;
  choice.end = part.end;
  if (--job.left > 0) return;
  if (job.wishes.streams) {
    end_stream(job);
  } else {
    answer_whole(job);
  }
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

// The units that a text adds, each in a step of its own, and the pieces of its prompt, whose last one is read in the
// first of these steps. A text that may end early is as long as the model's other texts.
double TextsJob::work(size_t part) const {
  const language::CompletionRequest& request = requests[part];
  const auto most = static_cast<double>(request.max_units);
  return prompt_pieces(part) + (may_end_early(part) ? std::min(most, model->pace().mean_text()) : most);
}

double TextsJob::least_steps() const {
  double most = 0;
  for (size_t part = 0; part < requests.size(); ++part)
    if (!may_end_early(part)) most = std::max(most, work(part) - (may_be_kept ? prompt_pieces(part) : 0));
  return most;
}

double TextsJob::prompt_pieces(size_t part) const {
  return static_cast<double>(std::ssize(requests[part].prompt) / models::kPromptPiece);
}

bool TextsJob::may_end_early(size_t part) const { return model->texts().ends_texts() || !requests[part].stop.empty(); }

void TextsJob::take(size_t part, PartOutput& output) {
  take_part(*this, part, std::get<language::CompletionPart>(output));
}

void TextsJob::add(language::CompletionRequest request) {
  part_tokens.push_back(std::ssize(request.prompt) + 1);
  choices.push_back(new_choice(*this, request.prompt));
  requests.push_back(std::move(request));
}

void queue_texts(Context& context, const std::shared_ptr<TextsJob>& job, const char* object) {
  job->left = job->requests.size();
  job->head = {{"id", cat(job->wishes.is_chat ? "chatcmpl-" : "cmpl-", job->exchange->request().id)},
               {"object", object},
               {"created", std::time(nullptr)},
               {"model", job->wishes.model}};
  job->part_rows = rows_of(*job, context.options);
  job->longest_piece = models::kPromptPiece;
  job->answers_in_parts = job->wishes.streams;
  job->may_be_kept = context.options.prefix_cache > 0;
  queue_job(context, job);
}

}  // namespace fovea::serve

// POST /v1/completions: texts that a language model continues.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/models/draft_seed.h"
#include "fovea/serve/openai.h"
#include "fovea/serve/texts_job.h"
#include "fovea/serve/translate_texts.h"
#include "fovea/text/unit_decoder.h"

namespace fovea::serve {
namespace {

using Prompts = std::vector<std::vector<int64_t>>;

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
  if (value->is_string()) return {encoded_prompt(model, value->get<std::string>())};
  if (!value->is_array() || value->empty())
    throw HttpError(400, cat("prompt: got ", text::shown_json(*value), "; expected a text, texts, or tokens"),
                    "prompt");
  if (value->front().is_number()) return {units_of(*value, size)};
  Prompts prompts;
  for (const Json& item : *value) {
    if (item.is_string()) {
      prompts.push_back(encoded_prompt(model, item.get<std::string>()));
    } else if (item.is_array()) {
      prompts.push_back(units_of(item, size));
    } else {
      throw HttpError(400, cat("prompt: got ", text::shown_json(item), "; expected a text or a list of tokens"),
                      "prompt");
    }
  }
  return prompts;
}

// The characters of a prompt. Bytes that begin another one at its end belong to the text behind it.
std::string text_of(const ServedModel& model, const std::vector<int64_t>& prompt) {
  text::UnitDecoder decoder(model.texts().units());
  std::string text;
  for (const int64_t unit : prompt) text += decoder.push(unit);
  return text;
}

}  // namespace

void complete(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Fields fields(exchange->request());
  const auto name = fields.text("model");
  if (!name) throw HttpError(400, "model is missing; GET /v1/models lists the names", "model");
  const auto job = std::make_shared<TextsJob>(exchange, context.models.named(*name));
  if (job->model->translates())
    throw HttpError(400, cat("model: '", *name, "' translates; use /translate or /v1/chat/completions"), "model");
  constexpr int64_t kUsualUnits = 16;
  job->wishes = wishes_of(fields, *name);
  job->wishes.log_probs = fields.whole("logprobs", 0, 20);
  language::CompletionRequest request = request_of(fields, job->wishes, context.options, kUsualUnits);
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
    job->add(request);
  }
  queue_texts(context, job, "text_completion");
}

}  // namespace fovea::serve

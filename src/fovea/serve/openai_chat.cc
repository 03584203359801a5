// POST /v1/chat/completions of language models: the folder's template writes the conversation, and the model continues.
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/models/draft_seed.h"
#include "fovea/serve/openai.h"
#include "fovea/serve/texts_job.h"
#include "fovea/serve/translate_texts.h"
#include "fovea/text/chat_template.h"

namespace fovea::serve {
namespace {

constexpr const char* kSendText = "write the text of the conversation yourself, and send it to /v1/completions";

std::vector<text::ChatMessage> messages_of(const Fields& fields) {
  const Json* const list = fields.find("messages");
  if (list == nullptr || !list->is_array() || list->empty())
    throw HttpError(400, "messages is missing; expected a list of messages", "messages");
  std::vector<text::ChatMessage> messages;
  for (const Json& message : *list) {
    const Json* const role = message.is_object() ? text::find_json(message, "role") : nullptr;
    if (role == nullptr || !role->is_string())
      throw HttpError(400, "messages: expected objects with role and content", "messages");
    messages.push_back({role->get<std::string>(), content_of(message)});
  }
  return messages;
}

// The units of the conversation, the one that begins a text included if the template writes it.
std::vector<int64_t> prompt_of_chat(const Fields& fields, const ServedModel& model) {
  const text::Units& units = model.texts().units();
  const auto form = units.chat_form();
  if (!form) throw HttpError(400, cat("model: '", model.place().name, "' has no chat template; ", kSendText), "model");
  std::string text;
  try {
    const text::ChatTemplate chat(form->text, form->file);
    text = chat.render(messages_of(fields), {.begin = form->begin,
                                             .end = form->end,
                                             .asks_for_answer = fields.truth("add_generation_prompt").value_or(true),
                                             .now = std::time(nullptr)});
  } catch (const HttpError&) {
    throw;
  } catch (const Error& error) {
    throw HttpError(400, cat(error.what(), "; or ", kSendText), "messages");
  }
  std::vector<int32_t> ids;
  units.encode(text, ids);
  if (ids.empty()) throw HttpError(400, "messages: the chat template writes an empty text", "messages");
  return {ids.begin(), ids.end()};
}

void refuse_other_chat_wishes(const Fields& fields) {
  for (const char* const name : {"tools", "functions", "tool_choice", "audio", "modalities", "chat_template",
                                 "chat_template_kwargs", "documents", "continue_final_message"})
    fields.refuse(name, "chats of language models do not know it; leave it out");
  for (const char* const name : {"logprobs", "top_logprobs", "echo"})
    fields.refuse(name, "it is for /v1/completions; leave it out");
}

}  // namespace

void show_tokens(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Fields fields(exchange->request());
  const auto name = fields.text("model");
  if (!name) throw HttpError(400, "model is missing; GET /v1/models lists the names", "model");
  const auto model = context.models.named(*name);
  if (model->translates()) throw HttpError(400, cat("model: '", *name, "' translates, and has no tokens"), "model");
  std::vector<int64_t> tokens;
  if (fields.has("messages")) {
    tokens = prompt_of_chat(fields, *model);
  } else {
    const auto prompt = fields.text("prompt");
    if (!prompt) throw HttpError(400, "prompt is missing; expected a text, or messages", "prompt");
    const std::vector<int64_t> own = encoded_prompt(*model, *prompt);
    tokens = {model->texts().units().begin()};
    tokens.insert(tokens.end(), own.begin(), own.end());
  }
  exchange->answer(json_response({{"count", tokens.size()}, {"tokens", tokens}}));
}

void continue_chat(Context& context, const std::shared_ptr<Exchange>& exchange, const Fields& fields,
                   std::shared_ptr<ServedModel> model) {
  refuse_other_chat_wishes(fields);
  const auto job = std::make_shared<TextsJob>(exchange, std::move(model));
  job->wishes = wishes_of(fields, job->model->place().name);
  job->wishes.is_chat = true;
  std::vector<int64_t> prompt = prompt_of_chat(fields, *job->model);
  const auto length = std::ssize(prompt);
  // The unit that begins a text is not counted there.
  const int64_t room = job->model->texts().longest(length - 1).value_or(context.options.max_new_tokens);
  language::CompletionRequest request = request_of(fields, job->wishes, context.options, std::max<int64_t>(room, 1));
  if (const auto units = fields.whole("max_completion_tokens", 1, context.options.max_new_tokens))
    request.max_units = *units;
  if (request.max_units == 0) throw HttpError(400, "max_tokens: got 0; expected at least 1", "max_tokens");
  require_room(*job->model, length - 1, request.max_units);
  const int64_t count = job->wishes.count, seed = seed_of(fields);
  if (count > context.options.max_texts)
    throw HttpError(413, cat("got ", count, " texts to make; expected at most ", context.options.max_texts), "n");
  require_tokens(context, count * (length + 1));
  request.prompt = std::move(prompt);
  request.has_begin = true;
  job->prompt_units = length;
  for (int64_t i = 0; i < count; ++i) {
    request.seed = models::draft_seed(seed, i, count);
    job->add(request);
  }
  queue_texts(context, job, job->wishes.streams ? "chat.completion.chunk" : "chat.completion");
}

}  // namespace fovea::serve

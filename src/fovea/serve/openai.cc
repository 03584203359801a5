// The dialect of OpenAI's clients: lists of models, and chat as translation. openai_completions.cc and openai_chat.cc
// have the texts of language models.
#include <algorithm>
#include <array>
#include <ctime>

#include "fovea/base/strings.h"
#include "fovea/serve/openai.h"
#include "fovea/serve/translate_texts.h"

namespace fovea::serve {
namespace {

using ExchangePointer = std::shared_ptr<Exchange>;

std::string_view error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 429 || status == 503) return "overloaded_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

Response openai_refusal(int status, const std::string& message, const std::string& field) {
  Json code = nullptr;
  if (status == 401) code = "invalid_api_key";
  if (status == 404 && field == "model") code = "model_not_found";
  return json_response({{"error",
                         {{"message", message},
                          {"type", error_type(status)},
                          {"param", field.empty() ? Json(nullptr) : Json(field)},
                          {"code", code}}}},
                       status);
}

Json model_json(const ServedModel& model) {
  return {{"id", model.place().name},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "fovea"},
          {"task", model.translates() ? "translation" : "language"}};
}

void list_models(Context& context, const ExchangePointer& exchange) {
  Json list = Json::array();
  for (const auto& model : context.models.all()) list.push_back(model_json(*model));
  exchange->answer(json_response({{"object", "list"}, {"data", std::move(list)}}));
}

void show_model(Context& context, const ExchangePointer& exchange) {
  const std::string name = exchange->request().path.substr(std::string_view("/v1/models/").size());
  exchange->answer(json_response(model_json(*context.models.named(name))));
}

std::string last_user_message(const Fields& fields) {
  const Json* const messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array())
    throw HttpError(400, "messages is missing; expected a list of messages", "messages");
  for (size_t i = messages->size(); i > 0; --i) {
    const Json& message = (*messages)[i - 1];
    if (!message.is_object()) throw HttpError(400, "messages: expected objects with role and content", "messages");
    const Json* const role = text::find_json(message, "role");
    if (role != nullptr && *role == "user") return content_of(message);
  }
  throw HttpError(400, "messages: got no message of the role 'user'; it is what is translated", "messages");
}

void refuse_chat_wishes(const Fields& fields) {
  for (const char* const name : {"tools", "functions", "audio", "logprobs"})
    fields.refuse(name, "a translation model does not know it; leave it out");
  const Json* const form = fields.find("response_format");
  if (form != nullptr && form->is_object() && form->value("type", Json()) != "text")
    throw HttpError(400, "response_format: a translation model writes text alone; leave it out", "response_format");
  if (fields.whole("n", 1, 1000).value_or(1) != 1)
    throw HttpError(400, "n: expected 1; /translate gives alternatives", "n");
}

Json chat_usage(int64_t prompt, int64_t completion) {
  return {{"prompt_tokens", prompt}, {"completion_tokens", completion}, {"total_tokens", prompt + completion}};
}

// Whether the longest length cut the translation of some sentence.
std::string_view reason_of_end(const TextJob& job) {
  const bool is_cut =
      std::ranges::any_of(job.outputs, [](const SentenceOutput& output) { return output.result.best.front().is_cut; });
  return is_cut ? "length" : "stop";
}

// The translation as a stream: it is known whole, so it is one event.
void stream_chat(const TextJob& job, Json head, const Json& usage) {
  Exchange& exchange = *job.exchange;
  head["object"] = "chat.completion.chunk";
  const auto push = [&](Json delta, Json reason) {
    Json event = head;
    event["choices"] = Json::array({{{"index", 0}, {"delta", std::move(delta)}, {"finish_reason", std::move(reason)}}});
    exchange.push(event_text(event));
  };
  exchange.begin(event_stream());
  push({{"role", "assistant"}, {"content", job.translation(0)}}, nullptr);
  push(Json::object(), reason_of_end(job));
  if (!usage.is_null()) {
    head["choices"] = Json::array();
    head["usage"] = usage;
    exchange.push(event_text(head));
  }
  exchange.push("data: [DONE]\n\n");
  exchange.end();
}

void chat(Context& context, const ExchangePointer& exchange) {
  const Fields fields(exchange->request());
  const auto name = fields.text("model");
  if (!name) throw HttpError(400, "model is missing; GET /v1/models lists the names", "model");
  TextTask task;
  task.model = context.models.named(*name);
  if (!task.model->translates()) return continue_chat(context, exchange, fields, task.model);
  refuse_chat_wishes(fields);
  task.texts = {last_user_message(fields)};
  task.source_language = task.model->place().source;
  task.splitting = Splitting::kBoth;
  task.search = usual_search(context.options);
  choose_languages(task, "", "");
  const bool streams = fields.truth("stream").value_or(false);
  const bool shows_usage = wants_stream_usage(fields);
  const Json head = {{"id", cat("chatcmpl-", exchange->request().id)},
                     {"object", "chat.completion"},
                     {"created", std::time(nullptr)},
                     {"model", *name}};
  translate_texts(context, exchange, kOpenAi, std::move(task), [head, streams, shows_usage](TextJob& job) {
    const Json usage = chat_usage(job.source_tokens(), job.target_tokens());
    if (streams) {
      stream_chat(job, head, shows_usage ? usage : Json());
      return Response{.status = 0};
    }
    Json answer = head;
    answer["choices"] = Json::array({{{"index", 0},
                                      {"message", {{"role", "assistant"}, {"content", job.translation(0)}}},
                                      {"logprobs", nullptr},
                                      {"finish_reason", reason_of_end(job)}}});
    answer["usage"] = usage;
    return json_response(answer);
  });
}

constexpr std::array kOpenAiRoutes = {
    Route{"GET", "/v1/models", &kOpenAi, list_models},    Route{"GET", "/v1/models/*", &kOpenAi, show_model},
    Route{"POST", "/v1/completions", &kOpenAi, complete}, Route{"POST", "/v1/chat/completions", &kOpenAi, chat},
    Route{"POST", "/tokenize", &kOpenAi, show_tokens},
};

}  // namespace

const Dialect kOpenAi = {"openai", openai_refusal, 401, false};

std::span<const Route> openai_routes() { return kOpenAiRoutes; }

std::string content_of(const Json& message) {
  const Json* const content = text::find_json(message, "content");
  if (content != nullptr && content->is_string()) return content->get<std::string>();
  std::string text;
  if (content != nullptr && content->is_array()) {
    for (const Json& part : *content) {
      const Json* const piece = part.is_object() ? text::find_json(part, "text") : nullptr;
      if (piece == nullptr || !piece->is_string())
        throw HttpError(400,
                        "messages: a part of the content is not a text; expected {\"type\": \"text\", \"text\": ...}",
                        "messages");
      text += piece->get<std::string>();
    }
    return text;
  }
  throw HttpError(400, "messages: content is missing; expected a text", "messages");
}

std::string event_text(const Json& event) { return cat("data: ", json_text(event), "\n\n"); }

Response event_stream() { return {.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}}; }

bool wants_stream_usage(const Fields& fields) {
  const Json* const options = fields.find("stream_options");
  return options != nullptr && options->is_object() && options->value("include_usage", Json()) == true;
}

}  // namespace fovea::serve

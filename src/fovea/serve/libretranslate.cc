// The dialect of LibreTranslate's clients.
#include <array>

#include "fovea/base/strings.h"
#include "fovea/serve/languages.h"
#include "fovea/serve/translate_texts.h"

namespace fovea::serve {
namespace {

using ExchangePointer = std::shared_ptr<Exchange>;

Response libretranslate_refusal(int status, const std::string& message, const std::string& /*field*/) {
  return json_response({{"error", message}}, status);
}

// The source language, or "" for "auto", which needs a server whose models read one language.
std::string source_of(const Context& context, const std::string& source) {
  if (source != "auto") return source;
  const std::vector<std::string> known = source_languages(language_pairs(context.models.all()));
  if (known.size() == 1) return known.front();
  throw HttpError(400,
                  cat("source: got 'auto', but this server cannot tell languages apart; expected ",
                      known.empty() ? "a language code" : join(known, " or ")),
                  "source");
}

Response answer_of(TextJob& job, const Fields& fields, const std::string& source, size_t alternatives) {
  Json texts = Json::array(), others = Json::array(), detected = Json::array();
  for (size_t i = 0; i < job.texts.size(); ++i) {
    texts.push_back(job.translation(i));
    Json other = Json::array();
    for (size_t rank = 1; rank <= alternatives; ++rank) {
      std::string text = job.translation(i, rank);
      if (text == texts.back() || std::ranges::find(other, Json(text)) != other.end()) continue;
      other.push_back(std::move(text));
    }
    others.push_back(std::move(other));
    detected.push_back({{"language", source}, {"confidence", 100}});
  }
  const bool is_list = fields.is_list("q");
  const auto shown = [&](Json& values) { return is_list ? std::move(values) : std::move(values[0]); };
  Json answer = {{"translatedText", shown(texts)}};
  if (alternatives > 0) answer["alternatives"] = shown(others);
  if (fields.text("source") == "auto") answer["detectedLanguage"] = shown(detected);
  return json_response(answer);
}

void translate_q(Context& context, const ExchangePointer& exchange) {
  const Fields fields(exchange->request());
  require_key(context, exchange->request(), fields, 403);
  if (!fields.has("q") && fields.has("text")) return translate_own(context, exchange, fields);
  if (fields.has("q") && fields.has("text"))
    throw HttpError(400, "got both q and text; q is LibreTranslate's field, text is Fovea's own; send one");
  if (!fields.has("q")) throw HttpError(400, "text (or q) is missing; expected a text or a list of texts", "text");
  TextTask task;
  task.texts = fields.some_texts("q");
  const auto given_source = fields.text("source"), target = fields.text("target");
  if (!given_source) throw HttpError(400, "source is missing; expected a language code or auto", "source");
  if (!target) throw HttpError(400, "target is missing; expected a language code", "target");
  task.source_language = source_of(context, *given_source);
  task.model = context.models.translator(task.source_language, *target);
  if (fields.choice("format", {"text", "html"}, "text") == "html") task.markup = MarkupKind::kHtml;
  task.splitting = Splitting::kBoth;
  task.search = usual_search(context.options);
  choose_languages(task, task.source_language, *target);
  const auto alternatives =
      static_cast<size_t>(fields.whole("alternatives", 0, context.options.alternatives_limit).value_or(0));
  task.search.beam.num_best = static_cast<int64_t>(alternatives) + 1;
  task.search.beam.beam_size = std::max(task.search.beam.beam_size, task.search.beam.num_best);
  const std::string source = task.source_language;
  translate_texts(context, exchange, kLibreTranslate, std::move(task), [fields, source, alternatives](TextJob& job) {
    return answer_of(job, fields, source, alternatives);
  });
}

void show_languages(Context& context, const ExchangePointer& exchange) {
  const std::vector<LanguagePair> pairs = language_pairs(context.models.all());
  Json list = Json::array();
  for (const std::string& source : source_languages(pairs)) {
    Json targets = Json::array();
    for (const LanguagePair& pair : pairs)
      if (pair.source == source) targets.push_back(pair.target);
    list.push_back({{"code", source}, {"name", language_name(source)}, {"targets", std::move(targets)}});
  }
  exchange->answer(json_response(list));
}

void show_settings(Context& context, const ExchangePointer& exchange) {
  const std::vector<LanguagePair> pairs = language_pairs(context.models.all());
  const auto shown = [](const std::string& code) { return Json{{"code", code}, {"name", language_name(code)}}; };
  Json languages = Json::object();
  if (!pairs.empty()) languages = {{"source", shown(pairs.front().source)}, {"target", shown(pairs.front().target)}};
  exchange->answer(json_response({{"apiKeys", context.keys.are_asked_for()},
                                  {"keyRequired", context.keys.are_asked_for()},
                                  {"charLimit", -1},
                                  {"frontendTimeout", 500},
                                  {"language", std::move(languages)},
                                  {"suggestions", false},
                                  {"supportedFilesFormat", Json::array()}}));
}

void refuse_detect(Context& /*context*/, const ExchangePointer& /*exchange*/) {
  throw HttpError(400, "this server cannot tell languages apart; name the source language in /translate");
}

void refuse_files(Context& /*context*/, const ExchangePointer& /*exchange*/) {
  throw HttpError(400, "this server does not translate files; send their text to /translate");
}

constexpr std::array kLibreTranslateRoutes = {
    Route{"POST", "/translate", &kLibreTranslate, translate_q},
    Route{"GET", "/languages", &kLibreTranslate, show_languages, true},
    Route{"GET", "/frontend/settings", &kLibreTranslate, show_settings, true},
    Route{"POST", "/detect", &kLibreTranslate, refuse_detect},
    Route{"POST", "/translate_file", &kLibreTranslate, refuse_files},
};

}  // namespace

const Dialect kLibreTranslate = {"libretranslate", libretranslate_refusal, 403, true};

std::span<const Route> libretranslate_routes() { return kLibreTranslateRoutes; }

}  // namespace fovea::serve

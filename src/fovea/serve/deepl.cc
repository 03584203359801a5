// The dialect of DeepL's clients. deepl_glossaries.cc has their glossaries.
#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "fovea/base/strings.h"
#include "fovea/serve/context.h"
#include "fovea/serve/deepl_glossaries.h"
#include "fovea/serve/languages.h"
#include "fovea/serve/translate_texts.h"

namespace fovea::serve {
namespace {

using ExchangePointer = std::shared_ptr<Exchange>;

constexpr size_t kMostTexts = 50;  // DeepL's limit

Response deepl_refusal(int status, const std::string& message, const std::string& /*field*/) {
  return json_response({{"message", message}}, status);
}

// Fields that change a translation in ways that the models do not know.
void refuse_unknown_wishes(const Fields& fields) {
  const std::string formality = fields.text("formality").value_or("default");
  if (formality == "more" || formality == "less")
    throw HttpError(400,
                    cat("formality: got '", formality,
                        "', but the models know one form of address; expected "
                        "default, prefer_more or prefer_less"),
                    "formality");
  (void)fields.choice("formality", {"default", "prefer_more", "prefer_less"}, "default");
  for (const char* const name : {"context", "style_id", "custom_instructions"})
    fields.refuse(name, "the models do not read it; leave it out");
  for (const char* const name : {"ignore_tags", "splitting_tags", "non_splitting_tags"})
    fields.refuse(name, "expected none; mark text that stays with translate=\"no\"");
}

Splitting splitting_of(const Fields& fields) {
  const Json* const value = fields.find("split_sentences");
  if (value != nullptr && value->is_boolean()) return value->get<bool>() ? Splitting::kBoth : Splitting::kNever;
  const std::string word = fields.choice("split_sentences", {"0", "1", "nonewlines"}, "1");
  if (word == "0") return Splitting::kNever;
  return word == "1" ? Splitting::kBoth : Splitting::kSentences;
}

int64_t characters_of(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

void translate_deepl(Context& context, const ExchangePointer& exchange) {
  const Fields fields(exchange->request());
  TextTask task;
  task.texts = fields.some_texts("text");
  if (task.texts.size() > kMostTexts)
    throw HttpError(413, cat("text: got ", task.texts.size(), " texts; expected at most ", kMostTexts), "text");
  const auto target = fields.text("target_lang");
  if (!target) throw HttpError(400, "target_lang is missing; expected a language code", "target_lang");
  const std::string source = fields.text("source_lang").value_or("");
  refuse_unknown_wishes(fields);
  task.model = context.models.translator(lower(source), lower(*target));
  task.source_language = task.model->place().source.empty() ? lower(source) : task.model->place().source;
  if (task.source_language.empty())
    throw HttpError(400, "source_lang is missing; this server cannot tell languages apart", "source_lang");
  const std::string tags = fields.choice("tag_handling", {"", "html", "xml"}, "");
  if (!tags.empty()) task.markup = tags == "html" ? MarkupKind::kHtml : MarkupKind::kXml;
  task.splitting = splitting_of(fields);
  task.search = usual_search(context.options);
  choose_languages(task, source, *target);
  if (const auto glossary = fields.text("glossary_id"))
    task.search.terms = glossary_terms(context, *glossary, task.source_language, lower(*target));
  std::vector<int64_t> characters;
  for (const std::string& text : task.texts) characters.push_back(characters_of(text));
  const bool shows_characters = fields.truth("show_billed_characters").value_or(false);
  const std::string detected = upper_code(task.source_language);
  translate_texts(context, exchange, kDeepL, std::move(task),
                  [&context, characters, shows_characters, detected](TextJob& job) {
                    Json list = Json::array();
                    for (size_t i = 0; i < job.texts.size(); ++i) {
                      list.push_back({{"detected_source_language", detected}, {"text", job.translation(i)}});
                      if (shows_characters) list.back()["billed_characters"] = characters[i];
                      context.characters += characters[i];
                    }
                    return json_response({{"translations", std::move(list)}});
                  });
}

void show_usage(Context& context, const ExchangePointer& exchange) {
  constexpr int64_t kNoLimit = 1'000'000'000'000;
  exchange->answer(json_response({{"character_count", context.characters.load()}, {"character_limit", kNoLimit}}));
}

void show_deepl_languages(Context& context, const ExchangePointer& exchange) {
  const Fields fields(exchange->request());
  const bool wants_targets = fields.choice("type", {"source", "target"}, "source") == "target";
  const std::vector<LanguagePair> pairs = language_pairs(context.models.all());
  Json list = Json::array();
  for (const std::string& code : wants_targets ? target_languages(pairs) : source_languages(pairs)) {
    list.push_back({{"language", upper_code(code)}, {"name", language_name(code)}});
    if (wants_targets) list.back()["supports_formality"] = false;
  }
  exchange->answer(json_response(list));
}

constexpr std::array kDeepLRoutes = {
    Route{"POST", "/v2/translate", &kDeepL, translate_deepl},
    Route{"GET", "/v2/usage", &kDeepL, show_usage},
    Route{"POST", "/v2/usage", &kDeepL, show_usage},
    Route{"GET", "/v2/languages", &kDeepL, show_deepl_languages},
    Route{"POST", "/v2/languages", &kDeepL, show_deepl_languages},
};

}  // namespace

const Dialect kDeepL = {"deepl", deepl_refusal, 403, false};

std::span<const Route> deepl_routes() { return kDeepLRoutes; }

}  // namespace fovea::serve

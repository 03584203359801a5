// The dialect of DeepL's clients, version 2.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <string>

#include "fovea/base/strings.h"
#include "fovea/serve/context.h"
#include "fovea/serve/languages.h"
#include "fovea/serve/translate_texts.h"
#include "fovea/text/csv.h"

namespace fovea::serve {
namespace {

std::string new_glossary_id() {  // in the form of a UUID, which clients may check
  std::random_device random;
  std::array<char, 40> text{};
  const unsigned a = random(), b = random(), c = random(), d = random();
  (void)std::snprintf(text.data(), text.size(), "%08x-%04x-4%03x-8%03x-%04x%08x", a, b >> 16, b & 0xfff, c >> 20,
                      c & 0xffff, d);
  return text.data();
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S.000000Z", &parts);
  return text.data();
}

Json glossary_json(const Glossary& glossary) {
  return {{"glossary_id", glossary.id},
          {"name", glossary.name},
          {"ready", true},
          {"source_lang", glossary.source},
          {"target_lang", glossary.target},
          {"creation_time", glossary.created},
          {"entry_count", glossary.terms->terms().size()}};
}

// Records SOURCE,TARGET, or with the languages of both behind them.
std::vector<text::Term> terms_of_csv(const Glossary& glossary) {
  std::vector<text::Term> terms;
  for (const text::CsvRecord& record : text::parse_csv(glossary.entries, "entries")) {
    const std::vector<std::string>& fields = record.fields;
    if (fields.size() != 2 && fields.size() != 4)
      throw Error(cat("entries, line ", record.line, ": got ", fields.size(), fields.size() == 1 ? " field" : " fields",
                      "; expected SOURCE,TARGET"));
    if (fields.size() == 4 && (lower(fields[2]) != glossary.source || lower(fields[3]) != glossary.target))
      throw Error(cat("entries, line ", record.line, ": got the languages ", fields[2], " and ", fields[3],
                      "; expected ", glossary.source, " and ", glossary.target));
    for (const std::string& side : {fields[0], fields[1]})
      if (side.find_first_of("\t\r\n") != std::string::npos)
        throw Error(cat("entries, line ", record.line, ": got a term with a tab or a line end; expected words"));
    terms.push_back({std::string(trim(fields[0])), std::string(trim(fields[1])), record.line});
  }
  return terms;
}

// Reads the entries. Lines of CSV become lines SOURCE<TAB>TARGET, as which clients ask for them.
void read_entries(Glossary& glossary, const std::string& format) {
  if (format != "csv") {
    glossary.terms = std::make_shared<text::TermList>(text::TermList::from_text(glossary.entries, "entries"));
    return;
  }
  glossary.terms = std::make_shared<text::TermList>(terms_of_csv(glossary), "entries");
  glossary.entries.clear();
  for (const text::Term& term : glossary.terms->terms()) glossary.entries += cat(term.source, "\t", term.target, "\n");
}

// The part of the path behind "/v2/glossaries/".
std::shared_ptr<const Glossary> glossary_of_path(const Context& context, const Request& request) {
  std::string id = request.path.substr(std::string_view("/v2/glossaries/").size());
  id = id.substr(0, id.find('/'));
  auto found = context.glossaries.find(id);
  if (found == nullptr) throw HttpError(404, "this glossary does not exist; glossaries are lost when the server stops");
  return found;
}

std::string required(const Fields& fields, const std::string& name) {
  const auto value = fields.text(name);
  if (!value || value->empty()) throw HttpError(400, cat(name, " is missing; expected a text"), name);
  return *value;
}

// The terms of a glossary. Throws an HttpError if it does not exist or is for other languages.
std::shared_ptr<const text::TermList> glossary_terms(const Context& context, const std::string& id,
                                                     const std::string& source, const std::string& target) {
  const auto found = context.glossaries.find(id);
  if (found == nullptr)
    throw HttpError(404, "glossary_id: this glossary does not exist; glossaries are lost when the server stops",
                    "glossary_id");
  const Glossary& glossary = *found;
  const auto base = [](const std::string& code) { return lower(code.substr(0, code.find_first_of("-_"))); };
  if (base(glossary.source) != base(source) || base(glossary.target) != base(target))
    throw HttpError(400,
                    cat("glossary_id: the glossary translates from ", glossary.source, " into ", glossary.target,
                        "; expected ", shown_text(source), " into ", shown_text(target)),
                    "glossary_id");
  return glossary.terms;
}

[[noreturn]] void refuse_more_glossaries(const Context& context) {
  throw HttpError(456,
                  cat("the server keeps at most ", context.options.max_glossaries, " glossaries; delete one first"));
}

void make_glossary(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Fields fields(exchange->request());
  if (std::ssize(context.glossaries.all()) >= context.options.max_glossaries) refuse_more_glossaries(context);
  Glossary glossary;
  glossary.name = required(fields, "name");
  glossary.source = lower(required(fields, "source_lang"));
  glossary.target = lower(required(fields, "target_lang"));
  glossary.entries = required(fields, "entries");
  const std::string format = fields.choice("entries_format", {"tsv", "csv"}, "");
  (void)context.models.translator(glossary.source, glossary.target);  // refuses languages that no model has
  try {
    read_entries(glossary, format);
  } catch (const Error& error) {
    throw HttpError(400, error.what(), "entries");
  }
  if (glossary.terms->terms().empty())
    throw HttpError(400, "entries: got no line; expected a source and a target in each", "entries");
  glossary.id = new_glossary_id();
  glossary.created = now_text();
  const auto made = std::make_shared<const Glossary>(std::move(glossary));
  if (!context.glossaries.add(made, context.options.max_glossaries)) refuse_more_glossaries(context);
  exchange->answer(json_response(glossary_json(*made), 201));
}

void list_glossaries(Context& context, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  for (const auto& glossary : context.glossaries.all()) list.push_back(glossary_json(*glossary));
  exchange->answer(json_response({{"glossaries", std::move(list)}}));
}

void show_glossary(Context& context, const std::shared_ptr<Exchange>& exchange) {
  exchange->answer(json_response(glossary_json(*glossary_of_path(context, exchange->request()))));
}

void show_glossary_entries(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const auto glossary = glossary_of_path(context, exchange->request());
  exchange->answer({.body = glossary->entries, .type = "text/tab-separated-values; charset=utf-8"});
}

void delete_glossary(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const std::string id = glossary_of_path(context, exchange->request())->id;
  context.glossaries.erase(id);
  exchange->answer({.status = 204});
}

void show_glossary_pairs(Context& context, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  for (const LanguagePair& pair : language_pairs(context.models.all()))
    list.push_back({{"source_lang", pair.source}, {"target_lang", pair.target}});
  exchange->answer(json_response({{"supported_languages", std::move(list)}}));
}

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
    Route{"GET", "/v2/glossary-language-pairs", &kDeepL, show_glossary_pairs},
    Route{"POST", "/v2/glossaries", &kDeepL, make_glossary},
    Route{"GET", "/v2/glossaries", &kDeepL, list_glossaries},
    Route{"GET", "/v2/glossaries/*", &kDeepL, show_glossary},
    Route{"GET", "/v2/glossaries/*/entries", &kDeepL, show_glossary_entries},
    Route{"DELETE", "/v2/glossaries/*", &kDeepL, delete_glossary},
};

}  // namespace

const Dialect kDeepL = {"deepl", deepl_refusal, 403, false};

std::span<const Route> deepl_routes() { return kDeepLRoutes; }

}  // namespace fovea::serve

// The glossaries of DeepL's clients: those of version 2, with one pair of languages each, and of version 3.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/serve/context.h"
#include "fovea/serve/deepl_glossaries.h"
#include "fovea/serve/languages.h"
#include "fovea/text/csv.h"

namespace fovea::serve {
namespace {

using ExchangePointer = std::shared_ptr<Exchange>;
using GlossaryPointer = std::shared_ptr<const Glossary>;

std::string new_glossary_id() {  // in the form of a UUID, which clients may check
  std::random_device random;
  std::array<char, 40> text{};
  const unsigned a = random(), b = random(), c = random(), d = random();
  (void)std::snprintf(text.data(), text.size(), "%08x-%04x-4%03x-8%03x-%04x%08x", a, b >> 16, b & 0xfff, c >> 20,
                      c & 0xffff, d);
  return text.data();
}

Json dictionary_json(const GlossaryDictionary& dictionary) {
  return {{"source_lang", dictionary.source},
          {"target_lang", dictionary.target},
          {"entry_count", dictionary.terms->terms().size()}};
}

// Version 2 shows the one dictionary with the glossary.
Json plain_glossary_json(const Glossary& glossary) {
  Json json = dictionary_json(glossary.dictionaries.front());
  json.update(
      {{"glossary_id", glossary.id}, {"name", glossary.name}, {"ready", true}, {"creation_time", glossary.created}});
  return json;
}

Json glossary_json(const Glossary& glossary) {
  Json list = Json::array();
  for (const GlossaryDictionary& dictionary : glossary.dictionaries) list.push_back(dictionary_json(dictionary));
  return {{"glossary_id", glossary.id},
          {"name", glossary.name},
          {"creation_time", glossary.created},
          {"dictionaries", std::move(list)}};
}

// Records SOURCE,TARGET, or with the languages of both behind them.
std::vector<text::Term> terms_of_csv(const GlossaryDictionary& dictionary) {
  std::vector<text::Term> terms;
  for (const text::CsvRecord& record : text::parse_csv(dictionary.entries, "entries")) {
    const std::vector<std::string>& fields = record.fields;
    if (fields.size() != 2 && fields.size() != 4)
      throw Error(cat("entries, line ", record.line, ": got ", fields.size(), fields.size() == 1 ? " field" : " fields",
                      "; expected SOURCE,TARGET"));
    if (fields.size() == 4 && (lower(fields[2]) != dictionary.source || lower(fields[3]) != dictionary.target))
      throw Error(cat("entries, line ", record.line, ": got the languages ", fields[2], " and ", fields[3],
                      "; expected ", dictionary.source, " and ", dictionary.target));
    for (const std::string& side : {fields[0], fields[1]})
      if (side.find_first_of("\t\r\n") != std::string::npos)
        throw Error(cat("entries, line ", record.line, ": got a term with a tab or a line end; expected words"));
    terms.push_back({std::string(trim(fields[0])), std::string(trim(fields[1])), record.line});
  }
  return terms;
}

std::string lines_of(const std::vector<text::Term>& terms) {
  std::string lines;
  for (const text::Term& term : terms) lines += cat(term.source, "\t", term.target, "\n");
  return lines;
}

// Reads the entries. Lines of CSV become lines SOURCE<TAB>TARGET, as which clients ask for them.
void read_entries(GlossaryDictionary& dictionary, const std::string& format) {
  if (format != "csv") {
    dictionary.terms = std::make_shared<text::TermList>(text::TermList::from_text(dictionary.entries, "entries"));
    return;
  }
  dictionary.terms = std::make_shared<text::TermList>(terms_of_csv(dictionary), "entries");
  dictionary.entries = lines_of(dictionary.terms->terms());
}

std::string required(const Fields& fields, const std::string& name) {
  const auto value = fields.text(name);
  if (!value || value->empty()) throw HttpError(400, cat(name, " is missing; expected a text"), name);
  return *value;
}

GlossaryDictionary dictionary_of(const Context& context, const Fields& fields) {
  GlossaryDictionary dictionary;
  dictionary.source = lower(required(fields, "source_lang"));
  dictionary.target = lower(required(fields, "target_lang"));
  dictionary.entries = required(fields, "entries");
  const std::string format = fields.choice("entries_format", {"tsv", "csv"}, "");
  (void)context.models.translator(dictionary.source, dictionary.target);  // refuses languages that no model has
  try {
    read_entries(dictionary, format);
  } catch (const Error& error) {
    throw HttpError(400, error.what(), "entries");
  }
  if (dictionary.terms->terms().empty())
    throw HttpError(400, "entries: got no line; expected a source and a target in each", "entries");
  return dictionary;
}

[[noreturn]] void refuse_more_glossaries(const Context& context) {
  throw HttpError(456,
                  cat("the server keeps at most ", context.options.max_glossaries, " glossaries; delete one first"));
}

std::string missing_text(const Context& context) {
  return context.glossaries.has_folder()
             ? "this glossary does not exist"
             : "this glossary does not exist; glossaries are lost when the server stops, unless it has --glossaries";
}

// The glossary of the path's third part: /v2/glossaries/ID, /v3/glossaries/ID/entries.
GlossaryPointer glossary_of_path(const Context& context, const Request& request) {
  std::string id = request.path.substr(std::string_view("/v2/glossaries/").size());
  id = id.substr(0, id.find('/'));
  GlossaryPointer found = context.glossaries.find(id);
  if (found == nullptr) throw HttpError(404, missing_text(context));
  return found;
}

GlossaryPointer plain_glossary_of_path(const Context& context, const Request& request) {
  GlossaryPointer found = glossary_of_path(context, request);
  if (found->dictionaries.size() != 1)
    throw HttpError(404, cat("this glossary has ", found->dictionaries.size(), " dictionaries; ask /v3/glossaries"));
  return found;
}

GlossaryPointer keep(Context& context, Glossary glossary) {
  glossary.id = new_glossary_id();
  glossary.created = time_text(std::time(nullptr));
  auto made = std::make_shared<const Glossary>(std::move(glossary));
  if (!context.glossaries.add(made, context.options.max_glossaries)) refuse_more_glossaries(context);
  return made;
}

void make_plain_glossary(Context& context, const ExchangePointer& exchange) {
  const Fields fields(exchange->request());
  if (std::ssize(context.glossaries.all()) >= context.options.max_glossaries) refuse_more_glossaries(context);
  Glossary glossary;
  glossary.name = required(fields, "name");
  glossary.dictionaries.push_back(dictionary_of(context, fields));
  exchange->answer(json_response(plain_glossary_json(*keep(context, std::move(glossary))), 201));
}

void list_plain_glossaries(Context& context, const ExchangePointer& exchange) {
  Json list = Json::array();
  for (const auto& glossary : context.glossaries.all())
    if (glossary->dictionaries.size() == 1) list.push_back(plain_glossary_json(*glossary));
  exchange->answer(json_response({{"glossaries", std::move(list)}}));
}

void show_plain_glossary(Context& context, const ExchangePointer& exchange) {
  exchange->answer(json_response(plain_glossary_json(*plain_glossary_of_path(context, exchange->request()))));
}

void show_plain_entries(Context& context, const ExchangePointer& exchange) {
  const auto glossary = plain_glossary_of_path(context, exchange->request());
  exchange->answer(
      {.body = glossary->dictionaries.front().entries, .type = "text/tab-separated-values; charset=utf-8"});
}

void delete_glossary(Context& context, const ExchangePointer& exchange) {
  context.glossaries.erase(glossary_of_path(context, exchange->request())->id);
  exchange->answer({.status = 204});
}

void show_glossary_pairs(Context& context, const ExchangePointer& exchange) {
  Json list = Json::array();
  for (const LanguagePair& pair : language_pairs(context.models.all()))
    list.push_back({{"source_lang", pair.source}, {"target_lang", pair.target}});
  exchange->answer(json_response({{"supported_languages", std::move(list)}}));
}

// The dictionaries of a request of version 3.
std::vector<GlossaryDictionary> dictionaries_of(const Context& context, const Fields& fields) {
  const Json* const list = fields.find("dictionaries");
  if (list == nullptr || !list->is_array() || list->empty())
    throw HttpError(400, "dictionaries is missing; expected a list of source_lang, target_lang and entries",
                    "dictionaries");
  std::vector<GlossaryDictionary> dictionaries;
  std::set<std::pair<std::string, std::string>> pairs;
  for (const Json& one : *list) {
    if (!one.is_object()) throw HttpError(400, "dictionaries: expected objects", "dictionaries");
    dictionaries.push_back(dictionary_of(context, Fields(one)));
    if (!pairs.emplace(dictionaries.back().source, dictionaries.back().target).second)
      throw HttpError(400,
                      cat("dictionaries: got ", dictionaries.back().source, " into ", dictionaries.back().target,
                          " twice; expected each pair of languages once"),
                      "dictionaries");
  }
  return dictionaries;
}

void make_glossary(Context& context, const ExchangePointer& exchange) {
  const Fields fields(exchange->request());
  if (std::ssize(context.glossaries.all()) >= context.options.max_glossaries) refuse_more_glossaries(context);
  Glossary glossary;
  glossary.name = required(fields, "name");
  glossary.dictionaries = dictionaries_of(context, fields);
  exchange->answer(json_response(glossary_json(*keep(context, std::move(glossary))), 201));
}

void list_glossaries(Context& context, const ExchangePointer& exchange) {
  Json list = Json::array();
  for (const auto& glossary : context.glossaries.all()) list.push_back(glossary_json(*glossary));
  exchange->answer(json_response({{"glossaries", std::move(list)}}));
}

void show_glossary(Context& context, const ExchangePointer& exchange) {
  exchange->answer(json_response(glossary_json(*glossary_of_path(context, exchange->request()))));
}

// The dictionary that source_lang and target_lang of a request name.
const GlossaryDictionary& named_dictionary(const Glossary& glossary, const Fields& fields) {
  const std::string source = required(fields, "source_lang"), target = required(fields, "target_lang");
  const GlossaryDictionary* const found = glossary.find(source, target);
  if (found == nullptr)
    throw HttpError(404, cat("the glossary has no dictionary from ", shown_text(source), " into ", shown_text(target)));
  return *found;
}

void show_entries(Context& context, const ExchangePointer& exchange) {
  const auto glossary = glossary_of_path(context, exchange->request());
  const GlossaryDictionary& dictionary = named_dictionary(*glossary, Fields(exchange->request()));
  exchange->answer(json_response({{"dictionaries", Json::array({{{"source_lang", dictionary.source},
                                                                 {"target_lang", dictionary.target},
                                                                 {"entries", dictionary.entries},
                                                                 {"entries_format", "tsv"}}})}}));
}

void change(Context& context, const GlossaryPointer& before, Glossary after) {
  if (!context.glossaries.replace(before, std::make_shared<const Glossary>(std::move(after))))
    throw HttpError(409, "another request has changed the glossary; ask again");
}

GlossaryDictionary& place_of(Glossary& glossary, const GlossaryDictionary& dictionary) {
  const auto same = std::ranges::find_if(glossary.dictionaries, [&](const GlossaryDictionary& known) {
    return known.source == dictionary.source && known.target == dictionary.target;
  });
  return same != glossary.dictionaries.end() ? *same : glossary.dictionaries.emplace_back();
}

// The entries of both; a source of the new ones replaces that of the old ones.
GlossaryDictionary merged(const GlossaryDictionary& before, GlossaryDictionary added) {
  if (before.terms == nullptr) return added;
  std::set<std::string> sources;
  for (const text::Term& term : added.terms->terms()) sources.insert(term.source);
  std::vector<text::Term> terms;
  for (const text::Term& term : before.terms->terms())
    if (!sources.contains(term.source)) terms.push_back({term.source, term.target});
  added.entries = lines_of(terms) + lines_of(added.terms->terms());
  read_entries(added, "tsv");
  return added;
}

void change_glossary(Context& context, const ExchangePointer& exchange) {
  const Fields fields(exchange->request());
  const GlossaryPointer before = glossary_of_path(context, exchange->request());
  Glossary after = *before;
  if (const auto name = fields.text("name")) after.name = required(fields, "name");
  if (fields.has("dictionaries")) {
    for (GlossaryDictionary& dictionary : dictionaries_of(context, fields)) {
      GlossaryDictionary& place = place_of(after, dictionary);
      place = merged(place, std::move(dictionary));
    }
  }
  change(context, before, after);
  exchange->answer(json_response(glossary_json(after)));
}

void put_dictionary(Context& context, const ExchangePointer& exchange) {
  const GlossaryPointer before = glossary_of_path(context, exchange->request());
  const GlossaryDictionary dictionary = dictionary_of(context, Fields(exchange->request()));
  Glossary after = *before;
  place_of(after, dictionary) = dictionary;
  change(context, before, std::move(after));
  exchange->answer(json_response(dictionary_json(dictionary)));
}

void delete_dictionary(Context& context, const ExchangePointer& exchange) {
  const GlossaryPointer before = glossary_of_path(context, exchange->request());
  const GlossaryDictionary& gone = named_dictionary(*before, Fields(exchange->request()));
  Glossary after = *before;
  std::erase_if(after.dictionaries, [&](const GlossaryDictionary& known) {
    return known.source == gone.source && known.target == gone.target;
  });
  change(context, before, std::move(after));
  exchange->answer({.status = 204});
}

constexpr std::array kGlossaryRoutes = {
    Route{"GET", "/v2/glossary-language-pairs", &kDeepL, show_glossary_pairs},
    Route{"POST", "/v2/glossaries", &kDeepL, make_plain_glossary},
    Route{"GET", "/v2/glossaries", &kDeepL, list_plain_glossaries},
    Route{"GET", "/v2/glossaries/*", &kDeepL, show_plain_glossary},
    Route{"GET", "/v2/glossaries/*/entries", &kDeepL, show_plain_entries},
    Route{"DELETE", "/v2/glossaries/*", &kDeepL, delete_glossary},
    Route{"POST", "/v3/glossaries", &kDeepL, make_glossary},
    Route{"GET", "/v3/glossaries", &kDeepL, list_glossaries},
    Route{"GET", "/v3/glossaries/*", &kDeepL, show_glossary},
    Route{"PATCH", "/v3/glossaries/*", &kDeepL, change_glossary},
    Route{"DELETE", "/v3/glossaries/*", &kDeepL, delete_glossary},
    Route{"GET", "/v3/glossaries/*/entries", &kDeepL, show_entries},
    Route{"PUT", "/v3/glossaries/*/dictionaries", &kDeepL, put_dictionary},
    Route{"DELETE", "/v3/glossaries/*/dictionaries", &kDeepL, delete_dictionary},
};

}  // namespace

std::span<const Route> deepl_glossary_routes() { return kGlossaryRoutes; }

std::shared_ptr<const text::TermList> glossary_terms(const Context& context, const std::string& id,
                                                     const std::string& source, const std::string& target) {
  const auto found = context.glossaries.find(id);
  if (found == nullptr) throw HttpError(404, cat("glossary_id: ", missing_text(context)), "glossary_id");
  if (const GlossaryDictionary* const dictionary = found->find(source, target)) return dictionary->terms;
  std::vector<std::string> pairs;
  for (const GlossaryDictionary& dictionary : found->dictionaries)
    pairs.push_back(cat("from ", dictionary.source, " into ", dictionary.target));
  throw HttpError(400,
                  cat("glossary_id: the glossary translates ", pairs.empty() ? "nothing" : join(pairs, ", "),
                      "; expected ", shown_text(source), " into ", shown_text(target)),
                  "glossary_id");
}

}  // namespace fovea::serve

#include "fovea/serve/deepl_glossaries.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <random>

#include "fovea/base/strings.h"
#include "fovea/serve/languages.h"
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
const Glossary& glossary_of_path(const Context& context, const Request& request) {
  std::string id = request.path.substr(std::string_view("/v2/glossaries/").size());
  id = id.substr(0, id.find('/'));
  const auto found = context.glossaries.find(id);
  if (found == context.glossaries.end())
    throw HttpError(404, "this glossary does not exist; glossaries are lost when the server stops");
  return found->second;
}

std::string required(const Fields& fields, const std::string& name) {
  const auto value = fields.text(name);
  if (!value || value->empty()) throw HttpError(400, cat(name, " is missing; expected a text"), name);
  return *value;
}

}  // namespace

std::shared_ptr<const text::TermList> glossary_terms(const Context& context, const std::string& id,
                                                     const std::string& source, const std::string& target) {
  const auto found = context.glossaries.find(id);
  if (found == context.glossaries.end())
    throw HttpError(404, "glossary_id: this glossary does not exist; glossaries are lost when the server stops",
                    "glossary_id");
  const Glossary& glossary = found->second;
  const auto base = [](const std::string& code) { return lower(code.substr(0, code.find_first_of("-_"))); };
  if (base(glossary.source) != base(source) || base(glossary.target) != base(target))
    throw HttpError(400,
                    cat("glossary_id: the glossary translates from ", glossary.source, " into ", glossary.target,
                        "; expected ", shown_text(source), " into ", shown_text(target)),
                    "glossary_id");
  return glossary.terms;
}

void make_glossary(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Fields fields(exchange->request());
  if (std::ssize(context.glossaries) >= context.options.max_glossaries)
    throw HttpError(456,
                    cat("the server keeps at most ", context.options.max_glossaries, " glossaries; delete one first"));
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
  exchange->answer(json_response(glossary_json(glossary), 201));
  context.glossaries.emplace(glossary.id, glossary);
}

void list_glossaries(Context& context, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  for (const auto& [id, glossary] : context.glossaries) list.push_back(glossary_json(glossary));
  exchange->answer(json_response({{"glossaries", std::move(list)}}));
}

void show_glossary(Context& context, const std::shared_ptr<Exchange>& exchange) {
  exchange->answer(json_response(glossary_json(glossary_of_path(context, exchange->request()))));
}

void show_glossary_entries(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Glossary& glossary = glossary_of_path(context, exchange->request());
  exchange->answer({.body = glossary.entries, .type = "text/tab-separated-values; charset=utf-8"});
}

void delete_glossary(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const std::string id = glossary_of_path(context, exchange->request()).id;
  context.glossaries.erase(id);
  exchange->answer({.status = 204});
}

void show_glossary_pairs(Context& context, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  for (const LanguagePair& pair : language_pairs(context.models.all()))
    list.push_back({{"source_lang", pair.source}, {"target_lang", pair.target}});
  exchange->answer(json_response({{"supported_languages", std::move(list)}}));
}

}  // namespace fovea::serve

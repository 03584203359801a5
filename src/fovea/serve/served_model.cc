#include "fovea/serve/served_model.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/serve/request_fields.h"

namespace fovea::serve {
namespace {

bool same_language(std::string_view asked, std::string_view known) { return lower(asked) == lower(known); }

// "EN-GB" is EN for a model that knows EN alone.
std::string base_language(const std::string& code) { return code.substr(0, code.find_first_of("-_")); }

// Whether a model may translate from or into a language: one without a pair may, and so may any if none is asked for.
bool fits_language(const std::string& asked, const std::string& known) {
  return asked.empty() || known.empty() || same_language(asked, known) || same_language(base_language(asked), known);
}

// A model whose given name is not a pair answers requests with this name alone.
bool takes_any_pair(const ModelPlace& place) { return place.source.empty() && !place.is_named; }

// The code among those of a model of many languages; empty if it has none.
std::string code_in(const std::vector<std::string>& codes, const std::string& asked) {
  for (const std::string& wanted : {asked, base_language(asked)}) {
    const auto found = std::ranges::find_if(codes, [&](const auto& code) { return same_language(wanted, code); });
    if (found != codes.end()) return *found;
  }
  return "";
}

bool has_languages(const ServedModel& model, const std::string& source, const std::string& target) {
  const std::vector<std::string> codes = model.sentences().languages();
  return !code_in(codes, source).empty() && !code_in(codes, target).empty();
}

std::string pairs_of(const ModelList& models) {
  std::vector<std::string> names;
  for (const auto& model : models) {
    if (!model->translates()) continue;
    const std::vector<std::string> codes = model->sentences().languages();
    names.push_back(!codes.empty()                   ? cat("any pair of ", join(codes, " "))
                    : takes_any_pair(model->place()) ? "any pair"
                                                     : model->place().name);
  }
  return names.empty() ? "no translation model" : join(names, ", ");
}

}  // namespace

AskedLanguages asked_languages(const ServedModel& model, const std::string& source, const std::string& target) {
  const std::vector<std::string> codes = model.sentences().languages();
  if (codes.empty()) return {};
  const ModelPlace& place = model.place();
  const auto code_of = [&](const char* name, const std::string& asked, const std::string& usual) {
    const std::string code = code_in(codes, asked.empty() ? usual : asked);
    const std::string got = asked.empty() ? cat(name, " is missing") : cat(name, ": got ", shown_text(asked));
    if (code.empty())
      throw HttpError(400, cat(got, "; the model '", place.name, "' translates between ", join(codes, ", ")), name);
    return code;
  };
  return {code_of("source", source, place.source), code_of("target", target, place.target)};
}

void require_languages(const ServedModel& model, const std::string& source, const std::string& target) {
  const ModelPlace& place = model.place();
  for (const auto& [name, asked, known] :
       {std::tuple("source", source, place.source), {"target", target, place.target}})
    if (!fits_language(asked, known))
      throw HttpError(400,
                      cat(name, ": got ", shown_text(asked), ", but the model '", place.name, "' translates from ",
                          place.source, " into ", place.target),
                      name);
}

std::shared_ptr<const ModelList> Models::now() const {
  const std::lock_guard lock(mutex_);
  return list_;
}

void Models::set(ModelList list) {
  auto next = std::make_shared<const ModelList>(std::move(list));
  const std::lock_guard lock(mutex_);
  list_.swap(next);
}

ModelList Models::all() const {
  const auto list = now();
  if (list == nullptr) throw HttpError(503, "the models are being loaded; ask again in a moment");
  return *list;
}

std::shared_ptr<ServedModel> Models::translator(const std::string& source, const std::string& target) const {
  const ModelList list = all();
  if (target.empty()) {
    ModelList able = list;
    std::erase_if(able, [](const auto& model) { return !model->translates(); });
    if (able.size() != 1) throw HttpError(400, cat("target is missing; there is ", pairs_of(list)), "target");
    require_languages(*able.front(), source, target);
    return able.front();
  }
  for (const std::string& wanted : {target, base_language(target)}) {
    for (const std::string& from : {source, base_language(source)}) {
      ModelList found;
      for (const auto& model : list) {
        const ModelPlace& place = model->place();
        if (model->translates() && !place.target.empty() && same_language(wanted, place.target) &&
            (from.empty() || same_language(from, place.source)))
          found.push_back(model);
      }
      if (found.size() == 1 || (!found.empty() && !from.empty())) return found.front();
      if (found.size() > 1)
        throw HttpError(400, cat("several models translate into ", shown_text(target), ": ", pairs_of(found),
                                 "; name the source language"));
    }
  }
  for (const auto& model : list)
    if (model->translates() && has_languages(*model, source, target)) return model;
  for (const auto& model : list)
    if (model->translates() && takes_any_pair(model->place()) && model->sentences().languages().empty()) return model;
  throw HttpError(400, cat("no model translates ", source.empty() ? "" : cat("from ", shown_text(source), " "), "into ",
                           shown_text(target), "; there is ", pairs_of(list)));
}

std::shared_ptr<ServedModel> Models::named(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& model : all()) {
    if (model->place().name == name) return model;
    names.push_back(model->place().name);
  }
  throw HttpError(404, cat("the model '", shown_text(name), "' does not exist; there is ", join(names, ", ")), "model");
}

}  // namespace fovea::serve

#include "fovea/serve/served_model.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/trained_model.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/serve/request_fields.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/words.h"

namespace fovea::serve {
namespace {

// Options of a command for the model of one folder.
template <class Options>
Options trained_options(const ModelPlace& place, const ServeOptions& serve) {
  Options options;
  static_cast<AttentionOverride&>(options) = serve;
  static_cast<MachineOptions&>(options) = serve;
  options.model = place.folder;
  options.precision = serve.precision;
  return options;
}

models::EngineLimits limits_of(const ServeOptions& options) {
  return {.max_rows = options.mini_batch * options.beam_size, .max_tokens = options.mini_batch_words};
}

bool same_language(std::string_view asked, std::string_view known) { return lower(asked) == lower(known); }

// "EN-GB" is EN for a model that knows EN alone.
std::string base_language(const std::string& code) { return code.substr(0, code.find_first_of("-_")); }

// Whether a model may translate from or into a language: one without a pair may, and so may any if none is asked for.
bool fits_language(const std::string& asked, const std::string& known) {
  return asked.empty() || known.empty() || same_language(asked, known) || same_language(base_language(asked), known);
}

// A model whose given name is not a pair answers requests with this name alone.
bool takes_any_pair(const ModelPlace& place) { return place.source.empty() && !place.is_named; }

std::string pairs_of(const ModelList& models) {
  std::vector<std::string> names;
  for (const auto& model : models)
    if (model->translates()) names.push_back(takes_any_pair(model->place()) ? "any pair" : model->place().name);
  return names.empty() ? "no translation model" : join(names, ", ");
}

// weights: float32 [layers, heads, target, source].
void add_heads(const at::Tensor& weights, AttentionMap& map) {
  std::vector<analysis::HeadWeights> layers;
  for (int64_t layer = 0; layer < weights.size(0); ++layer) {
    const at::Tensor own = weights[layer];
    layers.push_back({own.const_data_ptr<float>(), own.size(0), own.size(1), own.size(2)});
    std::vector<std::vector<float>>& heads = map.heads.emplace_back();
    const int64_t size = own.size(1) * own.size(2);
    for (int64_t head = 0; head < own.size(0); ++head) {
      const float* const begin = own.const_data_ptr<float>() + head * size;
      heads.emplace_back(begin, begin + size);
    }
  }
  map.sharpest = analysis::sharpest_head(layers);
}

}  // namespace

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

ServedModel::ServedModel(ModelPlace place, const ServeOptions& options) : place_(std::move(place)) {
  if (nn::task_of_checkpoint(place_.folder) == "language") {
    const auto trained = trained_options<language::LanguageModelOptions>(place_, options);
    completion_ = std::make_unique<language::CompletionEngine>(
        language::load_model(trained),
        language::CompletionEngine::Options{
            .layers = models::step_format(trained),
            .limits = {.max_rows = options.mini_batch, .max_tokens = options.mini_batch_words},
            .cache_precision = options.cache_precision});
    completion_->add({.prompt = {}, .max_units = 1});
    while (completion_->step()) continue;
    completion_->take();
    return;
  }
  if (options.cache_precision != "model")
    throw Error(cat("--cache-precision ", options.cache_precision, ": got the model '", place_.folder,
                    "', which translates; only language models have such caches; leave the option out"));
  const auto trained = trained_options<ModelOptions>(place_, options);
  translation_ = std::make_unique<translation::TranslationEngine>(
      translation::load_model(trained),
      translation::TranslationEngine::Options{
          .layers = models::step_format(trained), .limits = limits_of(options), .max_length = options.max_length});
  translation_->add({.text = "1", .max_length_factor = 1});
  while (translation_->step()) continue;
  translation_->take();
}

translation::Sentence ServedModel::tokens(std::string_view sentence) const {
  return is_empty_line(sentence) ? translation::Sentence() : translation_->model().source.encode(sentence);
}

int64_t ServedModel::count_unknown(const translation::Sentence& tokens) const {
  return std::ranges::count(tokens, translation_->model().source.unk());
}

std::string_view ServedModel::language_mark(std::string_view text) const {
  const std::string_view mark = text::leading_language_mark(text);
  const bool is_known = !mark.empty() && translation_->model().source.find(mark);
  return is_known ? mark : std::string_view();
}

int64_t ServedModel::longest_sentence() const { return translation_->limit().tokens; }

AttentionMap ServedModel::attention(const std::string& sentence, const std::vector<std::string>& pieces) const {
  const translation::LoadedModel& loaded = translation_->model();
  translation::WordPair pair{text::encode_words(loaded.source, sentence), {}};
  text::cut(pair.source, translation_->limit().tokens);
  AttentionMap map;
  for (const std::string& piece : pieces) {
    const std::optional<int64_t> id = loaded.target.find(piece);
    if (!id) return {};
    pair.target.pieces.push_back(*id);
    map.target.push_back(piece);
  }
  if (pair.is_empty()) return {};
  for (const int64_t id : pair.source.pieces) map.source.push_back(loaded.source.piece(id));
  map.source.emplace_back("</s>");
  map.target.emplace_back("</s>");
  nn::Model model = loaded.model;
  const translation::SentencePair tokens = with_eos(pair, loaded.source.eos(), loaded.target.eos());
  see_cross_attention(model, std::span(&tokens, 1), {}, "translating", [&](size_t, const at::Tensor& weights) {
    const at::Tensor mean = weights.mean(at::IntArrayRef({0, 1})).contiguous();
    map.weights.assign(mean.data_ptr<float>(), mean.data_ptr<float>() + mean.numel());
    add_heads(weights.contiguous(), map);
  });
  return map;
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
    if (model->translates() && takes_any_pair(model->place())) return model;
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

#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/analysis/sharpest_head.h"
#include "fovea/serve/serve_options.h"
#include "fovea/tasks/language/engine.h"
#include "fovea/tasks/translation/engine.h"

namespace fovea::serve {

// Cross-attention between the pieces of a sentence and of its translation.
struct AttentionMap {
  std::vector<std::string> source, target;             // pieces, </s> last
  std::vector<float> weights;                          // [target, source], the mean of all layers and heads
  std::vector<std::vector<std::vector<float>>> heads;  // of each layer and head, [target, source]
  analysis::HeadPlace sharpest;                        // of them
};

// A loaded model with its engine. Any thread may call the const functions; the others are for the engine's thread.
class ServedModel {
 public:
  // Loads the model of the place and makes one sentence with it. Throws an Error if that is not possible.
  ServedModel(ModelPlace place, const ServeOptions& options);

  const ModelPlace& place() const { return place_; }
  bool translates() const { return translation_ != nullptr; }  // or it continues texts
  // Tokens of a sentence, without </s>, for a model that translates. An empty line (base/empty_line.h) has none.
  translation::Sentence tokens(std::string_view sentence) const;
  int64_t count_unknown(const translation::Sentence& tokens) const;  // tokens of text that the vocabulary lacks
  // The mark of the wanted language at the beginning of a text, for a model that translates; empty without one.
  std::string_view language_mark(std::string_view text) const;
  int64_t longest_sentence() const;  // in tokens, </s> not included

  translation::TranslationEngine& translation() const { return *translation_; }
  language::CompletionEngine& completion() const { return *completion_; }
  AttentionMap attention(const std::string& sentence, const std::vector<std::string>& pieces) const;

 private:
  ModelPlace place_;
  std::unique_ptr<translation::TranslationEngine> translation_;
  std::unique_ptr<language::CompletionEngine> completion_;
};

// Throws an HttpError of status 400 if the model does not translate from `source` into `target`; empty: any.
void require_languages(const ServedModel& model, const std::string& source, const std::string& target);

using ModelList = std::vector<std::shared_ptr<ServedModel>>;

// The models that answer now. Loading them again replaces all at once; requests keep the model that they began with.
class Models {
 public:
  bool is_ready() const { return now() != nullptr; }
  std::shared_ptr<const ModelList> now() const;  // null until all are loaded
  void set(ModelList list);

  // The model that translates between the languages. An empty `source` means the only model into the target, an empty
  // `target` the only model that translates. Throws an HttpError of status 400 that lists the pairs if there is none,
  // or of 503 before the models are loaded.
  std::shared_ptr<ServedModel> translator(const std::string& source, const std::string& target) const;
  // The model of that name. Throws an HttpError of status 404 that lists the names.
  std::shared_ptr<ServedModel> named(const std::string& name) const;
  ModelList all() const;  // throws an HttpError of status 503 before the models are loaded

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const ModelList> list_;
};

}  // namespace fovea::serve

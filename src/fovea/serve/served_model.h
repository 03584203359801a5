#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fovea/serve/engine.h"
#include "fovea/serve/pace.h"
#include "fovea/serve/serve_options.h"

namespace fovea::serve {

// A loaded model with its engine. Any thread may call the const functions; the engine is for the thread of the engines.
class ServedModel {
 public:
  ServedModel(ModelPlace place, std::unique_ptr<Engine> engine)
      : place_(std::move(place)), engine_(std::move(engine)) {}

  const ModelPlace& place() const { return place_; }
  bool translates() const { return engine_->sentences() != nullptr; }  // or it continues texts
  const SentenceReader& sentences() const { return *engine_->sentences(); }
  const UnitReader& texts() const { return *engine_->texts(); }
  Engine& engine() const { return *engine_; }
  Pace& pace() const { return *pace_; }  // for any thread

 private:
  ModelPlace place_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Pace> pace_ = std::make_unique<Pace>();
};

// The codes by which a model of many languages (SentenceReader::languages) knows those of a request, which may differ
// in case, or name a region; empty for other models. A language that is empty is that of the model's name, if it is a
// pair. Throws an HttpError of status 400 that lists the codes if the model lacks one, or one is missing.
struct AskedLanguages {
  std::string source, target;
};
AskedLanguages asked_languages(const ServedModel& model, const std::string& source, const std::string& target);

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

#include "fovea/tasks/captions/load_model.h"

#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/trained_model.h"
#include "fovea/tasks/captions/task.h"

namespace fovea::captions {
namespace {

text::Vocab vocab_of(const models::TrainedModel& trained, const CaptionConfig& config) {
  text::Vocab vocab = text::Vocab::from_bytes(trained.file(kVocabFile), trained.path(kVocabFile));
  trained.require_vocabulary(config.dim_vocabs, vocab.size(), cat("the size of ", kVocabFile));
  return vocab;
}

}  // namespace

LoadedCaptionModel load_caption_model(const TrainedModelOptions& options) {
  const models::TrainedModel trained(options, {kTask});
  const auto config = trained.config<CaptionConfig>();
  if (vector_input(config).width == 0)
    throw Error(cat(trained.path(nn::kConfigFile), ": has neither image-shape nor dim-features; expected one of them"));
  text::Vocab vocab = vocab_of(trained, config);
  return {trained.with_weights(nn::Model(config, std::nullopt, nn::MediaInput{.vectors = vector_input(config)})),
          config, std::move(vocab)};
}

}  // namespace fovea::captions

#include "fovea/tasks/captions/captioner.h"

#include <c10/core/InferenceMode.h>

#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/models/beam_engine.h"
#include "fovea/models/trained_model.h"
#include "fovea/tasks/captions/batch.h"
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

Captioner::Captioner(nn::Model model, const text::Vocab& vocab, const CaptionerOptions& options)
    : model_(std::move(model), options.layers), vocab_(vocab), options_(options) {
  options_.beam.start = options_.beam.eos = vocab.eos();
  if (!options.allow_unk) options_.beam.never = {vocab.unk()};
  options_.max_length = longest_text(model_.model->config(), options.max_length);
}

std::vector<std::vector<models::WrittenText>> Captioner::run(const Inputs& inputs, std::span<const int64_t> images) {
  const c10::InferenceMode guard;
  models::BeamEngine engine(model_, models::kNoLimits, vocab_.eos());
  for (size_t i = 0; i < images.size(); ++i) {
    const ImageBatch image(inputs, images.subspan(i, 1), model_.model->output_bias());
    engine.add({static_cast<models::Ticket>(i), image.vectors, {options_.beam, options_.max_length}});
  }
  std::vector<std::vector<models::WrittenText>> results(images.size());
  for (bool works = true; works;) {
    throw_if_interrupted("captioning");
    works = engine.step();
    for (const models::BeamEngine::Done& done : engine.take()) {
      for (const search::Hypothesis& hypothesis : done.best)
        results[static_cast<size_t>(done.ticket)].push_back(models::written_text(vocab_, hypothesis));
    }
  }
  return results;
}

}  // namespace fovea::captions

#include "fovea/tasks/captions/captioner.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
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
  std::vector<std::vector<models::WrittenText>> results;
  for (std::span<const int64_t> rest = images; !rest.empty();) {
    const auto batch = rest.first(std::min(rest.size(), static_cast<size_t>(options_.mini_batch)));
    rest = rest.subspan(batch.size());
    const ImageBatch tensors(inputs, batch, model_.model->output_bias());
    const at::Tensor memory = model_.model->encode({tensors.vectors, tensors.offsets}, {});
    const std::vector<int64_t> max_lengths(batch.size(), options_.max_length);
    const auto found = models::beam_search(model_, {memory, tensors.offsets}, max_lengths, options_.beam, "captioning");
    for (const std::vector<search::Hypothesis>& hypotheses : found) {
      std::vector<models::WrittenText>& captions = results.emplace_back();
      for (const search::Hypothesis& hypothesis : hypotheses)
        captions.push_back(models::written_text(vocab_, hypothesis));
    }
  }
  return results;
}

}  // namespace fovea::captions

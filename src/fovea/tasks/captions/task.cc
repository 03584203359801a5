#include "fovea/tasks/captions/task.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/nn/device.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/captions/batch.h"
#include "fovea/tasks/captions/measures.h"
#include "fovea/text/text_changes.h"

namespace fovea::captions {
namespace {

CaptionCorpus train_corpus(const Options& options, const Inputs& inputs, const text::Vocab& vocab) {
  const std::string option = "--captions";
  const CaptionedImages captioned =
      pair_captions(inputs, data::read_captions(options.captions, option, options.splits), option);
  text::TextChanges changes(vocab);
  for (const std::vector<std::string>& texts : captioned.texts) {
    for (const std::string& text : texts) changes.add(text);
  }
  text::warn_of_changes(changes, vocab, "captions");
  return encode_captions(inputs, captioned, vocab, options.max_length, option);
}

std::string batches_fingerprint(const Inputs& inputs, const CaptionCorpus& corpus, const Options& options,
                                int64_t seed) {
  return checksum(cat(fingerprint(inputs, corpus), " ", options.mini_batch_words, " ", options.mini_batch, " ",
                      options.maxi_batch, " ", seed));
}

// Learned positions must reach the last token of every caption.
void check_caption_positions(const CaptionConfig& config, const CaptionCorpus& corpus, std::string_view option) {
  if (!has_learned_positions(config)) return;
  int64_t longest = 0;
  for (int64_t c = 0; c < corpus.captions(); ++c) {
    const auto caption = static_cast<size_t>(c);
    longest = std::max(longest, corpus.caption_offsets[caption + 1] - corpus.caption_offsets[caption]);
  }
  if (longest <= config.max_positions) return;
  throw Error(cat(option, ": the longest caption has ", longest, " tokens with </s>; --max-positions is ",
                  config.max_positions, "; raise it, or leave longer captions out (--max-length)"));
}

}  // namespace

CaptionTask::CaptionTask(const TrainConfig& config, Options options, const CaptionConfig& model,
                         int64_t /*batches_an_update*/)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      vocab_(text::Vocab::load(options_.vocabs.at(0))),
      inputs_(std::make_shared<const Inputs>(options_.train_files(), model.patch_size)),
      corpus_(train_corpus(options_, *inputs_, vocab_)),
      config_(with_data(model, *inputs_, vocab_.size())),
      batch_options_{options_.mini_batch_words, options_.mini_batch, options_.maxi_batch,
                     static_cast<uint64_t>(config.seed)},
      validation_(options_, config_.patch_size, inputs_, vocab_),
      model_(nullptr) {
  if (validation_.enabled()) require_fitting(config_, validation_.inputs(), "--valid-features");
  check_caption_positions(config_, corpus_, "--captions");
  check_caption_positions(config_, validation_.corpus(), "--valid-captions");
  model_ = nn::Model(config_, config.seed,
                     nn::MediaInput{.vectors = vector_input(config_)});  // after the checks: it may be large
  parts_ = {.module = model_.ptr(),
            .identity = nn::identity_of(kTask, config_, {{kVocabFile, vocab_.bytes()}}),
            .fingerprint = batches_fingerprint(*inputs_, corpus_, options_, config.seed),
            .valid_fingerprint = validation_.fingerprint(),
            .measures = measures().known(),
            .default_measures = captions::default_measures()};
}

std::vector<int64_t> CaptionTask::begin_epoch(int64_t epoch) {
  batches_ = data::batches_of_epoch(corpus_.lengths().in_turn(), batch_options_, epoch);
  std::vector<int64_t> captions;
  for (const data::Batch& batch : batches_) {
    int64_t& count = captions.emplace_back(0);
    for (const int64_t i : batch) {
      const auto image = static_cast<size_t>(i);
      count += corpus_.first_caption[image + 1] - corpus_.first_caption[image];
    }
  }
  return captions;
}

train::BatchLoss CaptionTask::loss(int64_t batch, const nn::ForwardContext& context) {
  const CaptionBatch tensors(*inputs_, corpus_, batches_.at(static_cast<size_t>(batch)), vocab_.eos(),
                             model_->output_bias());
  const ops::CrossEntropy cost = ops::cross_entropy(forward(model_, tensors, context), model_->output_weight(),
                                                    model_->output_bias(), tensors.outputs, options_.label_smoothing);
  return {cost.loss, static_cast<double>(tensors.outputs.numel())};
}

std::vector<double> CaptionTask::validate(const std::vector<std::string>& names) {
  return validation_.run(model_, names, team());
}

}  // namespace fovea::captions

#include "fovea/tasks/captions/task.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/shared_work.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/models/score_bytes.h"
#include "fovea/models/scorer.h"
#include "fovea/models/whole_segments.h"
#include "fovea/nn/device.h"
#include "fovea/ops/step.h"
#include "fovea/spec/key_lengths.h"
#include "fovea/tasks/captions/batch.h"
#include "fovea/tasks/captions/captioner.h"
#include "fovea/tasks/captions/measures.h"
#include "fovea/text/text_changes.h"

namespace fovea::captions {
namespace {

// The options on which values of measures depend, besides the data and the model.
std::string settings_of(const Options& options) { return cat(options.valid_beam_size, " ", options.valid_max_length); }

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

CaptionConfig with_lengths(CaptionConfig config, const Options& options, const Inputs& inputs) {
  int64_t vectors = 0;
  for (int64_t image = 0; image < inputs.size(); ++image) vectors = std::max(vectors, inputs.length(image));
  return with_biases(std::move(config), {.encoder = vectors, .decoder = options.max_length, .cross = vectors});
}

}  // namespace

Validation::Validation(const Options& options, int64_t patch_size, const std::shared_ptr<const Inputs>& train,
                       const text::Vocab& vocab)
    : options_(options), vocab_(vocab) {
  if (options.valid_captions.empty()) return;
  inputs_ = options.valid_features.empty() ? train : std::make_shared<const Inputs>(options.valid_files(), patch_size);
  const std::string option = "--valid-captions";
  captioned_ =
      pair_captions(*inputs_, data::read_captions(options.valid_captions, option, options.valid_splits), option);
  corpus_ = encode_captions(*inputs_, captioned_, vocab, 0, option);
}

std::string Validation::fingerprint() const {
  if (!enabled()) return "";
  const std::string data = captions::fingerprint(*inputs_, corpus_), settings = settings_of(options_);
  return settings == settings_of({}) ? data : checksum(cat(data, " ", settings));
}

models::GivenScore Validation::force(nn::Model& model, Collective& team) const {
  models::warn_of_whole_segments(model->config());
  const auto of_batch = [&](int64_t index) {
    throw_if_interrupted("validation");
    const int64_t first = index * options_.valid_mini_batch;
    data::Batch batch(static_cast<size_t>(std::min(options_.valid_mini_batch, corpus_.size() - first)));
    std::iota(batch.begin(), batch.end(), first);
    const CaptionBatch tensors(*inputs_, corpus_, batch, vocab_.eos(), model->output_bias());
    models::GivenScore score;
    score.add(model, forward(model, tensors, {}), tensors.outputs);
    return models::score_bytes({score});
  };
  models::GivenScore sum;
  for (const std::string& bytes : shared_work(team, batches_of(corpus_.size()), of_batch))
    sum += models::scores_from(bytes).front();
  return sum;
}

// Each validation builds a new Captioner, because a Captioner keeps the weights that it was built with.
std::vector<std::string> Validation::write(nn::Model& model, Collective& team) const {
  CaptionerOptions options;
  options.beam.beam_size = options_.valid_beam_size;
  options.max_length = options_.valid_max_length;
  Captioner captioner(model, vocab_, options);
  const std::span<const int64_t> images(captioned_.images);
  const auto of_batch = [&](int64_t index) {
    const auto first = static_cast<size_t>(index * options_.valid_mini_batch);
    const auto count = std::min(images.size() - first, static_cast<size_t>(options_.valid_mini_batch));
    std::string lines;
    for (const std::vector<models::WrittenText>& best : captioner.run(*inputs_, images.subspan(first, count)))
      lines += best.front().text + '\n';
    return lines;
  };
  std::string all;
  for (const std::string& lines : shared_work(team, batches_of(std::ssize(images)), of_batch)) all += lines;
  std::vector<std::string> texts = split(all, '\n');
  texts.resize(images.size());
  return texts;
}

std::vector<double> Validation::run(nn::Model& model, const std::vector<std::string>& names, Collective& team) const {
  const torch::NoGradGuard no_grad;
  CaptionScore score = {{[&] { return force(model, team); }, [&] { return write(model, team); }}, captioned_.texts};
  return measures().values(score, names);
}

CaptionTask::CaptionTask(const TrainConfig& config, Options options, const CaptionConfig& model,
                         int64_t /*batches_an_update*/)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      vocab_(text::Vocab::load(options_.vocabs.at(0))),
      inputs_(std::make_shared<const Inputs>(options_.train_files(), model.patch_size)),
      corpus_(train_corpus(options_, *inputs_, vocab_)),
      config_(with_lengths(with_data(model, *inputs_, vocab_.size()), options_, *inputs_)),
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
  const ops::CrossEntropy cost = ops::cross_entropy(forward(model_, tensors, context), model_->output_layer(),
                                                    tensors.outputs, options_.label_smoothing);
  return {cost.loss, static_cast<double>(tensors.outputs.numel())};
}

std::vector<double> CaptionTask::validate(const std::vector<std::string>& names) {
  return validation_.run(model_, names, team());
}

}  // namespace fovea::captions

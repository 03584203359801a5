#include "fovea/tasks/captions/validation.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "fovea/base/file.h"
#include "fovea/base/shared_work.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/models/score_bytes.h"
#include "fovea/models/scorer.h"
#include "fovea/models/whole_segments.h"
#include "fovea/tasks/captions/batch.h"
#include "fovea/tasks/captions/captioner.h"
#include "fovea/tasks/captions/measures.h"

namespace fovea::captions {
namespace {

// The options on which values of measures depend, besides the data and the model.
std::string settings_of(const Options& options) { return cat(options.valid_beam_size, " ", options.valid_max_length); }

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
  options.mini_batch = options_.valid_mini_batch;
  Captioner captioner(model, vocab_, options);
  const std::span<const int64_t> images(captioned_.images);
  const auto of_batch = [&](int64_t index) {
    const auto first = static_cast<size_t>(index * options_.valid_mini_batch);
    std::string lines;
    for (const std::vector<models::WrittenText>& best : captioner.run(
             *inputs_, images.subspan(first, std::min(images.size() - first, static_cast<size_t>(options.mini_batch)))))
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

}  // namespace fovea::captions

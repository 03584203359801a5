#include "fovea/tasks/captions/validation.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <numeric>

#include "fovea/base/signals.h"
#include "fovea/models/scorer.h"
#include "fovea/models/whole_segments.h"
#include "fovea/tasks/captions/batch.h"
#include "fovea/tasks/captions/captioner.h"
#include "fovea/tasks/captions/measures.h"

namespace fovea::captions {
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

std::string Validation::fingerprint() const { return enabled() ? captions::fingerprint(*inputs_, corpus_) : ""; }

models::GivenScore Validation::force(nn::Model& model) const {
  models::warn_of_whole_segments(model->config());
  models::GivenScore score;
  const auto size = static_cast<size_t>(options_.valid_mini_batch);
  for (int64_t first = 0; first < corpus_.size(); first += options_.valid_mini_batch) {
    throw_if_interrupted("validation");
    data::Batch batch(std::min(size, static_cast<size_t>(corpus_.size() - first)));
    std::iota(batch.begin(), batch.end(), first);
    const CaptionBatch tensors(*inputs_, corpus_, batch, vocab_.eos(), model->output_bias());
    score.add(model, forward(model, tensors, {}), tensors.outputs);
  }
  return score;
}

// Each validation builds a new Captioner, because a Captioner keeps the weights that it was built with.
std::vector<std::string> Validation::write(nn::Model& model) const {
  CaptionerOptions options;
  options.beam.beam_size = options_.valid_beam_size;
  options.max_length = options_.valid_max_length;
  options.mini_batch = options_.valid_mini_batch;
  std::vector<std::string> texts;
  for (const std::vector<models::WrittenText>& best :
       Captioner(model, vocab_, options).run(*inputs_, captioned_.images))
    texts.push_back(best.front().text);
  return texts;
}

std::vector<double> Validation::run(nn::Model& model, const std::vector<std::string>& names) const {
  const torch::NoGradGuard no_grad;
  CaptionScore score = {{[&] { return force(model); }, [&] { return write(model); }}, captioned_.texts};
  return measures().values(score, names);
}

}  // namespace fovea::captions

#include "fovea/tasks/language/score_text.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/decode/diverged.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/step.h"

namespace fovea::language {
namespace {

// Windows behind each other, and of each the range of units that are scored.
struct PackedWindows {
  std::vector<int64_t> inputs, outputs, offsets = {0};
  std::vector<int64_t> first_scored;

  void add(const data::Window& window) {
    first_scored.push_back(offsets.back() + window.first_scored);
    inputs.insert(inputs.end(), window.inputs.begin(), window.inputs.end());
    outputs.insert(outputs.end(), window.outputs.begin(), window.outputs.end());
    offsets.push_back(std::ssize(inputs));
  }
};

}  // namespace

TextScore ScoreText::run(const data::TokenText& text, int64_t eos, const See& see) const {
  const at::NoGradGuard no_grad;
  nn::DecoderOnly model = model_;
  const at::Device device = model->output_weight().device();
  const data::ScoringWindows windows(text, eos, {.context = options_.context, .stride = options_.stride});
  TextScore score{.bytes = text.bytes, .words = text.words};
  for (int64_t first = 0; first < windows.size(); first += options_.mini_batch) {
    throw_if_interrupted("scoring");
    PackedWindows packed;
    for (int64_t i = first; i < std::min(first + options_.mini_batch, windows.size()); ++i) packed.add(windows.at(i));
    const std::vector<int64_t> offsets = packed.offsets;
    const at::Tensor hidden = model->forward(nn::index_tensor(std::move(packed.inputs)).to(device),
                                             nn::index_tensor(std::move(packed.offsets)), {});
    const at::Tensor targets = nn::index_tensor(std::move(packed.outputs)).to(device);
    const ops::TokenScores scores = ops::token_scores(hidden, model->output_weight(), model->output_bias(), targets);
    const at::Tensor nll = scores.nll.cpu(), best = scores.best.cpu();
    const auto* losses = nll.const_data_ptr<float>();
    const auto* hits = best.const_data_ptr<bool>();
    for (size_t w = 0; w + 1 < offsets.size(); ++w) {
      for (int64_t t = packed.first_scored[w]; t < offsets[w + 1]; ++t) {
        if (!std::isfinite(losses[t])) decode::refuse_diverged();
        score.nll += losses[t];
        score.correct += hits[t] ? 1 : 0;
        ++score.units;
        if (see) see(-static_cast<double>(losses[t]));
      }
    }
  }
  return score;
}

}  // namespace fovea::language

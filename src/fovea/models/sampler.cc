#include "fovea/models/sampler.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "fovea/base/rng.h"
#include "fovea/base/signals.h"
#include "fovea/models/diverged.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/executor.h"

namespace fovea::models {
namespace {

// The prompts behind each other.
struct PackedPrompts {
  std::vector<int64_t> tokens, offsets = {0};
  explicit PackedPrompts(std::span<const Draft> drafts) {
    for (const Draft& draft : drafts) {
      tokens.insert(tokens.end(), draft.prompt.begin(), draft.prompt.end());
      offsets.push_back(std::ssize(tokens));
    }
  }
};

}  // namespace

uint64_t draft_seed(int64_t seed, int64_t index, int64_t count) {
  const uint64_t of_prompt = hash_combine(static_cast<uint64_t>(seed), static_cast<uint64_t>(index / count));
  return hash_combine(of_prompt, static_cast<uint64_t>(index % count));
}

// Logits rounded to bfloat16 would have two digits, so the output layer is never computed in that type.
Sampler::Sampler(nn::Model model, const SamplingRules& rules, ops::PackedLayer::Format format)
    : model_(std::move(model)),
      rules_(rules),
      layers_(model_->pack(format)),
      output_(model_->output_weight().to(at::kFloat), model_->output_bias().to(at::kFloat), format) {}

std::vector<int64_t> Sampler::choose(at::Tensor logits, std::span<const uint64_t> seeds, int64_t step) const {
  const int64_t rows = logits.size(0), vocabulary = logits.size(1);
  auto* data = logits.mutable_data_ptr<float>();
  std::vector<int64_t> chosen(static_cast<size_t>(rows));
  ops::torch_executor().run(rows, [&](int64_t row, int) {
    float* own = data + row * vocabulary;
    for (const int64_t unit : rules_.never) own[unit] = -std::numeric_limits<float>::infinity();
    chosen[static_cast<size_t>(row)] =
        search::sample(std::span<const float>(own, static_cast<size_t>(vocabulary)), rules_.choice,
                       seeds[static_cast<size_t>(row)], static_cast<uint64_t>(step));
  });
  if (std::ranges::find(chosen, search::kNotFinite) != chosen.end()) refuse_diverged();
  return chosen;
}

void Sampler::run(std::span<const Draft> drafts, const See& see) const {
  const c10::InferenceMode guard;
  nn::Model model = model_;
  const at::Device device = model->output_weight().device();
  std::vector<uint64_t> seeds;
  std::vector<size_t> draft_of;  // of each row
  for (size_t i = 0; i < drafts.size(); ++i) {
    seeds.push_back(drafts[i].seed);
    draft_of.push_back(i);
  }
  PackedPrompts prompts(drafts);
  const std::shared_ptr<nn::Stepper> state =
      model->start(std::ssize(drafts), layers_, nn::StepCache::Rows::kApart, rules_.cut);
  at::Tensor hidden = state->prefill(nn::index_tensor(std::move(prompts.tokens)).to(device),
                                     nn::index_tensor(std::move(prompts.offsets)));
  for (int64_t step = 0; step < rules_.max_length; ++step) {
    throw_if_interrupted("generating");
    std::vector<int64_t> units = choose(output_(hidden.to(at::kFloat)).cpu(), seeds, step);
    std::vector<int64_t> goes_on;  // rows
    for (size_t row = 0; row < units.size(); ++row) {
      if (units[row] == rules_.last) continue;
      see(draft_of[row], units[row]);
      goes_on.push_back(static_cast<int64_t>(row));
    }
    if (goes_on.empty() || step + 1 == rules_.max_length) return;
    if (goes_on.size() < units.size()) {
      for (size_t i = 0; i < goes_on.size(); ++i) {
        const auto row = static_cast<size_t>(goes_on[i]);
        units[i] = units[row], seeds[i] = seeds[row], draft_of[i] = draft_of[row];
      }
      units.resize(goes_on.size()), seeds.resize(goes_on.size()), draft_of.resize(goes_on.size());
      state->reorder(goes_on);
    }
    hidden = state->step(nn::index_tensor(std::move(units)).to(device));
  }
}

}  // namespace fovea::models

#include "fovea/models/sampler.h"

#include <c10/core/InferenceMode.h>

#include <utility>

#include "fovea/base/signals.h"
#include "fovea/models/sample_engine.h"

namespace fovea::models {

Sampler::Sampler(nn::Model model, const SamplingRules& rules, ops::PrepackedLayer::Format format)
    : model_(std::move(model), format), rules_(rules) {}

void Sampler::run(std::span<const Draft> drafts, const See& see) const {
  const c10::InferenceMode guard;
  if (rules_.max_length == 0) return;
  SampleEngine engine(model_, kNoLimits, {rules_.ends, rules_.cut, rules_.cache});
  for (size_t i = 0; i < drafts.size(); ++i) {
    engine.add({.ticket = static_cast<Ticket>(i),
                .prompt = drafts[i].prompt,
                .choice = rules_.choice,
                .max_length = rules_.max_length,
                .never = rules_.never,
                .seed = drafts[i].seed});
  }
  while (engine.step()) {
    for (const SampleEngine::Chosen& chosen : engine.take()) {
      if (chosen.end != SampleEngine::End::kLast) see(static_cast<size_t>(chosen.ticket), chosen.unit);
    }
    throw_if_interrupted("generating");
  }
}

}  // namespace fovea::models

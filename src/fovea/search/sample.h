#pragma once
#include <cstdint>
#include <span>

// Drawing the next token of a text from a model's logits: no model, no tensors.
namespace fovea::search {

struct SampleOptions {
  double temperature = 1;  // divides the logits, finite and at least 0; 0: the greatest logit is chosen
  int64_t top_k = 0;       // only the k greatest logits and those equal to the k-th; 0: all; 1: as temperature 0
  double top_p = 1;        // of these only the fewest most probable whose mass is at least p, in (0, 1]
};

// Throws an Error if an option is outside its range.
void validate(const SampleOptions& options);

// The result of sample() if the logits have no softmax: one is NaN or +infinity, or all are -infinity.
inline constexpr int64_t kNotFinite = -1;

// Returns a token drawn from the softmax of logits [vocabulary] / temperature, restricted to the tokens that top_k and
// top_p leave. The draw uses one random number, that of (seed, counter) in base/rng.h, and double arithmetic. A token
// with the logit -infinity is never drawn. Between equal logits, the argmax and top_p prefer the lower token. Throws an
// Error if an option is outside its range.
int64_t sample(std::span<const float> logits, const SampleOptions& options, uint64_t seed, uint64_t counter);

}  // namespace fovea::search

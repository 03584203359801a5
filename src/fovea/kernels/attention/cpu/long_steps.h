#pragma once
#include <span>
#include <vector>

#include "fovea/kernels/attention/attention.h"

// Steps of decoding over many keys: one query of a sequence, which sees all its keys, by softmax. The keys and values
// of a part are read together, at about the speed of the memory (narrow_rows.h).
namespace fovea::kernels {

constexpr int64_t kFewKeys = 2048;  // a long step has more

// Whether the mechanism is softmax over all keys, in a forward pass without dropout.
bool is_plain_forward(const AttentionProblem& problem);
bool is_long_step(const AttentionProblem& problem, const Sequence& sequence);
// Writes the results of problem.sequences[s] for each s of `sequences`. Returns those s whose results hold a number
// that is not finite: there, a value of weight zero that is not finite may have counted.
std::vector<int64_t> attend_long_steps(const AttentionProblem& problem, const AttentionForward& in,
                                       std::span<const int64_t> sequences, Executor& executor);

}  // namespace fovea::kernels

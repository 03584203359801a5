#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/kernels/attention/attention.h"

namespace fovea::kernels {

// Over fewer keys a sequence's whole score rows stay in the nearest cache, and cpu-rows is the fastest.
constexpr int64_t kManyKeys = 256;

// Returns why a kernel of heads up to `most_head_dim` wide refuses a problem by its type or its width.
std::vector<std::string> refusals_of(const AttentionProblem& problem, int64_t most_head_dim);
// Adds why a kernel that reads a sequence's keys in order refuses one whose keys the call names.
void refuse_named_keys(const AttentionProblem& problem, std::vector<std::string>& reasons);
// Adds the selection of a spec as a reason, without the stream behind cat(): short calls would spend a tenth of their
// time in it.
void refuse_selection(const AttentionSpec& spec, std::vector<std::string>& reasons);

// The kernels of this folder, fastest first.
std::span<const Kernel> cpu_kernels();

}  // namespace fovea::kernels

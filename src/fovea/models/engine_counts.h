#pragma once
#include <cstdint>
#include <limits>

// The numbers and limits of engines that serve requests step by step.
namespace fovea::models {

// The number of a request of one engine: they rise in the order in which requests were added.
using Ticket = int64_t;

// The most that an engine computes at once. Requests beyond it wait, in the order in which they were added; a request
// that is larger than a limit runs alone.
struct EngineLimits {
  int64_t max_rows = 256;     // hypotheses of all sentences, or texts
  int64_t max_tokens = 8192;  // tokens of the running requests: see running_tokens
};

inline constexpr EngineLimits kNoLimits{.max_rows = std::numeric_limits<int64_t>::max(),
                                        .max_tokens = std::numeric_limits<int64_t>::max()};

// The most units of a prompt that a step reads, so that a long prompt does not hold back the other texts.
constexpr int64_t kPromptPiece = 256;

struct EngineCounts {
  int64_t rows = 0;            // hypotheses or texts that the last step computed
  int64_t running = 0;         // requests among them
  int64_t running_tokens = 0;  // tokens of their sources, </s> included, or tokens that texts read in the next step
  int64_t waiting = 0;         // requests that no step has computed yet
  int64_t waiting_tokens = 0;  // the same of those
};

}  // namespace fovea::models

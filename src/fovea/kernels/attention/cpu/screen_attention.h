#pragma once
#include "fovea/kernels/attention/attention.h"

// Attention whose weights are few: selected by screening, kept as lists, and differentiated on the lists alone.
namespace fovea::kernels {

// A row of `kept` is its count and, when they fit, its keys; one of `stats` its RowStats and the values of those keys.
// A longer list (ties at the threshold, a wide support) is computed again in backward.
struct ListLayout {
  int64_t capacity = 0;
  SavedPerRow per_row() const;
};
ListLayout list_layout(const AttentionProblem& problem);

void screened_forward(const AttentionProblem& problem, const AttentionForward& args, Executor& executor);
void screened_backward(const AttentionProblem& problem, const AttentionBackward& args, Executor& executor);

}  // namespace fovea::kernels

#include "fovea/nn/screened_keys.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <vector>

namespace fovea::nn {

bool ScreenedKeys::are_read_by(const Attention& attention) {
  if (attention.indexed().evaluation > 0) return false;
  return !attention.has_terms() && std::ranges::any_of(attention.mechanism().evaluation, [](const HeadGroup& group) {
    return ops::reads_key_screen(group.spec);
  });
}

void ScreenedKeys::rebuild(const at::Tensor& keys, std::span<const TokenRange> used) {
  screen_ = ops::empty_key_screen(keys.size(0), keys.size(1), keys.size(2));
  centre_.reset();
  std::vector<at::Tensor> sample;  // the first keys of some rows are enough for a mean
  constexpr size_t kRows = 16;
  for (const auto& [first, count] : used) {
    if (count > 0 && sample.size() < kRows) sample.push_back(keys.narrow(0, first, std::min<int64_t>(count, 256)));
  }
  if (sample.empty()) return;
  centre_ = ops::key_screen_centre(at::cat(sample));
  for (const auto& [first, count] : used) {
    if (count > 0) ops::pack_key_screen(keys.narrow(0, first, count), screen_, centre_, {}, first);
  }
}

void ScreenedKeys::write(const at::Tensor& keys, const at::Tensor& places, int64_t first) {
  if (!centre_.defined()) centre_ = ops::key_screen_centre(keys);
  ops::pack_key_screen(keys, screen_, centre_, places.defined() ? std::optional(places) : std::nullopt, first);
}

void ScreenedKeys::copy(int64_t from, int64_t to, int64_t count) {
  screen_.rows.narrow(0, to, count).copy_(screen_.rows.narrow(0, from, count));
  screen_.steps.narrow(0, to, count).copy_(screen_.steps.narrow(0, from, count));
}

}  // namespace fovea::nn

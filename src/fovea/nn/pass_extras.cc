#include "fovea/nn/pass_extras.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace fovea::nn {

void UpdateSums::add(const void* owner, const std::vector<at::Tensor>& sums, Apply apply) {
  const at::NoGradGuard no_grad;
  const auto found = std::ranges::find(entries_, owner, &Entry::owner);
  if (found == entries_.end()) {
    entries_.push_back({owner, sums, std::move(apply)});
    return;
  }
  for (size_t i = 0; i < sums.size(); ++i) found->sums[i] = found->sums[i] + sums[i];
}

void UpdateSums::add(const UpdateSums& pass) {
  for (const Entry& entry : pass.entries_) add(entry.owner, entry.sums, entry.apply);
}

void UpdateSums::apply() const {
  const at::NoGradGuard no_grad;
  for (const Entry& entry : entries_) entry.apply(entry.sums);
}

std::vector<at::Tensor> UpdateSums::tensors() const {
  std::vector<at::Tensor> all;
  for (const Entry& entry : entries_) all.insert(all.end(), entry.sums.begin(), entry.sums.end());
  return all;
}

UpdateSums UpdateSums::with(std::span<const at::Tensor> sums) const {
  UpdateSums other = *this;
  auto next = sums.begin();
  for (Entry& entry : other.entries_)
    for (at::Tensor& sum : entry.sums) sum = *next++;
  return other;
}

void PassExtras::add_note(std::string_view name, double value) {
  Mean& mean = notes_[name];
  mean.sum += value;
  mean.count += 1;
}

void PassExtras::add_greatest(std::string_view name, double value) {
  const auto [note, is_new] = greatest_.emplace(name, value);
  if (!is_new) note->second = std::max(note->second, value);
}

std::vector<std::pair<std::string_view, double>> PassExtras::notes() const {
  std::vector<std::pair<std::string_view, double>> all;
  for (const auto& [name, mean] : notes_) all.emplace_back(name, mean.sum / mean.count);
  all.insert(all.end(), greatest_.begin(), greatest_.end());
  return all;
}

void PassExtras::add_figures(const PassExtras& part) {
  for (const auto& [name, mean] : part.notes_) {
    notes_[name].sum += mean.sum;
    notes_[name].count += mean.count;
  }
  for (const auto& [name, value] : part.greatest_) add_greatest(name, value);
  sums_.add(part.sums_);
}

}  // namespace fovea::nn

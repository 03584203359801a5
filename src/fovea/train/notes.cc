#include "fovea/train/notes.h"

#include <algorithm>

namespace fovea::train {

Notes::Sum& Notes::sum_of(std::string_view name) {
  const auto found = std::ranges::find(sums_, name, &Sum::name);
  return found != sums_.end() ? *found : sums_.emplace_back(Sum{std::string(name)});
}

void Notes::add(std::string_view name, double value, double weight) {
  Sum& sum = sum_of(name);
  sum.total += weight * value;
  sum.weight += weight;
}

void Notes::add(const Notes& other) {
  for (const Sum& from : other.sums_) {
    Sum& sum = sum_of(from.name);
    sum.total += from.total;
    sum.weight += from.weight;
  }
}

std::vector<std::pair<std::string, double>> Notes::means() const {
  std::vector<std::pair<std::string, double>> means;
  for (const Sum& sum : sums_) means.emplace_back(sum.name, sum.total / sum.weight);
  return means;
}

}  // namespace fovea::train

#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/nn/pass_extras.h"

namespace fovea::train {

// A pass of an update, without its gradient.
struct PassRecord {
  int64_t pass = 0;  // of the update, from 0
  double cost = 0, weight = 0;
  std::vector<std::pair<std::string, double>> notes = {};
  nn::UpdateSums sums = {};
};

// The records of all processes in the order of the passes. A process without a pass of its own cannot apply the sums of
// the others: its records have none.
std::vector<PassRecord> gathered(Collective& team, std::vector<PassRecord> own);

}  // namespace fovea::train

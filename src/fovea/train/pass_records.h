#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/nn/pass_extras.h"

namespace fovea::train {

// Weighted means of the values in BatchLoss::notes, by name, in the order in which the names first came.
class Notes {
 public:
  void add(std::string_view name, double value, double weight);
  void add(const Notes& other);
  std::vector<std::pair<std::string, double>> means() const;

 private:
  struct Sum {
    std::string name;
    double total = 0, weight = 0;
  };
  Sum& sum_of(std::string_view name);

  std::vector<Sum> sums_;
};

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

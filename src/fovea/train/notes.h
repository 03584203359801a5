#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

}  // namespace fovea::train

#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/models/given_score.h"

namespace fovea::tasks {

// The results of validation for a model that writes texts. Each part is computed when a measure first asks for it.
class WritingScore {
 public:
  using Texts = std::vector<std::string>;
  WritingScore(std::function<models::GivenScore()> force, std::function<Texts()> write)
      : force_(std::move(force)), write_(std::move(write)) {}

  const models::GivenScore& forced() { return forced_ ? *forced_ : forced_.emplace(force_()); }
  const Texts& written() { return written_ ? *written_ : written_.emplace(write_()); }

 private:
  std::function<models::GivenScore()> force_;
  std::function<Texts()> write_;
  std::optional<models::GivenScore> forced_;
  std::optional<Texts> written_;
};

}  // namespace fovea::tasks

#pragma once
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/given_score.h"

// Scores as the bytes that the processes of a team exchange (base/shared_work.h).
namespace fovea::models {

inline std::string score_bytes(const std::vector<GivenScore>& scores) {
  return {reinterpret_cast<const char*>(scores.data()), scores.size() * sizeof(GivenScore)};
}

inline std::vector<GivenScore> scores_from(std::string_view bytes) {
  std::vector<GivenScore> scores(bytes.size() / sizeof(GivenScore));
  if (!scores.empty()) std::memcpy(scores.data(), bytes.data(), scores.size() * sizeof(GivenScore));
  return scores;
}

}  // namespace fovea::models

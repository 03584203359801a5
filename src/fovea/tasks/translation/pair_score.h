#pragma once
#include <cstdint>
#include <string_view>

namespace fovea::translation {

// The scores of `fovea filter --score`.
enum class PairScore : uint8_t { kNullRate, kLogProbability };
inline constexpr std::string_view kPairScores = "null-rate|log-probability";  // in this order

}  // namespace fovea::translation

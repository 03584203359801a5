#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

// Clause attention: each query sees the keys of its own clause at a level, "clause(l)", or a mixture of all keys and of
// clauses at rising levels, "mix(full,clause(1),clause(2))". A source of a spec (attention_spec.h); the stages after it
// act in each part of a mixture, and the norm on the mixture.
namespace fovea {

struct ClauseAttention {
  // The weight p of each level of a mixture, where the outputs y_0 (all keys), y_1, ... y_L give
  // (1 - p_1) y_0 + p_1 ((1 - p_2) y_1 + p_2 (... + p_L y_L)).
  enum class Weights : uint8_t {
    kAlone,     // no mixture: one level
    kLearned,   // sigmoid of a parameter per head and level
    kConstant,  // `constant`
    kByToken,   // sigmoid of a linear function of the query's layer input, per head and level
  };
  std::vector<int64_t> levels;  // rising, from 1
  Weights weights = Weights::kAlone;
  double constant = 0.5;

  static constexpr std::string_view kClause = "clause", kMix = "mix", kExample = "clause(1)",
                                    kArguments = "full,clause(1),clause(2)",
                                    kClauseHelp = "the keys of the query's clause at a level; encoder alone",
                                    kMixHelp =
                                        "all keys and clauses, mixed with learned weights; a last argument "
                                        "constant(P) or token gives others; encoder alone";
  static constexpr std::array kNames{kClause, kMix};
  static constexpr int64_t kMaxLevel = 6;
  bool is_mixture() const { return weights != Weights::kAlone; }
  bool operator==(const ClauseAttention&) const = default;
};

}  // namespace fovea

#include "fovea/kernels/call/counts.h"

#include <gtest/gtest.h>

#include <vector>

#include "fovea/base/rng.h"
#include "fovea/spec/testing/random_spec.h"

namespace fovea::kernels::counts_test {
namespace {

// By the definition of the pairs, key by key.
float counted(const Pairs& pairs, const Row& row) {
  float count = 0;
  for (int64_t key = 0; key < row.keys; ++key) count += contains(pairs, row, key) ? 1 : 0;
  return count;
}

TEST(Counts, AreThoseOfTheDefinition) {
  Rng rng(5);
  const RandomStream random{.seed = 4, .layer = 3};
  const std::vector<Sequence> sequences = {{0, 7, 0, 7}, {7, 1, 7, 12}, {9, 300, 19, 310}};
  for (int i = 0; i < 120; ++i) {
    const bool cross = i % 3 == 2;
    const AttentionKind kind = cross        ? AttentionKind::kCross
                               : i % 3 == 1 ? AttentionKind::kCausal
                                            : AttentionKind::kSelf;
    LayerSpec heads = {{2, random_spec(rng, 2, !cross)}, {1, random_spec(rng, 2, !cross)}, {1, {}}};
    heads[0].spec.scale.emplace(), heads[2].spec.scale.emplace();
    std::vector<float> counts(310 * 4, -1);
    ThreadExecutor executor(2);
    count_candidates({.heads = heads, .kind = kind, .sequences = sequences, .random = random}, counts.data(), executor);
    AttentionProblem problem;
    problem.kind = kind;
    for (int64_t t = 0; t < 310; ++t) {
      for (int64_t head = 0; head < 4; ++head) {
        const Sequence* of = nullptr;
        for (const Sequence& s : sequences)
          if (t >= s.q_begin && t < s.q_begin + s.q_length) of = &s;
        const Pairs& pairs = heads[head < 2 ? 0 : static_cast<size_t>(head - 1)].spec.pairs();
        const float expected = of == nullptr || head == 2
                                   ? -1
                                   : counted(pairs, row_of(problem, *of, t - of->q_begin, random.pattern(head)));
        ASSERT_EQ(counts[static_cast<size_t>(t * 4 + head)], expected)
            << print(heads) << " token " << t << " head " << head;
      }
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::counts_test

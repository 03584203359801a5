#include "fovea/ops/reference_blocks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <tuple>

#include "fovea/base/error.h"
#include "fovea/ops/reference_pairs.h"

// Blocks against the definition of patterns, contains(): they hold each candidate once, and little else.
namespace fovea::ops::reference_blocks_test {
namespace {

using kernels::AttentionProblem;
using kernels::Sequence;

class ReferenceBlocks : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("FOVEA_REFERENCE_MIB"); }
  static void allow(const char* mib) { setenv("FOVEA_REFERENCE_MIB", mib, 1); }
};

AttentionProblem problem(const std::string& spec, AttentionKind kind, std::vector<Sequence> sequences) {
  AttentionProblem p;
  p.spec = parse_attention(spec);
  p.kind = kind, p.dtype = kernels::DType::kFloat64, p.num_heads = 6, p.head_dim = 8;
  p.sequences = std::move(sequences);
  return p;
}

using Pair = std::tuple<int64_t, int64_t, int64_t>;  // head, query token, key position
using SetOfPairs = std::multiset<Pair>;

SetOfPairs pairs_by_definition(const AttentionProblem& p, const kernels::RandomStream& random) {
  SetOfPairs all;
  for (const Sequence& s : p.sequences) {
    for (int64_t h = 0; h < p.num_heads; ++h) {
      for (int64_t i = 0; i < s.q_length; ++i) {
        for (int64_t j = 0; j < s.k_length; ++j) {
          if (contains(p.spec.pairs(), row_of(p, s, i, random.pattern(h)), j)) all.emplace(h, s.q_begin + i, j);
        }
      }
    }
  }
  return all;
}

// The candidates of one block; without a member's padding.
void add_pairs(const BlockView& view, SetOfPairs& all) {
  const ReferenceBlock& block = view.block;
  const at::Tensor outside = pairs_outside(view, {}), keys = key_positions(view);
  for (int64_t g = 0; g < view.group.count(); ++g) {
    for (int64_t h = 0; h < block.heads.count; ++h) {
      for (int64_t r = 0; r < block.queries; ++r) {
        for (int64_t c = 0; c < block.keys; ++c) {
          const auto at = [&](int64_t dim, int64_t i) { return outside.size(dim) == 1 ? 0 : i; };
          if (outside.defined() && outside[at(0, g)][at(1, h)][r][c].item<bool>()) continue;
          const Sequence& s = view.group.members[static_cast<size_t>(g)];
          all.emplace(block.heads.first + h, s.q_begin + block.first_query + r, keys[c].item<int64_t>());
        }
      }
    }
  }
}

TEST_F(ReferenceBlocks, HoldEachCandidateOnce) {
  const kernels::RandomStream random{.seed = 3};
  for (const char* mib : {"256", "0.03", "0.007"}) {
    allow(mib);
    for (const char* spec : {"full", "window(3)", "window(3)|global(2)", "dilated(2,3)", "random(3)", "strided(4)",
                             "block(5)&random(4)", "local(4)|random(1)"}) {
      for (const auto& [kind, sequences] :
           {std::pair(AttentionKind::kSelf, std::vector<Sequence>{{0, 23, 0, 23}, {23, 17, 23, 17}, {40, 0, 40, 0}}),
            std::pair(AttentionKind::kCausal, std::vector<Sequence>{{5, 20, 1, 29}, {30, 22, 40, 24}})}) {
        const AttentionProblem p = problem(spec, kind, sequences);
        TokenCall call;
        call.problem = p, call.random = random;
        SetOfPairs found;
        const auto plan = reference_plan(p, random, at::kCPU);
        for (const ReferenceGroup& group : plan->groups) {
          for (const ReferenceBlock& block : group.blocks) add_pairs({call, group, block}, found);
        }
        EXPECT_EQ(found, pairs_by_definition(p, random)) << spec << ' ' << mib;
      }
    }
  }
}

// The number of pairs that blocks compute, counted for each head.
int64_t computed_pairs(const AttentionProblem& p) {
  int64_t all = 0;
  const auto plan = reference_plan(p, {}, at::kCPU);
  for (const ReferenceGroup& group : plan->groups) {
    for (const ReferenceBlock& block : group.blocks)
      all += group.count() * block.heads.count * block.queries * block.keys;
  }
  return all;
}

TEST_F(ReferenceBlocks, OfAWindowCostByTheWindow) {
  const int64_t n = 32768;
  for (const char* spec : {"window(256)", "block(256)", "window(256)|global(4)", "dilated(128,2)"}) {
    const AttentionProblem p = problem(spec, AttentionKind::kSelf, {{0, n, 0, n}});
    // At least half of what is computed counts; the first rows of global(4) see all keys.
    EXPECT_LE(computed_pairs(p), 3 * p.num_heads * n * 256 + 8 * p.num_heads * n) << spec;
  }
  EXPECT_LE(computed_pairs(problem("full", AttentionKind::kCausal, {{0, n, 0, n}})), n / 2 * 6 * (n + 512));
}

TEST_F(ReferenceBlocks, FitIntoTheBudget) {
  allow("1.5");
  const kernels::AttentionProblem p = problem("topk(8)", AttentionKind::kSelf, {{0, 700, 0, 700}, {700, 30, 700, 30}});
  const BlockBudget budget = block_budget(p);
  const auto plan = reference_plan(p, {}, at::kCPU);
  for (const ReferenceGroup& group : plan->groups) {
    for (const ReferenceBlock& block : group.blocks)
      EXPECT_LE(budget.of(group.count() * block.heads.count, block.queries, block.keys), 1.5 * (1 << 20));
  }
}

TEST_F(ReferenceBlocks, KeepHeadsThatShareKeysApart) {
  allow("0.05");
  AttentionProblem p = problem("full", AttentionKind::kSelf, {{0, 40, 0, 40}});
  p.num_heads = 7, p.keys = {.share = 3, .skipped = 1};
  const auto plan = reference_plan(p, {}, at::kCPU);
  for (const ReferenceBlock& block : plan->groups.at(0).blocks) {
    const HeadRun& heads = block.heads;
    for (int64_t h = 0; h < heads.count; ++h) EXPECT_EQ(p.key_head(heads.first + h), heads.first_key + h / heads.share);
  }
}

std::string refusal(const AttentionProblem& p) {
  try {
    reference_plan(p, {}, at::kCPU);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(ReferenceBlocks, RefuseARowAboveTheBudget) {
  allow("0.01");
  const AttentionProblem p = problem("full", AttentionKind::kSelf, {{0, 100000, 0, 100000}});
  EXPECT_EQ(
      refusal(p),
      "attention: one query with 100000 keys takes 12.59 MiB in the reference; FOVEA_REFERENCE_MIB allows 0.01; set "
      "it to at least 13");
  EXPECT_EQ(refusal(problem("window(8)", AttentionKind::kSelf, {{0, 1000, 0, 1000}})), "");
  allow("much");
  EXPECT_EQ(refusal(p),
            "FOVEA_REFERENCE_MIB: got 'much'; expected the MiB of a block of scores, above 0; leave it out for 256");
  allow("-3");
  EXPECT_NE(refusal(p), "");
}

}  // namespace
}  // namespace fovea::ops::reference_blocks_test

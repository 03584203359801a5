#include "fovea/inspect/attention_statistics.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "fovea/base/error.h"

namespace fovea::inspect::attention_statistics_test {
namespace {

// The figures are sums of a few logarithms in double, each of which is rounded.
constexpr double kRounding = 1e-14;
constexpr double kLn2 = std::numbers::ln2;
// The entropy of 3/4 and 1/4.
const double kOfQuarters = std::log(4.0) - 0.75 * std::log(3.0);

// An attention whose weights are given: [B, H, N_q, N_k], as those of `spec` might be. Positions behind
// the ends of the sequences hold numbers that nobody may read.
struct Shown {
  AttentionKind kind = AttentionKind::kSelf;
  std::string spec = "sparsemax";
  std::vector<int64_t> shape;
  std::vector<float> weights;
  std::vector<int64_t> q_offsets, k_offsets = q_offsets;
  int64_t layer = 0;
};

SequenceUnits tokens(AttentionKind /*kind*/, int64_t /*sequence*/) { return {}; }

void add(AttentionStatistics& statistics, const Shown& shown, const AttentionStatistics::UnitsOf& units = tokens) {
  const nn::AttentionPlace place = {
      .width = shown.shape[1], .heads = shown.shape[1], .kind = shown.kind, .layer = shown.layer};
  const at::Tensor none;
  ops::AttentionOptions options;
  options.kind = shown.kind;
  options.q_offsets = torch::tensor(shown.q_offsets), options.k_offsets = torch::tensor(shown.k_offsets);
  const std::vector<ops::RoutedRows> routed;
  const LayerSpec spec = parse_layer_spec(shown.spec);
  statistics.add({.place = place,
                  .q = none,
                  .k = none,
                  .spec = spec,
                  .layer = nullptr,
                  .options = options,
                  .routed = routed,
                  .weights = torch::tensor(shown.weights).reshape(shown.shape)},
                 units);
}

double value_of(const Figures& figures, const std::string& name) {
  for (const auto& [known, value] : figures)
    if (known == name) return value;
  ADD_FAILURE() << name << " is missing";
  return std::numeric_limits<double>::quiet_NaN();
}

bool has(const Figures& figures, const std::string& name) {
  for (const auto& [known, value] : figures)
    if (known == name) return true;
  return false;
}

// Each query of head 1: both keys, no key. Of head 2: its own key.
const Shown kTwoHeads = {.shape = {1, 2, 2, 2}, .weights = {0.5, 0.5, 0, 0, 1, 0, 0, 3}, .q_offsets = {0, 2}};

TEST(AttentionStatistics, FiguresOfEachHead) {
  AttentionStatistics statistics({});
  add(statistics, kTwoHeads);
  const std::vector<AttentionRecord> records = statistics.records();
  ASSERT_EQ(records.size(), 3U) << "the layer and its heads";
  for (int64_t head = 0; head < 3; ++head) {
    EXPECT_EQ(records[static_cast<size_t>(head)].head, head);
    EXPECT_EQ(records[static_cast<size_t>(head)].kind, "encoder");
    EXPECT_EQ(records[static_cast<size_t>(head)].layer, 1);
  }
  const Figures &first = records[1].figures, &second = records[2].figures;
  EXPECT_EQ(value_of(first, "pairs"), 4);
  EXPECT_EQ(value_of(first, "rows"), 2);
  EXPECT_EQ(value_of(first, "rows_with_weight"), 1);
  EXPECT_EQ(value_of(first, "zeros"), 2.0 / 4);
  EXPECT_EQ(value_of(first, "underflow"), 0);
  EXPECT_EQ(value_of(first, "null_rate"), 1.0 / 2);
  EXPECT_EQ(value_of(first, "kept"), 2.0 / 2);
  EXPECT_NEAR(value_of(first, "entropy"), kLn2, kRounding) << "of the query with weight";
  EXPECT_NEAR(value_of(first, "distance"), 0.5, kRounding) << "half of the weight is one key away";
  EXPECT_EQ(value_of(second, "zeros"), 2.0 / 4);
  EXPECT_EQ(value_of(second, "null_rate"), 0);
  EXPECT_EQ(value_of(second, "rows_with_weight"), 2);
  EXPECT_NEAR(value_of(second, "entropy"), 0, kRounding) << "a weight of 3 is divided by the sum";
  EXPECT_EQ(value_of(second, "distance"), 0);
  for (const char* name : {"on_eos", "on_last_word", "no_cluster", "mean_zeros"})
    EXPECT_FALSE(has(first, name)) << name;
}

TEST(AttentionStatistics, ASinkHasWhatTheKeysDoNotGet) {
  AttentionStatistics statistics({});
  add(statistics, {.spec = "1*sink;1*full",
                   .shape = {1, 2, 2, 2},
                   .weights = {0.25, 0, 0.5, 0.25, 1, 0, 0.5, 0.5},
                   .q_offsets = {0, 2}});
  const std::vector<AttentionRecord> records = statistics.records();
  EXPECT_EQ(value_of(records.at(1).figures, "sink"), 0.5);
  EXPECT_EQ(value_of(records.at(1).figures, "null_rate"), 0);
  EXPECT_FALSE(has(records.at(0).figures, "sink"));
  EXPECT_FALSE(has(records.at(2).figures, "sink"));
}

TEST(AttentionStatistics, FiguresOfTheLayerAreThoseOfTheMeanWeights) {
  AttentionStatistics statistics({});
  add(statistics, kTwoHeads);
  // The mean weights: (3/4, 1/4), and (0, 3/2).
  const Figures layer = statistics.records().at(0).figures;
  EXPECT_EQ(value_of(layer, "zeros"), 1.0 / 4);
  EXPECT_EQ(value_of(layer, "null_rate"), 0);
  EXPECT_EQ(value_of(layer, "kept"), 3.0 / 2);
  EXPECT_NEAR(value_of(layer, "entropy"), kOfQuarters / 2, kRounding);
  EXPECT_NEAR(value_of(layer, "distance"), 0.25 / 2, kRounding);
  EXPECT_EQ(value_of(layer, "mean_zeros"), 1.0 / 2);
  EXPECT_EQ(value_of(layer, "mean_null_rate"), 1.0 / 4);
  EXPECT_EQ(value_of(layer, "null_variance"), 1.0 / 16) << "of null rates 1/2 and 0";
  // The entropy of the mean less the mean entropy; "no key" shares nothing with any key.
  EXPECT_NEAR(value_of(layer, "diversity"), ((kOfQuarters - kLn2 / 2) + kLn2) / 2, kRounding);
}

// ReLA's weights are not normalised, so tau counts: with w = ln 3, softmax(w, 0) is (3/4, 1/4).
TEST(AttentionStatistics, DiversityOfUnnormalisedWeights) {
  const auto w = static_cast<float>(std::log(3.0));
  AttentionStatistics statistics({.taus = {1, 0.5}});
  add(statistics, {.kind = AttentionKind::kCross,
                   .spec = "relu",
                   .shape = {1, 2, 1, 2},
                   .weights = {w, 0, 1, 1},
                   .q_offsets = {0, 1},
                   .k_offsets = {0, 2}});
  const auto entropy = [](double p) { return -p * std::log(p) - (1 - p) * std::log(1 - p); };
  const auto divergence = [&](double p) { return entropy((p + 0.5) / 2) - (entropy(p) + kLn2) / 2; };
  const Figures layer = statistics.records().at(0).figures;
  const double root = std::exp(std::sqrt(std::log(3.0)));
  // ln 3 is rounded to float.
  constexpr double kFloatRounding = std::numeric_limits<float>::epsilon();
  EXPECT_NEAR(value_of(layer, "diversity"), divergence(0.75), kFloatRounding);
  EXPECT_NEAR(value_of(layer, "diversity_tau_0.5"), divergence(root / (root + 1)), kFloatRounding);
}

TEST(AttentionStatistics, ZerosOfSoftmaxAreUnderflow) {
  const Shown shown = {.spec = "full", .shape = {1, 1, 2, 2}, .weights = {1, 0, 0.5, 0.5}, .q_offsets = {0, 2}};
  AttentionStatistics full({});
  add(full, shown);
  const Figures lost = full.records().at(1).figures;
  EXPECT_EQ(value_of(lost, "underflow"), 1.0 / 4);
  EXPECT_EQ(value_of(lost, "zeros"), 0);
  EXPECT_EQ(value_of(lost, "kept"), 3.0 / 2);
  // The selection meant this zero.
  AttentionStatistics selected({});
  Shown topk = shown;
  topk.spec = "topk(1)";
  add(selected, topk);
  const Figures dropped = selected.records().at(1).figures;
  EXPECT_EQ(value_of(dropped, "underflow"), 0);
  EXPECT_EQ(value_of(dropped, "zeros"), 1.0 / 4);
}

TEST(AttentionStatistics, KeysBehindADecodersQueryAreNoPairs) {
  AttentionStatistics statistics({});
  add(statistics,
      {.kind = AttentionKind::kCausal, .shape = {1, 1, 2, 2}, .weights = {1, 9, 0, 1}, .q_offsets = {0, 2}});
  const AttentionRecord record = statistics.records().at(1);
  EXPECT_EQ(record.kind, "decoder");
  EXPECT_EQ(value_of(record.figures, "pairs"), 3);
  EXPECT_EQ(value_of(record.figures, "zeros"), 1.0 / 3);
  EXPECT_EQ(value_of(record.figures, "distance"), 0);
  EXPECT_NEAR(value_of(record.figures, "entropy"), 0, kRounding);
}

TEST(AttentionStatistics, SequencesEndWhereTheirOffsetsSay) {
  AttentionStatistics statistics({});
  add(statistics, {.shape = {2, 1, 2, 2}, .weights = {1, 9, 9, 9, 0.5, 0.5, 0, 1}, .q_offsets = {0, 1, 3}});
  const Figures once = statistics.records().at(1).figures;
  EXPECT_EQ(value_of(once, "rows"), 3);
  EXPECT_EQ(value_of(once, "pairs"), 1 + 4);
  EXPECT_EQ(value_of(once, "zeros"), 1.0 / 5);
  EXPECT_NEAR(value_of(once, "entropy"), kLn2 / 3, kRounding);
  add(statistics, {.shape = {1, 1, 1, 1}, .weights = {0}, .q_offsets = {0, 1}});
  const Figures twice = statistics.records().at(1).figures;
  EXPECT_EQ(value_of(twice, "rows"), 4) << "passes add up";
  EXPECT_EQ(value_of(twice, "zeros"), 2.0 / 6);
}

TEST(AttentionStatistics, CrossAttentionKnowsTheEndAndTheLastWord) {
  const auto with_end = [](AttentionKind /*kind*/, int64_t /*sequence*/) {
    return SequenceUnits{.end_key = 2, .last_begin = 1, .last_end = 2};
  };
  AttentionStatistics statistics({});
  add(statistics,
      {.kind = AttentionKind::kCross,
       .shape = {1, 1, 2, 3},
       .weights = {0.25, 0.5, 0.25, 0, 0, 0},
       .q_offsets = {0, 2},
       .k_offsets = {0, 3}},
      with_end);
  const AttentionRecord record = statistics.records().at(1);
  EXPECT_EQ(record.kind, "cross");
  EXPECT_EQ(value_of(record.figures, "on_eos"), 0.25) << "of the query with weight";
  EXPECT_EQ(value_of(record.figures, "on_last_word"), 0.5);
  EXPECT_EQ(value_of(record.figures, "distance"), 0.5 * 1 + 0.25 * 2);
}

// Two words of two pieces and one: sums over a key's pieces, means over a query's.
TEST(AttentionStatistics, PiecesMakeWords) {
  static constexpr std::array<int32_t, 3> kWords = {0, 0, 1};
  static constexpr std::array<int32_t, 3> kKeyWords = {0, 1, 1};
  const auto words = [&](AttentionKind /*kind*/, int64_t /*sequence*/) {
    return SequenceUnits{.queries = kWords, .keys = kKeyWords};
  };
  AttentionStatistics statistics({});
  add(statistics, {.shape = {1, 1, 3, 3}, .weights = {1, 0, 0, 0, 0.5, 0.5, 0, 0, 1}, .q_offsets = {0, 3}}, words);
  // The words' weights: (1/2, 1/2), and (0, 1).
  const Figures figures = statistics.records().at(1).figures;
  EXPECT_EQ(value_of(figures, "rows"), 2);
  EXPECT_EQ(value_of(figures, "pairs"), 4);
  EXPECT_EQ(value_of(figures, "zeros"), 1.0 / 4);
  EXPECT_EQ(value_of(figures, "kept"), 3.0 / 2);
  EXPECT_NEAR(value_of(figures, "entropy"), kLn2 / 2, kRounding);
  EXPECT_NEAR(value_of(figures, "distance"), 0.5 / 2, kRounding);
}

TEST(AttentionStatistics, LabelsDivideTheQueries) {
  static constexpr std::array<int64_t, 2> kLabels = {5, 9};
  AttentionStatistics statistics({});
  add(statistics, kTwoHeads,
      [&](AttentionKind /*kind*/, int64_t /*sequence*/) { return SequenceUnits{.labels = kLabels}; });
  const std::vector<LabelRecord> labels = statistics.labels();
  ASSERT_EQ(labels.size(), 4U);
  for (const LabelRecord& record : labels) {
    EXPECT_EQ(record.kind, "encoder");
    EXPECT_EQ(value_of(record.figures, "rows"), 1);
    EXPECT_EQ(value_of(record.figures, "pairs"), 2);
    const bool is_null = record.head == 1 && record.label == 9;
    EXPECT_EQ(value_of(record.figures, "null_rate"), is_null ? 1 : 0) << record.head << " " << record.label;
    EXPECT_EQ(value_of(record.figures, "zeros"), is_null ? 1 : record.head == 1 ? 0 : 0.5);
  }
  add(statistics, kTwoHeads);
  EXPECT_EQ(value_of(statistics.labels().at(0).figures, "rows"), 1) << "queries without a label";
}

// A query that sees one key has no choice; at the other, the heads share nothing.
TEST(AttentionStatistics, SortsOfHeadsAreCompared) {
  const Shown shown = {.kind = AttentionKind::kCausal,
                       .spec = "1*local(2);1*full",
                       .shape = {1, 2, 2, 2},
                       .weights = {1, 0, 1, 0, 1, 0, 0, 1},
                       .q_offsets = {0, 2}};
  AttentionStatistics statistics({.draws = 2});
  add(statistics, shown);
  const std::vector<SortRecord> sorts = statistics.sorts();
  ASSERT_EQ(sorts.size(), 1U) << "neither sort has two heads";
  EXPECT_EQ(sorts[0].heads, "full-local");
  EXPECT_EQ(sorts[0].kind, "decoder");
  EXPECT_NEAR(value_of(sorts[0].figures, "divergence"), kLn2 / 2, kRounding);
  EXPECT_NEAR(value_of(sorts[0].figures, "divergence_deviation"), 0, std::sqrt(kRounding)) << "the root of a variance";
  EXPECT_EQ(value_of(sorts[0].figures, "draws"), 2);
  AttentionStatistics alike({});
  add(alike, kTwoHeads);
  EXPECT_TRUE(alike.sorts().empty());
}

TEST(AttentionStatistics, WeightsThatAreNotFiniteAreRefused) {
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    AttentionStatistics statistics({});
    EXPECT_THROW(
        add(statistics, {.shape = {1, 1, 1, 2}, .weights = {0, wrong}, .q_offsets = {0, 1}, .k_offsets = {0, 2}}),
        Error);
  }
}

}  // namespace
}  // namespace fovea::inspect::attention_statistics_test

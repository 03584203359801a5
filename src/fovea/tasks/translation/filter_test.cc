#include <gmock/gmock.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <set>

#include "fovea/base/choices.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/test_models.h"
#include "fovea/tasks/translation/corrupt_pairs.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/tasks/translation/filter.h"
#include "fovea/tasks/translation/filter_report.h"
#include "fovea/tasks/translation/pair_scorer.h"
#include "fovea/tasks/translation/test_task.h"

namespace fovea::translation::filter_test {
namespace {

using testing::HasSubstr;

std::vector<TextPair> some_pairs() {
  std::vector<TextPair> pairs;
  Rng rng(2);
  for (int64_t line = 1; line <= 60; ++line) {
    std::string source, target;
    const uint64_t words = 2 + rng.below(12);
    for (uint64_t w = 0; w < words; ++w) {
      source += cat(w > 0 ? " s" : "s", rng.below(50));
      target += cat(w > 0 ? " t" : "t", rng.below(50), w == 2 ? "," : "");
    }
    pairs.push_back({source, target, line});
  }
  return pairs;
}

size_t words_in(const std::string& text) { return split_words(text).size(); }

// Every kind: as many bad pairs as good ones, with the same sources, another target and a function of the seed.
class Corruptions : public testing::TestWithParam<std::string> {
 protected:
  CorruptedPairs corrupted(const std::vector<TextPair>& pairs, uint64_t seed = 1) const {
    return corrupt(pairs, parse_choice<Corruption>(kCorruptions, GetParam(), "kind"), seed);
  }
};

TEST_P(Corruptions, ChangeNothingButTheTarget) {
  std::vector<TextPair> pairs = some_pairs();
  pairs.push_back({"", "t1 t2", 61});
  pairs.push_back({"s1 s2", " ", 62});
  const CorruptedPairs result = corrupted(pairs), again = corrupted(pairs);
  ASSERT_EQ(result.good.size(), 60U);
  ASSERT_EQ(result.bad.size(), 60U);
  for (size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(result.good[i].line, static_cast<int64_t>(i + 1));
    EXPECT_EQ(result.good[i].target, pairs[i].target);
    EXPECT_EQ(result.bad[i].source, pairs[i].source);
    EXPECT_NE(result.bad[i].target, pairs[i].target);
    EXPECT_EQ(result.bad[i].target, again.bad[i].target);
  }
}

TEST_P(Corruptions, OfNothingAreNone) {
  EXPECT_TRUE(corrupted({}).good.empty());
  const bool needs_another = GetParam() != "halved" && GetParam() != "untranslated";
  EXPECT_EQ(corrupted({{"s1 s2", "t1 t2", 1}}).good.empty(), needs_another);
  EXPECT_EQ(corrupted({{"s1", "t1 t2", 1}, {"s2", "t1 t2", 2}}).good.empty(), needs_another);  // the same target
}

INSTANTIATE_TEST_SUITE_P(All, Corruptions, testing::ValuesIn(split(kCorruptions, '|')));

TEST(Corrupt, ByShufflingTakesEveryTargetOnce) {
  const CorruptedPairs result = corrupt(some_pairs(), Corruption::kShuffled, 3);
  std::multiset<std::string> good, bad;
  for (const TextPair& pair : result.good) good.insert(pair.target);
  for (const TextPair& pair : result.bad) bad.insert(pair.target);
  EXPECT_EQ(good, bad);
  EXPECT_NE(result.bad[0].target, corrupt(some_pairs(), Corruption::kShuffled, 4).bad[0].target);
}

TEST(Corrupt, ByNeighboursTakesTheNearestInLength) {
  const std::vector<TextPair> pairs = some_pairs();
  const CorruptedPairs result = corrupt(pairs, Corruption::kNeighbour, 3);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto distance = [&](const std::string& target) {
      return std::abs(static_cast<int64_t>(words_in(target)) - static_cast<int64_t>(words_in(pairs[i].target)));
    };
    int64_t nearest = 1000;
    for (const TextPair& other : pairs) {
      if (other.target != pairs[i].target) nearest = std::min(nearest, distance(other.target));
    }
    EXPECT_EQ(distance(result.bad[i].target), nearest) << i;
  }
}

std::vector<std::string> bad_targets(const std::vector<std::string>& targets, Corruption how, uint64_t seed = 1) {
  std::vector<TextPair> pairs;
  for (const std::string& target : targets) pairs.push_back({"s", target, std::ssize(pairs) + 1});
  std::vector<std::string> bad;
  for (const TextPair& pair : corrupt(pairs, how, seed).bad) bad.push_back(pair.target);
  return bad;
}

TEST(Corrupt, ByHalvingKeepsTheFirstHalf) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(bad_targets({"a b c d e", "one", "a b"}, Corruption::kHalved), (Texts{"a b", "a"}));
  EXPECT_EQ(bad_targets({"文字列です", "文 字", "x"}, Corruption::kHalved), (Texts{"文字", "文"}));
}

// A word alone is one unit among texts with blanks, as long as it may be; most targets decide what the text has.
TEST(Corrupt, CountsEveryTargetInTheSameUnits) {
  const std::vector<std::string> words = {"one", "a b", "c d e", "f g h i"};
  EXPECT_EQ(bad_targets(words, Corruption::kNeighbour).at(0), "a b");
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const std::string swapped = bad_targets(words, Corruption::kSwapped, seed).at(0);
    EXPECT_EQ(split_words(swapped).size(), 1U) << swapped;
    EXPECT_EQ(swapped.size(), 1U) << swapped;
    EXPECT_THAT(bad_targets(words, Corruption::kInserted, seed).at(0), testing::StartsWith("one "));
  }
  EXPECT_EQ(bad_targets({"文字列", "文字列です", "か な か な"}, Corruption::kNeighbour).at(0), "文字列です");
}

TEST(Corrupt, BySwappingChangesOneWord) {
  const CorruptedPairs result = corrupt(some_pairs(), Corruption::kSwapped, 1);
  for (size_t i = 0; i < result.good.size(); ++i) {
    const std::vector<std::string> good = split_words(result.good[i].target), bad = split_words(result.bad[i].target);
    ASSERT_EQ(good.size(), bad.size());
    int changed = 0;
    for (size_t w = 0; w < good.size(); ++w) changed += good[w] == bad[w] ? 0 : 1;
    EXPECT_EQ(changed, 1) << i;
  }
}

TEST(Corrupt, ByInsertingAppendsAClause) {
  const std::vector<TextPair> pairs = {{"s", "a b c", 1}, {"s", "d e, f g h. i", 2}};
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed < 30; ++seed) {
    const CorruptedPairs result = corrupt(pairs, Corruption::kInserted, seed);
    seen.insert(result.bad.at(0).target);
    EXPECT_EQ(result.bad.at(1).target, "d e, f g h. i a b c");
  }
  EXPECT_EQ(seen, (std::set<std::string>{"a b c d e,", "a b c f g h."}));
}

TEST(Corrupt, ByTheSourceLeavesOutWhatIsTheSame) {
  const CorruptedPairs result = corrupt({{"a b", "c", 1}, {"x", "x", 2}}, Corruption::kUntranslated, 1);
  ASSERT_EQ(result.bad.size(), 1U);
  EXPECT_EQ(result.bad[0].target, "a b");
}

ModelConfig with_cross(const std::string& attention) {
  ModelConfig model = nn::testing::tiny();
  model.attention_cross = attention;
  return model;
}

TEST(PairScores, OfNullRowsNeedReLU) {
  EXPECT_EQ(pair_score_of(FilterOptions{}.score, with_cross("full")), PairScore::kLogProbability);
  EXPECT_EQ(pair_score_of(FilterOptions{}.score, with_cross("relu+rmsnorm")), PairScore::kLogProbability);
  EXPECT_EQ(pair_score_of("null-rate", with_cross("relu+rmsnorm")), PairScore::kNullRate);
  EXPECT_EQ(pair_score_of("log-probability", with_cross("rela-g")), PairScore::kLogProbability);
  EXPECT_EQ(pair_score_of("null-rate", with_cross("1*full;2*relu")), PairScore::kNullRate);
  EXPECT_EQ(message_of([] { pair_score_of("null-rate", with_cross("topk(8)")); }),
            "--score null-rate: the model's cross-attention is 3*topk(8), whose rows are never all zero; expected relu "
            "(ReLA); use --score log-probability");
}

class PairScorerTest : public testing::Test {
 protected:
  LoadedModel loaded(const std::string& cross) const {
    ModelConfig config = with_cross(cross);
    text::Vocab vocab = text::Vocab::load(task_.data.vocabs[0]);
    config.dim_vocabs = {vocab.size(), vocab.size()};
    nn::Model model = nn::testing::make(config, at::kFloat);
    model->eval();
    return {model, std::move(vocab), text::Vocab::load(task_.data.vocabs[1])};
  }
  std::vector<TextPair> text() const {
    PairReader reader(task_.data.train_sets);
    std::vector<TextPair> pairs = reader.next(40);
    pairs.push_back({"", "xux", 41});
    pairs.push_back({"ama", "", 42});
    return pairs;
  }
  TestTask task_;
};

TEST_F(PairScorerTest, NullRatesCountRowsOfZeros) {
  LoadedModel model = loaded("relu+rmsnorm");
  PairScorer scorer(model, {PairScore::kNullRate, {200, 16}, 1000});
  const std::vector<double> scores = scorer.score(text());
  ASSERT_EQ(scores.size(), 42U);
  double some = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    PairEncoder encoder(model, 1000);
    const std::vector<SentencePair> pair = encoder.encode({text()[i]});
    int64_t nulls = 0, rows = 0;
    see_cross_attention(model.model, pair, {1000, 1}, "testing", [&](size_t, const at::Tensor& weights) {
      const at::Tensor flat = weights.reshape({-1, weights.size(3)}).contiguous();
      for (int64_t r = 0; r < flat.size(0); ++r) {
        const float* row = flat.const_data_ptr<float>() + r * flat.size(1);
        rows += 1;
        nulls += std::all_of(row, row + flat.size(1), [](float w) { return w == 0; }) ? 1 : 0;
      }
    });
    EXPECT_EQ(rows, 2 * 3 * std::ssize(pair[0].target));
    // A score that is exactly at 0 in another batch may be above it by rounding.
    EXPECT_NEAR(scores[i], -static_cast<double>(nulls) / static_cast<double>(rows), 1.5 / static_cast<double>(rows));
    // Both layers have as many rows, so the score is the mean of theirs.
    ASSERT_EQ(scorer.by_layer().size(), 2U);
    EXPECT_NEAR((scorer.by_layer()[0][i] + scorer.by_layer()[1][i]) / 2, scores[i], 1e-12);
    some += nulls > 0 && nulls < rows ? 1 : 0;
  }
  EXPECT_GT(some, 10);
}

TEST_F(PairScorerTest, LogProbabilitiesAreScoresPerTargetToken) {
  LoadedModel model = loaded("full");
  PairScorer scorer(model, {PairScore::kLogProbability, {200, 16}, 1000});
  PairEncoder encoder(model, 1000);
  const std::vector<SentencePair> pairs = encoder.encode(text());
  const std::vector<double> sums = score_pairs(model.model, pairs, {200, 16}), scores = scorer.score(text());
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_DOUBLE_EQ(scores[i] * static_cast<double>(pairs[i].target.size()), sums[i]);
}

TEST(FilterReport, NamesItsNumbers) {
  const std::vector<double> good = {-0.1, -0.2, -0.2, -0.4}, bad = {-0.9, -0.3, -0.5, -0.8};
  const Separation separation{"null-rate", "shuffled", good, bad, 1000};
  const std::string text = separation_text(separation);
  EXPECT_TRUE(text.starts_with("AUC 0.9375\nshuffled by null-rate: 4 pairs of the text's 1,000, and each made wrong\n"))
      << text;
  for (const std::string& line : split(text, '\n')) EXPECT_FALSE(!line.empty() && line[0] >= '0' && line[0] <= '9');
  const auto object = nlohmann::json::parse(separation_json(separation));
  EXPECT_EQ(object["auc"], 15.0 / 16);
  EXPECT_EQ(object["good"]["count"], 4);
  EXPECT_EQ(object["histogram"].size(), 10U);
  int64_t counted = 0;
  for (const auto& bin : object["histogram"]) counted += bin["good"].get<int64_t>() + bin["bad"].get<int64_t>();
  EXPECT_EQ(counted, 8);
  EXPECT_TRUE(object["layers"].empty());

  Separation by_layer = separation;
  by_layer.good_by_layer = {good, bad}, by_layer.bad_by_layer = {bad, good};
  EXPECT_TRUE(
      separation_text(by_layer).ends_with("\nnull-rate by layer\n layer      good       bad       AUC\n"
                                          "     1   -0.2250   -0.6250    0.9375\n"
                                          "     2   -0.6250   -0.2250    0.0625\n"))
      << separation_text(by_layer);
  EXPECT_EQ(nlohmann::json::parse(separation_json(by_layer))["layers"][1]["auc"], 1.0 / 16);
}

TEST(FilterReport, AsJsonHasEveryScore) {
  const std::vector<double> scores = {-1.5, 0};
  const auto object = nlohmann::json::parse(filter_json({.score = "log-probability",
                                                         .scores = scores,
                                                         .shown = {{"best", 0, {"a \"b\"", "ü", 2}}},
                                                         .keeps = true,
                                                         .kept = 1}));
  EXPECT_EQ(object["pairs"], 2);
  EXPECT_EQ(object["kept"], 1);
  EXPECT_EQ(object["scores"][0], (nlohmann::json{{"pair", 1}, {"score", -1.5}}));
  EXPECT_EQ(object["shown"][0]["source"], "a \"b\"");
  EXPECT_EQ(object["distribution"]["mean"], -0.75);
}

TEST(FilterOptions, ThatContradictAreRefused) {
  const auto said = [](const std::function<void(FilterOptions&)>& change) {
    FilterOptions options;
    options.model = "m";
    options.train_sets = {"a", "b"};
    change(options);
    return message_of([&] { validate(options); });
  };
  EXPECT_EQ(said([](FilterOptions&) {}), "nothing was thrown");
  EXPECT_EQ(said([](FilterOptions& o) { o.keep = 0.5; }), "--output has 0 files; expected two, source and target");
  EXPECT_EQ(said([](FilterOptions& o) {
              o.outputs = {"c", "d"};
            }),
            "--output needs --keep or --threshold; scores go to standard output");
  EXPECT_THAT(said([](FilterOptions& o) {
                o.keep = 0.5, o.threshold = {-1}, o.outputs = {"c", "d"};
              }),
              HasSubstr("--keep and --threshold: got both"));
  EXPECT_THAT(said([](FilterOptions& o) { o.test = "halved", o.show = 3; }), HasSubstr("--test measures the score"));
  EXPECT_EQ(said([](FilterOptions& o) { o.test_pairs = 3; }), "--test-pairs needs --test");
  EXPECT_EQ(said([](FilterOptions& o) { o.seed = 3; }),
            "--seed needs --show or --test: without them, nothing is drawn");
  EXPECT_THAT(said([](FilterOptions& o) { o.show = 3, o.train_sets[1] = "-"; }), HasSubstr("can be read only once"));
  EXPECT_EQ(said([](FilterOptions& o) { o.train_sets[1] = "-"; }), "nothing was thrown");
  EXPECT_THAT(said([](FilterOptions& o) {
                o.keep = 0.5, o.outputs = {"c.gz", "d"};
              }),
              HasSubstr("'c.gz' would not be compressed"));
}

}  // namespace
}  // namespace fovea::translation::filter_test

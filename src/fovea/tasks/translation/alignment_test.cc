#include <gmock/gmock.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/test_models.h"
#include "fovea/tasks/translation/alignment_report.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/tasks/translation/gold_reader.h"
#include "fovea/tasks/translation/head_search.h"

namespace fovea::translation::alignment_test {
namespace {

using analysis::Links;
using testing::HasSubstr;

std::vector<SentencePair> random_pairs(const std::vector<std::pair<int, int>>& lengths) {
  Rng rng(4);
  const auto sentence = [&](int length) {
    Sentence tokens;
    for (int i = 0; i < length; ++i) tokens.push_back(static_cast<int64_t>(1 + rng.below(16)));
    tokens.push_back(0);
    return tokens;
  };
  std::vector<SentencePair> pairs;
  for (const auto& [source, target] : lengths) pairs.push_back({sentence(source), sentence(target)});
  return pairs;
}

std::vector<at::Tensor> seen_weights(nn::Model& model, const std::vector<SentencePair>& pairs,
                                     const BatchLimits& limits) {
  std::vector<at::Tensor> seen(pairs.size());
  see_cross_attention(model, pairs, limits, "testing", [&](size_t i, const at::Tensor& weights) {
    EXPECT_FALSE(seen[i].defined());
    seen[i] = weights.clone();
  });
  return seen;
}

TEST(CrossAttention, IsShownForEveryPairWhateverItsBatch) {
  nn::Model model = nn::testing::make(nn::testing::tiny(), at::kFloat);
  model->eval();
  const std::vector<SentencePair> pairs = random_pairs({{3, 5}, {7, 1}, {1, 4}, {9, 9}, {2, 2}, {6, 5}});
  const std::vector<at::Tensor> together = seen_weights(model, pairs, {1000, 100});
  const std::vector<at::Tensor> alone = seen_weights(model, pairs, {1, 1});
  for (size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_EQ(together[i].sizes(),
              (std::vector<int64_t>{2, 3, std::ssize(pairs[i].target), std::ssize(pairs[i].source)}));
    // The dense reference depends on the batch to rounding.
    EXPECT_TRUE(at::allclose(together[i], alone[i], 1e-5, 1e-6)) << i;
    EXPECT_TRUE(at::allclose(together[i].sum(-1), at::ones_like(together[i].sum(-1)), 1e-5)) << i;
  }
}

TEST(CrossAttention, OfARowDependsOnTheTokensBeforeItAlone) {
  nn::Model model = nn::testing::make(nn::testing::tiny(), at::kFloat);
  model->eval();
  std::vector<SentencePair> pairs = random_pairs({{5, 6}});
  pairs.push_back(pairs.front());
  pairs.back().target[2] = pairs.front().target[2] % 16 + 1;
  const std::vector<at::Tensor> seen = seen_weights(model, pairs, {1000, 100});
  const at::Tensor changed = (seen[0] - seen[1]).abs().amax({0, 1, 3});
  for (int64_t row = 0; row < 7; ++row) {
    // Row t predicts token t, and its input is token t - 1: token 2 shows from row 3 on.
    EXPECT_EQ(changed[row].item<float>() > 1e-6, row > 2) << row;
  }
}

TEST(CrossAttention, OfADivergedModelIsRefused) {
  nn::Model model = nn::testing::make(nn::testing::tiny(), at::kFloat);
  {
    const torch::NoGradGuard guard;
    model->named_parameters()["encoder.embeddings.weight"].fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const std::vector<SentencePair> pairs = random_pairs({{3, 3}});
  EXPECT_THAT(message_of([&] { seen_weights(model, pairs, {1000, 100}); }), HasSubstr("not finite"));
}

TEST(LayerAndHead, MustBeThere) {
  const ModelConfig model = nn::testing::tiny();
  EXPECT_EQ(message_of([&] { require_layer_and_head(model, {2, 3}, "--"); }), "nothing was thrown");
  EXPECT_EQ(message_of([&] {
              require_layer_and_head(model, {3, 0}, "--alignment-");
            }),
            "--alignment-layer: got 3; the model's decoder has 2 layers");
  EXPECT_EQ(message_of([&] { require_layer_and_head(model, {0, 4}, "--"); }), "--head: got 4; the model has 3 heads");
}

// Three source pieces of two words, two target pieces of two words, </s> behind both.
WordPair small_pair() {
  return {{.pieces = {5, 6, 7}, .words = {0, 1, 1}, .num_words = 2},
          {.pieces = {8, 9}, .words = {0, 1}, .num_words = 2}};
}

// [2 layers, 2 heads, 3, 4]; the rows of the last head of each layer are null.
at::Tensor small_weights() {
  return torch::tensor({                                                                         // layer 1
                        0.4F, 0.3F, 0.3F, 0.0F, 0.1F, 0.6F, 0.0F, 0.3F, 0.5F, 0.0F, 0.1F, 0.4F,  //
                        0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.9F, 0.0F, 0.0F, 0.0F, 0.0F,
                        // layer 2
                        0.0F, 0.1F, 0.8F, 0.1F, 0.9F, 0.0F, 0.1F, 0.0F, 0.0F, 0.9F, 0.1F, 0.0F,  //
                        0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F})
      .view({2, 2, 3, 4});
}

TEST(WordLinks, AreThoseOfTheChosenWeights) {
  const auto links = [](const LinkChoice& choice) { return word_links(small_weights(), small_pair(), choice); };
  EXPECT_EQ(links({.layer = 1, .head = 1}), (Links{{0, 0}, {1, 1}}));
  EXPECT_EQ(links({.layer = 1, .head = 1, .shifted = true}), (Links{{0, 1}, {1, 0}}));
  EXPECT_EQ(links({.layer = 1, .head = 1, .soft = true}), (Links{{1, 0}, {1, 1}}));  // 0.3 + 0.3 above 0.4
  EXPECT_EQ(links({.layer = 1, .head = 2}), Links{});                                // null rows, and </s> alone
  EXPECT_EQ(links({.layer = 2}), (Links{{0, 1}, {1, 0}}));                           // the mean of two heads
  EXPECT_EQ(links({}), (Links{{0, 1}, {1, 0}}));                 // sums 0.4 0.4 1.1, then 1.0 0.6 0.1
  EXPECT_EQ(links({.shifted = true}), (Links{{0, 0}, {1, 1}}));  // row 2: 0.5 0.9 0.2
}

TEST(WordLinks, DoNotReadTheColumnOfTheEnd) {
  at::Tensor weights = small_weights();
  weights.select(3, 3).fill_(100);
  EXPECT_EQ(word_links(weights, small_pair(), {.layer = 1, .head = 1}), (Links{{0, 0}, {1, 1}}));
}

analysis::GoldLinks sure(const Links& links) { return {links, links}; }

TEST(HeadSearch, FindsTheBestAndAverages) {
  HeadSearch search(2, 2, false);
  search.add(small_weights(), small_pair(), sure({{0, 0}, {1, 1}}));
  const auto found = nlohmann::json::parse(search.json(1));
  EXPECT_EQ(found["records"].size(), 2U * (1 + 2 * 3));
  for (const auto& record : found["records"]) {
    const LinkChoice choice{record["layer"], record["head"], record["shifted"]};
    const Links links = word_links(small_weights(), small_pair(), choice);
    const bool is_right = links == Links{{0, 0}, {1, 1}};
    EXPECT_EQ(record["kind"], "cross");
    EXPECT_EQ(record["links"], links.size());
    EXPECT_EQ(record["aer"], is_right ? 0.0 : 1.0) << record;  // links here are all right or all wrong
    EXPECT_EQ(record["precision"].is_null(), links.empty()) << record;
  }
  // The layers' means, normal: 1 is right, 2 wrong; shifted: 1 is wrong, 2 right where row 1 gives word 0 for 0.
  EXPECT_EQ(found["means"][0], (nlohmann::json{{"shifted", false}, {"layers", 0.5}, {"heads", 0.5}}));
  EXPECT_EQ(found["means"][1], (nlohmann::json{{"shifted", true}, {"layers", 0.5}, {"heads", 0.5}}));
  const std::string table = search.table(1);
  EXPECT_THAT(table, HasSubstr("\n1      1      0.0000     1.0000     1.0000     1.0000     0.0000     0.0000\n"));
  EXPECT_THAT(table, HasSubstr("\n2      2      1.0000     -          0.0000     1.0000     -          0.0000\n"));
  EXPECT_THAT(table, HasSubstr("\nnormal: AoL 0.5000 AoH 0.5000, best: layer 1 head mean 0.0000\n"));
  EXPECT_THAT(table, HasSubstr("\nAER of 1 pairs with 2 sure and 2 possible links\n"));
}

TEST(AlignmentReport, WritesZeroOverZeroAsADash) {
  analysis::AlignmentCounts counts;
  counts.add({}, {{}, {{0, 0}}});
  EXPECT_EQ(summary_line(counts, 3), "AER - precision - recall - pairs 3 links 0 sure 0 possible 1");
  const auto object = nlohmann::json::parse(summary_json(counts, 3));
  EXPECT_TRUE(object["aer"].is_null() && object["precision"].is_null() && object["recall"].is_null());
  counts.add({}, sure({{0, 0}}));
  EXPECT_EQ(summary_line(counts, 4), "AER 1.0000 precision - recall 0.0000 pairs 4 links 0 sure 1 possible 2");
}

class GoldTest : public testing::Test {
 protected:
  std::string said(const std::string& gold, const std::vector<TextPair>& pairs) {
    write_file(folder_ / "gold", gold);
    return message_of([&] {
      GoldReader reader(folder_ / "gold", {});
      for (const TextPair& pair : pairs) reader.next(pair);
      reader.finish();
    });
  }
  TestFolder folder_;
};

TEST_F(GoldTest, MustBelongToTheText) {
  const std::vector<TextPair> text = {{"a b", "x y z"}, {"a", "x"}};
  const std::string name = "--gold: '" + folder_ / "gold" + "'";
  EXPECT_EQ(said("0-0 1-2\n\n", text), "nothing was thrown");
  EXPECT_EQ(said("0-0\n", text), name + " ends after 1 line, --train-sets has more; expected a line of links per pair");
  EXPECT_EQ(said("0-0\n0-0\n0-0\n", text),
            name + " has more lines than --train-sets, which has 2; expected a line of links per pair");
  EXPECT_EQ(said("\n\n", text), name + " has no links; expected at least one to compare with");
  EXPECT_THAT(said("0-0\n0-1\n", text), HasSubstr(name + " line 2: link 0-1 is outside of the sentences"));
  EXPECT_THAT(said("0-0\n0/0\n", text), HasSubstr(name + " line 2: got '0/0'; expected links such as 0-1"));
  EXPECT_THAT(message_of([] { GoldReader("/nowhere/gold", {}); }), HasSubstr("--gold"));
}

}  // namespace
}  // namespace fovea::translation::alignment_test

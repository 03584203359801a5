#include "fovea/inspect/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"

namespace fovea::inspect::cost_test {
namespace {

using ::testing::HasSubstr;
using Texts = std::vector<std::string>;
using Json = nlohmann::json;

// Two heads of 4 numbers.
EncoderDecoderConfig tiny() {
  EncoderDecoderConfig config;
  config.dim_emb = 8, config.transformer_heads = 2, config.enc_depth = 2, config.dec_depth = 1;
  return config;
}

void no_speeds(const AttentionOverride& /*mechanisms*/, const std::string& /*spec*/, CostSpeeds& /*speeds*/) {
  ADD_FAILURE() << "speeds are for --train-sets";
}

std::string written(AnalysisOptions options, const ModelConfig& model, const AttentionOverride& mechanisms = {},
                    const MeasureSpeeds& measure = no_speeds) {
  const TestFolder folder;
  options.output = folder / "cost";
  write_costs(options, mechanisms, model, measure);
  return read_file(options.output);
}

// The numbers of one record, as docs/analysis.md defines them.
struct Numbers {
  double scored, weighted, score_flops, transform_flops, value_flops, flops, bytes, projection_flops;
  bool operator==(const Numbers&) const = default;
};

Numbers numbers_of(const Json& records, const std::string& spec, const std::string& kind, int64_t layer) {
  for (const Json& r : records) {
    if (r["spec"] == spec && r["kind"] == kind && r["layer"] == layer)
      return {r["scored"],      r["weighted"], r["score_flops"], r["transform_flops"],
              r["value_flops"], r["flops"],    r["bytes"],       r["projection_flops"]};
  }
  ADD_FAILURE() << spec << " " << kind << " " << layer << " is missing";
  return {};
}

// By hand, for 4 tokens. A product of two vectors of a head is 4 multiplications and 4 additions. Four projections
// multiply 4 rows with 8 x 8 numbers: 4 * 2 * 4 * 64. In float32, q, k, v and the output have 4 * 8 * 4 bytes each.
TEST(Cost, CountsPairsOperationsAndBytes) {
  AnalysisOptions options;
  options.json = true, options.lengths = {4}, options.sweep = {"full", "topk(2)", "relu", "cross=topk(2)"};
  const Json records = Json::parse(written(options, tiny()))["records"];
  EXPECT_EQ(records.size(), 4U * (2 + 1 + 1)) << "entries x layers of the encoder, the decoder and cross-attention";
  // 2 heads * 4 * 4 pairs; a softmax row of 4 keys is 3 * 4 - 1 operations.
  const Numbers full = {32, 32, 8 * 32, 2 * 4 * 11, 8 * 32, 256 + 88 + 256, 512, 2048};
  for (const int64_t layer : {1, 2}) EXPECT_EQ(numbers_of(records, "full", "encoder", layer), full);
  EXPECT_EQ(numbers_of(records, "full", "cross", 1), full);
  // Causal rows have 1 to 4 keys: 10 pairs, and 2 + 5 + 8 + 11 operations.
  EXPECT_EQ(numbers_of(records, "full", "decoder", 1), (Numbers{20, 20, 160, 2 * 26, 160, 160 + 52 + 160, 512, 2048}));
  // Each score is compared, then softmax has 2 keys, whose pairs are listed in 8 bytes each.
  const Numbers topk = {32, 16, 256, 32 + 2 * 4 * 5, 8 * 16, 256 + 72 + 128, 512 + 8 * 16, 2048};
  EXPECT_EQ(numbers_of(records, "topk(2)", "encoder", 2), topk);
  // The first causal row has one key: 1 + 2 + 2 + 2 pairs, and 2 + 5 + 5 + 5 operations.
  EXPECT_EQ(numbers_of(records, "topk(2)", "decoder", 1),
            (Numbers{20, 14, 160, 20 + 2 * 17, 8 * 14, 160 + 54 + 112, 512 + 8 * 14, 2048}));
  // Zeros of ReLA depend on the data, so all pairs count; a row of n is n operations.
  EXPECT_EQ(numbers_of(records, "relu", "encoder", 1), (Numbers{32, 32, 256, 32, 256, 544, 512, 2048}));
  // An entry for one sort leaves the others as they were trained.
  EXPECT_EQ(numbers_of(records, "cross=topk(2)", "encoder", 1), full);
  EXPECT_EQ(numbers_of(records, "cross=topk(2)", "cross", 1), topk);
}

// By hand, for 4 tokens and 4 heads of 2 numbers, which share one head of keys and values: projections of 4 rows of 8
// numbers to 8 for queries, 8 for the output, and 2 each for keys and values; q and the output have 4 * 8 numbers each,
// k and v 4 * 2.
TEST(Cost, CountsSharedKeyHeadsOnce) {
  AnalysisOptions options;
  options.json = true, options.lengths = {4};
  DecoderConfig model;
  model.dim_emb = 8, model.transformer_heads = 4, model.transformer_heads_kv = 1, model.dec_depth = 1;
  // Causal: 10 pairs a head, of 2 numbers each; 26 operations of softmax a head.
  const Numbers expected = {
      40, 40, 4 * 40, 4 * 26, 4 * 40, 160 + 104 + 160, 4 * (2 * 32 + 2 * 8), 2 * 4 * 8 * (8 + 8 + 2 + 2)};
  EXPECT_EQ(numbers_of(Json::parse(written(options, model))["records"], "trained", "decoder", 1), expected);
}

// By hand, for 4 tokens and 2 heads of 4 numbers: 4 rows of 8 numbers are projected to 32, and by stages of the layer
// to 8 or 2 for a gate and to 2 for each matrix of ASEntmax. SSMax takes 4 + 2 operations for a query and head,
// ASEntmax 4 + 8, and a gate 6 for each of 32 numbers; 20 causal pairs take 3 operations of softmax each, or 6 of
// entmax.
TEST(Cost, CountsStagesOfTheLayer) {
  AnalysisOptions options;
  options.json = true, options.lengths = {4};
  options.sweep = {"full+gate", "full+gate(head)", "full+scaled", "entmax(1.5)+scaled"};
  DecoderConfig model;
  model.dim_emb = 8, model.transformer_heads = 2, model.dec_depth = 1;
  const Json records = Json::parse(written(options, model))["records"];
  const auto of = [&](const char* spec) {
    const Numbers numbers = numbers_of(records, spec, "decoder", 1);
    return std::pair(numbers.transform_flops, numbers.projection_flops);
  };
  EXPECT_EQ(of("full+gate"), std::pair(2 * 26.0 + 6 * 32, 2.0 * 4 * 8 * (32 + 8)));
  EXPECT_EQ(of("full+gate(head)"), std::pair(2 * 26.0 + 6 * 32, 2.0 * 4 * 8 * (32 + 2)));
  EXPECT_EQ(of("full+scaled"), std::pair(2 * 26.0 + 8 * (4 + 2), 2.0 * 4 * 8 * 32));
  EXPECT_EQ(of("entmax(1.5)+scaled"), std::pair(6 * 20.0 + 8 * (4 + 8), 2.0 * 4 * 8 * (32 + 4)));
}

// By hand: the 2 heads of an indexer of width 5 read the 8 numbers of a token's queries, each for 5 numbers and a
// weight, and one row of 5 is made of the 8 numbers of its keys.
TEST(Cost, CountsTheProjectionsOfAnIndexer) {
  AnalysisOptions options;
  options.json = true, options.lengths = {4}, options.sweep = {"dsa(2)"};
  DecoderConfig model;
  model.dim_emb = 8, model.transformer_heads = 2, model.dec_depth = 1, model.index_width = 5;
  const Numbers numbers = numbers_of(Json::parse(written(options, model))["records"], "dsa(2)", "decoder", 1);
  EXPECT_EQ(numbers.projection_flops, 2.0 * 4 * (8 * 32 + 8 * 2 * (5 + 1) + 8 * 5));
}

TEST(Cost, NeedsNoParametersButAPlace) {
  const TestFolder folder;
  AnalysisOptions options;
  options.json = true, options.lengths = {4}, options.sweep = {"rela-g"};
  DecoderConfig model;
  model.dim_emb = 8, model.transformer_heads = 2, model.dec_depth = 1;
  // In addition to a ReLU, the gated norm has 10 operations per number and 1 per query.
  EXPECT_EQ(numbers_of(Json::parse(written(options, model))["records"], "rela-g", "decoder", 1).transform_flops,
            20 + 10 * 32 + 4);
  options.sweep = {"full", "cross=full"}, options.output = folder / "cost";
  EXPECT_THROW(write_costs(options, {}, model, no_speeds), UsageError);
  EXPECT_FALSE(std::filesystem::exists(options.output)) << "half of a result is none";
}

// The words of the table's lines that begin with this spec.
std::vector<Texts> rows_of(const std::string& table, const std::string& spec) {
  std::vector<Texts> rows;
  for (const std::string& line : split(table, '\n')) {
    Texts words = split_words(line);
    if (!words.empty() && words[0] == spec) rows.push_back(std::move(words));
  }
  return rows;
}

TEST(Cost, TheTableJoinsLayersThatAreAlike) {
  EncoderDecoderConfig model = tiny();
  model.enc_depth = 4, model.attention_layers = {"encoder.3=relu"};
  AnalysisOptions options;
  options.lengths = {4};
  const std::vector<Texts> rows = rows_of(written(options, model), "trained");
  Texts layers;
  for (const Texts& row : rows) layers.push_back(cat(row.at(2), " ", row.at(3)));
  EXPECT_EQ(layers, (Texts{"encoder 1-2", "encoder 3", "encoder 4", "decoder 1", "cross 1"}));
  EXPECT_EQ(rows.at(0),
            (Texts{"trained", "4", "encoder", "1-2", "32", "32", "256", "88", "256", "600", "512", "2.048", "k"}));
}

TEST(Cost, SpeedsAreMeasuredForEachEntryOfATextThatIsGiven) {
  AnalysisOptions options;
  options.json = true, options.lengths = {4}, options.sweep = {"full", "cross=topk(2)"}, options.train_sets = {"text"};
  std::vector<std::pair<AttentionOverride, std::string>> asked;
  const auto measure = [&](const AttentionOverride& mechanisms, const std::string& spec, CostSpeeds& speeds) {
    asked.emplace_back(mechanisms, spec);
    speeds.by_source.push_back(
        {.spec = spec, .group = 1, .pairs = 5, .shortest = 2, .longest = 9, .training = 1.75, .decoding = 0.25});
    speeds.by_length.push_back({.spec = spec, .length = 128, .segments = 7, .training = 1000.4, .decoding = 10});
  };
  const Json speeds = Json::parse(written(options, tiny(), {.attention_encoder = "relu"}, measure))["speeds"];
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0], std::pair(AttentionOverride{.attention = "full"}, std::string("full")));
  EXPECT_EQ(asked[1], std::pair(AttentionOverride{.attention_encoder = "relu", .attention_cross = "topk(2)"},
                                std::string("cross=topk(2)")));
  ASSERT_EQ(speeds.size(), 4U);
  const auto has = [&](const Json& record) {
    EXPECT_TRUE(std::find(speeds.begin(), speeds.end(), record) != speeds.end()) << record;
  };
  has({{"spec", "full"},
       {"group", 1},
       {"pairs", 5},
       {"shortest", 2},
       {"longest", 9},
       {"training", 1.75},
       {"decoding", 0.25}});
  has({{"spec", "cross=topk(2)"}, {"length", 128}, {"segments", 7}, {"training", 1000.4}, {"decoding", 10.0}});
  options.json = false;
  const std::string table = written(options, tiny(), {}, measure);
  EXPECT_EQ(rows_of(table, "full").at(3), (Texts{"full", "1", "2-9", "5", "2", "0"})) << "whole tokens a second";
  EXPECT_EQ(rows_of(table, "full").at(4), (Texts{"full", "128", "7", "1000", "10"}));
}

}  // namespace
}  // namespace fovea::inspect::cost_test

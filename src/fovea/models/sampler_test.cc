#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/strings.h"
#include "fovea/models/sampler.h"
#include "fovea/models/test_models.h"

namespace fovea::models::sampler_test {
namespace {

using Texts = std::vector<std::vector<int64_t>>;
constexpr int64_t kBegin = 16, kVocabulary = 17;
constexpr auto kExact = ops::PrepackedLayer::Format::kExact;

Texts texts_of(const nn::Model& model, const SamplingRules& rules, const std::vector<Draft>& drafts) {
  Texts texts(drafts.size());
  Sampler(model, rules, kExact).run(drafts, [&](size_t draft, int64_t unit) { texts[draft].push_back(unit); });
  return texts;
}

// Prompts of different lengths.
std::vector<Draft> some_drafts() {
  return {{{kBegin, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, 1},
          {{kBegin}, 2},
          {{kBegin, 2, 7}, 3},
          {{kBegin, 1, 8, 2, 8, 1, 8}, 4}};
}

// Temperature 0 must take, token by token, the best unit of a full pass over all that stands before it.
void expect_greedy(const nn::Model& model, const std::string& what) {
  SamplingRules rules;
  rules.choice.temperature = 0;
  rules.max_length = 25;
  rules.never = {kBegin};
  const std::vector<Draft> drafts = some_drafts();
  const Texts texts = texts_of(model, rules, drafts);
  for (size_t i = 0; i < drafts.size(); ++i) {
    std::vector<int64_t> read = drafts[i].prompt;
    ASSERT_EQ(texts[i].size(), 25) << what;
    for (const int64_t unit : texts[i]) {
      at::Tensor scores = next_log_probs(model, read);
      scores[kBegin] = -1e9;
      // Two units whose scores are equal except for float32's rounding may be taken for each other.
      ASSERT_GE(scores[unit].item<double>(), scores.max().item<double>() - 1e-4)
          << what << ": text " << i << ", after " << read.size() << " units";
      read.push_back(unit);
    }
  }
}

TEST(Sampler, GreedyEqualsFullPasses) {
  for (const char* attention :
       {"full", "topk(4)", "window(5)", "entmax(1.5)", "blocks(4,1)", "random(3)", "2*local(4);1*strided(3)",
        "relu+rmsnorm", "relu+gated-rmsnorm", "window(4)|global(2)", "dilated(3,2)", "fixed(3,1)"}) {
    for (const char* norm : {"pre", "post"}) {
      for (const char* positions : {"sinusoidal", "learned"})
        expect_greedy(test_model(attention, positions, norm), cat(attention, ", ", norm, ", ", positions));
    }
  }
}

TEST(Sampler, TextsDependOnTheirSeedAlone) {
  for (const char* attention : {"full", "topk(4)", "2*local(4);1*random(3)"}) {
    const nn::Model model = test_model(attention);
    SamplingRules rules;
    rules.max_length = 30;
    rules.choice = {.temperature = 1.3, .top_k = 12, .top_p = 0.95};
    const std::vector<Draft> drafts = some_drafts();
    const Texts together = texts_of(model, rules, drafts);
    for (size_t i = 0; i < drafts.size(); ++i)
      EXPECT_EQ(texts_of(model, rules, {drafts[i]}).front(), together[i]) << attention << ": alone, text " << i;
    std::vector<Draft> many = drafts;
    for (uint64_t i = 0; i < 100; ++i) many.push_back({{kBegin, 5}, 100 + i});
    Texts of_many = texts_of(model, rules, many);
    of_many.resize(drafts.size());
    EXPECT_EQ(of_many, together) << attention << ": among 100 others";
    at::set_num_threads(2);
    EXPECT_EQ(texts_of(model, rules, drafts), together) << attention << ": two threads";
    at::set_num_threads(1);
    std::vector<Draft> reseeded = drafts;
    for (Draft& draft : reseeded) draft.seed += 10;
    EXPECT_NE(texts_of(model, rules, reseeded), together) << attention;
  }
}

TEST(Sampler, TheLastUnitEndsATextAndItsRowLeaves) {
  const nn::Model model = test_model("full");
  SamplingRules rules;
  rules.max_length = 40;
  rules.choice.temperature = 2;
  std::vector<Draft> drafts = some_drafts();
  for (uint64_t i = 0; i < 20; ++i) drafts.push_back({{kBegin, static_cast<int64_t>(i % 16)}, 50 + i});
  Texts expected = texts_of(model, rules, drafts);
  int64_t cut = 0;
  for (std::vector<int64_t>& text : expected) {
    const auto end = std::ranges::find(text, 5);
    if (end != text.end()) ++cut;
    text.erase(end, text.end());
  }
  ASSERT_GT(cut, 3) << "the test has no text that ends early";
  ASSERT_LT(cut, std::ssize(drafts)) << "the test has no text that goes on";
  rules.ends = {5};
  EXPECT_EQ(texts_of(model, rules, drafts), expected);
}

TEST(Sampler, UnitsThatAreForbiddenNeverCome) {
  const nn::Model model = test_model("full");
  std::vector<Draft> drafts;
  for (uint64_t i = 0; i < 50; ++i) drafts.push_back({{kBegin}, i});
  SamplingRules rules;
  rules.max_length = 40;
  rules.choice.temperature = 1000;  // nearly even
  const auto has = [](const Texts& texts, int64_t unit) {
    return std::ranges::any_of(texts, [&](const auto& text) { return std::ranges::find(text, unit) != text.end(); });
  };
  EXPECT_TRUE(has(texts_of(model, rules, drafts), 5)) << "the test forbids what would not come";
  rules.never = {5, kBegin};
  const Texts texts = texts_of(model, rules, drafts);
  EXPECT_FALSE(has(texts, 5));
  EXPECT_FALSE(has(texts, kBegin));
  EXPECT_TRUE(has(texts, 4));
}

// Pearson's chi-square of 20,000 first units against the model's probabilities at a temperature. 16 degrees of freedom:
// above 45.9 once in 10,000 if the units follow them.
double chi_square(const nn::Model& model, double temperature, const at::Tensor& log_probs) {
  constexpr int64_t kSamples = 20000;
  std::vector<Draft> drafts;
  for (uint64_t i = 0; i < kSamples; ++i) drafts.push_back({{kBegin, 3, 1}, hash_combine(1, i)});
  SamplingRules rules;
  rules.max_length = 1;
  rules.choice.temperature = temperature;
  std::vector<double> counts(kVocabulary);
  for (const std::vector<int64_t>& text : texts_of(model, rules, drafts)) ++counts[static_cast<size_t>(text.front())];
  double sum = 0;
  for (int64_t unit = 0; unit < kVocabulary; ++unit) {
    const double expected = kSamples * std::exp(log_probs[unit].item<double>());
    EXPECT_GT(expected, 5) << "too rare for the test";
    sum += std::pow(counts[static_cast<size_t>(unit)] - expected, 2) / expected;
  }
  return sum;
}

TEST(Sampler, FollowsTheModelsProbabilities) {
  const nn::Model model = test_model("full");
  const at::Tensor log_probs = next_log_probs(model, {kBegin, 3, 1});
  EXPECT_LT(chi_square(model, 1, log_probs), 45.9);
  EXPECT_LT(chi_square(model, 1.5, at::log_softmax(log_probs / 1.5, 0)), 45.9);
  EXPECT_GT(chi_square(model, 0.9, log_probs), 45.9) << "the test does not see another temperature";
}

}  // namespace
}  // namespace fovea::models::sampler_test

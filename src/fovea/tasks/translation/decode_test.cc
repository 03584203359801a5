#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>

#include "fovea/base/rng.h"
#include "fovea/base/test_message.h"
#include "fovea/models/batches.h"
#include "fovea/tasks/translation/score_pairs.h"
#include "fovea/tasks/translation/test_decoding.h"

namespace fovea::translation::decode_test {
namespace {

Decoding beam(int64_t size, int64_t num_best = 1) {
  Decoding options;
  options.beam.beam_size = size;
  options.beam.num_best = num_best;
  return options;
}

using Format = ops::PrepackedLayer::Format;

std::vector<std::vector<search::Hypothesis>> translate(nn::Model& model, const std::vector<Sentence>& sources,
                                                       const Decoding& options, int64_t together,
                                                       Format format = Format::kExact) {
  models::SearchModel laid_out(model, format);
  return decode(laid_out, sources, options, together);
}

TEST(LengthBatches, KeepTheirLimitsAndLoseNothing) {
  const std::vector<Sentence> sentences = random_sentences(200, 1);
  for (const BatchLimits limits : {BatchLimits{40, 7}, BatchLimits{1, 64}, BatchLimits{1000000, 1000000}}) {
    std::vector<int64_t> seen;
    size_t previous = 1000;
    for (const auto& batch : length_batches(sentences, limits)) {
      int64_t words = 0;
      for (const int64_t i : batch) {
        const size_t length = sentences[static_cast<size_t>(i)].size();
        EXPECT_LE(length, previous);
        previous = length;
        words += static_cast<int64_t>(length);
        seen.push_back(i);
      }
      EXPECT_LE(static_cast<int64_t>(batch.size()), limits.max_sentences);
      EXPECT_TRUE(words <= limits.max_words || batch.size() == 1);
    }
    std::ranges::sort(seen);
    std::vector<int64_t> all(sentences.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
  }
}

TEST(PairBatches, EndWhereLongSourcesOfShortTargetsAreFourTimesTheLimit) {
  const auto sizes = [](const std::vector<SentencePair>& pairs) {
    std::vector<size_t> all;
    for (const auto& batch : pair_batches(pairs, {50, 20})) all.push_back(batch.size());
    return all;
  };
  EXPECT_EQ(sizes(std::vector<SentencePair>(9, {Sentence(60, 1), {2, 0}})), (std::vector<size_t>{3, 3, 3}));
  EXPECT_EQ(sizes(std::vector<SentencePair>(2, {Sentence(500, 1), {2, 0}})), (std::vector<size_t>{1, 1}));
  EXPECT_EQ(sizes(std::vector<SentencePair>(30, {Sentence(10, 1), {2, 0}})), (std::vector<size_t>{20, 10}));
}

// Log-softmax of the full pass over `inputs`, the last row, in double.
at::Tensor next_log_probs(nn::Model& model, const Sentence& source, const Sentence& inputs) {
  const torch::NoGradGuard guard;
  const auto offsets = [](const Sentence& s) {
    return torch::tensor({int64_t{0}, static_cast<int64_t>(s.size())}, at::kLong);
  };
  const at::Tensor memory = model->encode({torch::tensor(source, at::kLong), offsets(source)}, {});
  const at::Tensor hidden =
      model->decode({torch::tensor(inputs, at::kLong), offsets(inputs), memory, offsets(source)}, {});
  const at::Tensor last = hidden[hidden.size(0) - 1].to(at::kDouble);
  return (model->output_weight().to(at::kDouble).mv(last) + model->output_bias().to(at::kDouble)).log_softmax(0);
}

TEST(Decoding, ABeamOfOneIsGreedyOverFullPasses) {
  nn::Model model = decoding_model("topk(3)");
  const std::vector<Sentence> sources = random_sentences(12, 2);
  model->output_bias().data_ptr<float>()[0] += 1;
  const auto found = translate(model, sources, beam(1), 12);
  size_t ended = 0;
  for (size_t s = 0; s < sources.size(); ++s) {
    Sentence inputs = {0};
    double log_prob = 0;
    const size_t limit = 2 * sources[s].size();
    for (;;) {
      const at::Tensor next = next_log_probs(model, sources[s], inputs);
      const int64_t token = inputs.size() > limit ? 0 : next.argmax().item<int64_t>();
      log_prob += next[token].item<double>();
      if (token == 0) break;
      inputs.push_back(token);
    }
    ended += inputs.size() <= limit ? 1 : 0;
    EXPECT_EQ(found[s][0].tokens, Sentence(inputs.begin() + 1, inputs.end()));
    // Float sums of some hundred terms below 10 for each of up to 30 steps.
    EXPECT_NEAR(found[s][0].log_prob, log_prob, 1e-4);
  }
  EXPECT_GT(ended, 2U);  // both ways of ending happen
  EXPECT_LT(ended, 12U);
}

// The others keep their probabilities.
TEST(Decoding, ATokenThatNoHypothesisHasIsPassedOver) {
  nn::Model model = decoding_model("full");
  const std::vector<Sentence> sources = random_sentences(8, 6);
  constexpr int64_t kNever = 7;
  model->output_bias().data_ptr<float>()[kNever] += 6;
  size_t had = 0;
  for (const auto& hypotheses : translate(model, sources, beam(1), 8))
    had += static_cast<size_t>(std::ranges::count(hypotheses[0].tokens, kNever));
  EXPECT_GT(had, 8U);
  for (const Format format : {Format::kExact, Format::kInt8}) {
    for (const int64_t size : {int64_t{1}, int64_t{3}, kVocabulary}) {
      Decoding options = beam(size, size);
      options.beam.never = {kNever};
      for (const auto& hypotheses : translate(model, sources, options, 8, format)) {
        for (const auto& hypothesis : hypotheses) EXPECT_EQ(std::ranges::count(hypothesis.tokens, kNever), 0) << size;
      }
    }
  }
  Decoding options = beam(1);
  options.beam.never = {kNever};
  const auto found = translate(model, sources, options, 8);
  for (size_t s = 0; s < sources.size(); ++s) {
    Sentence inputs = {0};
    double log_prob = 0;
    for (const int64_t token : found[s][0].tokens) {
      log_prob += next_log_probs(model, sources[s], inputs)[token].item<double>();
      inputs.push_back(token);
    }
    log_prob += next_log_probs(model, sources[s], inputs)[0].item<double>();
    EXPECT_NEAR(found[s][0].log_prob, log_prob, 1e-4);  // as above
  }
}

TEST(Decoding, ScoresAreThoseOfTeacherForcing) {
  for (const std::string attention : {"full", "topk(3)", "relu+gated-rmsnorm", "random(4)", "entmax(1.5)"}) {
    nn::Model model = decoding_model(attention);
    const std::vector<Sentence> sources = random_sentences(9, 5);
    const auto found = translate(model, sources, beam(4, 4), 9);
    std::vector<SentencePair> pairs;
    std::vector<double> expected;
    for (size_t s = 0; s < sources.size(); ++s) {
      ASSERT_FALSE(found[s].empty());
      for (const search::Hypothesis& hypothesis : found[s]) {
        pairs.push_back({sources[s], hypothesis.tokens});
        pairs.back().target.push_back(0);
        expected.push_back(hypothesis.log_prob);
      }
    }
    const std::vector<double> scores = score_pairs(model, pairs, {50, 1000});
    // Float sums of some hundred terms below 10 for each step, as above.
    for (size_t i = 0; i < pairs.size(); ++i) EXPECT_NEAR(scores[i], expected[i], 1e-4) << attention;
  }
}

TEST(Decoding, ASentenceAloneIsTheSameAsAmong64) {
  for (const auto& [attention, cross] : decoding_mechanisms()) {
    SCOPED_TRACE(attention);
    nn::Model model = decoding_model(attention, "sinusoidal", cross);
    const std::vector<Sentence> sources = random_sentences(64, 7);
    const auto together = translate(model, sources, beam(3, 3), 64);
    for (size_t s = 0; s < sources.size(); s += 5) {
      const auto alone = translate(model, {sources[s]}, beam(3, 3), 1);
      ASSERT_EQ(together[s].size(), alone[0].size());
      for (size_t i = 0; i < alone[0].size(); ++i) {
        EXPECT_EQ(together[s][i].tokens, alone[0][i].tokens);
        // Bit for bit: products sum along depth in one order for any number of rows, and so do attention and norms.
        EXPECT_EQ(together[s][i].log_prob, alone[0][i].log_prob);
      }
    }
  }
}

TEST(Decoding, In8BitsASentenceAloneIsTheSameAndItsScoreNear) {
  nn::Model model = decoding_model("full", "sinusoidal", "");
  const std::vector<Sentence> sources = random_sentences(64, 7);
  // Greedy, for a word or two: where one wins by a hair it may be another in 8 bits.
  Decoding options = beam(1, 1);
  options.max_length_factor = 0.01;
  const auto exact = translate(model, sources, options, 64);
  const auto together = translate(model, sources, options, 64, Format::kInt8);
  size_t same = 0;
  bool differs = false;
  for (size_t s = 0; s < sources.size(); ++s) {
    const auto alone = translate(model, {sources[s]}, options, 1, Format::kInt8);
    EXPECT_EQ(together[s][0].tokens, alone[0][0].tokens);
    EXPECT_EQ(together[s][0].log_prob, alone[0][0].log_prob);
    if (together[s][0].tokens != exact[s][0].tokens) continue;
    ++same;
    // Numbers are off by up to 1/254 of the greatest beside them: log-probabilities of about 5 by some hundredths.
    EXPECT_NEAR(together[s][0].log_prob, exact[s][0].log_prob, 0.1);
    differs = differs || together[s][0].log_prob != exact[s][0].log_prob;
  }
  EXPECT_TRUE(differs);
  EXPECT_GE(same, sources.size() * 9 / 10);
}

TEST(Decoding, APermutedBatchGivesPermutedResults) {
  nn::Model model = decoding_model("topk(2)");
  std::vector<Sentence> sources = random_sentences(30, 8);
  const auto found = translate(model, sources, beam(3), 8);
  std::ranges::reverse(sources);
  const auto reversed = translate(model, sources, beam(3), 8);
  for (size_t s = 0; s < sources.size(); ++s) {
    EXPECT_EQ(found[s][0].tokens, reversed[sources.size() - 1 - s][0].tokens);
  }
}

// The weights that are laid out for decoding are a copy.
TEST(Decoding, AModelThatChangedIsLaidOutAnew) {
  nn::Model model = decoding_model("topk(3)");
  const std::vector<Sentence> sources = random_sentences(4, 4);
  const double before = translate(model, sources, beam(2), 4)[0][0].log_prob;
  {
    const torch::NoGradGuard guard;
    for (auto& parameter : model->parameters()) parameter.mul_(1.5);
  }
  EXPECT_NE(translate(model, sources, beam(2), 4)[0][0].log_prob, before);
}

// Validation translates between two updates: nothing that it leaves behind may hinder gradients.
TEST(Decoding, AModelInTrainingCanBeLent) {
  nn::Model model = decoding_model("topk(3)");
  const std::vector<Sentence> sources = random_sentences(4, 4);
  const auto before = translate(model, sources, beam(2), 4);
  const Sentence& source = sources[0];
  const at::Tensor offsets = torch::tensor({int64_t{0}, static_cast<int64_t>(source.size())}, at::kLong);
  const at::Tensor tokens = torch::tensor(source, at::kLong);
  const nn::ForwardContext context{.training = true, .dropout_seed = 1};
  model->decode({tokens, offsets, model->encode({tokens, offsets}, context), offsets}, context).sum().backward();
  for (const at::Tensor& parameter : model->parameters()) {
    if (!parameter.is_same(model->output_weight()) && !parameter.is_same(model->output_bias())) {
      EXPECT_TRUE(parameter.grad().defined());
    }
  }
  const auto after = translate(model, sources, beam(2), 4);
  for (size_t s = 0; s < sources.size(); ++s) EXPECT_EQ(before[s][0].log_prob, after[s][0].log_prob);
}

TEST(Decoding, LearnedPositionsBoundTheLength) {
  nn::Model model = decoding_model("full", "learned");
  {
    const torch::NoGradGuard guard;
    model->output_bias()[0] = -50;  // never wants to end
  }
  Decoding options = beam(2);
  options.max_length_factor = 100;
  const auto found = translate(model, random_sentences(3, 4), options, 3);
  for (const auto& hypotheses : found) EXPECT_EQ(hypotheses[0].tokens.size(), 29U);
}

TEST(Decoding, ADivergedModelIsAnErrorInOneLine) {
  nn::Model model = decoding_model("full");
  const auto sources = random_sentences(2, 4);
  const char* expected =
      "the model gives scores that are not finite numbers; it diverged in training: use an earlier checkpoint, or "
      "train with a lower --learn-rate";
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    {
      const torch::NoGradGuard guard;
      model->output_bias()[5] = wrong;
    }
    EXPECT_EQ(message_of([&] { translate(model, sources, beam(2), 2); }), expected);
    const std::vector<SentencePair> pairs = {{sources[0], {3, 0}}, {sources[1], {5, 0}}};
    EXPECT_EQ(message_of([&] { score_pairs(model, pairs, {50, 1000}); }), expected);
  }
}

}  // namespace
}  // namespace fovea::translation::decode_test

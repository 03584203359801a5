#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/torch.h>

#include <cmath>
#include <sstream>

#include "fovea/base/rng.h"
#include "fovea/base/test_message.h"
#include "fovea/models/test_models.h"
#include "fovea/tasks/language/score.h"
#include "fovea/tasks/language/score_text.h"
#include "fovea/tasks/language/test_run.h"

namespace fovea::language::score_test {
namespace {

using models::next_log_probs, models::test_model;

constexpr int64_t kEos = 16;

data::TokenText random_text(int64_t size, const std::vector<int64_t>& documents, uint64_t seed) {
  data::TokenText text;
  Rng rng(seed);
  for (int64_t i = 0; i < size; ++i) text.ids.push_back(static_cast<int32_t>(rng.below(kEos)));
  text.documents = documents;
  return text;
}

std::vector<double> log_probs(const nn::Model& model, const ScoringOptions& options, const data::TokenText& text) {
  std::vector<double> all;
  ScoreText(model, options).run(text, kEos, [&](double log_prob) { all.push_back(log_prob); });
  return all;
}

// The window of one unit, by itself: the first window of a document scores all its units, each later one `stride`.
double naive_log_prob(nn::Model model, const ScoringOptions& options, const data::TokenText& text, int64_t unit,
                      int64_t* seen) {
  int64_t document = 0;
  for (const int64_t begin : text.documents)
    if (begin <= unit) document = begin;
  int64_t begin = document;
  while (unit >= begin + options.context) begin += options.stride;
  std::vector<int64_t> inputs = {begin == document ? kEos : text.ids[static_cast<size_t>(begin - 1)]};
  for (int64_t i = begin; i < unit; ++i) inputs.push_back(text.ids[static_cast<size_t>(i)]);
  *seen = std::ssize(inputs);
  return next_log_probs(model, inputs)[text.ids[static_cast<size_t>(unit)]].item<double>();
}

TEST(Score, EqualsEachUnitInItsOwnWindow) {
  for (const char* attention : {"full", "window(5)", "topk(4)", "strided(3)", "entmax(1.5)"}) {
    for (const char* positions : {"sinusoidal", "learned"}) {
      nn::Model model = test_model(attention, positions);
      const data::TokenText text = random_text(61, {0, 7, 8, 40}, 5);
      for (const ScoringOptions options : {ScoringOptions{12, 5}, {8, 8}, {9, 1}, {100, 100}}) {
        const std::vector<double> scores = log_probs(model, options, text);
        ASSERT_EQ(std::ssize(scores), text.size());
        double sum = 0;
        for (int64_t unit = 0; unit < text.size(); ++unit) {
          int64_t seen = 0;
          const double expected = naive_log_prob(model, options, text, unit, &seen);
          // float32 against the same sums in float32 in another order
          EXPECT_NEAR(scores[static_cast<size_t>(unit)], expected, 2e-4) << attention << ", unit " << unit;
          int64_t place = unit;
          for (const int64_t begin : text.documents)
            if (begin <= unit) place = unit - begin;
          EXPECT_GE(seen - 1, std::min(place, options.context - options.stride));
          sum += scores[static_cast<size_t>(unit)];
        }
        const TextScore whole = ScoreText(model, options).run(text, kEos);
        EXPECT_EQ(whole.tokens, text.size());
        EXPECT_NEAR(whole.nll, -sum, 1e-9 * whole.nll);
      }
    }
  }
}

TEST(Score, DoesNotDependOnTheBatch) {
  for (const char* attention : {"full", "window(5)", "topk(4)", "entmax(1.5)", "random(3)"}) {
    const nn::Model model = test_model(attention);
    const data::TokenText text = random_text(150, {0, 40, 41}, 6);
    const std::vector<double> expected = log_probs(model, {12, 5, 1}, text);
    for (const int64_t batch : {2, 3, 16, 1000})
      EXPECT_EQ(log_probs(model, {12, 5, batch}, text), expected) << attention << ", " << batch << " windows at a time";
  }
}

TEST(Score, ADocumentDoesNotSeeAnother) {
  const nn::Model model = test_model("full");
  const data::TokenText text = random_text(40, {0, 17}, 7);
  data::TokenText changed = text;
  for (size_t i = 0; i < 17; ++i) changed.ids[i] = (changed.ids[i] + 5) % static_cast<int32_t>(kEos);
  const std::vector<double> scores = log_probs(model, {12, 5}, text), others = log_probs(model, {12, 5}, changed);
  EXPECT_EQ(std::vector(scores.begin() + 17, scores.end()), std::vector(others.begin() + 17, others.end()));
  EXPECT_NE(scores[5], others[5]);
  data::TokenText joined = text, joined_changed = changed;
  joined.documents = joined_changed.documents = {0};
  EXPECT_NE(log_probs(model, {12, 5}, joined)[17], log_probs(model, {12, 5}, joined_changed)[17]) << "one document";
}

// A model whose probabilities are those of a table whatever it reads.
TEST(Score, MeasuresByHand) {
  nn::Model model = test_model("full");
  {
    const torch::NoGradGuard guard;
    for (auto& parameter : model->parameters()) parameter.zero_();
    at::Tensor bias = model->output_bias();
    bias.fill_(-std::numeric_limits<float>::infinity());
    bias[1] = std::log(0.5F), bias[2] = std::log(0.25F), bias[3] = std::log(0.25F);
  }
  data::TokenText text;
  text.ids = {1, 2, 3, 1, 1, 2};  // bits: 1 2 2 1 1 2 = 9
  text.documents = {0};
  text.bytes = 18, text.words = 4;
  const TextScore score = ScoreText(model, {4, 2}).run(text, kEos);
  EXPECT_EQ(score.tokens, 6);
  EXPECT_EQ(score.correct, 3) << "1 is the most probable";
  EXPECT_NEAR(score.nll, 9 * std::log(2.0), 1e-5);
  EXPECT_NEAR(measures().value(score, "bits-per-unit"), 1.5, 1e-6);
  EXPECT_NEAR(measures().value(score, "bits-per-byte"), 0.5, 1e-6);
  EXPECT_NEAR(measures().value(score, "perplexity"), std::pow(2, 1.5), 1e-5);
  EXPECT_NEAR(measures().value(score, "perplexity-per-word"), std::pow(2, 9.0 / 4), 1e-5);
  EXPECT_NEAR(measures().value(score, "accuracy"), 0.5, 1e-9);
}

TEST(Score, AMeasurePerNothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(measures().value({{.nll = 1, .tokens = 1}, 0, 0}, "perplexity-per-word")));
  EXPECT_TRUE(std::isnan(measures().value({}, "bits-per-byte")));
}

std::vector<double> numbers_of(const std::string& path) {
  std::istringstream in(read_file(path));
  return {std::istream_iterator<double>(in), {}};
}

TEST(Score, LevelsAgreeAndCountTheOriginalText) {
  for (const bool pieces : {false, true}) {
    TestRun test;
    if (pieces) test.with_pieces();
    test.train.after_batches = 2;
    run(test);
    write_file(test.folder / "test", "ama bebi\n\n coco  dada\nefe");  // 5 words, 25 bytes, 4 lines
    ScoreOptions options;
    options.model = test.train.model;
    options.train_sets = {test.folder / "test"};
    options.cpu_threads = 1;
    const auto results = [&](const std::string& level) {
      options.level = level, options.output = test.folder / level;
      const int64_t units = run_score(options);
      EXPECT_GT(units, 4);
      return std::pair(units, options.output);
    };
    const auto [units, by_unit] = results("unit");
    const std::vector<double> of_units = numbers_of(by_unit), of_lines = numbers_of(results("line").second);
    EXPECT_EQ(std::ssize(of_units), units);
    EXPECT_EQ(of_lines.size(), 4);
    const double sum = std::accumulate(of_units.begin(), of_units.end(), 0.0);
    EXPECT_NEAR(std::accumulate(of_lines.begin(), of_lines.end(), 0.0), sum, 1e-5 * 30) << "six digits each";
    const std::string text = read_file(results("text").second);
    const size_t bits = text.find("bits-per-byte "), words = text.find("perplexity-per-word ");
    EXPECT_NEAR(std::stod(text.substr(bits + 14)), -sum / 25 / std::log(2.0), 1e-5);
    const double per_word = std::stod(text.substr(words + 20));
    EXPECT_NEAR(std::log(per_word), -sum / 5, 1e-5);
    EXPECT_NE(text.find(cat("|units:", units, "|bytes:25|words:5|")), std::string::npos) << text;
  }
}

TEST(Score, StandardInputIsReadOnce) {
  ScoreOptions options;
  options.model = "m";
  options.train_sets = {"-", "-"};
  EXPECT_EQ(message_of([&] { validate(options); }),
            "--train-sets: got '-', standard input, more than once; give it once");
}

TEST(Score, LinesAreThoseOfTheFiles) {
  TestRun test;
  test.model.documents = "file";
  test.train.after_batches = 1;
  run(test);
  write_file(test.folder / "a", "ama\nbebi");
  write_file(test.folder / "b", "coco\n");
  write_file(test.folder / "c", "dada");
  ScoreOptions options;
  options.model = test.train.model;
  options.train_sets = {test.folder / "a", test.folder / "b", test.folder / "c"};
  options.output = test.folder / "lines";
  options.level = "line";
  EXPECT_EQ(run_score(options), 8 + 1 + 5 + 1 + 4) << "</s> between documents";
  const std::vector<double> together = numbers_of(test.folder / "lines");
  ASSERT_EQ(together.size(), 4);
  // The first line of a document is scored as if the document were alone; it does not include the end of the document
  // before.
  for (const auto& [name, line] : {std::pair("a", 0), std::pair("b", 2), std::pair("c", 3)}) {
    options.train_sets = {test.folder / name};
    run_score(options);
    const double alone = numbers_of(test.folder / "lines").front();
    if (line == 2) {
      EXPECT_LT(together[2], alone - 0.1) << "coco is the last line of its document too";
    } else {
      // A window that is one unit longer may round each of at most 5 values of about 7 nats in another way, by units of
      // 2^-21 in float32; the file has six digits.
      EXPECT_NEAR(together[static_cast<size_t>(line)], alone, 2e-5) << name;
    }
  }
}

}  // namespace
}  // namespace fovea::language::score_test

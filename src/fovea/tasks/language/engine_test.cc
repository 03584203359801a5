#include "fovea/tasks/language/engine.h"

#include <gtest/gtest.h>

#include <map>

#include "fovea/base/test_message.h"
#include "fovea/models/sampler.h"
#include "fovea/tasks/language/generate.h"
#include "fovea/tasks/language/test_run.h"

namespace fovea::language::engine_test {
namespace {

TEST(StopTexts, EndBeforeTheFirstStopHoweverTheTextComes) {
  const std::string text = "one two\n\ntwo three";
  for (const std::vector<std::string>& stops :
       {std::vector<std::string>{}, {"\n\n"}, {"two three", "\n\nx"}, {"three"}, {"e two", "wo"}, {"zz", ""}, {"o"}}) {
    size_t end = text.size();
    for (const std::string& stop : stops) {
      if (!stop.empty()) end = std::min(end, text.find(stop));
    }
    for (size_t size = 1; size <= text.size(); ++size) {
      StopTexts through(stops);
      std::string seen;
      for (size_t at = 0; at < text.size(); at += size) {
        seen += through.push(text.substr(at, size));
        EXPECT_EQ(text.substr(0, end).substr(0, seen.size()), seen);
      }
      EXPECT_EQ(through.has_stopped(), end < text.size());
      EXPECT_EQ(seen + through.finish(), text.substr(0, end));
    }
  }
}

class CompletionEngineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    run_ = new TestRun();
    run_->train.after_batches = 20;
    tasks::run(*run_);
  }
  static void TearDownTestSuite() { delete run_; }

  static GenerateOptions options() {
    GenerateOptions options;
    options.model = run_->folder / "run";
    options.cpu_threads = 1;
    return options;
  }
  struct Whole {
    std::string text;
    std::vector<CompletionUnit> units;
    std::optional<CompletionEnd> end;
  };
  static std::map<Ticket, Whole> run(CompletionEngine& engine) {
    std::map<Ticket, Whole> all;
    bool works = true;
    while (works) {
      works = engine.step();
      for (CompletionPart& part : engine.take()) {
        Whole& whole = all[part.ticket];
        EXPECT_FALSE(whole.end.has_value());
        whole.text += part.text;
        whole.units.insert(whole.units.end(), part.units.begin(), part.units.end());
        whole.end = part.end;
      }
    }
    return all;
  }

  static inline TestRun* run_ = nullptr;
};

std::vector<int64_t> encoded(const CompletionEngine& engine, std::string_view prompt) {
  std::vector<int32_t> ids;
  engine.model().units.encode(prompt, ids);
  return {ids.begin(), ids.end()};
}

TEST_F(CompletionEngineTest, GivesTheBytesOfGenerate) {
  GenerateOptions of = options();
  of.prompt = {"ama ", "bebi coco\n", ""};
  of.count = 2, of.max_length = 40, of.temperature = 0.8, of.output = run_->folder / "out";
  run_generate(of);
  CompletionEngine engine(load_model(of), {});
  std::string expected;
  std::vector<Ticket> tickets;
  for (int64_t i = 0; i < 6; ++i) {
    CompletionRequest request;
    request.prompt = encoded(engine, of.prompt[static_cast<size_t>(i / 2)]);
    request.choice.temperature = 0.8;
    request.max_units = 40;
    request.seed = models::draft_seed(of.seed, i, 2);
    tickets.push_back(engine.add(std::move(request)));
  }
  std::map<Ticket, Whole> texts = run(engine);
  for (int64_t i = 0; i < 6; ++i) {
    const Whole& whole = texts[tickets[static_cast<size_t>(i)]];
    EXPECT_EQ(whole.end, CompletionEnd::kLength);
    EXPECT_EQ(whole.units.size(), 40U);
    expected +=
        cat(i > 0 ? "\n" : "", "==> ", i + 1, " of 6 <==\n", of.prompt[static_cast<size_t>(i / 2)], whole.text, "\n");
  }
  EXPECT_EQ(read_file(run_->folder / "out"), expected);
}

TEST_F(CompletionEngineTest, StopsBeforeAStopAndTakesNoMoreSteps) {
  CompletionEngine engine(load_model(options()), {});
  CompletionRequest request;
  request.prompt = encoded(engine, "ama ");
  request.choice.temperature = 0;
  request.max_units = 60;
  engine.add(request);
  const std::string whole = run(engine).begin()->second.text;
  ASSERT_GT(whole.size(), 10U);
  request.stop = {"\xff", whole.substr(5, 3)};
  engine.add(request);
  const Whole cut = run(engine).begin()->second;
  EXPECT_EQ(cut.end, CompletionEnd::kStop);
  EXPECT_EQ(cut.text, whole.substr(0, whole.find(request.stop[1])));
  EXPECT_LT(cut.units.size(), 60U);
  EXPECT_EQ(engine.counts().running, 0);
}

TEST_F(CompletionEngineTest, RefusesWhatIsOutOfRange) {
  CompletionEngine engine(load_model(options()), {});
  const auto message = [&](const auto& change) {
    CompletionRequest request;
    change(request);
    return message_of([&] { engine.add(std::move(request)); });
  };
  EXPECT_EQ(message([](CompletionRequest& r) { r.choice.temperature = -1; }),
            "sample: temperature -1 is not a finite number of at least 0");
  EXPECT_EQ(message([](CompletionRequest& r) { r.prompt = {300}; }), "prompt: got unit 300; expected 0 to 256");
  EXPECT_EQ(message([](CompletionRequest& r) { r.max_units = 0; }),
            "max_tokens: got 0 behind a prompt of 0 units; expected at least 1");
  EXPECT_EQ(message([](CompletionRequest& r) { r.num_top = -1; }), "logprobs: got -1; expected at least 0");
  EXPECT_FALSE(engine.step());
}

}  // namespace
}  // namespace fovea::language::engine_test

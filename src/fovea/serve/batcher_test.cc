#include "fovea/serve/batcher.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fovea/serve/test_engines.h"

namespace fovea::serve::batcher_test {
namespace {

// Texts to continue, or sentences of `length` words.
struct PlainJob final : Job {
  PlainJob(const std::shared_ptr<ServedModel>& with, int64_t parts, int64_t prompt, int64_t units)
      : Job(std::make_shared<SilentExchange>(), with), length(prompt), most(units) {
    part_tokens.assign(static_cast<size_t>(parts), prompt + 1);
    if (!model->translates()) longest_piece = models::kPromptPiece;
    part_rows = model->translates() ? 5 : 1;
  }
  PartInput input(size_t part) override {
    started.push_back(part);
    if (!model->translates())
      return language::CompletionRequest{
          .prompt = std::vector<int64_t>(static_cast<size_t>(length), 'x'), .max_units = most, .seed = seed};
    SentenceInput sentence;
    for (int64_t word = 0; word < length; ++word) sentence.request.text += "w ";
    if (refused) sentence.request.text = "refused";
    return sentence;
  }
  void take(size_t /*part*/, PartOutput& /*output*/) override { ++taken; }
  void fail(const JobFailure& failure) override { failures.push_back(failure.status); }
  void leave() const { static_cast<SilentExchange&>(*exchange).over = true; }

  int64_t length, most, taken = 0;
  uint64_t seed = 0;
  bool refused = false;
  std::vector<size_t> started;
  std::vector<int> failures;
};

// A batcher whose rounds the test makes itself. A step takes `step_seconds` of its engine on a clock of its own.
struct Rig {
  Rig() {
    options.mini_batch = 64, options.mini_batch_words = 2048, options.beam_size = 5;
    completer->before_step = [this](FakeSteps& engine) { now += seconds_of(engine); };
    translator->before_step = completer->before_step;
    models.set({texts, sentences});
  }
  double seconds_of(const FakeSteps& engine) const { return &engine == completer ? completer_seconds : 0.01; }
  std::shared_ptr<PlainJob> push(const std::shared_ptr<ServedModel>& model, int64_t parts, int64_t prompt,
                                 int64_t units = 1) {
    auto job = std::make_shared<PlainJob>(model, parts, prompt, units);
    EXPECT_TRUE(queue.push(job));
    return job;
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) EXPECT_TRUE(batcher.turn());
  }

  double now = 0, completer_seconds = 0.01;
  FakeCompleter* completer = new FakeCompleter;
  FakeTranslator* translator = new FakeTranslator;
  std::shared_ptr<ServedModel> texts = served("lm", std::unique_ptr<Engine>(completer));
  std::shared_ptr<ServedModel> sentences = served("en-de", std::unique_ptr<Engine>(translator));
  ServeOptions options;
  Models models;
  JobQueue queue{1'000'000};
  Metrics metrics;
  Worker worker;
  Batcher batcher{options, {}, {models, queue, metrics, worker, [this] { return now; }}};
};

// A text of that seed, which came after `before` steps of the engine, has `count` steps of its own.
void expect_prompt_steps(const FakeCompleter& engine, uint64_t seed, int64_t before, size_t count) {
  ASSERT_TRUE(engine.tickets.contains(seed)) << seed;
  const std::vector<int64_t>& steps = engine.computed.at(engine.tickets.at(seed));
  ASSERT_EQ(steps.size(), count);
  EXPECT_LE(steps[0], before + 2);
  for (size_t n = 0; n < steps.size(); ++n) EXPECT_LE(steps[n], before + static_cast<int64_t>(n + 1) + 2) << n;
}

// The law: a request's first step comes within 2 steps of its engine and its n-th within n + 2, whatever the others
// hold.
TEST(Batcher, NoRequestWaitsForTheEndOfAnother) {
  struct Others {
    int64_t requests, parts, prompt;
  };
  for (const Others& others :
       {Others{64, 1, 10}, {1, 64, 10}, {8, 8, 10}, {1, 1000, 10}, {1, 1, 2101}, {64, 1, 2101}}) {
    SCOPED_TRACE(testing::Message() << others.requests << " x " << others.parts << " of " << others.prompt);
    Rig rig;
    for (int64_t i = 0; i < others.requests; ++i) (void)rig.push(rig.texts, others.parts, others.prompt, 4096);
    rig.turns(5);
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      const int64_t before = rig.completer->steps;
      rig.push(rig.texts, 1, seed % 2 == 0 ? 10 : 700, 20)->seed = seed;
      rig.turns(25);
      expect_prompt_steps(*rig.completer, seed, before, seed % 2 == 0 ? 20 : 22);
    }
  }
}

TEST(Batcher, SixtyFourMoreRequestsHaveARowEach) {
  Rig rig;
  (void)rig.push(rig.texts, 64, 10, 4096);
  rig.turns(3);
  const int64_t before = rig.completer->steps;
  for (uint64_t seed = 1; seed <= 80; ++seed) rig.push(rig.texts, 1, 10, 4096)->seed = seed;
  rig.turns(3);
  for (uint64_t seed = 1; seed <= 64; ++seed) expect_prompt_steps(*rig.completer, seed, before, 3);
  EXPECT_EQ(rig.completer->most_rows, 128);  // memory has a bound: the other 16 wait
  EXPECT_EQ(rig.queue.parts(), 16);
}

TEST(Batcher, ALongPromptCountsWhileItIsReadOnly) {
  Rig rig;
  (void)rig.push(rig.texts, 1, 2101, 4000);
  rig.turns(10);
  const auto list = rig.push(rig.texts, 63, 20, 100);
  rig.turns(1);
  EXPECT_EQ(list->started.size(), 63U);
}

TEST(Batcher, EachModelHasItsOwnBudget) {
  Rig rig;
  (void)rig.push(rig.texts, 100, 10, 4096);
  rig.turns(2);
  const auto list = rig.push(rig.sentences, 64, 10);
  rig.turns(1);
  EXPECT_EQ(list->started.size(), 64U);
  EXPECT_EQ(rig.completer->most_rows, 64);
}

TEST(Batcher, ARequestTakesItsShareBesideAFullBatch) {
  Rig rig;
  (void)rig.push(rig.texts, 1000, 10, 4096);
  rig.turns(2);
  EXPECT_EQ(rig.completer->most_rows, 64);  // alone, a request may take all
  const auto second = rig.push(rig.texts, 1000, 10, 4096);
  rig.turns(2);
  EXPECT_EQ(second->started.size(), 32U);
  const auto third = rig.push(rig.texts, 1000, 10, 4096);
  rig.turns(2);
  EXPECT_EQ(third->started.size(), 1U);  // 96 rows are the most, but for a request that has none
  EXPECT_EQ(rig.completer->most_rows, 97);
}

TEST(Batcher, TokensThatAreReadTogetherAreBounded) {
  Rig rig;
  (void)rig.push(rig.sentences, 100, 99);  // 100 tokens each, with </s>
  rig.turns(1);
  EXPECT_EQ(rig.translator->most_rows, 20);
  const auto other = rig.push(rig.sentences, 1, 99);
  rig.turns(1);
  EXPECT_EQ(other->started.size(), 1U);
}

TEST(Batcher, APartLargerThanTheBudgetRunsAlone) {
  Rig rig;
  const auto large = rig.push(rig.texts, 2, 10, 4096);
  large->part_rows = 200;
  rig.turns(3);
  EXPECT_EQ(large->started.size(), 1U);
}

// A step of one model that takes ten times as long comes a tenth as often.
TEST(Batcher, ModelsShareTheTime) {
  Rig rig;
  rig.completer_seconds = 0.1;
  (void)rig.push(rig.texts, 64, 10, 4096);
  rig.turns(50);
  const int64_t before = rig.completer->steps;
  for (int i = 0; i < 20; ++i) (void)rig.push(rig.sentences, 1, 98);
  rig.turns(88);
  EXPECT_NEAR(rig.translator->steps, 80, 2);
  EXPECT_NEAR(rig.completer->steps, before + 8, 2);
}

TEST(Batcher, ClientsThatLeaveFreeTheirRows) {
  Rig rig;
  const auto gone = rig.push(rig.texts, 100, 10, 4096);
  rig.turns(2);
  EXPECT_EQ(rig.metrics.running, 64);
  gone->leave();
  const auto other = rig.push(rig.texts, 64, 10, 3);
  rig.turns(1);
  EXPECT_EQ(other->started.size(), 64U);
  EXPECT_EQ(rig.metrics.running, 64);
  EXPECT_EQ(rig.queue.parts(), 0);
  rig.turns(2);
  EXPECT_FALSE(rig.batcher.turn());
  EXPECT_EQ(gone->running_rows, 0);
  EXPECT_EQ(other->running_rows, 0);
  rig.worker.finish();
  EXPECT_EQ(other->taken, 64 * 3);
}

TEST(Batcher, FailuresReachTheirRequestsAlone) {
  Rig rig;
  const auto refused = rig.push(rig.sentences, 3, 5), whole = rig.push(rig.sentences, 1, 5);
  refused->refused = true;
  rig.turns(5);
  const auto lost = rig.push(rig.texts, 2, 5, 100), later = rig.push(rig.sentences, 1, 3);
  rig.turns(4);
  rig.completer->before_step = [](FakeSteps& engine) {
    engine.lose_all();
    throw Error("the scores are not finite");
  };
  while (rig.batcher.turn()) continue;
  const auto again = rig.push(rig.sentences, 1, 2);
  while (rig.batcher.turn()) continue;
  rig.worker.finish();
  EXPECT_EQ(refused->failures, std::vector<int>{400});
  EXPECT_EQ(lost->failures, std::vector<int>{500});
  EXPECT_EQ(lost->running_rows, 0);
  for (const auto& job : {whole, later, again}) {
    EXPECT_TRUE(job->failures.empty());
    EXPECT_EQ(job->taken, 1);
  }
}

}  // namespace
}  // namespace fovea::serve::batcher_test

#include "fovea/serve/translate_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "fovea/serve/test_engines.h"

namespace fovea::serve::translate_texts_test {
namespace {

using ::testing::HasSubstr;

struct Rig {
  ServeOptions options;
  ApiKeys keys;
  Models models;
  JobQueue queue{2'000};
  Metrics metrics;
  MemoryRoom room{int64_t{1} << 20};
  Context context{options, keys, models, queue, metrics, room};
  std::shared_ptr<ServedModel> model = served("lm", std::make_unique<FakeCompleter>());
};

struct TimedJob final : Job {
  TimedJob(const Rig& rig, double tokens, double steps)
      : Job(std::make_shared<SilentExchange>(), rig.model), tokens_(tokens), steps_(steps) {
    part_tokens = {10};
  }
  PartInput input(size_t /*part*/) override { return language::CompletionRequest(); }
  void take(size_t /*part*/, PartOutput& /*output*/) override {}
  void fail(const JobFailure& /*failure*/) override {}
  double work(size_t /*part*/) const override { return tokens_; }
  double least_steps() const override { return steps_; }

 private:
  double tokens_, steps_;
};

// The seconds of the refusal; none if the job was queued.
std::optional<double> seconds_of_refusal(Rig& rig, const std::shared_ptr<TimedJob>& job) {
  const int64_t before = rig.queue.parts();
  try {
    queue_job(rig.context, job);
  } catch (const BusyError& error) {
    EXPECT_EQ(error.status(), 503);
    EXPECT_EQ(rig.queue.parts(), before);
    return error.seconds();
  }
  EXPECT_EQ(rig.queue.parts(), before + 1);
  return std::nullopt;
}

TEST(QueueJob, RefusesWhatCannotBeReadyInTime) {
  Rig rig;
  const auto job = [&](double tokens, double steps) { return std::make_shared<TimedJob>(rig, tokens, steps); };
  EXPECT_FALSE(seconds_of_refusal(rig, job(1e9, 1e9)));  // nothing was measured yet
  // Ten steps a second, of 64 rows with a token each.
  for (int i = 0; i < 100; ++i) rig.model->pace().add({.seconds = 0.1, .tokens = 64, .rows = 64});
  (void)rig.queue.next(rig.model.get(), [](const Job&) { return true; });
  EXPECT_FALSE(seconds_of_refusal(rig, job(100, 590)));
  EXPECT_NEAR(seconds_of_refusal(rig, job(100, 700)).value_or(0), 70 - 60, 0.01);
  EXPECT_NEAR(seconds_of_refusal(rig, job(64 * 900, 0)).value_or(0), 90 - 60, 0.2);
  // The one that waits does at most as much as the job before it.
  EXPECT_FALSE(seconds_of_refusal(rig, job(64 * 400, 400)));
  EXPECT_FALSE(seconds_of_refusal(rig, job(64 * 100, 100)));
  EXPECT_NEAR(seconds_of_refusal(rig, job(64 * 500, 500)).value_or(0), 10 + 40 + 50 - 60, 0.5);
}

TEST(QueueJob, AStreamHasItsBeginningInTime) {
  Rig rig;
  for (int i = 0; i < 100; ++i) rig.model->pace().add({.seconds = 0.1, .tokens = 64, .rows = 64});
  const auto job = std::make_shared<TimedJob>(rig, 1e6, 4000);
  job->answers_in_parts = true;
  EXPECT_FALSE(seconds_of_refusal(rig, job));
}

TEST(QueueJob, RefusesWhatHasNoRoom) {
  Rig rig;
  const auto large = std::make_shared<TimedJob>(rig, 1, 1), other = std::make_shared<TimedJob>(rig, 1, 1),
             endless = std::make_shared<TimedJob>(rig, 1, 1);
  large->part_tokens = {1990};
  other->part_tokens = {11};
  endless->part_tokens = {2001};
  EXPECT_FALSE(seconds_of_refusal(rig, large));
  EXPECT_TRUE(seconds_of_refusal(rig, other));
  try {
    queue_job(rig.context, endless);
    FAIL() << "it was queued";
  } catch (const HttpError& error) {
    EXPECT_EQ(error.status(), 413);
    EXPECT_THAT(error.what(), HasSubstr("2001 tokens; expected at most 2000"));
  }
}

}  // namespace
}  // namespace fovea::serve::translate_texts_test

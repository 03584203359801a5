#include "fovea/serve/queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/serve/test_engines.h"

namespace fovea::serve::queue_test {
namespace {

std::shared_ptr<ServedModel> model_of(const std::string& name) {
  return served(name, std::make_unique<FakeTranslator>());
}
const std::shared_ptr<ServedModel> kModel = model_of("one"), kOther = model_of("other");

struct Named final : Job {
  Named(std::string given, const std::shared_ptr<SilentExchange>& from, std::shared_ptr<ServedModel> with,
        std::vector<int64_t> tokens)
      : Job(from, std::move(with)), name(std::move(given)) {
    part_tokens = std::move(tokens);
  }
  PartInput input(size_t /*part*/) override { return SentenceInput(); }
  void take(size_t /*part*/, PartOutput& /*output*/) override {}
  void fail(const JobFailure& /*failure*/) override {}
  std::string name;
};

std::shared_ptr<Named> job(const std::string& name, std::vector<int64_t> tokens,
                           const std::shared_ptr<ServedModel>& model = kModel,
                           const std::shared_ptr<SilentExchange>& from = std::make_shared<SilentExchange>()) {
  return std::make_shared<Named>(name, from, model, std::move(tokens));
}

bool any_job(const Job& /*job*/) { return true; }

std::string order(JobQueue& queue, const JobQueue::MayStart& may_start = any_job) {
  std::string names;
  while (const auto part = queue.next(kModel.get(), may_start))
    names += static_cast<Named&>(*part->job).name + std::to_string(part->index);
  return names;
}

TEST(JobQueue, JobsTakeTurns) {
  JobQueue queue(100);
  EXPECT_TRUE(queue.push(job("a", {1, 1, 1, 1})));
  EXPECT_TRUE(queue.push(job("b", {1})));
  EXPECT_TRUE(queue.push(job("c", {1, 1})));
  EXPECT_EQ(queue.parts(), 7);
  EXPECT_EQ(order(queue), "a0b0c0a1c1a2a3");
  EXPECT_EQ(queue.tokens(), 0);
  EXPECT_EQ(queue.parts(), 0);
}

TEST(JobQueue, IsBoundedInTokens) {
  JobQueue queue(10);
  EXPECT_TRUE(queue.push(job("a", {4, 4})));
  EXPECT_FALSE(queue.push(job("b", {3})));
  EXPECT_EQ(queue.tokens(), 8);
  EXPECT_TRUE(queue.push(job("c", {2})));
  EXPECT_TRUE(queue.next(kModel.get(), any_job));
  EXPECT_TRUE(queue.push(job("d", {4})));
  EXPECT_EQ(order(queue), "c0a1d0");
}

TEST(JobQueue, DropsJobsThatNobodyWaitsFor) {
  JobQueue queue(10);
  const auto client = std::make_shared<SilentExchange>();
  EXPECT_TRUE(queue.push(job("a", {3, 3}, kModel, client)));
  EXPECT_TRUE(queue.push(job("b", {2})));
  EXPECT_TRUE(queue.next(kModel.get(), any_job));
  client->over = true;
  EXPECT_EQ(order(queue), "b0");
  EXPECT_EQ(queue.tokens(), 0);
  EXPECT_TRUE(queue.push(job("c", {10})));
}

TEST(JobQueue, SkipsJobsThatMayNotStart) {
  JobQueue queue(100);
  EXPECT_TRUE(queue.push(job("a", {5, 1})));
  EXPECT_TRUE(queue.push(job("b", {1, 1})));
  EXPECT_EQ(order(queue, [](const Job& next) { return next.part_tokens[next.next_part] == 1; }), "b0b1");
  EXPECT_EQ(queue.tokens(), 6);
  EXPECT_EQ(order(queue), "a0a1");
}

TEST(JobQueue, EachModelHasItsOwn) {
  JobQueue queue(10);
  EXPECT_TRUE(queue.push(job("a", {8})));
  EXPECT_TRUE(queue.push(job("b", {8}, kOther)));
  EXPECT_FALSE(queue.push(job("c", {8}, kOther)));
  EXPECT_EQ(queue.tokens(), 16);
  EXPECT_EQ(queue.tokens(kOther.get()), 8);
  EXPECT_EQ(queue.models().size(), 2U);
  EXPECT_EQ(order(queue), "a0");
  EXPECT_EQ(queue.models(), std::vector{kOther});
}

TEST(JobQueue, AJobWaitsForAtMostItsOwnWorkOfEachOther) {
  JobQueue queue(100);
  EXPECT_EQ(queue.work_before(kModel.get(), 5), 0);
  EXPECT_TRUE(queue.push(job("a", {4, 4, 4})));
  EXPECT_TRUE(queue.push(job("b", {2})));
  EXPECT_TRUE(queue.push(job("c", {50}, kOther)));
  EXPECT_EQ(queue.work_before(kModel.get(), 5), 5 + 2);
  EXPECT_EQ(queue.work_before(kModel.get(), 100), 12 + 2);
  EXPECT_TRUE(queue.next(kModel.get(), any_job));
  EXPECT_EQ(queue.work_before(kModel.get(), 100), 8 + 2);
}

}  // namespace
}  // namespace fovea::serve::queue_test

#include "fovea/serve/queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace fovea::serve::queue_test {
namespace {

struct Silent final : Exchange {
  const Request& request() const override { return asked; }
  void answer(Response /*response*/) override {}
  void begin(const Response& /*head*/) override {}
  void push(std::string /*part*/) override {}
  void end() override {}
  bool is_over() const override { return over; }
  Request asked = {};
  bool over = false;
};

struct Named final : Job {
  Named(std::string given, const std::shared_ptr<Silent>& from, std::vector<int64_t> tokens)
      : Job(from), name(std::move(given)) {
    part_tokens = std::move(tokens);
  }
  std::string name;
};

std::shared_ptr<Named> job(const std::string& name, std::vector<int64_t> tokens,
                           const std::shared_ptr<Silent>& from = std::make_shared<Silent>()) {
  return std::make_shared<Named>(name, from, std::move(tokens));
}

std::string order(JobQueue& queue) {
  std::string names;
  while (const auto part = queue.next()) names += static_cast<Named&>(*part->job).name + std::to_string(part->index);
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
  EXPECT_TRUE(queue.next());
  EXPECT_TRUE(queue.push(job("d", {4})));
  EXPECT_EQ(order(queue), "c0a1d0");
}

TEST(JobQueue, DropsJobsThatNobodyWaitsFor) {
  JobQueue queue(10);
  const auto client = std::make_shared<Silent>();
  EXPECT_TRUE(queue.push(job("a", {3, 3}, client)));
  EXPECT_TRUE(queue.push(job("b", {2})));
  EXPECT_TRUE(queue.next());
  client->over = true;
  EXPECT_EQ(order(queue), "b0");
  EXPECT_EQ(queue.tokens(), 0);
  EXPECT_TRUE(queue.push(job("c", {10})));
}

}  // namespace
}  // namespace fovea::serve::queue_test

#include "fovea/base/threads.h"

#include <gtest/gtest.h>

namespace fovea::threads_test {
namespace {

TEST(Threads, AreAsManyAsTheSystemGives) {
  EXPECT_EQ(startable_threads(3), 3);
  EXPECT_EQ(startable_threads(0), 0);
  EXPECT_EQ(startable_threads(-1), 0);
  EXPECT_NO_THROW(require_threads("--cpu-threads", 2));
}

}  // namespace
}  // namespace fovea::threads_test

#include "fovea/base/workspace.h"

#include <gtest/gtest.h>

#include <vector>

namespace fovea::workspace_test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(Workspace, IsTakenAgain) {
  for (const size_t bytes : {size_t{1}, size_t{1000}, 3 * kMiB}) {
    void* first = take_workspace(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0U);
    void* other = take_workspace(bytes);
    EXPECT_NE(first, other);
    return_workspace(first);
    EXPECT_EQ(take_workspace(bytes), first);
    return_workspace(first);
    return_workspace(other);
  }
}

// A tensor may live long: it must not hold much more than it asked for.
TEST(Workspace, IsNotMuchLargerThanAskedFor) {
  void* large = take_workspace(20 * kMiB);
  return_workspace(large);
  const size_t kept = workspace_bytes_kept();
  void* small = take_workspace(5 * kMiB);
  EXPECT_NE(small, large);
  EXPECT_EQ(workspace_bytes_kept(), kept);
  return_workspace(small);
}

TEST(Workspace, IsKeptUpToABound) {
  std::vector<void*> all(9);
  for (void*& one : all) one = take_workspace(20 * kMiB);
  for (void* one : all) return_workspace(one);
  EXPECT_LE(workspace_bytes_kept(), 128 * kMiB);
  EXPECT_GE(workspace_bytes_kept(), 100 * kMiB);
  const size_t kept = workspace_bytes_kept();
  return_workspace(take_workspace(40 * kMiB));  // too large to be kept: the others stay
  EXPECT_EQ(workspace_bytes_kept(), kept);
}

}  // namespace
}  // namespace fovea::workspace_test

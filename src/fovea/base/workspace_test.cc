#include "fovea/base/workspace.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "fovea/base/malloc.h"

namespace fovea::workspace_test {
namespace {

constexpr size_t kMiB = size_t{1} << 20, kStaying = size_t{48} << 10;

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

// Caches hold the block that came back last. A call that follows another like it also finds its result's memory again.
TEST(Workspace, OfEqualOnesTheLastIsTakenFirst) {
  for (const size_t bytes : {size_t{1000}, 2 * kMiB, 9 * kMiB}) {
    void *first = take_workspace(bytes), *second = take_workspace(bytes);
    return_workspace(second);
    return_workspace(first);
    EXPECT_EQ(take_workspace(bytes), first);
    EXPECT_EQ(take_workspace(bytes), second);
    return_workspace(first);
    return_workspace(second);
    EXPECT_EQ(take_workspace(bytes), second);
    return_workspace(second);
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

// The begin of the part of the heap that was never used, in bytes.
size_t end_of_heap() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.arena - heap.keepcost;
}

// How many bytes the heap grows by when workspaces come and go between buffers that stay.
int64_t growth_with_workspaces() {
  tune_malloc();
  std::vector<void*> all(200), staying;  // more than are kept
  const auto take = [&] {
    for (void*& one : all) {
      one = take_workspace(kMiB + 100);
      staying.push_back(std::malloc(kStaying));
    }
  };
  take();
  const size_t end = end_of_heap(), stay = staying.size();
  for (int round = 0; round < 3; ++round) {
    for (void* one : all) return_workspace(one);
    take();
  }
  const auto grown =
      static_cast<int64_t>(end_of_heap()) - static_cast<int64_t>(end + (staying.size() - stay) * kStaying);
  for (void* one : staying) std::free(one);
  return grown;
}

// malloc needs a longer hole for an aligned block than the block leaves, by megabytes if it begins at a huge page: such
// holes can be half of an update's memory. The test is a process of its own, as others need malloc as it is.
TEST(WorkspaceDeathTest, FillsTheHolesThatItLeft) {
  const auto grow = [] { std::exit(growth_with_workspaces() < static_cast<int64_t>(20 * kMiB) ? 0 : 1); };
  EXPECT_EXIT(grow(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fovea::workspace_test

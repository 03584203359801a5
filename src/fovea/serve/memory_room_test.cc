#include "fovea/serve/memory_room.h"

#include <gtest/gtest.h>

namespace fovea::serve::memory_room_test {
namespace {

TEST(MemoryRoom, IsGivenBackWithItsShares) {
  MemoryRoom room(100);
  {
    RoomShare first(room), second(room);
    EXPECT_TRUE(first.take(60));
    EXPECT_FALSE(second.take(41));
    EXPECT_TRUE(second.take(40));
    EXPECT_FALSE(first.take(1));
    RoomShare moved = std::move(first);
    EXPECT_EQ(room.used(), 100U);
  }
  EXPECT_EQ(room.used(), 0U);
  EXPECT_FALSE(RoomShare().take(1));
}

}  // namespace
}  // namespace fovea::serve::memory_room_test

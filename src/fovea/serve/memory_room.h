#pragma once
#include <atomic>
#include <cstddef>
#include <utility>

namespace fovea::serve {

// The memory that all requests together may take, in bytes: one client alone could fill the machine with requests that
// wait.
inline constexpr size_t kMostRequestMemory = size_t{512} << 20;

class MemoryRoom {
 public:
  explicit MemoryRoom(size_t most) : most_(most) {}
  size_t most() const { return most_; }
  size_t used() const { return used_; }
  // Returns false, and takes nothing, if the bytes have no room beside the others.
  bool take(size_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= most_) return true;
    used_ -= bytes;
    return false;
  }
  void give_back(size_t bytes) { used_ -= bytes; }

 private:
  const size_t most_;
  std::atomic<size_t> used_ = 0;
};

// Bytes of a room that are given back when the share dies.
class RoomShare {
 public:
  RoomShare() = default;
  explicit RoomShare(MemoryRoom& room) : room_(&room) {}
  RoomShare(RoomShare&& other) noexcept
      : room_(std::exchange(other.room_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  RoomShare& operator=(RoomShare&& other) noexcept {
    std::swap(room_, other.room_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~RoomShare() {
    if (room_ != nullptr) room_->give_back(bytes_);
  }
  // Returns false, and takes nothing, if the room does not have these bytes.
  bool take(size_t bytes) {
    if (room_ == nullptr || !room_->take(bytes)) return false;
    bytes_ += bytes;
    return true;
  }

 private:
  MemoryRoom* room_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace fovea::serve

#include "fovea/base/workspace.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "fovea/base/huge_pages.h"

namespace fovea {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kSlack = size_t{1} << 16;  // bytes, or half as much as was asked for
constexpr size_t kMostKept = size_t{128} << 20;
constexpr size_t kLargestKept = kMostKept / 4;  // one block would push out all others
constexpr size_t kLeastHuge = 2 * kHugePage;    // of a block that begins at a huge page

// In front of each workspace, on a line of its own.
struct Header {
  size_t bytes;
  void* block;  // as malloc gave it
};

struct Kept {
  std::mutex mutex;
  std::vector<Header*> blocks;  // the oldest first
  size_t bytes = 0;
};

// malloc gives a block of some alignment out of a longer one, so the hole that it leaves is too short for the next
// block of its size. Blocks that need no huge page are therefore aligned here.
Header* allocate_line(size_t bytes) {
  const size_t total = bytes + 2 * kLine;
  void* block = std::malloc(total);
  if (block == nullptr) throw std::bad_alloc();
  const auto begin = (reinterpret_cast<uintptr_t>(block) + kLine - 1) / kLine * kLine;
  return new (reinterpret_cast<void*>(begin)) Header{bytes, block};
}

// Large blocks lie in huge pages where the system lets them: lists point to rows all over a block, and with small pages
// each would also miss the table of pages (a quarter of backward's time at 16,384 keys, whose block has 4 MiB).
Header* allocate(size_t bytes) {
  if (bytes < kLeastHuge) return allocate_line(bytes);
  size_t total = bytes + kLine;
  // The remainder of the last huge page is taken too, if it is less than half.
  if (total % kHugePage >= kHugePage / 2) total = (total / kHugePage + 1) * kHugePage;
  void* block = nullptr;
  if (posix_memalign(&block, kHugePage, total) != 0) throw std::bad_alloc();
  advise_huge_pages(block, total);
  return new (block) Header{total - kLine, block};
}

// Never destroyed: workspaces may come back while the program ends.
Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

// The smallest kept block that is large enough and not wastefully so, or null. Of several as small it is the one that
// came back last, which caches still hold.
Header* find_kept(size_t bytes) {
  Kept& all = kept();
  const std::scoped_lock lock(all.mutex);
  auto best = all.blocks.end();
  for (auto block = all.blocks.begin(); block != all.blocks.end(); ++block) {
    if ((*block)->bytes < bytes || (*block)->bytes > bytes + std::max(bytes / 2, kSlack)) continue;
    if (best == all.blocks.end() || (*block)->bytes <= (*best)->bytes) best = block;
  }
  if (best == all.blocks.end()) return nullptr;
  Header* found = *best;
  all.blocks.erase(best);
  all.bytes -= found->bytes;
  return found;
}

}  // namespace

size_t workspace_bytes_kept() {
  const std::scoped_lock lock(kept().mutex);
  return kept().bytes;
}

void* take_workspace(size_t bytes) {
  // Vectors may read past the end of an array, never past its last line.
  bytes = (std::max(bytes, kLine) + 2 * kLine - 1) / kLine * kLine;
  Header* header = find_kept(bytes);
  if (header == nullptr) header = allocate(bytes);
  return reinterpret_cast<char*>(header) + kLine;
}

void return_workspace(void* workspace) {
  auto* header = reinterpret_cast<Header*>(static_cast<char*>(workspace) - kLine);
  if (header->bytes >= kLargestKept) return std::free(header->block);
  std::vector<Header*> dropped;
  {
    Kept& all = kept();
    const std::scoped_lock lock(all.mutex);
    all.blocks.push_back(header);
    all.bytes += header->bytes;
    while (all.bytes > kMostKept) {
      dropped.push_back(all.blocks.front());
      all.bytes -= all.blocks.front()->bytes;
      all.blocks.erase(all.blocks.begin());
    }
  }
  for (Header* old : dropped) std::free(old->block);
}

}  // namespace fovea

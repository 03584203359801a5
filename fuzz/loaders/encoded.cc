#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "fovea/base/file.h"
#include "fovea/data/encoded_file.h"
#include "fovea/data/encoded_format.h"
#include "loaders/loaders.h"

// Text that was encoded earlier, or by someone else.
namespace fovea::fuzz {
namespace {

// The file with the right checksum of its summary, so that what the summary says is looked at.
std::string with_checksum(std::string_view bytes) {
  constexpr size_t kDigits = 16;
  const size_t end = sizeof(uint64_t) + kDigits + data::kEncodedFormat.size();
  std::string file(bytes);
  if (file.size() < end || !file.ends_with(data::kEncodedFormat)) return file;
  uint64_t place = 0;
  std::memcpy(&place, file.data() + file.size() - end, sizeof place);
  if (place > file.size() - end) return file;
  const std::string sum = checksum(std::string_view(file).substr(place, file.size() - end - place));
  return file.replace(file.size() - end + sizeof place, kDigits, sum);
}

}  // namespace

void load_encoded(std::string_view bytes) {
  static const MemoryFile file;
  const data::EncodedFile encoded(file.put(with_checksum(bytes)), {.vocab = 300, .longest = 40});
  constexpr int64_t kMost = 200;
  for (int64_t pair = 0; pair < std::min(encoded.size(), kMost); ++pair) {
    const data::PackedBatch batch = encoded.pack({pair}, 0);
    require(!batch.target_outputs.empty(), "a pair has a target");
    for (const int64_t id : batch.source) require(id >= 0 && id < 300, "an id is of the vocabulary");
  }
}

}  // namespace fovea::fuzz

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/data/encoded_file.h"
#include "fovea/data/encoded_format.h"
#include "fovea/data/unit_file.h"
#include "loaders/loaders.h"

// Text that was encoded earlier, or by someone else.
namespace fovea::fuzz {
namespace {

// The file with the right checksum of its summary, so that what the summary says is looked at.
std::string with_checksum(std::string_view bytes, std::string_view format) {
  constexpr size_t kDigits = 16;
  const size_t end = sizeof(uint64_t) + kDigits + format.size();
  std::string file(bytes);
  if (file.size() < end || !file.ends_with(format)) return file;
  uint64_t place = 0;
  std::memcpy(&place, file.data() + file.size() - end, sizeof place);
  if (place > file.size() - end) return file;
  const std::string sum = checksum(std::string_view(file).substr(place, file.size() - end - place));
  return file.replace(file.size() - end + sizeof place, kDigits, sum);
}

}  // namespace

void load_encoded(std::string_view bytes) {
  static const MemoryFile file;
  const data::EncodedFile encoded(file.put(with_checksum(bytes, data::kEncodedFormat)), {.vocab = 300, .longest = 40});
  constexpr int64_t kMost = 200;
  for (int64_t pair = 0; pair < std::min(encoded.size(), kMost); ++pair) {
    const data::PackedBatch batch = encoded.pack({pair}, 0);
    require(!batch.target_outputs.empty(), "a pair has a target");
    for (const int64_t id : batch.source) require(id >= 0 && id < 300, "an id is of the vocabulary");
  }
}

void load_encoded_units(std::string_view bytes) {
  static const MemoryFile file;
  const data::UnitFile units(file.put(with_checksum(bytes, data::kUnitFormat)), {300});
  const int64_t most = std::min<int64_t>(units.size(), 1 << 16);
  std::vector<int64_t> ids;
  units.read(0, most, ids);
  require(std::ssize(ids) == most, "a text has another size");
  for (const int64_t id : ids) require(id >= 0 && id < 300, "a unit is of the vocabulary");
  for (const int64_t place : units.documents_in(0, units.size()))
    require(place >= 0 && place < units.size(), "a document begins in the text");
}

}  // namespace fovea::fuzz

#include "fovea/data/npz.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <array>
#include <memory>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

struct Close {
  void operator()(void* zip) const { (void)unzClose(zip); }
};
using Zip = std::unique_ptr<void, Close>;

[[noreturn]] void fail_damaged(const std::string& place) {
  throw Error(cat(place, ": is damaged or cut short; expected what numpy.savez() wrote"));
}

// The bytes of the member at which `zip` stands. A size that the directory states falsely costs no memory, because the
// text grows as it is read.
std::string read_member(void* zip, uint64_t size, const std::string& place) {
  constexpr size_t kPiece = size_t{1} << 24;
  if (unzOpenCurrentFile(zip) != UNZ_OK) fail_damaged(place);
  std::string bytes;
  while (true) {
    const size_t before = bytes.size();
    if (before > size) fail_damaged(place);
    bytes.resize(before + std::min<uint64_t>(kPiece, size - before + 1));
    const int read = unzReadCurrentFile(zip, bytes.data() + before, static_cast<unsigned>(bytes.size() - before));
    if (read < 0) fail_damaged(place);
    bytes.resize(before + static_cast<size_t>(read));
    if (read == 0) break;
  }
  if (bytes.size() != size || unzCloseCurrentFile(zip) != UNZ_OK) fail_damaged(place);  // closing checks the CRC
  return bytes;
}

}  // namespace

std::map<std::string, NpzArray> read_npz(const std::string& path) {
  require_file(path, "model");
  const Zip zip(unzOpen64(path.c_str()));
  if (!zip) throw Error(cat("'", path, "': is not an .npz file, or is cut short; expected what numpy.savez() wrote"));
  std::map<std::string, NpzArray> arrays;
  int at = unzGoToFirstFile(zip.get());
  for (; at == UNZ_OK; at = unzGoToNextFile(zip.get())) {
    unz_file_info64 info;
    std::array<char, 512> name_bytes{};
    if (unzGetCurrentFileInfo64(zip.get(), &info, name_bytes.data(), name_bytes.size() - 1, nullptr, 0, nullptr, 0) !=
        UNZ_OK)
      fail_damaged(cat("'", path, "'"));
    std::string name = name_bytes.data();
    const std::string place = cat("'", path, "': the array '", name, "'");
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    NpzArray array = {{}, read_member(zip.get(), info.uncompressed_size, place)};
    array.header = parse_npy_array(array.bytes, array.bytes.size(), place);
    if (!arrays.emplace(name, std::move(array)).second)
      throw Error(cat("'", path, "': holds the array '", name, "' twice"));
  }
  if (at != UNZ_END_OF_LIST_OF_FILE) fail_damaged(cat("'", path, "'"));
  return arrays;
}

}  // namespace fovea::data

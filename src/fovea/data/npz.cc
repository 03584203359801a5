#include "fovea/data/npz.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/signals.h"
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

struct Member {
  std::string name;  // of the array
  unz64_file_pos at = {};
  uint64_t begin = 0, end = 0;  // of its packed bytes in the file
  uint64_t size = 0;            // unpacked
};

std::string place_of(const std::string& path, const std::string& name) {
  return cat("'", path, "': the array '", name, "'");
}

// The member at which `zip` stands.
Member member_of(void* zip, const std::string& path) {
  unz_file_info64 info;
  std::array<char, 512> name_bytes{};
  Member member;
  if (unzGetCurrentFileInfo64(zip, &info, name_bytes.data(), name_bytes.size() - 1, nullptr, 0, nullptr, 0) != UNZ_OK ||
      unzGetFilePos64(zip, &member.at) != UNZ_OK)
    fail_damaged(cat("'", path, "'"));
  member.name = name_bytes.data();
  if (unzOpenCurrentFile(zip) != UNZ_OK) fail_damaged(place_of(path, member.name));
  member.begin = unzGetCurrentFileZStreamPos64(zip);
  member.end = member.begin + info.compressed_size;
  member.size = info.uncompressed_size;
  (void)unzCloseCurrentFile(zip);
  return member;
}

std::vector<Member> members_of(void* zip, const std::string& path) {
  std::vector<Member> members;
  int at = unzGoToFirstFile(zip);
  for (; at == UNZ_OK; at = unzGoToNextFile(zip)) members.push_back(member_of(zip, path));
  if (at != UNZ_END_OF_LIST_OF_FILE) fail_damaged(cat("'", path, "'"));
  return members;
}

// A few megabytes can say that they are any number of arrays: by members that share their bytes, or by the packed form
// of one number again and again.
void require_own_bytes(std::vector<Member> members, const std::string& path) {
  constexpr uint64_t kAlways = uint64_t{64} << 20, kMost = 20;  // packed weights are hardly smaller than plain ones
  std::ranges::sort(members, {}, &Member::begin);
  uint64_t size = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (i > 0 && member.begin < members[i - 1].end)
      throw Error(cat(place_of(path, member.name), " overlaps '", members[i - 1].name,
                      "' in the file; expected what numpy.savez() wrote"));
    if (member.size > std::numeric_limits<uint64_t>::max() / 2 - size) fail_damaged(place_of(path, member.name));
    size += member.size;
  }
  const uint64_t packed = std::filesystem::file_size(path);
  if (size > kAlways && size / kMost > packed)
    throw Error(cat("'", path, "': its arrays say that they have ", thousands(static_cast<int64_t>(size)),
                    " bytes, more than ", kMost,
                    " times the file's, as no weights do; write it again with numpy.savez()"));
}

// The bytes of the member at which `zip` stands. They are read in pieces, and no more than the file can hold.
std::string read_member(void* zip, uint64_t size, const std::string& place) {
  constexpr size_t kPiece = size_t{1} << 24;
  if (unzOpenCurrentFile(zip) != UNZ_OK) fail_damaged(place);
  std::string bytes;
  bytes.reserve(size + 1);
  while (true) {
    throw_if_interrupted("reading");
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
  const std::vector<Member> members = members_of(zip.get(), path);
  require_own_bytes(members, path);
  std::map<std::string, NpzArray> arrays;
  for (const Member& member : members) {
    const std::string place = place_of(path, member.name);
    std::string name = member.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (arrays.contains(name)) throw Error(cat("'", path, "': holds the array '", name, "' twice"));
    if (unzGoToFilePos64(zip.get(), &member.at) != UNZ_OK) fail_damaged(place);
    NpzArray array = {{}, read_member(zip.get(), member.size, place)};
    array.header = parse_npy_array(array.bytes, array.bytes.size(), place);
    arrays.emplace(name, std::move(array));
  }
  return arrays;
}

}  // namespace fovea::data

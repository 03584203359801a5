#include <array>
#include <filesystem>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "loaders/loaders.h"

namespace fovea::fuzz {
namespace {

const MemoryFile& lines_file() {
  static const MemoryFile file;
  return file;
}

// Links whose names choose the packer lead to the file in memory.
const std::string& name_of_packed(size_t which) {
  static const TestFolder folder;
  static const auto names = [] {
    std::array<std::string, 5> made;
    constexpr std::array<const char*, 5> kEndings = {"txt", "gz", "bz2", "xz", "zst"};
    for (size_t i = 0; i < made.size(); ++i) {
      made[i] = folder / cat("x.", kEndings[i]);
      std::filesystem::create_symlink(lines_file().path(), made[i]);
    }
    return made;
  }();
  return names[which % names.size()];
}

bool is_packed(std::string_view bytes) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view magic : {"\x1f\x8b"sv, "\xfd\x37zXZ\0"sv, "BZh"sv, "\x28\xb5\x2f\xfd"sv})
    if (bytes.starts_with(magic)) return true;
  return false;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  LineReader reader(path);
  for (std::string line; reader.next(line);) lines.push_back(line);
  require(reader.line_number() == static_cast<int64_t>(lines.size()), "lines are counted wrongly");
  return lines;
}

// Splits lines like LineReader's header says.
std::vector<std::string> split_into_lines(std::string_view text) {
  if (text.empty()) return {};
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines)
    if (line.ends_with('\r')) line.pop_back();
  return lines;
}

}  // namespace

void load_lines(std::string_view bytes) {
  const std::string& path = lines_file().put(bytes);
  const std::string whole = read_unpacked(path, Content::kBytes), text = read_unpacked(path);
  require(is_packed(bytes) || whole == bytes, "plain bytes change as they are read");
  require(text == (whole.starts_with(kByteOrderMark) ? whole.substr(kByteOrderMark.size()) : whole),
          "text is not its bytes without the mark");
  require(lines_of(path) == split_into_lines(text), "the lines are not those of the text");
  for (const std::string& line : read_lines(path)) require(is_valid_utf8(line), "a line of text is not UTF-8");
}

void load_written_lines(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string& path = name_of_packed(static_cast<unsigned char>(bytes[0]));
  bytes.remove_prefix(1);
  const bool plain = path.ends_with(".txt");
  if (plain && is_packed(bytes)) return;  // what is unpacked is chosen by content
  lines_file().put("");
  LineWriter writer(path);
  writer.write(bytes.substr(0, bytes.size() / 2));
  writer.flush();
  writer.write(bytes.substr(bytes.size() / 2));
  writer.close();
  must_load([&] {
    require(read_unpacked(path, Content::kBytes) == bytes, "what was written is not what is read");
    require(lines_of(path) == split_into_lines(read_unpacked(path)), "the lines written are not those read");
    return 0;
  });
}

}  // namespace fovea::fuzz

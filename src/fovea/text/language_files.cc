#include "fovea/text/language_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "fovea/text/language_code.h"

namespace fovea::text {
namespace {
namespace fs = std::filesystem;

bool are_swapped(std::span<const std::string> a, std::span<const std::string> b) {
  return a.size() == 2 && b.size() == 2 && a[0] != a[1] && a[0] == b[1] && a[1] == b[0];
}

}  // namespace

std::vector<std::string> languages_of_files(std::span<const std::string> files) {
  constexpr std::array<std::string_view, 4> kCompressed = {".gz", ".xz", ".zst", ".bz2"};
  std::vector<std::string> codes;
  for (const std::string& path : files) {
    fs::path name = fs::path(path).filename();
    if (std::ranges::find(kCompressed, name.extension().string()) != kCompressed.end()) name = name.stem();
    const std::string ending = name.extension().string();
    std::string code = ending.empty() ? "" : ending.substr(1);
    if (!is_language_code(code)) return {};
    codes.push_back(std::move(code));
  }
  return codes;
}

bool are_swapped_sides(std::span<const std::string> files, std::span<const std::string> others) {
  return are_swapped(files, others) || are_swapped(languages_of_files(files), languages_of_files(others));
}

}  // namespace fovea::text

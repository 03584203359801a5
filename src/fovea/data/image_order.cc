#include "fovea/data/image_order.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

// A number's digits without the zeros before them, which compare by their count, then as texts.
std::pair<size_t, std::string> number_of_name(const std::string& digits) {
  const std::string own = digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
  return {own.size(), own};
}

// The names of a folder's PNG files, sorted; none if one of them is not a number.
std::vector<std::string> numbers_of_folder(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (lower(entry.path().extension().string()) != ".png") continue;
    names.push_back(entry.path().stem().string());
    if (names.back().find_first_not_of("0123456789") != std::string::npos) return {};
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

void warn_of_image_order(const std::vector<std::string>& paths, const std::string& option, std::string_view results) {
  for (const std::string& path : paths) {
    const std::vector<std::string> names = numbers_of_folder(path);
    const auto before = std::ranges::adjacent_find(
        names, [](const std::string& a, const std::string& b) { return number_of_name(a) > number_of_name(b); });
    if (before == names.end()) continue;
    log::warn(cat(option, ": '", path, "': image '", *before, "' comes before '", *std::next(before),
                  "', because names are sorted as texts, and ", results, " follow this order; expected numbers of one ",
                  "length, such as 002"));
  }
}

}  // namespace fovea::data

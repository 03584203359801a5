#include "fovea/text/corpus_leftovers.h"

#include <algorithm>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_split.h"

namespace fovea::text {
namespace fs = std::filesystem;
namespace {

// The suffixes that train, valid and test all have.
std::vector<std::string> complete_suffixes(const fs::path& folder) {
  std::vector<std::string> suffixes;
  const std::string begin = cat(kPartNames[0], ".");
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(begin)) continue;
    const std::string suffix = name.substr(begin.size());
    const bool is_complete = std::ranges::all_of(kPartNames, [&](const char* part) {
      return fs::is_regular_file(fs::symlink_status(folder / cat(part, ".", suffix), failed));
    });
    if (is_complete) suffixes.push_back(suffix);
  }
  std::ranges::sort(suffixes);
  return suffixes;
}

}  // namespace

void warn_of_other_corpus(const fs::path& folder, const std::vector<std::string>& suffixes) {
  std::vector<std::string> names;
  for (const std::string& suffix : complete_suffixes(folder)) {
    if (std::ranges::find(suffixes, suffix) != suffixes.end()) continue;
    for (const char* part : kPartNames) names.push_back(cat(part, ".", suffix));
  }
  if (!names.empty())
    log::warn(cat("'", folder.string(), "' also has ", join(names, ", "),
                  ", which this call did not write; remove them if they belong to another corpus"));
}

void say_replaced_corpus(const std::vector<std::string>& paths) {
  std::vector<std::string> replaced;
  for (const std::string& path : paths) {
    std::error_code none_there;
    if (fs::is_regular_file(path, none_there) && fs::file_size(path, none_there) > 0) replaced.push_back(path);
  }
  if (!replaced.empty()) log::info(cat("replacing an earlier corpus: ", join(replaced, ", ")));
}

}  // namespace fovea::text

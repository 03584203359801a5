#include "fovea/text/corpus_leftovers.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_split.h"
#include "fovea/text/language_code.h"

namespace fovea::text {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 4> kGivenSuffixes = {"src", "trg", "trg2", "align"};

fs::path part_path(const fs::path& folder, const char* part, const std::string& suffix) {
  return folder / cat(part, ".", suffix);
}

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
      return fs::is_regular_file(fs::symlink_status(part_path(folder, part, suffix), failed));
    });
    if (is_complete) suffixes.push_back(suffix);
  }
  std::ranges::sort(suffixes);
  return suffixes;
}

std::array<int64_t, kPartNames.size()> lines_of_parts(const fs::path& folder, const std::string& suffix) {
  std::array<int64_t, kPartNames.size()> lines{};
  for (size_t part = 0; part < kPartNames.size(); ++part) {
    LineReader reader(part_path(folder, kPartNames[part], suffix));
    for (std::string line; reader.next(line);) ++lines[part];
  }
  return lines;
}

bool is_given(const std::string& suffix) {
  return is_language_tag(suffix) || std::ranges::find(kGivenSuffixes, suffix) != kGivenSuffixes.end();
}

std::string parts_in_words(const std::vector<std::string>& suffixes) {
  std::vector<std::string> names;
  for (const std::string& suffix : suffixes)
    for (const char* part : kPartNames) names.push_back(cat(part, ".", suffix));
  return join(names, ", ");
}

}  // namespace

CorpusLeftovers::CorpusLeftovers(fs::path folder, std::vector<std::string> suffixes) : folder_(std::move(folder)) {
  const std::vector<std::string> before = complete_suffixes(folder_);
  const auto is_replaced = [&](const std::string& suffix) {
    return std::ranges::find(suffixes, suffix) != suffixes.end();
  };
  std::set<std::array<int64_t, kPartNames.size()>> replaced;
  for (const std::string& suffix : before)
    if (is_replaced(suffix) && before.size() > 1) replaced.insert(lines_of_parts(folder_, suffix));
  for (const std::string& suffix : before) {
    if (is_replaced(suffix)) continue;
    const bool is_stale = is_given(suffix) && !replaced.empty() && replaced.contains(lines_of_parts(folder_, suffix));
    (is_stale ? stale_ : unknown_).push_back(suffix);
  }
}

void CorpusLeftovers::remove() const {
  for (const std::string& suffix : stale_)
    for (const char* part : kPartNames) fs::remove(part_path(folder_, part, suffix));
  if (!stale_.empty())
    log::info(cat("removed ", parts_in_words(stale_), " of the corpus that was in '", folder_.string(), "' before"));
  if (!unknown_.empty())
    log::warn(cat("'", folder_.string(), "' also has ", parts_in_words(unknown_),
                  ", which this call did not write; remove them if they belong to another corpus"));
}

}  // namespace fovea::text

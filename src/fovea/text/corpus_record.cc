#include "fovea/text/corpus_record.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_split.h"

namespace fovea::text {
namespace fs = std::filesystem;
namespace {

constexpr const char* kRecordFile = ".corpus";
constexpr size_t kMostRecordBytes = 1 << 16;

// "train.de" -> "de"; empty for names that no part of a corpus has.
std::string suffix_of(const std::string& name) {
  for (const char* part : kPartNames)
    if (name.starts_with(cat(part, "."))) return name.substr(std::string_view(part).size() + 1);
  return {};
}

// Names of parts alone: a stranger's record must not name other files.
std::map<std::string, int64_t> read_record(const fs::path& path) {
  std::map<std::string, int64_t> files;
  std::error_code failed;
  if (!fs::is_regular_file(path, failed) || fs::file_size(path, failed) > kMostRecordBytes) return files;
  for (const std::string& line : split(read_file(path), '\n')) {
    int64_t bytes = -1;
    const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), bytes);
    const size_t used = static_cast<size_t>(end - line.data());
    if (problem != std::errc() || used >= line.size() || line[used] != ' ') continue;
    const std::string name = line.substr(used + 1);
    if (!suffix_of(name).empty() && name.find('/') == std::string::npos) files[name] = bytes;
  }
  return files;
}

}  // namespace

CorpusRecord::CorpusRecord(fs::path folder) : folder_(std::move(folder)), before_(read_record(folder_ / kRecordFile)) {}

void CorpusRecord::write(FileSet& files) const {
  files.begin(folder_ / kRecordFile);
  for (const auto& [name, bytes] : written_) files.append(cat(bytes, " ", name, "\n"));
}

void CorpusRecord::remove_others() const {
  std::vector<std::string> removed;
  for (const auto& [name, bytes] : before_) {
    const fs::path path = folder_ / name;
    std::error_code failed;
    const bool is_as_written =
        fs::is_regular_file(fs::symlink_status(path, failed)) && std::cmp_equal(fs::file_size(path, failed), bytes);
    if (!written_.contains(name) && is_as_written && fs::remove(path, failed)) removed.push_back(name);
  }
  if (!removed.empty())
    log::info(cat("removed ", join(removed, ", "), " of the corpus that was in '", folder_.string(), "' before"));
  warn_of_unknown_parts();
}

void CorpusRecord::warn_of_unknown_parts() const {
  std::set<std::string> suffixes;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, failed)) {
    const std::string name = entry.path().filename(), suffix = suffix_of(name);
    if (!suffix.empty() && !written_.contains(name)) suffixes.insert(suffix);
  }
  std::erase_if(suffixes, [&](const std::string& suffix) {
    return std::ranges::any_of(kPartNames,
                               [&](const char* part) { return !fs::exists(folder_ / cat(part, ".", suffix), failed); });
  });
  if (suffixes.empty()) return;
  const std::vector<std::string> names(suffixes.begin(), suffixes.end());
  log::warn(cat("'", folder_.string(), "' also has train, valid and test of '", join(names, "', '"),
                "', which this call did not write; remove them if they belong to another corpus"));
}

}  // namespace fovea::text

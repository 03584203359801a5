#include "fovea/app/defaults_edition.h"

#include <charconv>
#include <ranges>

#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/spec/config_version.h"
#include "fovea/spec/defaults.h"

namespace fovea::app {
namespace fs = std::filesystem;
namespace {

// Nothing for another text: the option's own check refuses it.
std::optional<int64_t> read_edition(const std::string& text) {
  int64_t edition = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, edition);
  const bool is_edition = error == std::errc() && stop == end;
  return is_edition && kFirstDefaults <= edition && edition <= kNewestDefaults ? std::optional(edition) : std::nullopt;
}

}  // namespace

std::optional<int64_t> given_edition(const std::vector<std::string>& arguments) {
  if (const std::optional<std::string> given = peek(arguments, "defaults")) return read_edition(*given);
  if (peek(arguments, std::string(kVersionKey))) return kFirstDefaults;
  return std::nullopt;
}

int64_t edition_of_run(const fs::path& run) {
  const std::vector<fs::path> checkpoints = nn::checkpoints_to_resume(run);
  for (const fs::path& checkpoint : std::views::reverse(checkpoints)) {
    const std::string progress = checkpoint / nn::kProgressFile;
    try {
      const std::map<std::string, std::string> entries = nn::parse_map(read_file(progress), progress);
      const auto found = entries.find(nn::kDefaultsEntry);
      return found == entries.end() ? kFirstDefaults : read_edition(found->second).value_or(kNewestDefaults);
    } catch (const Error&) {
      continue;  // the run resumes from an older one, or refuses with the reason
    }
  }
  return kNewestDefaults;
}

}  // namespace fovea::app

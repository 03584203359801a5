#include "fovea/app/defaults_edition.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <ranges>

#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/spec/config_version.h"
#include "fovea/spec/defaults.h"

namespace fovea::app {
namespace fs = std::filesystem;
namespace {

// Returns nothing for any other text: the option's own check refuses it.
std::optional<int64_t> read_edition(const std::string& text) {
  int64_t edition = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, edition);
  const bool is_edition = error == std::errc() && stop == end;
  return is_edition && kFirstDefaults <= edition && edition <= kNewestDefaults ? std::optional(edition) : std::nullopt;
}

// Whether the run in the folder begins again: --overwrite or --no-reload, on the command line or in a file of -c.
bool begins_again(const std::vector<std::string>& arguments) {
  for (const char* name : {"overwrite", "no-reload"}) {
    const bool is_given = std::ranges::any_of(arguments, [&](std::string argument) {
      std::ranges::replace(argument, '_', '-');
      return argument == cat("--", name);
    });
    if (is_given || peek(arguments, name).value_or("false") != "false") return true;
  }
  return false;
}

// The first edition if the newest whole checkpoint does not say. The newest one for a folder without a run.
int64_t edition_of_run(const fs::path& run) {
  if (nn::list_checkpoints(run).empty()) return kNewestDefaults;
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

}  // namespace

int64_t edition_of(const std::vector<std::string>& arguments) {
  if (const std::optional<std::string> given = peek(arguments, "defaults"))
    return read_edition(*given).value_or(kNewestDefaults);
  if (peek(arguments, std::string(kVersionKey))) return kFirstDefaults;
  const std::optional<std::string> model = peek(arguments, "model", 'm');
  if (!model || model->empty() || begins_again(arguments)) return kNewestDefaults;
  try {
    return edition_of_run(*model);
  } catch (const Error&) {
    return kNewestDefaults;  // the training refuses such a folder with the reason
  }
}

}  // namespace fovea::app

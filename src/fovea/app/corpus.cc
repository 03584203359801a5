#include "fovea/text/corpus.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/run_options.h"
#include "fovea/text/byte_split.h"
#include "fovea/text/corpus_split.h"
#include "fovea/text/corpus_write.h"

namespace fovea::app {
namespace {
namespace fs = std::filesystem;

// The log is opened before the corpus is written.
void require_no_file_of_corpus(const fs::path& log, const fs::path& folder) {
  const std::string name = log.filename().string();
  if (std::ranges::none_of(text::kPartNames, [&](const char* part) { return name.starts_with(cat(part, ".")); }))
    return;
  std::error_code none_there;
  const auto place = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, none_there), none_there);
  };
  if (place(log) == place(folder / name))
    throw UsageError(cat("--log: '", log.string(), "' would be a file of the corpus; name another"));
}

void log_byte_parts(const text::CorpusOptions& config, const text::ByteParts& parts) {
  for (size_t i = 0; i < parts.files.size(); ++i)
    log::info(cat("wrote ", parts.files[i], ": ", thousands(config.split_bytes[i]), " bytes"));
  if (parts.has_more) log::warn(cat("'", config.inputs[0], "' has more bytes, which are in none of them"));
}

}  // namespace

int run_corpus(const std::vector<std::string>& arguments) {
  text::CorpusOptions config;
  LogOptions log_options;
  Options options("corpus",
                  "Reads parallel text, cleans it and splits it into train, valid and test; or cuts one file by bytes.",
                  "FILE... --output DIR");
  options.positional("FILE", config.inputs, text::corpus_inputs_in_words());
  options.add(config, "Options");
  options.add(log_options, "Options");
  options.epilogue(
      "  fovea corpus big.en big.de --output corpus\n"
      "  fovea corpus memory.tmx --languages en de --output corpus\n"
      "  fovea corpus --generate 30000 --output corpus\n"
      "  fovea corpus --split-bytes 90000000 5000000 5000000 enwik8 --output corpus");
  if (!options.parse(arguments)) return 0;
  if (config.output.empty()) throw UsageError("--output: got none; expected a folder for train, valid and test");
  require_no_file_of_corpus(log_options.log, config.output);
  const text::CorpusFolder folder(config.output);  // where the log may be too
  configure_log(log_options, {config.inputs});
  if (!config.split_bytes.empty()) {
    log_byte_parts(config, text::split_bytes(config));
    return 0;
  }
  const std::string table = text::describe(text::run_corpus(config));
  for (const std::string& row : split(trim(table), '\n')) log::info(row);
  return 0;
}

}  // namespace fovea::app

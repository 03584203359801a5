#include <filesystem>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_formats.h"
#include "fovea/text/corpus_readers.h"

namespace fovea::text {
namespace {

// "train.de" and "train.de.gz" end in a language; "corpus.txt" does not.
std::string language_suffix(const std::filesystem::path& path) {
  std::string suffix = without_packed_ending(path).extension();
  if (suffix.size() < 3) return {};
  suffix.erase(0, 1);
  const size_t length = suffix.find_first_of("-_");
  const size_t main = length == std::string::npos ? suffix.size() : length;
  if (main > 3 || suffix == "txt" || suffix == "tok") return {};
  return suffix;
}

void look_up(int64_t line, log::Progress& progress) {
  if ((line & 0xfff) != 0) return;
  throw_if_interrupted("reading the corpus");
  progress.at(static_cast<double>(line));
}

}  // namespace

Bitext read_tsv(const std::string& path, int64_t source_column, int64_t target_column) {
  Bitext bitext;
  LineReader reader(path);
  const auto needed = static_cast<size_t>(std::max(source_column, target_column));
  std::optional<Error> first_short;
  bool all_short = true;
  log::Progress progress(cat("reading ", path, ", lines"), 0);
  for (std::string line; reader.next(line);) {
    look_up(reader.line_number(), progress);
    const std::vector<std::string> columns = split(line, '\t');
    if (columns.size() < needed) {
      // A single short line among others counts as empty, and is dropped like an empty line.
      if (!first_short)
        first_short = Error(cat("'", path, "' line ", reader.line_number(), ": got ", columns.size(),
                                columns.size() == 1 ? " column" : " columns", "; expected at least ", needed,
                                ", apart by tabs; see --source-column and --target-column"));
      bitext.pairs.emplace_back();
      continue;
    }
    all_short = false;
    bitext.pairs.push_back(
        {columns[static_cast<size_t>(source_column - 1)], columns[static_cast<size_t>(target_column - 1)]});
  }
  if (!first_short) return bitext;
  if (all_short) throw *first_short;
  log::warn(cat(first_short->what(), "; it and others like it are dropped as empty"));
  return bitext;
}

Bitext read_aligned(const std::string& source, const std::string& target) {
  Bitext bitext{.source_lang = language_suffix(source), .target_lang = language_suffix(target), .pairs = {}};
  LineReader from(source), to(target);
  log::Progress progress(cat("reading ", source, ", lines"), 0);
  for (;;) {
    Pair pair;
    const bool more_from = from.next(pair.source), more_to = to.next(pair.target);
    if (!more_from && !more_to) return bitext;
    if (more_from != more_to) {
      std::string rest;
      while (from.next(rest) || to.next(rest)) continue;
      throw Error(cat("'", source, "' has ", from.line_number(), " lines and '", target, "' has ", to.line_number(),
                      "; aligned files have as many; are they the two sides of one corpus?"));
    }
    look_up(from.line_number(), progress);
    bitext.pairs.push_back(std::move(pair));
  }
}

}  // namespace fovea::text

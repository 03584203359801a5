#include "fovea/tasks/translation/gold_reader.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::translation {
namespace {

const std::string& readable_gold(const std::string& path) {
  if (path != "-") require_file(path, "--gold");
  return path;
}

int64_t count_words(const std::string& text) { return static_cast<int64_t>(split_words(text).size()); }

}  // namespace

GoldReader::GoldReader(const std::string& path, const analysis::LinkFormat& format)
    : format_(format), lines_(readable_gold(path)) {}

std::string GoldReader::name() const { return cat("--gold: ", input_name(lines_.path())); }

analysis::GoldLinks GoldReader::next(const TextPair& pair) {
  std::string line;
  if (!lines_.next(line)) {
    throw Error(
        cat(name(), " ends after ", count_lines(pairs_), ", --train-sets has more; expected a line of links per pair"));
  }
  ++pairs_;
  try {
    analysis::GoldLinks links =
        analysis::parse_gold_links(line, format_, {count_words(pair.source), count_words(pair.target)});
    has_links_ |= !links.possible.empty();
    return links;
  } catch (const Error& error) {
    throw Error(cat(name(), " line ", thousands(pairs_), ": ", error.what()));
  }
}

void GoldReader::finish() {
  std::string line;
  if (lines_.next(line)) {
    throw Error(cat(name(), " has more lines than --train-sets, which has ", thousands(pairs_),
                    "; expected a line of links per pair"));
  }
  if (!has_links_) throw Error(cat(name(), " has no links; expected at least one to compare with"));
}

}  // namespace fovea::translation

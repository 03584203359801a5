#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_formats.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/spreadsheet_lines.h"

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

struct TwoColumns {
  size_t source, target;  // from 1
};

// The pairs of two columns.
struct ColumnPairs {
  explicit ColumnPairs(TwoColumns wanted) : columns(wanted) {}

  TwoColumns columns;
  std::vector<Pair> pairs;
  std::optional<Error> first_short;
  bool all_short = true;
  size_t most = 0;  // columns of a line

  // A single short line among others counts as empty, and is dropped like an empty line.
  void add(const std::vector<std::string>& fields, const LineReader& reader) {
    const size_t needed = std::max(columns.source, columns.target);
    most = std::max(most, fields.size());
    if (fields.size() >= needed) {
      all_short = false;
      pairs.push_back({fields[columns.source - 1], fields[columns.target - 1]});
      return;
    }
    pairs.emplace_back();
    if (first_short) return;
    first_short = Error(cat("'", reader.path(), "' line ", reader.line_number(), ": got ", fields.size(),
                            fields.size() == 1 ? " column" : " columns", "; expected at least ", needed,
                            ", apart by tabs; see --source-column and --target-column"));
  }
};

// A column of numbers, addresses or names of files is none of a language.
bool looks_like_ids(const std::vector<Pair>& pairs, std::string Pair::*side) {
  constexpr size_t kFirst = 1000, kFew = 10;
  size_t ids = 0, texts = 0;
  for (size_t i = 0; i < std::min(pairs.size(), kFirst); ++i) {
    const std::string_view text = trim(pairs[i].*side);
    if (text.empty()) continue;
    const bool has_blank = text.find(' ') != std::string_view::npos;
    const bool has_digit = text.find_first_of("0123456789") != std::string_view::npos;
    ++texts;
    ids += !has_blank && (has_digit || text.find("://") != std::string_view::npos) ? 1 : 0;
  }
  return texts >= kFew && ids * 10 >= texts * 9;
}

// Says which columns were read if there are others, and warns of one that holds ids.
void tell_of_columns(const std::string& path, const ColumnPairs& read) {
  if (read.most > 2)
    log::info(cat("'", path, "' has ", read.most, " columns; source is column ", read.columns.source,
                  " and target column ", read.columns.target, " (--source-column, --target-column)"));
  for (const auto& [option, side, column] : {std::tuple("--source-column", &Pair::source, read.columns.source),
                                             {"--target-column", &Pair::target, read.columns.target}}) {
    if (looks_like_ids(read.pairs, side))
      log::warn(cat("'", path, "': column ", column, " looks like ids, not text, for example '",
                    one_line(read.pairs.front().*side), "'; ", option, " names another column"));
  }
}

void look_up(int64_t line, log::Progress& progress) {
  if ((line & 0xfff) != 0) return;
  throw_if_interrupted("reading the corpus");
  progress.at(static_cast<double>(line));
}

}  // namespace

Bitext read_tsv(const std::string& path, int64_t source_column, int64_t target_column) {
  LineReader reader(path);
  const TwoColumns columns{static_cast<size_t>(source_column), static_cast<size_t>(target_column)};
  // As they are; and, from the first line with a quote, as a spreadsheet would have written them.
  ColumnPairs plain(columns), unquoted(columns);
  SpreadsheetLines spreadsheet;
  std::optional<size_t> first_unquoted;
  log::Progress progress(cat("reading ", path, ", lines"), 0);
  for (std::string line; reader.next(line);) {
    look_up(reader.line_number(), progress);
    if (!first_unquoted && line.find('"') != std::string::npos) first_unquoted = plain.pairs.size();
    spreadsheet.add(line, [&](const std::vector<std::string>& fields) {
      if (first_unquoted) unquoted.add(fields, reader);
    });
    if (spreadsheet.is_broken()) unquoted.pairs = {};
    plain.add(split(line, '\t'), reader);
  }
  if (first_unquoted && spreadsheet.is_spreadsheet()) {
    log::info(cat("'", path, "': the quotes around fields are those of a spreadsheet, and not read as text"));
    plain.pairs.resize(*first_unquoted);
    std::ranges::move(unquoted.pairs, std::back_inserter(plain.pairs));
    if (*first_unquoted == 0) plain.all_short = unquoted.all_short;
    plain.first_short = plain.all_short ? plain.first_short : unquoted.first_short;
  }
  if (plain.first_short && plain.all_short) throw *plain.first_short;
  tell_of_columns(path, plain);
  Bitext bitext;
  bitext.pairs = std::move(plain.pairs);
  if (!plain.first_short) return bitext;
  log::warn(cat(plain.first_short->what(), "; it and others like it are dropped as empty"));
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

#include "fovea/text/corpus_write.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/file_set.h"
#include "fovea/base/replace.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_leftovers.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace fs = std::filesystem;
namespace {

int64_t words_of(const std::vector<Pair>& pairs, std::string Pair::*side) {
  double words = 0;
  for (const Pair& pair : pairs) words += measure(pair.*side).words;
  return static_cast<int64_t>(words);
}

}  // namespace

CorpusFolder::CorpusFolder(const std::string& path) {
  std::error_code failed;
  for (fs::path part = path; !part.empty() && !fs::exists(part, failed); part = part.parent_path())
    made_.push_back(part);
  fs::create_directories(path, failed);
  if (failed) throw Error(cat("--output: cannot make the folder '", path, "': ", failed.message()));
  if (access(path.c_str(), W_OK | X_OK) != 0)
    throw Error(cat("--output: cannot write into the folder '", path, "': ", std::strerror(errno)));
  finish_killed_replacements(std::vector<fs::path>{path});
}

CorpusFolder::~CorpusFolder() {
  for (const fs::path& part : made_) {
    std::error_code not_empty;
    fs::remove(part, not_empty);
  }
}

void write_split(const Split& split, const Bitext& languages, const CorpusOptions& options, CorpusReport& report) {
  struct Side {
    std::string suffix;
    std::string Pair::*text;
  };
  std::vector<Side> sides = {{languages.source_lang, &Pair::source}, {languages.target_lang, &Pair::target}};
  if (options.generate > 0) sides.push_back({"align", &Pair::alignment});
  const auto path_of = [&](size_t part, const Side& side) {
    return (fs::path(options.output) / cat(kPartNames[part], ".", side.suffix)).string();
  };
  std::vector<fs::path> paths;
  for (size_t part = 0; part < split.size(); ++part) {
    for (const Side& side : sides) {
      paths.emplace_back(path_of(part, side));
      require_own_place("--output", paths.back(), OwnPlace::kFile);
      require_other_file("--output", path_of(part, side), options.inputs);
      require_writable("--output", path_of(part, side));
    }
  }
  FileSet files(paths);
  std::vector<std::string> suffixes;
  for (const Side& side : sides) suffixes.push_back(side.suffix);
  for (size_t part = 0; part < split.size(); ++part) {
    const std::vector<Pair>& pairs = split[part];
    for (const Side& side : sides) {
      report.files.push_back(path_of(part, side));
      files.begin(report.files.back());
      for (const Pair& pair : pairs) {
        files.append(pair.*side.text);
        files.append("\n");
      }
    }
    report.parts.push_back(
        {kPartNames[part], std::ssize(pairs), words_of(pairs, &Pair::source), words_of(pairs, &Pair::target)});
  }
  say_replaced_corpus(report.files);
  files.commit();
  warn_of_other_corpus(options.output, suffixes);
}

}  // namespace fovea::text

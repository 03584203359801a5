#include "fovea/text/byte_split.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/file_set.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_leftovers.h"
#include "fovea/text/corpus_split.h"

namespace fovea::text {
namespace {

// All other options are for parallel text.
void require_byte_options(const CorpusOptions& options) {
  if (options.split_bytes.size() != kPartNames.size())
    throw UsageError(cat("--split-bytes: got ", options.split_bytes.size(),
                         " values; expected three, the bytes of train, valid and test"));
  CorpusOptions given = options, defaults;
  const std::vector<FieldView> fields = field_views(given), unset = field_views(defaults);
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool is_own = fields[i].name == "split-bytes" || fields[i].name == "output";
    if (!is_own && values_of(fields[i]) != values_of(unset[i]))
      throw UsageError(cat("--", fields[i].name, ": is for parallel text; got it beside --split-bytes; leave one out"));
  }
  if (options.inputs.size() != 1)
    throw UsageError(cat("--split-bytes: got ", options.inputs.size(), " files; expected one"));
}

// Reads `size` bytes into the file that was begun last; returns how many there were.
int64_t copy_bytes(LineReader& reader, int64_t size, FileSet& files, log::Progress& progress, int64_t before) {
  constexpr int64_t kBlockBytes = 1 << 20;
  int64_t done = 0;
  std::string block;
  while (done < size) {
    block.clear();
    const size_t got = reader.read(block, static_cast<size_t>(std::min(kBlockBytes, size - done)));
    if (got == 0) break;
    files.append(block);  // which looks for signals
    done += static_cast<int64_t>(got);
    progress.at(static_cast<double>(before + done));
  }
  return done;
}

}  // namespace

ByteParts split_bytes(const CorpusOptions& options) {
  require_byte_options(options);
  const std::string& input = options.inputs[0];
  if (input != "-") require_file(input, "--split-bytes");
  ByteParts parts;
  for (const char* name : kPartNames) {
    parts.files.push_back((std::filesystem::path(options.output) / cat(name, ".txt")).string());
    require_own_place("--output", parts.files.back(), OwnPlace::kFile);
    require_other_file("--output", parts.files.back(), options.inputs);
    require_writable("--output", parts.files.back());
  }
  const int64_t wanted = std::accumulate(options.split_bytes.begin(), options.split_bytes.end(), int64_t{0});
  LineReader reader(input, Content::kBytes);
  FileSet files({parts.files.begin(), parts.files.end()});
  log::Progress progress("cutting, bytes", static_cast<double>(wanted));
  int64_t done = 0;
  for (size_t part = 0; part < parts.files.size(); ++part) {
    files.begin(parts.files[part]);
    done += copy_bytes(reader, options.split_bytes[part], files, progress, done);
  }
  if (done < wanted)
    throw Error(cat("--split-bytes: ", input_name(input), " has ", thousands(done), " bytes; expected at least ",
                    thousands(wanted), ", the sum of the parts; ask for less"));
  std::string next;
  parts.has_more = reader.read(next, 1) > 0;
  say_replaced_corpus(parts.files);
  files.commit();
  warn_of_other_corpus(options.output, {"txt"});
  return parts;
}

}  // namespace fovea::text

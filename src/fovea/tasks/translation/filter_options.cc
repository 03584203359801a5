#include <algorithm>
#include <filesystem>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/file_set.h"
#include "fovea/base/output_target.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/translation/filter.h"

namespace fovea::translation {
namespace {

bool is_compressed_name(const std::string& path) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{".gz", ".bz2", ".xz", ".zst"},
                             [&](std::string_view ending) { return path.ends_with(ending); });
}

void add_output_problems(const FilterOptions& options, Problems& problems) {
  const bool writes = options.keeps();
  problems.add_if(options.keep > 0 && !options.threshold.empty(), "--keep and --threshold: got both; expected one");
  if (writes || !options.outputs.empty()) problems.add_unless_two_sides("output", options.outputs);
  problems.add_if(!writes && !options.outputs.empty(),
                  "--output needs --keep or --threshold; scores go to standard output");
  for (const std::string& path : options.outputs) {
    problems.add_if(is_compressed_name(path),
                    cat("--output: '", path, "' would not be compressed; expected a name without that ending"));
  }
}

}  // namespace

void validate(const FilterOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  add_parallel_text_problems(options.train_sets, problems);
  add_output_problems(options, problems);
  const bool reads_again = options.keeps() || options.show > 0;
  problems.add_if(options.test != "none" && reads_again,
                  "--test measures the score; leave out --keep, --threshold and --show");
  problems.add_if(options.test == "none" && options.test_pairs != FilterOptions().test_pairs,
                  "--test-pairs needs --test");
  problems.add_if(options.test == "none" && options.show == 0 && options.seed != FilterOptions().seed,
                  "--seed needs --show or --test: without them, nothing is drawn");
  for (const std::string& path : options.train_sets) {
    std::error_code ignored;
    const bool is_stream =
        path == "-" || (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored) &&
                        !std::filesystem::is_directory(path, ignored));
    problems.add_if(reads_again && is_stream,
                    cat("--train-sets: got '", path,
                        "', which can be read only once; expected a file with --keep, --threshold and --show"));
  }
  problems.throw_if_any();
}

void check_outputs(const FilterOptions& options) {
  for (const std::string& path : options.outputs) {
    for (const std::vector<std::string>& files : options.inputs()) require_other_file("--output", path, files);
    if (!options.log.empty() && is_same_file_to_write(options.log, path))
      throw Error(cat("--log: '", options.log, "' is --output too; name another file"));
    require_writable("--output", path);
  }
  if (options.outputs.size() == 2 && is_same_file_to_write(options.outputs[0], options.outputs[1]))
    throw Error(cat("--output: got '", options.outputs[1], "' for both sides; expected two files"));
  finish_killed_commits({options.outputs.begin(), options.outputs.end()});
}

}  // namespace fovea::translation

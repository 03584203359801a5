#include "fovea/tasks/tagging/score.h"

#include <algorithm>

#include "fovea/base/file.h"
#include "fovea/base/shared_work.h"
#include "fovea/base/strings.h"
#include "fovea/data/columns.h"
#include "fovea/metrics/find_notation.h"
#include "fovea/models/tagging/loaded_tagger.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/tagging/label_notation.h"
#include "fovea/tasks/tagging/options.h"

namespace fovea::tagging {

void validate(const ScoreOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  problems.add_if(options.train_sets.empty(), "--train-sets is missing; expected one or more files of columns");
  problems.add_if(std::ranges::count(options.train_sets, "-") > 1,
                  "--train-sets: got '-', standard input, more than once; give it once");
  add_column_problems(options.label_column, problems);
  problems.throw_if_any();
}

int64_t run_score(const ScoreOptions& options) {
  require_one_process("fovea score for models of the task tagging");
  validate(options);
  for (const std::string& path : options.train_sets) {
    if (path != "-") require_file(path, "--train-sets");
  }
  const LoadedTagger loaded = load_tagger(options);
  const data::LabelledText text =
      data::load_columns(options.train_sets, {.labels = options.label_column,
                                              .tags = clause_tag_column(loaded, options.clause_tag_column),
                                              .option = "--train-sets"});
  warn_of_lookalikes(text, metrics::form_to_read(text.labels, loaded.labels.form()), "--train-sets");
  const metrics::ConllScore score = score_text(loaded.parts(options.mini_batch_words), text);
  LineWriter output(options.output);
  output.write(score.report());
  output.line(cat("F1 ", fixed(100 * score.total().f1(), 2)));
  const bool has_both = score.chunks().gold > 0 && score.words().gold > 0;
  if (has_both) {
    output.line(cat("F1-names ", fixed(100 * score.chunks().f1(), 2)));
    output.line(cat("F1-words ", fixed(100 * score.words().f1(), 2)));
  }
  output.close();
  return score.tokens();
}

}  // namespace fovea::tagging

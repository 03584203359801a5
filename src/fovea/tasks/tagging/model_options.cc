#include "fovea/tasks/tagging/model_options.h"

#include "fovea/base/error.h"
#include "fovea/models/tagging/loaded_tagger.h"

namespace fovea::tagging {

int64_t clause_tag_column(const LoadedTagger& loaded, int64_t given) {
  if (given == -1) return loaded.clauses ? loaded.config.clause_tag_column : 0;
  if (!loaded.clauses) throw UsageError("--clause-tag-column: the model has no clauses; leave the option out");
  if (given == 1)
    throw UsageError("--clause-tag-column: expected -1, 0 or a number from 2; the first column is the word");
  return given;
}

}  // namespace fovea::tagging

#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/text/clause_command.h"

namespace fovea::app {

int run_clauses(const std::vector<std::string>& arguments) {
  text::ClauseOptions config;
  Options options("clauses",
                  "Splits sentences into clauses at signal words, in six levels: punctuation, conjunctions, relative "
                  "words, prepositions, infinitives, participles (which need tags).",
                  "[--level L] < text");
  options.add(config, "Options");
  options.epilogue(
      "  fovea clauses --level 2 < test.en\n"
      "  fovea clauses --label < words-and-tags > words-tags-and-labels\n"
      "  fovea clauses --level 6 --tag-column 2 < words-and-tags");
  if (!options.parse(arguments)) return 0;
  text::run_clauses(config);
  return 0;
}

}  // namespace fovea::app

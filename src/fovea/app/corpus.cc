#include "fovea/text/corpus.h"

#include <iostream>
#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/base/error.h"

namespace fovea::app {

int run_corpus(const std::vector<std::string>& arguments) {
  text::CorpusOptions config;
  Options options("corpus", "Reads parallel text, cleans it and splits it into train, valid and test.",
                  "FILE... --output DIR");
  options.positional("FILE", config.inputs, text::corpus_inputs_in_words());
  options.add(config, "Options");
  options.epilogue(
      "  fovea corpus big.en big.de --output corpus\n"
      "  fovea corpus memory.tmx --languages en de --output corpus\n"
      "  fovea corpus --generate 30000 --output corpus");
  if (!options.parse(arguments)) return 0;
  if (config.output.empty()) throw UsageError("--output: got none; expected a folder for train, valid and test");
  std::cerr << text::describe(text::run_corpus(config));
  return 0;
}

}  // namespace fovea::app

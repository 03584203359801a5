#include <string>
#include <vector>

#include "fovea/spec/logging.h"
#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/spec/run_options.h"
#include "fovea/text/vocab.h"

namespace fovea::app {
namespace {

struct VocabConfig : LogOptions {
  std::vector<std::string> train_sets;
  int64_t dim_vocabs = 8000;
  std::string output, type = "unigram";
  double character_coverage = 1;
  bool byte_fallback = false;
  int64_t max_lines = 2'000'000, seed = 1, cpu_threads = 1;

  static constexpr auto fields() {
    using C = VocabConfig;
    const auto own = std::tuple(
        named("train-sets", &C::train_sets, "text to learn from, one sentence a line, may be packed", "t"),
        number("dim-vocabs", &C::dim_vocabs, "pieces, </s> and <unk> among them", 3, 1e7),
        named("output", &C::output, "the SentencePiece model to write (.spm)", "o"),
        choice("type", &C::type, "how pieces are learned", "unigram|bpe"),
        number("character-coverage", &C::character_coverage, "share of all characters that get a piece",
               text::kMinCharacterCoverage, 1),
        field("byte-fallback", &C::byte_fallback, "spell unknown characters in bytes"),
        number("max-lines", &C::max_lines, "learn from a sample of so many lines", 1, 1e12),
        number("seed", &C::seed, "of the sample", 0, 9e15),
        number("cpu-threads", &C::cpu_threads, "threads, for unigram; its pieces depend on how many", 1, 4096));
    return std::tuple_cat(own, LogOptions::fields());
  }
};

}  // namespace

int run_vocab(const std::vector<std::string>& arguments) {
  VocabConfig config;
  Options options("vocab", "Learns a SentencePiece vocabulary from text.",
                  "--train-sets A B --dim-vocabs N --output FILE.spm");
  options.add(config, "Options");
  options.epilogue(
      "Several files make one joint vocabulary:\n"
      "  fovea vocab --train-sets train.en train.de --dim-vocabs 8000 --output joint.spm");
  if (!options.parse(arguments)) return 0;
  configure_log(config, {config.train_sets});
  if (config.train_sets.empty()) throw UsageError("--train-sets: got none; expected one or more text files");
  if (config.output.empty()) throw UsageError("--output: got none; expected a file to write, e.g. joint.spm");
  const int64_t pieces = text::train_vocab({.inputs = config.train_sets,
                                            .output = config.output,
                                            .size = config.dim_vocabs,
                                            .type = config.type,
                                            .character_coverage = config.character_coverage,
                                            .byte_fallback = config.byte_fallback,
                                            .max_sentences = config.max_lines,
                                            .seed = config.seed,
                                            .threads = config.cpu_threads});
  log::info(cat("wrote ", config.output, ": ", thousands(pieces), " pieces"));
  return 0;
}

}  // namespace fovea::app

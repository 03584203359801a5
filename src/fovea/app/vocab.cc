#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/base/threads.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/run_options.h"
#include "fovea/text/clause_flags.h"
#include "fovea/text/vocab.h"

namespace fovea::app {
namespace {

struct VocabConfig : LogOptions {
  std::vector<std::string> train_sets;
  int64_t dim_vocabs = 0;
  std::string output, type = "unigram", normalization = text::kIdentity;
  double character_coverage = 1;
  bool byte_fallback = false, clause_flags = false;
  int64_t max_lines = text::kDefaultVocabSample, seed = 1, cpu_threads = 1;

  static constexpr auto fields() {
    using C = VocabConfig;
    const auto own = std::tuple(
        named("train-sets", &C::train_sets, "text to learn from, plain or compressed", "t"),
        number("dim-vocabs", &C::dim_vocabs,
               "number of pieces, with </s> and <unk>; of word and char, the most (0: 8,000; for char all)", 0, 1e7),
        named("output", &C::output, "SentencePiece model to write (.spm)", "o"),
        choice("type", &C::type, "pieces that SentencePiece learns, words between white space, or characters",
               text::kVocabTypeNames),
        choice("normalization", &C::normalization,
               "unigram, bpe: characters that become others, by SentencePiece's names; identity keeps the text as it "
               "is, the others also join blanks",
               text::kNormalizationNames),
        number("character-coverage", &C::character_coverage, "unigram, bpe: share of all characters that get a piece",
               text::kMinCharacterCoverage, 1),
        field("byte-fallback", &C::byte_fallback, "unigram, bpe: spell unknown characters in bytes"),
        field("clause-flags", &C::clause_flags,
              "add the pieces <c1> to <c6>, which train --clause-flags puts before signal words"),
        number("max-lines", &C::max_lines, "unigram, bpe: learn from a sample of N lines", 1, 1e12),
        number("seed", &C::seed, "random seed for the sample", 0, 9e15),
        number("cpu-threads", &C::cpu_threads, "unigram: number of threads, on which its pieces depend", 1, 4096));
    return std::tuple_cat(own, LogOptions::fields());
  }
};

}  // namespace

int run_vocab(const std::vector<std::string>& arguments) {
  VocabConfig config;
  Options options("vocab", "Makes a vocabulary of pieces, words or characters from text, a SentencePiece model.",
                  "--train-sets A B --dim-vocabs N --output FILE.spm");
  options.add(config, "Options");
  options.epilogue(
      "Several files make one joint vocabulary:\n"
      "  fovea vocab --train-sets train.en train.de --dim-vocabs 8000 --output joint.spm\n"
      "  fovea vocab --type word --train-sets wiki.train.tokens --dim-vocabs 267735 --output words.spm\n"
      "  fovea vocab --type char --train-sets text8 --output characters.spm");
  if (!options.parse(arguments)) return 0;
  configure_log(config, {config.train_sets});
  if (config.train_sets.empty()) throw UsageError("--train-sets: got none; expected one or more text files");
  if (config.output.empty()) throw UsageError("--output: got none; expected a file to write, e.g. joint.spm");
  require_threads("--cpu-threads", config.cpu_threads);
  const int64_t pieces =
      text::train_vocab({.inputs = config.train_sets,
                         .output = config.output,
                         .size = config.dim_vocabs,
                         .type = config.type,
                         .normalization = config.normalization,
                         .character_coverage = config.character_coverage,
                         .byte_fallback = config.byte_fallback,
                         .max_sentences = config.max_lines,
                         .seed = config.seed,
                         .threads = config.cpu_threads,
                         .control_pieces = config.clause_flags ? text::clause_flags() : std::vector<std::string>()});
  log::info(cat("wrote ", config.output, ": ", thousands(pieces), " pieces"));
  return 0;
}

}  // namespace fovea::app

#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fovea/models/batches.h"
#include "fovea/models/translation/languages.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/spec/decode_config.h"
#include "fovea/tasks/translation/encoded_line.h"
#include "fovea/tasks/translation/engine.h"

namespace fovea::translation {

// Counts of the lines and tokens that passed through a translator.
struct TranslationCounts {
  int64_t lines = 0, source_tokens = 0, target_tokens = 0;
  int64_t cut = 0;                         // lines longer than the limit
  int64_t not_utf8 = 0;                    // lines with bytes that are no text
  int64_t unknown = 0, with_unknown = 0;   // tokens of text that the vocabulary lacks, and lines with some
  int64_t ended = 0;                       // translations whose end was forced at --max-length-factor
  int64_t with_terms = 0, lack_terms = 0;  // lines whose translations say terms, or have no room for one
};

// Text in, text out, by a model whose weights do not change while this lives: an engine that gets many lines at a time.
class Translator {
 public:
  struct Options {
    EngineRequest line;  // the options of each line
    TranslationEngine::Options engine;
  };
  Translator(LoadedModel loaded, const Options& options);
  explicit Translator(const DecodeConfig& config);

  // Gives the translations of each line to `take`, best first, as soon as they are done: those of short lines come
  // first. `line` is the place among `lines`. An empty line (base/empty_line.h) gives one empty text.
  using TakeTranslations = std::function<void(size_t line, std::vector<Translation> best)>;
  void translate(std::span<const std::string> lines, const TakeTranslations& take);
  // Like translate() above, but returns the translations in the order of the lines.
  std::vector<std::vector<Translation>> translate(std::span<const std::string> lines);

  // Returns the best tokens of each source, whose tokens end with </s>; none of a source without others.
  std::vector<Sentence> translate_tokens(std::span<const Sentence> sources);

  // Counts lines that come before the next ones, for messages: other processes translate them.
  void skip(int64_t lines) { counts_.lines += lines; }

  const LoadedModel& model() const { return engine_.model(); }
  const text::Vocab& source_vocab() const { return engine_.model().source; }
  const text::Vocab& target_vocab() const { return engine_.model().target; }
  const TranslationCounts& counts() const { return counts_; }
  const LineLimit& limit() const { return engine_.limit(); }

 private:
  using TakeResult = std::function<void(size_t source, EngineResult result)>;
  Sentence encode(const std::string& line);
  // Translates sources, whose tokens end with </s>; `lines`: their texts, or none.
  void run(std::span<const std::string> lines, std::vector<Sentence> sources, const TakeResult& take);
  std::map<Ticket, size_t> add(std::span<const std::string> lines, std::vector<Sentence> sources);
  void finish(const std::map<Ticket, size_t>& places, const TakeResult& take);
  void warn_of_missing(int64_t line, std::span<const text::Term> missing);

  EngineRequest line_;
  TranslationEngine engine_;
  LanguageMarks marks_;
  TranslationCounts counts_;
  LineWarnings cut_, not_utf8_, lack_terms_;
};

Translator::Options translator_options(const DecodeConfig& config);

}  // namespace fovea::translation

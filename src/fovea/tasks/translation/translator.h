#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/analysis/alignment.h"
#include "fovea/models/batches.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/models/written_text.h"
#include "fovea/spec/decode_config.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/tasks/translation/term_demands.h"
#include "fovea/tasks/translation/translate_batch.h"
#include "fovea/text/terms.h"

namespace fovea::translation {

struct Translation : models::WrittenText {
  analysis::Links links = {};  // between words of the line and of `text`, if they were asked for
};

// Counts of the lines and tokens that passed through a translator.
struct TranslationCounts {
  int64_t lines = 0, source_tokens = 0, target_tokens = 0;
  int64_t cut = 0;                         // lines longer than the limit
  int64_t not_utf8 = 0;                    // lines with bytes that are no text
  int64_t unknown = 0, with_unknown = 0;   // tokens of text that the vocabulary lacks, and lines with some
  int64_t ended = 0;                       // translations whose end was forced at --max-length-factor
  int64_t with_terms = 0, lack_terms = 0;  // lines whose translations say terms, or have no room for one
};

// Token ids of a line, at most max_length of them, and </s>. An empty line (base/empty_line.h) is </s> alone.
struct Encoded {
  Sentence tokens;
  int64_t cut_from = 0;  // the line's length in tokens, if it was cut
};
Encoded encode_line(const text::Vocab& vocab, const std::string& line, int64_t max_length);
Encoded with_limit(Sentence tokens, int64_t eos, int64_t max_length);  // of all tokens of a line, without </s>

// The number of tokens of a line that are read.
struct LineLimit {
  int64_t tokens = 0;
  std::string_view set_by;  // an option, or the model
};
LineLimit line_limit(const ModelConfig& model, int64_t max_length);
std::string cut_message(const Encoded& encoded, const LineLimit& limit);
void warn_of_cut_lines(int64_t count, const LineLimit& limit);  // at the end, of all; none is no warning

std::string unknown_message(int64_t tokens);  // "2 tokens are text that the vocabulary lacks"
std::string count_lines(int64_t count);       // "1 line", "2,000 lines"

// Counts lines with something odd about them; warns of the first few.
class LineWarnings {
 public:
  void warn(int64_t line, std::string_view what);  // "line 7 " and what; line: its number, from 1
  int64_t count() const { return count_; }

 private:
  int64_t count_ = 0;
};

// Text in, text out, by a model whose weights do not change while this lives.
class Translator {
 public:
  // `options.beam.num_best` hypotheses a line; source lines are cut to max_length tokens.
  struct Options {
    TranslateOptions search;
    ops::PrepackedLayer::Format layers =
        ops::PrepackedLayer::Format::kExact;  // of the decoder's steps and the output layer
    BatchLimits limits;
    int64_t max_length = 1000;
    bool allow_unk = false;                                 // or no translation has the unknown word
    std::optional<LinkChoice> alignment = {};               // the links that translations come with; none by default
    std::shared_ptr<const text::TermList> terms = nullptr;  // that translations say; null: none
  };
  Translator(LoadedModel loaded, const Options& options);
  explicit Translator(const DecodeConfig& config);

  // Gives the translations of each line to `take`, best first, as soon as they are done: those of short lines come
  // first, and with links, all in the end. `line` is the place among `lines`. An empty line (base/empty_line.h) gives
  // one empty text.
  using TakeTranslations = std::function<void(size_t line, std::vector<Translation> best)>;
  void translate(std::span<const std::string> lines, const TakeTranslations& take);
  // Like translate() above, but returns the translations in the order of the lines.
  std::vector<std::vector<Translation>> translate(std::span<const std::string> lines);

  // Returns the best tokens of each source, whose tokens end with </s>; none of a source without others.
  std::vector<Sentence> translate_tokens(std::span<const Sentence> sources);

  // Counts lines that come before the next ones, for messages: other processes translate them.
  void skip(int64_t lines) { counts_.lines += lines; }

  const text::Vocab& source_vocab() const { return loaded_.source; }
  const text::Vocab& target_vocab() const { return loaded_.target; }
  const TranslationCounts& counts() const { return counts_; }
  const LineLimit& limit() const { return limit_; }

 private:
  // The lines that have text: their tokens, places and terms.
  struct Window {
    std::vector<Sentence> sources;
    std::vector<size_t> line_of;
    std::vector<TermDemands::Found> terms;
  };

  Sentence encode(const std::string& line);
  void search(Window& window, const search::TakeBest& take);
  std::vector<Translation> texts_of(const std::vector<search::Hypothesis>& best) const;
  void translate_with_links(std::span<const std::string> lines, Window& window, const TakeTranslations& take);
  // The demands of the terms on the line's translation.
  TermDemands::Found demands_of(const std::string& line, int64_t source_tokens) const;
  void warn_of_missing(int64_t line, std::span<const text::Term> missing);

  LoadedModel loaded_;
  Options options_;
  LineLimit limit_;
  SearchModel model_;
  TranslationCounts counts_;
  LineWarnings cut_, not_utf8_, lack_terms_;
  TermDemands term_demands_;
};

Translator::Options translator_options(const DecodeConfig& config);

}  // namespace fovea::translation

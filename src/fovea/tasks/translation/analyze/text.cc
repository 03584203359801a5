#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/inspect/analyze_report.h"
#include "fovea/nn/attention_observer.h"
#include "fovea/tasks/translation/analyze/analyze.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/text/words.h"

// The figures of analyze.h.
namespace fovea::translation {
namespace {

using inspect::AttentionStatistics;
using inspect::SequenceUnits;

// Names of labels, numbered as they come. Past a limit, which bounds the memory, they share one number.
class LabelNames {
 public:
  int64_t number_of(const std::string& name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    constexpr size_t kMost = 10'000;
    const bool is_full = names_.size() >= kMost;
    if (is_full && names_.size() == kMost) names_.emplace_back("(other)");
    if (is_full) return static_cast<int64_t>(kMost);
    names_.push_back(name);
    return numbers_[name] = std::ssize(names_) - 1;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, int64_t> numbers_;
  std::vector<std::string> names_;
};

// One entry for each target word of each pair: the words themselves, or those of a file.
class TargetLabels {
 public:
  explicit TargetLabels(const std::string& by) {
    constexpr std::string_view kColumn = "column:";
    if (by.starts_with(kColumn)) {
      path_ = by.substr(kColumn.size());
      require_file(path_, "--by");
      lines_.emplace(path_);
    }
  }
  std::vector<std::string> next(const TextPair& pair) {
    std::vector<std::string> words = split_words(pair.target);
    if (!lines_) return words;
    std::string line;
    if (!lines_->next_text(line))
      throw Error(cat("--by: '", path_, "' ends after line ", thousands(pair.line - 1),
                      "; expected one line for each pair of --train-sets"));
    std::vector<std::string> entries = split_words(line);
    if (entries.size() != words.size())
      throw Error(cat("--by: line ", thousands(pair.line), " of '", path_, "' has ", entries.size(),
                      " entries; expected ", words.size(), ", one for each word of the target"));
    return entries;
  }
  void finish() {
    std::string line;
    if (lines_ && lines_->next(line))
      throw Error(cat("--by: '", path_, "' has more lines than --train-sets has pairs; expected one for each"));
  }

 private:
  std::string path_;
  std::optional<LineReader> lines_;
};

// A pair's tokens, and how they make units.
struct AnalyzedPair {
  SentencePair tokens;
  std::vector<int32_t> source, target_outputs, target_inputs;  // the unit of each token
  std::vector<int64_t> labels;                                 // of each unit of target_outputs; may be empty
  int64_t end_key = 0, last_begin = 0, last_end = 0;           // units of the source
};

// Units without gaps: a word without pieces of its own has none. `words` gets the word of each unit.
std::vector<int32_t> units_of(const text::WordPieces& line, std::vector<int64_t>& words) {
  std::vector<int32_t> units;
  for (const int64_t word : line.words) {
    if (words.empty() || words.back() != word) words.push_back(word);
    units.push_back(static_cast<int32_t>(words.size()) - 1);
  }
  units.push_back(static_cast<int32_t>(words.size()));  // </s>
  return units;
}

class PairAnalysis {
 public:
  PairAnalysis(const AnalyzeOptions& options, LoadedModel loaded)
      : options_(options),
        loaded_(std::move(loaded)),
        limit_(line_limit(loaded_.model->config(), options.max_length)),
        statistics_({.taus = options.tau, .draws = options.draws, .seed = options.seed}),
        labels_(options.by) {}

  void add(const std::vector<TextPair>& pairs) {
    std::vector<AnalyzedPair> analyzed;
    std::vector<SentencePair> tokens;
    for (const TextPair& pair : pairs) {
      analyzed.push_back(encode(pair));
      tokens.push_back(analyzed.back().tokens);
    }
    const c10::InferenceMode guard;
    nn::Model& model = loaded_.model;
    for (const std::vector<int64_t>& batch : pair_batches(tokens, {options_.mini_batch_words, options_.mini_batch})) {
      throw_if_interrupted("analysing");
      const ForcedBatch forced(tokens, batch, model->output_weight().device());
      const nn::AttentionObserver observer([&](const nn::SeenAttention& seen) {
        statistics_.add(seen, [&](AttentionKind kind, int64_t sequence) {
          return units_of_pair(analyzed[static_cast<size_t>(batch[static_cast<size_t>(sequence)])], kind);
        });
      });
      const at::Tensor memory = model->encode({forced.source.tokens, forced.source.offsets}, {});
      model->decode({forced.input.tokens, forced.input.offsets, memory, forced.source.offsets}, {});
    }
  }
  void finish() {
    labels_.finish();
    warn_of_cut_lines(cut_.count(), limit_);
  }
  const AttentionStatistics& statistics() const { return statistics_; }
  const std::vector<std::string>& label_names() const { return names_.names(); }

 private:
  text::WordPieces encode_side(const text::Vocab& vocab, const std::string& line, int64_t number) {
    text::WordPieces encoded = text::encode_words(vocab, line);
    const int64_t length = std::ssize(encoded.pieces);
    if (length > limit_.tokens) {
      cut_.warn(number, cut_message({{}, length}, limit_));
      text::cut(encoded, limit_.tokens);
    }
    return encoded;
  }

  AnalyzedPair encode(const TextPair& pair) {
    const WordPair words{encode_side(loaded_.source, pair.source, pair.line),
                         encode_side(loaded_.target, pair.target, pair.line)};
    AnalyzedPair out;
    out.tokens = with_eos(words, loaded_.source.eos(), loaded_.target.eos());
    std::vector<int64_t> source_words, target_words;
    std::vector<int32_t> source = units_of(words.source, source_words);
    std::vector<int32_t> target = units_of(words.target, target_words);
    if (!options_.by.empty()) {
      const std::vector<std::string> entries = labels_.next(pair);
      out.labels.push_back(names_.number_of("<s>"));
      for (const int64_t word : target_words)
        out.labels.push_back(names_.number_of(entries.at(static_cast<size_t>(word))));
    }
    if (options_.unit == "word") {
      out.end_key = source.back(), out.last_begin = std::max<int64_t>(0, out.end_key - 1), out.last_end = out.end_key;
      out.target_inputs.push_back(0);
      for (size_t t = 0; t + 1 < target.size(); ++t) out.target_inputs.push_back(target[t] + 1);
      out.source = std::move(source), out.target_outputs = std::move(target);
    } else {
      out.end_key = std::ssize(source) - 1, out.last_end = out.end_key;
      out.last_begin = std::find(source.begin(), source.end(), source.back() - 1) - source.begin();
      out.last_begin = std::min(out.last_begin, out.last_end);
    }
    return out;
  }

  static SequenceUnits units_of_pair(const AnalyzedPair& pair, AttentionKind kind) {
    SequenceUnits units;
    if (kind == AttentionKind::kSelf) {
      units.queries = units.keys = pair.source;
      return units;
    }
    units.queries = pair.target_outputs, units.labels = pair.labels;
    units.keys = kind == AttentionKind::kCross ? pair.source : pair.target_inputs;
    if (kind == AttentionKind::kCross)
      units.end_key = pair.end_key, units.last_begin = pair.last_begin, units.last_end = pair.last_end;
    return units;
  }

  const AnalyzeOptions& options_;
  LoadedModel loaded_;
  LineLimit limit_;
  LineWarnings cut_;
  AttentionStatistics statistics_;
  TargetLabels labels_;
  LabelNames names_;
};

inspect::ComparedModel compared(const std::string& name, const LoadedModel& loaded) {
  return {name,
          loaded.model->config(),
          {{kSourceVocabFile, loaded.source.bytes()}, {kTargetVocabFile, loaded.target.bytes()}}};
}

}  // namespace

int64_t analyze_text(const AnalyzeOptions& options) {
  std::vector<LoadedModel> loaded;
  for (const std::string& model : options.models) {
    loaded.push_back(load_model(with_model(options, model)));
    inspect::require_one_shape(compared(options.models.front(), loaded.front()), compared(model, loaded.back()));
  }
  note_recurrent_decoder(loaded.front().model->config());
  std::optional<TextPair> one;
  if (options.train_sets.empty())
    one = {options.source, options.target.empty() ? translation_of_source(options) : options.target, 1};
  LineWriter output(options.output);
  inspect::AnalyzedText text{
      .unit = options.unit, .sequences = 0, .sequence_name = "pairs", .labels = {}, .by = options.by};
  std::vector<inspect::ModelFigures> figures;
  for (size_t m = 0; m < loaded.size(); ++m) {
    PairAnalysis analysis(options, std::move(loaded[m]));
    text.sequences = one ? 1 : 0;
    if (one) {
      analysis.add({*one});
    } else {
      PairReader reader(options.train_sets);
      log::Progress progress("analysing, pairs", 0);
      for (;;) {
        const std::vector<TextPair> window = reader.next(static_cast<size_t>(options.maxi_batch * options.mini_batch));
        if (window.empty()) break;
        analysis.add(window);
        text.sequences += std::ssize(window);
        progress.at(static_cast<double>(text.sequences));
      }
      progress.finish();
    }
    analysis.finish();
    if (text.sequences == 0) throw Error("--train-sets: the text has no lines; expected one at least");
    figures.push_back(inspect::figures_of(options.models[m], analysis.statistics()));
    text.labels = analysis.label_names();
  }
  output.write(options.json ? inspect::analysis_json(figures, text) : inspect::analysis_table(figures, text));
  output.close();
  return text.sequences;
}

}  // namespace fovea::translation

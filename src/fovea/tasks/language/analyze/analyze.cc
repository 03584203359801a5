#include "fovea/tasks/language/analyze/analyze.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/data/streams.h"
#include "fovea/data/token_text.h"
#include "fovea/inspect/analyze_report.h"
#include "fovea/inspect/sweep.h"
#include "fovea/nn/attention_observer.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/nn/memory.h"
#include "fovea/tasks/encoding_threads.h"
#include "fovea/tasks/language/load_model.h"
#include "fovea/tasks/language/measures.h"
#include "fovea/tasks/language/score_text.h"

namespace fovea::language {
namespace {

using inspect::AttentionStatistics;

// The word of each unit of a text. A word begins behind white space, or with a unit that itself begins with some;
// </s> is a word of its own.
class WordCounter {
 public:
  explicit WordCounter(const text::Units& units) {
    for (int64_t id = 0; id < units.size(); ++id) {
      const std::string text = units.surface(id);
      const bool blank = !text.empty() && std::all_of(text.begin(), text.end(), is_space);
      kinds_.push_back({text.empty() || is_space(text.front()), blank});
    }
    kinds_[static_cast<size_t>(units.eos())] = {true, false};
    eos_ = units.eos();
  }
  // Returns the word of the next unit, from 0.
  int32_t next(int64_t id) {
    const Kind& kind = kinds_[static_cast<size_t>(id)];
    const bool begins = word_ < 0 || after_end_ || (kind.begins && !after_blank_) || (id == eos_);
    if (begins) ++word_;
    after_blank_ = kind.is_blank, after_end_ = id == eos_;
    return word_;
  }

 private:
  struct Kind {
    bool begins, is_blank;
  };
  std::vector<Kind> kinds_;
  int64_t eos_ = 0;
  int32_t word_ = -1;
  bool after_blank_ = false, after_end_ = false;
};

int64_t segment_of(const AnalyzeOptions& options, const LanguageConfig& config) {
  require_positions(config, options.segment, "--segment");
  return options.segment > 0 ? options.segment : config.segment_length;
}

// Reads a text's segments one by one, and shows the statistics what their attention does.
class SegmentAnalysis {
 public:
  SegmentAnalysis(const AnalyzeOptions& options, LoadedModel loaded)
      : options_(options),
        loaded_(std::move(loaded)),
        statistics_({.taus = options.tau, .draws = options.draws, .seed = options.seed}) {}

  int64_t run(const data::TokenText& text) {
    const c10::InferenceMode guard;
    const int64_t segment = segment_of(options_, loaded_.config);
    const data::ScoringWindows windows(text, loaded_.units.begin(), {.context = segment, .stride = segment});
    log::Progress progress("analysing, segments", static_cast<double>(windows.size()));
    for (int64_t document = 0; document < windows.num_documents(); ++document) {
      WordCounter words(loaded_.units);
      units_.assign(1, 0);
      nn::Memory memory = nn::Memory::none(1);
      for (int64_t w = windows.first_of(document); w < windows.first_of(document + 1); ++w) {
        throw_if_interrupted("analysing");
        data::Window window = windows.at(w);
        for (const int64_t unit : window.outputs) units_.push_back(words.next(unit) + 1);
        memory = pass(std::move(window.inputs), std::move(memory));
        // The last unit is the next segment's first input; before it, what memory holds.
        const int64_t keep = std::min<int64_t>(loaded_.config.memory_length, std::ssize(units_) - 1) + 1;
        units_.erase(units_.begin(), units_.end() - keep);
        progress.at(static_cast<double>(w + 1));
      }
    }
    progress.finish();
    return windows.size();
  }
  const AttentionStatistics& statistics() const { return statistics_; }

 private:
  nn::Memory pass(std::vector<int64_t> inputs, nn::Memory memory) {
    const int64_t count = std::ssize(inputs);
    const int64_t limit = loaded_.config.memory_length;
    const nn::AttentionObserver observer([&](const nn::SeenAttention& seen) {
      statistics_.add(seen, [&](AttentionKind, int64_t) { return segment_units(count); });
    });
    nn::Model& model = loaded_.model;
    const at::Tensor tokens = nn::index_tensor(std::move(inputs)).to(model->output_weight().device());
    const at::Tensor offsets = nn::index_tensor({0, count});
    const auto pass = limit > 0 ? std::make_shared<nn::MemoryPass>(std::move(memory), limit) : nullptr;
    model->decode({.tokens = tokens, .offsets = offsets, .memory = pass}, {});
    return pass ? pass->take() : nn::Memory{};
  }

  // units_ holds the units of the inputs from the beginning of the memory on, and of the last output.
  inspect::SequenceUnits segment_units(int64_t count) {
    if (options_.unit == "piece") return {};
    const auto size = std::ssize(units_);
    keys_.assign(units_.begin(), units_.end() - 1);
    queries_.assign(units_.begin() + (size - count), units_.end());
    const int32_t first = keys_.front(), first_query = queries_.front();
    for (int32_t& key : keys_) key -= first;
    for (int32_t& query : queries_) query -= first_query;
    inspect::SequenceUnits units{.queries = queries_, .keys = keys_};
    units.first_position = first_query - 1 - first;
    return units;
  }

  const AnalyzeOptions& options_;
  LoadedModel loaded_;
  AttentionStatistics statistics_;
  std::vector<int32_t> units_, keys_, queries_;
};

inspect::ComparedModel compared(const std::string& name, const LoadedModel& loaded, const AnalyzeOptions& options) {
  const LanguageConfig& config = loaded.config;
  return {name,
          config,
          loaded.units.files(),
          {{"documents", config.documents},
           {"memory-length", std::to_string(config.memory_length)},
           {"same-length", config.same_length ? "true" : "false"},
           {"segment-length", std::to_string(segment_of(options, config))}}};
}

int64_t analyze_text(const AnalyzeOptions& options) {
  std::vector<LoadedModel> loaded;
  for (const std::string& model : options.models) {
    AnalyzeOptions own = options;
    own.model = model;
    loaded.push_back(load_model(own));
    inspect::require_one_shape(compared(options.models.front(), loaded.front(), options),
                               compared(model, loaded.back(), options));
  }
  LineWriter output(options.output);
  inspect::AnalyzedText about{
      .unit = options.unit, .sequences = 0, .sequence_name = "segments", .labels = {}, .by = ""};
  std::vector<inspect::ModelFigures> figures;
  int64_t units = 0;
  for (size_t m = 0; m < loaded.size(); ++m) {
    const data::TokenText text = read_text(options, loaded[m]);
    units = text.size();
    SegmentAnalysis analysis(options, std::move(loaded[m]));
    about.sequences = analysis.run(text);
    figures.push_back(inspect::figures_of(options.models[m], analysis.statistics()));
  }
  output.write(options.json ? inspect::analysis_json(figures, about) : inspect::analysis_table(figures, about));
  output.close();
  return units;
}

int64_t sweep_mechanisms(const AnalyzeOptions& options) {
  const AnalyzeOptions own = with_first_model(options);
  for (const std::string& entry : options.sweep) load_model(inspect::with_mechanism(own, entry));
  inspect::Sweep sweep{.unit = "unit", .units = 0, .beam_size = 0, .points = {}};
  std::optional<data::TokenText> read;  // once, because the mechanisms of a model read the same units
  for (const std::string& entry : options.sweep) {
    const LoadedModel loaded = load_model(inspect::with_mechanism(own, entry));
    if (!read) read = read_text(options, loaded);
    const data::TokenText& text = *read;
    const std::string_view unit = loaded.units.unit_name();
    const int64_t trained = loaded.config.segment_length, memory = loaded.config.memory_length;
    // The text is cut as `score` cuts it without options.
    const int64_t context = segment_of(options, loaded.config);
    const int64_t stride = memory > 0 ? context : std::max<int64_t>(1, context - trained / 2);
    const ScoreText scorer(loaded.model,
                           {.context = context, .stride = stride, .mini_batch = options.mini_batch, .memory = memory});
    log::Progress progress(cat(entry, ", units"), static_cast<double>(text.size()));
    int64_t done = 0;
    const TextScore score = scorer.run(text, loaded.units.begin(), [&](double) {
      if ((++done & 0xfff) == 0) progress.at(static_cast<double>(done));
    });
    progress.finish();
    sweep.units = score.tokens;
    sweep.points.push_back({entry, score.mean_nll()});
    if (unit == "byte" || unit == "char") sweep.points.back().bits_per_byte = measures().value(score, "bits-per-byte");
  }
  inspect::write_sweep(options, sweep);
  return sweep.units;
}

using Mode = inspect::AnalysisMode;
using inspect::AnalysisUse;

constexpr std::array kUses = {
    AnalysisUse{"segment", Mode::kFigures | Mode::kSweep},
    AnalysisUse{"mini-batch", Mode::kSweep | Mode::kSpeeds},
    AnalysisUse{"cost-units", static_cast<uint8_t>(Mode::kSpeeds)},
};

}  // namespace

AnalyzeOptions with_first_model(const AnalyzeOptions& options) {
  AnalyzeOptions own = options;
  own.model = options.models.front();
  return own;
}

data::TokenText read_text(const AnalyzeOptions& options, const LoadedModel& loaded) {
  if (options.train_sets.empty()) {
    data::TokenText text;
    loaded.units.encode(options.source, text.ids);
    text.documents = {0};
    if (text.ids.empty()) throw Error("--source: the text has no units; expected one at least");
    return text;
  }
  return data::load_token_text(
      options.train_sets, loaded.units,
      {.documents = parse_choice<data::Documents>(data::kDocumentsNames, loaded.config.documents, "documents"),
       .threads = tasks::encoding_threads(options),
       .option = "--train-sets"});
}

void validate(const AnalyzeOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  AnalyzeOptions first = options;
  first.model = options.models.empty() ? "" : options.models.front();
  add_model_problems(static_cast<const TrainedModelOptions&>(first), problems);
  inspect::add_analysis_problems(options, problems);
  problems.add_if(options.train_sets.empty() && options.source.empty() && !options.sweep.empty() && !options.cost,
                  "--sweep needs --train-sets, the text to measure");
  inspect::add_unread_problems(options, mode_of(options), kUses, problems);
  inspect::add_rereading_problem(options, problems);
  inspect::add_picture_problem(options, mode_of(options), problems);
  problems.throw_if_any();
}

int64_t run_analyze(const AnalyzeOptions& options) {
  validate(options);
  for (const std::string& path : options.train_sets) {
    if (path != "-") require_file(path, "--train-sets");
  }
  if (options.output != "-") require_writable("--output", options.output);
  inspect::require_decoder_entries(options.sweep);
  switch (mode_of(options)) {
    case Mode::kCost:
    case Mode::kSpeeds:
      return analyze_cost(options);
    case Mode::kSweep:
      return sweep_mechanisms(options);
    default:
      return analyze_text(options);
  }
}

}  // namespace fovea::language

#include "fovea/metrics/evaluate.h"

#include <algorithm>
#include <numeric>

#include "fovea/base/documents.h"
#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/bands.h"
#include "fovea/metrics/bootstrap.h"
#include "fovea/metrics/metric.h"
#include "fovea/metrics/report.h"
#include "fovea/metrics/unspaced.h"

namespace fovea::metrics {
namespace {

std::vector<uint32_t> all_segments(size_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

// Returns the metrics of the options with the statistics of these hypotheses.
Metrics measure(const EvaluateOptions& options, const Lines& hypotheses, std::span<const NamedLines> references) {
  Metrics metrics = make_metrics(options);
  std::vector<std::string> segment_references(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    throw_if_interrupted("evaluating");
    for (size_t r = 0; r < references.size(); ++r) segment_references[r] = references[r].lines[i];
    for (const auto& metric : metrics) metric->add(hypotheses[i], segment_references);
  }
  return metrics;
}

std::string sentence_lines(const EvaluateOptions& options, const Metric& metric, size_t segments, size_t references) {
  MetricResult result{.name = metric.name(), .signature = metric.signature(references)};
  std::string text;
  for (uint32_t i = 0; i < segments; ++i) {
    throw_if_interrupted("evaluating");
    result.score = metric.score({i});
    text += format_result(options, result) + "\n";
  }
  return text;
}

// One system's metrics, in the order of the report.
struct Measured {
  std::string name;
  Metrics metrics;
};

std::vector<double> resample(const Resampling& resampling, const Metric& metric) {
  return resampled_scores(resampling, [&](const std::vector<uint32_t>& drawn) { return metric.score(drawn).score; });
}

// Adds to a system's result its interval, and the baselines' by the same metric, which is number `m` of theirs.
void add_resampled(const Resampling& resampling, const Metric& metric, std::span<const Measured> baselines, size_t m,
                   MetricResult& result) {
  const std::vector<uint32_t> all = all_segments(resampling.segments);
  const std::vector<double> scores = resample(resampling, metric);
  result.interval = interval_of(scores);
  result.signature.insert(result.signature.find('|'), cat("|bs:", resampling.samples, "|seed:", resampling.seed));
  for (const Measured& baseline : baselines) {
    const Metric& other = *baseline.metrics[m];
    const double score = other.score(all).score;
    const std::vector<double> other_scores = resample(resampling, other);
    result.baselines.push_back({.name = baseline.name,
                                .score = score,
                                .interval = interval_of(other_scores),
                                .comparison = compare(result.score.score - score, scores, other_scores)});
  }
}

std::vector<BandScore> band_scores(const Bands& bands, std::span<const Measured> baselines, size_t m,
                                   const Metric& metric) {
  std::vector<BandScore> scores;
  for (const Band& band : bands.bands) {
    BandScore score{band.shortest, band.longest, band.segments.size(), metric.score(band.segments).score, {}};
    for (const Measured& baseline : baselines)
      score.baselines.push_back(baseline.metrics[m]->score(band.segments).score);
    scores.push_back(std::move(score));
  }
  return scores;
}

std::vector<MetricResult> corpus_results(const EvaluateOptions& options, const Metrics& metrics,
                                         std::span<const Measured> baselines, size_t segments, size_t references) {
  const Resampling resampling{
      .segments = segments, .samples = options.confidence_n, .seed = static_cast<uint32_t>(options.seed)};
  std::vector<MetricResult> results;
  for (size_t m = 0; m < metrics.size(); ++m) {
    MetricResult result{.name = metrics[m]->name(),
                        .signature = metrics[m]->signature(references),
                        .score = metrics[m]->score(all_segments(segments))};
    result.lower_is_better = metrics[m]->lower_is_better();
    if (options.confidence || !baselines.empty()) add_resampled(resampling, *metrics[m], baselines, m, result);
    results.push_back(std::move(result));
  }
  return results;
}

void check_lengths(const NamedLines& system, std::span<const NamedLines> others, std::string_view what) {
  const auto place = [](const std::string& name) { return name.empty() ? "" : cat(" (", name, ")"); };
  for (const NamedLines& other : others)
    if (other.lines.size() != system.lines.size())
      throw Error(cat("evaluate: got ", system.lines.size(), " translations", place(system.name), " and ",
                      other.lines.size(), " ", what, place(other.name), "; expected as many lines of each"));
}

void check_references(size_t count) {
  if (count == 0) throw UsageError("--reference: got none; expected at least one file of references");
}

bool has_metric(const EvaluateOptions& options, std::string_view name) {
  return std::ranges::find(options.metrics, name) != options.metrics.end();
}

void warn_if_tokenised(const EvaluateOptions& options, const Lines& hypotheses) {
  const auto tokenised =
      std::count_if(hypotheses.begin(), hypotheses.end(), [](const std::string& line) { return line.ends_with(" ."); });
  if (has_metric(options, "bleu") && options.tokenize != "none" && tokenised >= 100)
    log::warn(cat(tokenised, " lines end in ' .', so the text looks tokenised, which changes the score; ",
                  "detokenise it, or say --tokenize none"));
}

void warn_if_unspaced(const EvaluateOptions& options, std::span<const NamedLines> references) {
  const Lines& lines = references.front().lines;
  const std::string_view better = has_metric(options, "bleu") ? better_tokenizer(lines, options.tokenize) : "";
  if (!better.empty()) log::warn(unspaced_message("--tokenize", options.tokenize, better));
  const bool splits_chinese = options.ter_normalized && options.ter_asian_support;
  const std::string_view script = has_metric(options, "ter") ? better_tokenizer(lines, "none") : "";
  if (script == "zh" && !splits_chinese)
    log::warn(
        "most of the reference is Chinese, of which TER takes whole clauses for words; TER needs --ter-normalized "
        "--ter-asian-support");
  if (script == "char")
    log::warn(
        "most of the reference is in a script without blanks between words, and TER takes whole clauses for "
        "words; put blanks between the words of both texts first");
}

NamedLines read_segments(const std::string& path, std::string_view what) {
  if (path == "-") return {"standard input", read_lines(path)};
  require_file(path, what);
  return {path, read_lines(path)};
}

std::vector<NamedLines> read_all(const std::vector<std::string>& paths, std::string_view what) {
  std::vector<NamedLines> all;
  for (const std::string& path : paths) all.push_back(read_segments(path, what));
  return all;
}

// Standard input can be read once.
void check_standard_input(const EvaluateOptions& options) {
  size_t readers = options.input == "-" ? 1 : 0;
  const std::vector<std::string> measured = {options.bands_by};
  for (const auto& [flag, paths] :
       {std::pair{"--reference", &options.reference}, {"--baseline", &options.baseline}, {"--bands-by", &measured}})
    for (const std::string& path : *paths)
      if (path == "-" && ++readers > 1)
        throw UsageError(cat(flag, ": '-' is standard input, where ",
                             options.input == "-" ? "the translations come from" : "another file comes from",
                             "; name a file"));
}

}  // namespace

namespace {

// The texts of an evaluation, of equally many segments. `measured`: of --bands-by.
struct Texts {
  NamedLines system;
  std::vector<NamedLines> references, baselines;
  std::optional<NamedLines> measured = {};
};

std::vector<MetricResult> results_of(const EvaluateOptions& options, const Texts& texts) {
  const Metrics metrics = measure(options, texts.system.lines, texts.references);
  std::vector<Measured> others;
  for (const NamedLines& baseline : texts.baselines)
    others.push_back({baseline.name, measure(options, baseline.lines, texts.references)});
  std::vector<MetricResult> results =
      corpus_results(options, metrics, others, texts.system.lines.size(), texts.references.size());
  if (options.bands == 0) return results;
  const NamedLines& measured = texts.measured ? *texts.measured : texts.references.front();
  const Bands bands = bands_by_length(measured.lines, options.bands);
  for (size_t m = 0; m < results.size(); ++m)
    results[m].by_length = {measured.name, bands.unit, band_scores(bands, others, m, *metrics[m])};
  return results;
}

template <class F>
Texts each_of(const Texts& texts, const F& change) {
  Texts changed = texts;
  change(changed.system);
  for (NamedLines& reference : changed.references) change(reference);
  for (NamedLines& baseline : changed.baselines) change(baseline);
  return changed;
}

// A text without the lines that begin documents gets them: the reference says where they are.
NamedLines with_boundaries(const NamedLines& text, const NamedLines& marks) {
  const auto sentences = std::ranges::count_if(marks.lines, [](const auto& line) { return !begins_document(line); });
  if (text.lines.size() == marks.lines.size() || std::ssize(text.lines) != sentences) return text;
  NamedLines placed{text.name, {}};
  size_t next = 0;
  for (const std::string& line : marks.lines) placed.lines.push_back(begins_document(line) ? line : text.lines[next++]);
  return placed;
}

// An empty line where the reference has a sentence is an empty translation.
void check_boundaries(const NamedLines& text, const NamedLines& marks) {
  for (size_t i = 0; i < marks.lines.size(); ++i) {
    if (is_empty_line(text.lines[i]) && !begins_document(marks.lines[i])) continue;
    require_same_boundary(static_cast<long long>(i) + 1, {marks.name, marks.lines[i]}, {text.name, text.lines[i]});
  }
}

// The results of whole documents, then of lines.
std::vector<MetricResult> document_results(const EvaluateOptions& options, Texts texts) {
  const NamedLines marks = texts.references.front();
  texts = each_of(texts, [&](NamedLines& text) { text = with_boundaries(text, marks); });
  check_lengths(texts.system, texts.references, "references");
  check_lengths(texts.system, texts.baselines, "translations of a baseline");
  each_of(texts, [&](const NamedLines& text) { check_boundaries(text, marks); });
  const Texts documents =
      each_of(texts, [&](NamedLines& text) { text.lines = join_documents(text.lines, marks.lines); });
  if (documents.system.lines.empty())
    throw Error(
        cat("evaluate: the reference (", marks.name, ") has no sentence; expected documents, a line per sentence"));
  const Texts lines = each_of(texts, [&](NamedLines& text) {
    size_t kept = 0;
    for (size_t i = 0; i < marks.lines.size(); ++i)
      if (!begins_document(marks.lines[i])) text.lines[kept++] = text.lines[i];
    text.lines.resize(kept);
  });
  std::vector<MetricResult> results = results_of(options, documents);
  for (MetricResult& result : results) result.name = "d-" + result.name;
  for (MetricResult& result : results_of(options, lines)) results.push_back(std::move(result));
  return results;
}

}  // namespace

std::string report(const EvaluateOptions& options, const NamedLines& system, std::span<const NamedLines> references,
                   std::span<const NamedLines> baselines, const std::optional<NamedLines>& measured) {
  check_references(references.size());
  if (system.lines.empty()) throw Error("evaluate: got no translations; expected a line for each reference");
  const Texts texts = {system, {references.begin(), references.end()}, {baselines.begin(), baselines.end()}, measured};
  if (options.documents) return format_results(options, document_results(options, texts));
  check_lengths(system, references, "references");
  check_lengths(system, baselines, "translations of a baseline");
  if (measured) check_lengths(system, {&*measured, 1}, "lines of --bands-by");
  if (options.sentence_level)
    return sentence_lines(options, *measure(options, system.lines, references)[0], system.lines.size(),
                          references.size());
  return format_results(options, results_of(options, texts));
}

void evaluate(const EvaluateOptions& options, std::ostream& out) {
  make_metrics(options);  // so that a wrong name is told before the translations are read
  require_read_options(options);
  check_standard_input(options);
  check_references(options.reference.size());
  const std::vector<NamedLines> references = read_all(options.reference, "--reference");
  const std::vector<NamedLines> baselines = read_all(options.baseline, "--baseline");
  std::optional<NamedLines> measured;
  if (!options.bands_by.empty()) measured = read_segments(options.bands_by, "--bands-by");
  const NamedLines system = read_segments(options.input, "--input");
  warn_if_tokenised(options, system.lines);
  warn_if_unspaced(options, references);
  out << report(options, system, references, baselines, measured);
}

}  // namespace fovea::metrics

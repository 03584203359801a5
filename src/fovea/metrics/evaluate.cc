#include "fovea/metrics/evaluate.h"

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/bootstrap.h"
#include "fovea/metrics/chrf.h"

namespace fovea::metrics {
namespace {

struct Result {
  double score = 0;
  std::string verbose;
  std::string line;  // a form of the metric's own, instead of the common one
};

// One metric over one list of segments: statistics once, then scores of any selection of segments.
class Metric {
 public:
  virtual ~Metric() = default;
  virtual std::string name() const = 0;
  virtual std::string signature(size_t references) const = 0;
  virtual void add(const std::string& hypothesis, std::span<const std::string> references) = 0;
  virtual Result score(const std::vector<uint32_t>& segments) const = 0;
};

template <class Stats>
Stats sum(const std::vector<Stats>& stats, const std::vector<uint32_t>& segments) {
  Stats total;
  for (const uint32_t segment : segments) total += stats[segment];
  return total;
}

class BleuMetric : public Metric {
 public:
  explicit BleuMetric(const BleuOptions& options) : bleu_(options) {}
  std::string name() const override { return "BLEU"; }
  std::string signature(size_t references) const override { return bleu_.signature(references); }
  void add(const std::string& hypothesis, std::span<const std::string> references) override {
    stats_.push_back(bleu_.segment(hypothesis, references));
  }
  Result score(const std::vector<uint32_t>& segments) const override {
    const BleuScore score = bleu_.score(sum(stats_, segments));
    return {score.score, score.verbose(), {}};
  }

 private:
  Bleu bleu_;
  std::vector<BleuStats> stats_;
};

class ChrfMetric : public Metric {
 public:
  explicit ChrfMetric(const ChrfOptions& options) : chrf_(options) {}
  std::string name() const override { return chrf_.name(); }
  std::string signature(size_t references) const override { return chrf_.signature(references); }
  void add(const std::string& hypothesis, std::span<const std::string> references) override {
    stats_.push_back(chrf_.segment(hypothesis, references));
  }
  Result score(const std::vector<uint32_t>& segments) const override {
    return {chrf_.score(sum(stats_, segments)), {}, {}};
  }

 private:
  Chrf chrf_;
  std::vector<ChrfStats> stats_;
};

class MultiBleuMetric : public Metric {
 public:
  explicit MultiBleuMetric(const EvaluateOptions& options)
      : lowercase_(options.lowercase), width_(static_cast<int>(options.width)) {}
  std::string name() const override { return "multi-bleu"; }
  std::string signature(size_t references) const override {
    return cat("nrefs:", references, "|case:", lowercase_ ? "lc" : "mixed", "|tok:none|smooth:none");
  }
  void add(const std::string& hypothesis, std::span<const std::string> references) override {
    stats_.push_back(multi_bleu_segment(hypothesis, references, lowercase_));
  }
  Result score(const std::vector<uint32_t>& segments) const override {
    const BleuScore score = multi_bleu(sum(stats_, segments));
    return {score.score, score.verbose(), multi_bleu_line(score, width_)};
  }

 private:
  bool lowercase_;
  int width_;
  std::vector<BleuStats> stats_;
};

std::unique_ptr<Metric> make_bleu(const EvaluateOptions& options) {
  return std::make_unique<BleuMetric>(BleuOptions{.tokenize = options.tokenize,
                                                  .lowercase = options.lowercase,
                                                  .smooth_method = options.smooth_method,
                                                  .smooth_value = options.smooth_value,
                                                  .effective_order = options.sentence_level});
}

template <int64_t word_order>
std::unique_ptr<Metric> make_chrf(const EvaluateOptions& options) {
  return std::make_unique<ChrfMetric>(
      ChrfOptions{.word_order = word_order, .lowercase = options.lowercase, .whitespace = options.chrf_whitespace});
}

std::unique_ptr<Metric> make_multi_bleu(const EvaluateOptions& options) {
  return std::make_unique<MultiBleuMetric>(options);
}

// The names of --metrics, in the order of the report.
struct MetricName {
  std::string_view name, help;
  std::unique_ptr<Metric> (*make)(const EvaluateOptions&);
};
constexpr std::array kMetrics = {
    MetricName{"bleu", "", make_bleu},
    MetricName{"chrf", "", make_chrf<0>},
    MetricName{"chrf++", "", make_chrf<2>},
    MetricName{"multi-bleu", " (of text tokenised already)", make_multi_bleu},
};

std::vector<std::unique_ptr<Metric>> make_metrics(const EvaluateOptions& options) {
  std::vector<std::string> known;
  for (const MetricName& metric : kMetrics) known.emplace_back(metric.name);
  if (options.metrics.empty()) throw UsageError(cat("--metrics: got none; expected some of ", join(known, ", ")));
  for (const std::string& name : options.metrics)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError(
          cat("--metrics: got '", name, "'; expected some of ", join(known, ", "), did_you_mean(name, known)));
  find_tokenizer(options.tokenize);  // a wrong name is one for metrics too that do not read it
  std::vector<std::unique_ptr<Metric>> metrics;
  for (const MetricName& metric : kMetrics)
    if (std::find(options.metrics.begin(), options.metrics.end(), metric.name) != options.metrics.end())
      metrics.push_back(metric.make(options));
  if (options.sentence_level && metrics.size() > 1)
    throw UsageError(cat("--sentence-level: got ", metrics.size(), " metrics; expected one"));
  if (options.sentence_level && options.confidence)
    throw UsageError("--confidence: a single sentence has no confidence interval; leave out --sentence-level");
  return metrics;
}

struct Printed {
  std::string score;       // with the interval, if there is one
  std::string mean, half;  // of the interval, or empty
};

Printed print_score(const EvaluateOptions& options, double score, const Interval& interval) {
  const int width = static_cast<int>(options.width);
  Printed printed{.score = fixed(score, width), .mean = {}, .half = {}};
  if (interval.mean <= 0) return printed;
  printed.mean = fixed(interval.mean, width);
  printed.half = fixed(interval.half_width, width);
  printed.score += cat(" (μ = ", printed.mean, " ± ", printed.half, ")");
  return printed;
}

std::string as_json(const EvaluateOptions& options, const std::string& name, const std::string& signature,
                    const Result& result, const Printed& printed) {
  nlohmann::ordered_json json = {{"name", name},
                                 {"score", std::stod(fixed(result.score, static_cast<int>(options.width)))},
                                 {"signature", signature}};
  if (!printed.mean.empty()) {
    json["confidence_mean"] = std::stod(printed.mean);
    json["confidence_var"] = std::stod(printed.half);
    json["confidence"] = cat("μ = ", printed.mean, " ± ", printed.half);
  }
  if (!result.verbose.empty()) json["verbose_score"] = result.verbose;
  for (const std::string& pair : split(signature, '|')) {
    const size_t colon = pair.find(':');
    json[pair.substr(0, colon)] = pair.substr(colon + 1);
  }
  return json.dump(1);
}

std::string format(const EvaluateOptions& options, const Metric& metric, size_t references, const Result& result,
                   const Interval& interval) {
  const Printed printed = print_score(options, result.score, interval);
  if (options.score_only) return printed.score;
  std::string signature = metric.signature(references);
  if (options.confidence)
    signature.insert(signature.find('|'), cat("|bs:", options.confidence_n, "|seed:", kBootstrapSeed));
  if (options.json) return as_json(options, metric.name(), signature, result, printed);
  if (!result.line.empty())
    return printed.mean.empty() ? result.line : cat(result.line, " μ = ", printed.mean, " ± ", printed.half);
  std::string line = cat(metric.name(), "|", signature, " = ", printed.score);
  return result.verbose.empty() ? line : cat(line, " ", result.verbose);
}

std::vector<uint32_t> all_segments(size_t count) {
  std::vector<uint32_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = static_cast<uint32_t>(i);
  return all;
}

std::string format_corpus(const EvaluateOptions& options, const Metric& metric, size_t segments, size_t references) {
  const Result result = metric.score(all_segments(segments));
  Interval interval;
  if (options.confidence)
    interval = bootstrap(segments, options.confidence_n,
                         [&](const std::vector<uint32_t>& drawn) { return metric.score(drawn).score; });
  return format(options, metric, references, result, interval);
}

// Several lines of text stand with their equals signs below one another, as sacreBLEU prints them; multi-bleu's stays
// as its users know it.
std::string align(const std::vector<std::string>& lines) {
  const auto place = [](const std::string& line) { return line.find('|') == std::string::npos ? 0 : line.find(" = "); };
  size_t widest = 0;
  for (const std::string& line : lines) widest = std::max(widest, place(line));
  std::string text;
  for (const std::string& line : lines)
    text += cat(std::string(place(line) == 0 ? 0 : widest - place(line), ' '), line, "\n");
  return text;
}

void check_references(size_t count) {
  if (count == 0) throw UsageError("--reference: got none; expected at least one file of references");
}

void check_lengths(const Lines& hypotheses, std::span<const Lines> references) {
  check_references(references.size());
  if (hypotheses.empty()) throw Error("evaluate: got no translations; expected a line for each reference");
  for (const Lines& lines : references)
    if (lines.size() != hypotheses.size())
      throw Error(cat("evaluate: got ", hypotheses.size(), " translations and ", lines.size(),
                      " references; expected as many lines of each"));
}

void warn_if_tokenised(const EvaluateOptions& options, const Lines& hypotheses) {
  const auto tokenised =
      std::count_if(hypotheses.begin(), hypotheses.end(), [](const std::string& line) { return line.ends_with(" ."); });
  const bool has_bleu = std::find(options.metrics.begin(), options.metrics.end(), "bleu") != options.metrics.end();
  if (has_bleu && options.tokenize != "none" && tokenised >= 100)
    log::warn(cat(tokenised, " lines end in ' .', so the text looks tokenised, which changes the score; ",
                  "detokenise it, or say --tokenize none"));
}

Lines read_segments(const std::string& path, std::string_view what) {
  if (path != "-") require_file(path, what);
  return read_lines(path);
}

}  // namespace

std::string_view metrics_help() {
  static const std::string kHelp = [] {
    std::vector<std::string> parts;
    for (const MetricName& metric : kMetrics) parts.push_back(cat(metric.name, metric.help));
    return cat("what to compute: ", join(parts, ", "));
  }();
  return kHelp;
}

std::string report(const EvaluateOptions& options, const Lines& hypotheses, std::span<const Lines> references) {
  check_lengths(hypotheses, references);
  std::vector<std::unique_ptr<Metric>> metrics = make_metrics(options);
  std::vector<std::string> segment_references(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    throw_if_interrupted("evaluating");
    for (size_t r = 0; r < references.size(); ++r) segment_references[r] = references[r][i];
    for (const auto& metric : metrics) metric->add(hypotheses[i], segment_references);
  }
  std::string text;
  if (options.sentence_level) {
    for (uint32_t i = 0; i < hypotheses.size(); ++i) {
      throw_if_interrupted("evaluating");
      text += format(options, *metrics[0], references.size(), metrics[0]->score({i}), {}) + "\n";
    }
    return text;
  }
  std::vector<std::string> results;
  results.reserve(metrics.size());
  for (const auto& metric : metrics)
    results.push_back(format_corpus(options, *metric, hypotheses.size(), references.size()));
  if (options.json && results.size() > 1) return cat("[\n", join(results, ",\n"), "\n]\n");
  if (options.json || options.score_only) return join(results, "\n") + "\n";
  return align(results);
}

void evaluate(const EvaluateOptions& options, std::ostream& out) {
  make_metrics(options);  // so that a wrong name is told before the translations are read
  if (std::count(options.reference.begin(), options.reference.end(), "-") + (options.input == "-" ? 1 : 0) > 1)
    throw UsageError("--reference: '-' is standard input, where the translations come from; name a file");
  check_references(options.reference.size());
  std::vector<Lines> references;
  for (const std::string& path : options.reference) references.push_back(read_segments(path, "--reference"));
  const Lines hypotheses = read_segments(options.input, "--input");
  for (size_t r = 0; r < references.size(); ++r)
    if (references[r].size() != hypotheses.size())
      throw Error(cat("evaluate: got ", hypotheses.size(), " translations (",
                      options.input == "-" ? "standard input" : options.input, ") and ", references[r].size(),
                      " references (", options.reference[r], "); expected as many lines of each"));
  warn_if_tokenised(options, hypotheses);
  out << report(options, hypotheses, references);
}

}  // namespace fovea::metrics

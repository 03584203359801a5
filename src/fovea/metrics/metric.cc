#include "fovea/metrics/metric.h"

#include <algorithm>
#include <array>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/caption_metrics.h"
#include "fovea/metrics/chrf.h"
#include "fovea/metrics/ter.h"
#include "fovea/spec/config_problems.h"

namespace fovea::metrics {
namespace {

template <class Stats>
Stats sum_of(const std::vector<Stats>& stats, const std::vector<uint32_t>& segments) {
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
  MetricScore score(const std::vector<uint32_t>& segments) const override {
    const BleuScore score = bleu_.score(sum_of(stats_, segments));
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
  MetricScore score(const std::vector<uint32_t>& segments) const override {
    return {chrf_.score(sum_of(stats_, segments)), {}, {}};
  }

 private:
  Chrf chrf_;
  std::vector<ChrfStats> stats_;
};

class TerMetric : public Metric {
 public:
  explicit TerMetric(const TerOptions& options) : ter_(options) {}
  std::string name() const override { return "TER"; }
  std::string signature(size_t references) const override { return ter_.signature(references); }
  bool lower_is_better() const override { return true; }
  void add(const std::string& hypothesis, std::span<const std::string> references) override {
    stats_.push_back(ter_.segment(hypothesis, references));
  }
  MetricScore score(const std::vector<uint32_t>& segments) const override {
    return {ter_.score(sum_of(stats_, segments)), {}, {}};
  }

 private:
  Ter ter_;
  std::vector<TerStats> stats_;
};

class MultiBleuMetric : public Metric {
 public:
  MultiBleuMetric(const MultiBleuOptions& options, int width) : options_(options), width_(width) {}
  std::string name() const override { return "multi-bleu"; }
  std::string signature(size_t references) const override { return multi_bleu_signature(options_, references); }
  void add(const std::string& hypothesis, std::span<const std::string> references) override {
    stats_.push_back(multi_bleu_segment(hypothesis, references, options_));
  }
  MetricScore score(const std::vector<uint32_t>& segments) const override {
    const BleuScore score = multi_bleu(sum_of(stats_, segments));
    return {score.score, score.verbose(), multi_bleu_line(score, width_)};
  }

 private:
  MultiBleuOptions options_;
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

std::unique_ptr<Metric> make_ter(const EvaluateOptions& options) {
  return std::make_unique<TerMetric>(TerOptions{.case_sensitive = options.ter_case_sensitive,
                                                .normalized = options.ter_normalized,
                                                .no_punct = options.ter_no_punct,
                                                .asian_support = options.ter_asian_support});
}

std::unique_ptr<Metric> make_multi_bleu(const EvaluateOptions& options) {
  return std::make_unique<MultiBleuMetric>(
      MultiBleuOptions{.lowercase = options.lowercase, .compound_split = options.compound_split},
      static_cast<int>(options.width));
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
    MetricName{"ter", " (lower is better)", make_ter},
    MetricName{"multi-bleu", " (of text tokenised already)", make_multi_bleu},
    MetricName{"coco-bleu", " (of captions tokenised already)", make_coco_bleu},
    MetricName{"cider", " (the same)", make_cider},
    MetricName{"meteor", " (by --meteor-jar)", make_meteor},
};

// The command computes it without this list, because it needs a model.
constexpr std::string_view kOfAModel = "bertscore";

void check_names(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const MetricName& metric : kMetrics) known.emplace_back(metric.name);
  known.emplace_back(kOfAModel);
  if (names.empty()) throw UsageError(cat("--metrics: got none; expected some of ", join(known, ", ")));
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError(
          cat("--metrics: got '", name, "'; expected some of ", join(known, ", "), did_you_mean(name, known)));
}

// METEOR is a program of its own; its file adds it to the metrics.
void check_meteor(EvaluateOptions& options) {
  const bool is_named = std::find(options.metrics.begin(), options.metrics.end(), "meteor") != options.metrics.end();
  if (is_named && options.meteor_jar.empty())
    throw UsageError("--metrics: meteor is computed by METEOR's own program; expected its file in --meteor-jar");
  if (options.meteor_jar.empty()) return;
  require_file(options.meteor_jar, "--meteor-jar");
  if (!is_named) options.metrics.emplace_back("meteor");
}

void check_combinations(const EvaluateOptions& options) {
  if (options.sentence_level && options.metrics.size() > 1)
    throw UsageError(cat("--sentence-level: got ", options.metrics.size(), " metrics; expected one"));
  if (options.sentence_level && options.confidence)
    throw UsageError("--confidence: a single sentence has no confidence interval; leave out --sentence-level");
  if (options.sentence_level && !options.baseline.empty())
    throw UsageError("--baseline: systems are compared on all sentences together; leave out --sentence-level");
  if (options.score_only && !options.baseline.empty())
    throw UsageError("--baseline: a comparison has more figures than one score; leave out --score-only");
  if (options.sentence_level && options.documents)
    throw UsageError("--documents: single sentences are scored without documents; leave out --sentence-level");
  if (options.bands > 0 && (options.sentence_level || options.documents))
    throw UsageError(cat("--bands: groups of segments have scores of their own; leave out ",
                         options.documents ? "--documents" : "--sentence-level"));
  if (options.bands == 0 && !options.bands_by.empty())
    throw UsageError("--bands-by: got a file without a number of groups; expected --bands too");
  const auto other = std::find_if(options.metrics.begin(), options.metrics.end(),
                                  [](const std::string& name) { return name != "multi-bleu"; });
  if (options.compound_split && other != options.metrics.end())
    throw UsageError(cat("--compound-split: got the metric ", *other,
                         "; expected multi-bleu, which reads tokenised text; write --metrics multi-bleu"));
}

void check_ter(const EvaluateOptions& options) {
  if (options.ter_case_sensitive && options.lowercase)
    throw UsageError("--ter-case-sensitive: got --lowercase too; leave out one of them");
  if (options.ter_asian_support && !options.ter_normalized && !options.ter_no_punct)
    throw UsageError(
        "--ter-asian-support: adds to what other options do; expected --ter-normalized or "
        "--ter-no-punct too");
}

// An option that some metrics alone read.
struct OptionOfMetrics {
  std::string_view option;
  std::array<std::string_view, 2> readers;
};
constexpr std::array kOptionsOfMetrics = {
    OptionOfMetrics{"tokenize", {"bleu"}},          OptionOfMetrics{"smooth-method", {"bleu"}},
    OptionOfMetrics{"smooth-value", {"bleu"}},      OptionOfMetrics{"chrf-whitespace", {"chrf", "chrf++"}},
    OptionOfMetrics{"ter-case-sensitive", {"ter"}}, OptionOfMetrics{"ter-normalized", {"ter"}},
    OptionOfMetrics{"ter-no-punct", {"ter"}},       OptionOfMetrics{"ter-asian-support", {"ter"}},
};

}  // namespace

std::string_view metrics_help() {
  static const std::string kHelp = [] {
    std::vector<std::string> parts;
    for (const MetricName& metric : kMetrics) parts.push_back(cat(metric.name, metric.help));
    parts.push_back(cat(kOfAModel, " (by --bertscore-model)"));
    return cat("what to compute: ", join(parts, ", "));
  }();
  return kHelp;
}

void require_read_options(const EvaluateOptions& options) {
  const std::vector<std::string_view> changed = changed_fields(options);
  const auto is_changed = [&](std::string_view option) { return std::ranges::find(changed, option) != changed.end(); };
  for (const OptionOfMetrics& one : kOptionsOfMetrics) {
    const auto reads = [&](const std::string& name) {
      return std::ranges::find(one.readers, name) != one.readers.end();
    };
    const bool takes_text_as_it_is = one.option == "tokenize" && options.tokenize == "none";  // as the other metrics do
    if (!is_changed(one.option) || takes_text_as_it_is || std::ranges::any_of(options.metrics, reads)) continue;
    throw UsageError(cat("--", one.option, ": got the metric ", join(options.metrics, ", "), "; only ", one.readers[0],
                         one.readers[1].empty() ? " reads" : cat(" and ", one.readers[1], " read"),
                         " this option; leave it out, or add that metric"));
  }
  const bool has_value = std::ranges::any_of(
      kSmoothMethods, [&](const SmoothMethod& method) { return method.name == options.smooth_method && method.value; });
  if (is_changed("smooth-value") && !has_value)
    throw UsageError(cat("--smooth-value: got ", shortest(options.smooth_value), ", but --smooth-method ",
                         options.smooth_method, " has no value; leave it out, or choose floor or add-k"));
  for (const std::string_view option : {"confidence-n", "seed"})
    if (is_changed(option) && !options.confidence && options.baseline.empty())
      throw UsageError(cat("--", option, ": is for resampling; expected --confidence or --baseline too"));
}

Metrics make_metrics(const EvaluateOptions& given) {
  EvaluateOptions options = given;
  check_names(options.metrics);
  check_meteor(options);
  find_tokenizer(options.tokenize);  // a wrong name is an error for metrics too that do not read it
  check_combinations(options);
  check_ter(options);
  Metrics metrics;
  for (const MetricName& metric : kMetrics)
    if (std::find(options.metrics.begin(), options.metrics.end(), metric.name) != options.metrics.end())
      metrics.push_back(metric.make(options));
  return metrics;
}

}  // namespace fovea::metrics

#include "fovea/metrics/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/base/aligned_table.h"
#include "fovea/base/error.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"

namespace fovea::metrics {
namespace {

// A report's numbers, with the digits of --width.
class Digits {
 public:
  explicit Digits(const EvaluateOptions& options) : width_(static_cast<int>(options.width)) {}
  std::string text(double value) const { return fixed(value, width_); }
  std::string with_sign(double value) const { return cat(value < 0 ? "" : "+", text(value)); }
  std::string interval(const Interval& interval) const {
    return cat("μ = ", text(interval.mean), " ± ", text(interval.half_width));
  }
  double rounded(double value) const { return number_in<double>(text(value)).value_or(value); }

 private:
  int width_;
};

// Like sacreBLEU: an interval around zero is not printed.
bool has_interval(const Interval& interval) { return interval.mean > 0; }

std::string score_text(const Digits& digits, double score, const Interval& interval) {
  return has_interval(interval) ? cat(digits.text(score), " (", digits.interval(interval), ")") : digits.text(score);
}

nlohmann::ordered_json baseline_json(const Digits& digits, const MetricResult& result, const BaselineResult& baseline) {
  const Comparison& comparison = baseline.comparison;
  return {{"name", baseline.name},
          {"score", digits.rounded(baseline.score)},
          {"confidence_mean", digits.rounded(baseline.interval.mean)},
          {"confidence_var", digits.rounded(baseline.interval.half_width)},
          {"lower_is_better", result.lower_is_better},
          {"difference", digits.rounded(comparison.difference)},
          {"difference_low", digits.rounded(comparison.low)},
          {"difference_high", digits.rounded(comparison.high)},
          {"p_value", comparison.p}};
}

nlohmann::ordered_json bands_json(const Digits& digits, const MetricResult& result) {
  nlohmann::ordered_json bands = nlohmann::ordered_json::array();
  for (const BandScore& band : result.by_length.bands) {
    nlohmann::ordered_json json = {{"shortest", band.shortest},
                                   {"longest", band.longest},
                                   {"segments", band.segments},
                                   {"score", digits.rounded(band.score)}};
    for (size_t b = 0; b < band.baselines.size(); ++b)
      json["baselines"].push_back({{"name", result.baselines[b].name}, {"score", digits.rounded(band.baselines[b])}});
    bands.push_back(std::move(json));
  }
  return {{"text", result.by_length.text}, {"unit", result.by_length.unit}, {"scores", std::move(bands)}};
}

std::string as_json(const Digits& digits, const MetricResult& result) {
  nlohmann::ordered_json json = {
      {"name", result.name}, {"score", digits.rounded(result.score.score)}, {"signature", result.signature}};
  if (has_interval(result.interval)) {
    json["confidence_mean"] = digits.rounded(result.interval.mean);
    json["confidence_var"] = digits.rounded(result.interval.half_width);
    json["confidence"] = digits.interval(result.interval);
  }
  if (!result.score.verbose.empty()) json["verbose_score"] = result.score.verbose;
  for (const std::string& pair : split(result.signature, '|')) {
    const size_t colon = pair.find(':');
    json[pair.substr(0, colon)] = pair.substr(colon + 1);
  }
  for (const BaselineResult& baseline : result.baselines)
    json["baselines"].push_back(baseline_json(digits, result, baseline));
  if (!result.by_length.bands.empty()) json["bands"] = bands_json(digits, result);
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);  // names of files are bytes
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

// "  BLEU  40.10 (μ = 40.12 ± 1.04); difference +0.39, 95% interval -0.20 to +0.98, p = 0.0929"
std::string baseline_line(const Digits& digits, const MetricResult& result, const BaselineResult& baseline) {
  const Comparison& comparison = baseline.comparison;
  return cat(score_text(digits, baseline.score, baseline.interval), "; difference ",
             digits.with_sign(comparison.difference), result.lower_is_better ? " (lower is better)" : "",
             ", 95% interval ", digits.with_sign(comparison.low), " to ", digits.with_sign(comparison.high),
             ", p = ", fixed(comparison.p, 4), "\n");
}

// A paragraph for each baseline, with a line for each metric.
std::string comparisons(const Digits& digits, std::span<const MetricResult> results) {
  size_t widest = 0;
  for (const MetricResult& result : results) widest = std::max(widest, result.name.size());
  std::string text;
  for (size_t b = 0; b < results.front().baselines.size(); ++b) {
    text += cat("\nbaseline ", one_line(results.front().baselines[b].name), ":\n");
    for (const MetricResult& result : results)
      text += cat("  ", result.name, std::string(widest + 2 - result.name.size(), ' '),
                  baseline_line(digits, result, result.baselines[b]));
  }
  return text;
}

// A row per band, with a column for each metric and for each metric of a baseline.
std::string band_table(const Digits& digits, std::span<const MetricResult> results) {
  const BandScores& by_length = results.front().by_length;
  if (by_length.bands.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{by_length.unit, "segments"}};
  for (const MetricResult& result : results) {
    rows.front().push_back(result.name);
    for (const BaselineResult& baseline : result.baselines)
      rows.front().push_back(cat(result.name, " of ", one_line(baseline.name)));
  }
  for (size_t b = 0; b < by_length.bands.size(); ++b) {
    const BandScore& band = by_length.bands[b];
    rows.push_back({cat(band.shortest, "-", band.longest), std::to_string(band.segments)});
    for (const MetricResult& result : results) {
      rows.back().push_back(digits.text(result.by_length.bands[b].score));
      for (const double score : result.by_length.bands[b].baselines) rows.back().push_back(digits.text(score));
    }
  }
  return cat("\nby the length of ", one_line(by_length.text), " in ", by_length.unit, ":\n",
             aligned_table(std::move(rows), CellSide::kRight));
}

}  // namespace

std::string format_result(const EvaluateOptions& options, const MetricResult& result) {
  const Digits digits(options);
  if (options.score_only) {
    std::string text = score_text(digits, result.score.score, result.interval);
    for (const BandScore& band : result.by_length.bands) text += cat("\n", digits.text(band.score));
    return text;
  }
  if (options.json) return as_json(digits, result);
  if (!result.score.line.empty())
    return has_interval(result.interval) ? cat(result.score.line, " ", digits.interval(result.interval))
                                         : result.score.line;
  const std::string line =
      cat(result.name, "|", result.signature, " = ", score_text(digits, result.score.score, result.interval));
  return result.score.verbose.empty() ? line : cat(line, " ", result.score.verbose);
}

std::string format_results(const EvaluateOptions& options, std::span<const MetricResult> results) {
  std::vector<std::string> parts;
  for (const MetricResult& result : results) parts.push_back(format_result(options, result));
  if (options.json && parts.size() > 1) return cat("[\n", join(parts, ",\n"), "\n]\n");
  if (options.json || options.score_only) return join(parts, "\n") + "\n";
  return align(parts) + comparisons(Digits(options), results) + band_table(Digits(options), results);
}

}  // namespace fovea::metrics

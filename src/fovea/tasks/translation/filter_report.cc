#include "fovea/tasks/translation/filter_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/analysis/distribution.h"
#include "fovea/base/strings.h"

namespace fovea::translation {
namespace {

using analysis::Bins;
using analysis::Summary;
using Json = nlohmann::ordered_json;

constexpr int64_t kBins = 10, kBarWidth = 40;

std::string right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string range_of(const Bins& bins, int64_t bin) {
  return cat("[", right(fixed(bins.edge(bin), 4), 9), ", ", right(fixed(bins.edge(bin + 1), 4), 9),
             bin + 1 == bins.count ? "]" : ")");
}

Json summary_object(const Summary& summary) {
  return {{"count", summary.count},     {"mean", summary.mean}, {"deviation", summary.deviation},
          {"minimum", summary.minimum}, {"p5", summary.p5},     {"p25", summary.p25},
          {"median", summary.median},   {"p75", summary.p75},   {"p95", summary.p95},
          {"maximum", summary.maximum}};
}

std::string summary_row(std::string_view name, const Summary& summary) {
  std::string row = cat(name, std::string(6 - name.size(), ' '));
  for (const double value : {summary.mean, summary.deviation, summary.minimum, summary.p5, summary.p25, summary.median,
                             summary.p75, summary.p95, summary.maximum})
    row += right(fixed(value, 4), 10);
  return row + "\n";
}

// How well one layer's score tells the pairs apart: the means of both, and the area under the curve.
struct LayerSeparation {
  double good, bad, auc;
};
std::vector<LayerSeparation> layers_of(const Separation& separation) {
  std::vector<LayerSeparation> layers;
  for (size_t l = 0; l < separation.good_by_layer.size(); ++l) {
    const std::vector<double>&good = separation.good_by_layer[l], &bad = separation.bad_by_layer[l];
    layers.push_back(
        {analysis::summarize(good).mean, analysis::summarize(bad).mean, analysis::area_under_curve(good, bad)});
  }
  return layers;
}

Bins bins_of_both(const Separation& separation) {
  std::vector<double> all(separation.good.begin(), separation.good.end());
  all.insert(all.end(), separation.bad.begin(), separation.bad.end());
  return analysis::bins_of(all, kBins);
}

}  // namespace

std::string shown_line(const ShownPair& pair) {
  return cat(pair.tenth, " ||| ", fixed(pair.score, kScoreDigits), " ||| ", pair.text.source, " ||| ",
             pair.text.target);
}

std::vector<std::string> histogram_lines(std::span<const double> scores) {
  if (scores.empty()) return {};
  const Bins bins = analysis::bins_of(scores, kBins);
  const std::vector<int64_t> counts = analysis::histogram(scores, bins);
  const int64_t most = std::ranges::max(counts);
  std::vector<std::string> lines;
  for (int64_t bin = 0; bin < bins.count; ++bin) {
    const int64_t count = counts[static_cast<size_t>(bin)];
    lines.push_back(
        cat(range_of(bins, bin), " ", right(thousands(count), 10), " ", analysis::bar(count, most, kBarWidth)));
  }
  return lines;
}

std::string filter_json(const FilterSummary& summary) {
  const auto& scores = summary.scores;
  Json object = {{"score", summary.score}, {"pairs", scores.size()}};
  if (summary.keeps) object["kept"] = summary.kept;
  object["distribution"] = summary_object(analysis::summarize(scores));
  const Bins bins = analysis::bins_of(scores, kBins);
  const std::vector<int64_t> counts = analysis::histogram(scores, bins);
  object["histogram"] = Json::array();
  for (int64_t bin = 0; bin < bins.count; ++bin) {
    object["histogram"].push_back(
        {{"from", bins.edge(bin)}, {"to", bins.edge(bin + 1)}, {"count", counts[static_cast<size_t>(bin)]}});
  }
  object["shown"] = Json::array();
  for (const ShownPair& pair : summary.shown) {
    object["shown"].push_back({{"tenth", pair.tenth},
                               {"pair", pair.text.line},
                               {"score", pair.score},
                               {"source", pair.text.source},
                               {"target", pair.text.target}});
  }
  object["scores"] = Json::array();
  for (size_t i = 0; i < scores.size(); ++i) {
    object["scores"].push_back(Json::object({{"pair", i + 1}, {"score", scores[i]}}));
  }
  return object.dump();
}

std::string separation_text(const Separation& separation) {
  const Bins bins = bins_of_both(separation);
  const std::vector<int64_t> good = analysis::histogram(separation.good, bins);
  const std::vector<int64_t> bad = analysis::histogram(separation.bad, bins);
  const int64_t most = std::max(std::ranges::max(good), std::ranges::max(bad));
  std::string text = cat("AUC ", fixed(analysis::area_under_curve(separation.good, separation.bad), 4), "\n",
                         separation.test, " by ", separation.score, ": ", thousands(std::ssize(separation.good)),
                         " pairs of the text's ", thousands(separation.pairs), ", and each made wrong\n",
                         "            mean deviation   minimum        5%       25%    median       75%       95%   "
                         "maximum\n");
  text += summary_row("good", analysis::summarize(separation.good));
  text += summary_row("bad", analysis::summarize(separation.bad));
  for (int64_t bin = 0; bin < bins.count; ++bin) {
    for (const auto& [name, counts] : {std::pair("good", &good), std::pair("bad ", &bad)}) {
      const int64_t count = (*counts)[static_cast<size_t>(bin)];
      text +=
          cat(range_of(bins, bin), " ", name, right(thousands(count), 10), " ", analysis::bar(count, most, kBarWidth));
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n";
    }
  }
  const std::vector<LayerSeparation> layers = layers_of(separation);
  if (layers.empty()) return text;
  text += cat("\n", separation.score, " by layer\n layer      good       bad       AUC\n");
  for (size_t l = 0; l < layers.size(); ++l) {
    text += right(std::to_string(l + 1), 6);
    for (const double value : {layers[l].good, layers[l].bad, layers[l].auc}) text += right(fixed(value, 4), 10);
    text += "\n";
  }
  return text;
}

std::string separation_json(const Separation& separation) {
  const Bins bins = bins_of_both(separation);
  const std::vector<int64_t> good = analysis::histogram(separation.good, bins);
  const std::vector<int64_t> bad = analysis::histogram(separation.bad, bins);
  Json object = {{"auc", analysis::area_under_curve(separation.good, separation.bad)},
                 {"test", separation.test},
                 {"score", separation.score},
                 {"pairs", separation.pairs},
                 {"good", summary_object(analysis::summarize(separation.good))},
                 {"bad", summary_object(analysis::summarize(separation.bad))},
                 {"histogram", Json::array()}};
  for (int64_t bin = 0; bin < bins.count; ++bin) {
    const auto at = static_cast<size_t>(bin);
    object["histogram"].push_back(
        {{"from", bins.edge(bin)}, {"to", bins.edge(bin + 1)}, {"good", good[at]}, {"bad", bad[at]}});
  }
  object["layers"] = Json::array();
  for (const LayerSeparation& layer : layers_of(separation))
    object["layers"].push_back({{"good", layer.good}, {"bad", layer.bad}, {"auc", layer.auc}});
  return object.dump();
}

}  // namespace fovea::translation

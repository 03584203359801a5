#include "fovea/inspect/analyze_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "fovea/base/aligned_table.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/layer_override.h"

namespace fovea::inspect {
namespace {

using AnalyzeJson = nlohmann::ordered_json;

constexpr size_t kMostLabelsShown = 20;

// The meaning of a figure; the table's foot and "denominators" of the JSON object give it.
struct FigureMeaning {
  std::string_view name, heading, denominator;
};
constexpr std::array kFigureMeanings = {
    FigureMeaning{"zeros", "zeros", "share of legal pairs (query, key) whose weight is exactly 0, underflow apart"},
    FigureMeaning{"underflow", "underflow", "share of legal pairs whose weight softmax lost to underflow"},
    FigureMeaning{"null_rate", "null", "share of queries whose weights are all 0"},
    FigureMeaning{"sink", "sink", "share of the weight that goes to the sink, mean over all queries"},
    FigureMeaning{"entropy", "entropy", "nats, mean over the queries with weight, weights divided by their sum"},
    FigureMeaning{"kept", "kept", "keys with weight, mean over all queries"},
    FigureMeaning{"distance", "distance", "keys between query and key by weight, mean over the queries with weight"},
    FigureMeaning{"on_eos", "on </s>", "share of a query's weight on the source's </s>, mean over queries with weight"},
    FigureMeaning{"on_last_word", "on last", "share on the source's last word, mean over the queries with weight"},
    FigureMeaning{"mean_zeros", "zeros", "mean over the layer's heads of their zeros"},
    FigureMeaning{"mean_null_rate", "null", "mean over the layer's heads of their null rates"},
    FigureMeaning{"null_variance", "null var", "variance over the layer's heads of their null rates"},
    FigureMeaning{"diversity", "diversity", "nats, Jensen-Shannon divergence of the layer's heads, mean over queries"},
    FigureMeaning{"no_cluster", "no cluster", "share of queries in no cluster"},
    FigureMeaning{"several_clusters", "several", "share of queries in more than one cluster"},
    FigureMeaning{"cluster_size", "cluster size", "members, mean over the clusters that have any"},
    FigureMeaning{
        "divergence", "divergence",
        "nats, Jensen-Shannon divergence of two heads, mean over queries for which both have weight, then over "
        "the drawn pairs"},
};

bool is_count(std::string_view name) {
  return name == "rows" || name == "rows_with_weight" || name == "pairs" || name == "draws";
}

// A figure over all models.
struct MeanFigure {
  std::string name;
  double mean = 0, deviation = 0;
};

[[noreturn]] void refuse_other_shape(const ModelFigures& first, const ModelFigures& other) {
  throw Error(cat("--model: '", other.model, "' has other layers, heads or mechanisms than '", first.model,
                  "'; expected models of one shape, such as seeds of one training"));
}

template <class Record>
std::vector<std::vector<MeanFigure>> means_of(const std::vector<ModelFigures>& models,
                                              std::vector<Record> ModelFigures::*records) {
  const std::vector<Record>& first = models.front().*records;
  for (const ModelFigures& model : models) {
    if ((model.*records).size() != first.size()) refuse_other_shape(models.front(), model);
  }
  std::vector<std::vector<MeanFigure>> all;
  for (size_t r = 0; r < first.size(); ++r) {
    std::vector<MeanFigure>& means = all.emplace_back();
    for (size_t f = 0; f < first[r].figures.size(); ++f) {
      double sum = 0, squares = 0;
      for (const ModelFigures& model : models) {
        const Figures& figures = (model.*records)[r].figures;
        if (figures.size() != first[r].figures.size() || figures[f].first != first[r].figures[f].first)
          refuse_other_shape(models.front(), model);
        sum += figures[f].second, squares += figures[f].second * figures[f].second;
      }
      const auto count = static_cast<double>(models.size());
      const double mean = sum / count, variance = squares / count - mean * mean;
      means.push_back({first[r].figures[f].first, mean, variance > 0 ? std::sqrt(variance) : 0});
    }
  }
  return all;
}

std::string text_of(const MeanFigure& figure, bool several) {
  constexpr int kDigits = 4;
  if (!std::isfinite(figure.mean)) return "-";
  if (is_count(figure.name)) return thousands(std::llround(figure.mean));
  const std::string mean = fixed(figure.mean, kDigits);
  return several ? cat(mean, "±", fixed(figure.deviation, kDigits)) : mean;
}

const MeanFigure* find(const std::vector<MeanFigure>& figures, std::string_view name) {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const MeanFigure& f) { return f.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

std::string heading_of(const std::string& name) {
  for (const FigureMeaning& meaning : kFigureMeanings) {
    if (meaning.name == name) return std::string(meaning.heading);
  }
  constexpr std::string_view kTau = "diversity_tau_";
  return name.starts_with(kTau) ? "tau " + name.substr(kTau.size()) : name;
}

// The names of `wanted` that some record has, in their order; all that begin with "diversity" stand for it.
std::vector<std::string> present(const std::vector<std::vector<MeanFigure>>& all,
                                 const std::vector<std::string_view>& wanted) {
  std::vector<std::string> names;
  for (const std::string_view name : wanted) {
    for (const std::vector<MeanFigure>& figures : all) {
      for (const MeanFigure& figure : figures) {
        const bool is_it = figure.name == name || (name == "diversity" && figure.name.starts_with("diversity_tau_"));
        if (is_it && std::find(names.begin(), names.end(), figure.name) == names.end()) names.push_back(figure.name);
      }
    }
  }
  return names;
}

std::vector<std::string> row_of(std::vector<std::string> row, const std::vector<MeanFigure>& figures,
                                const std::vector<std::string>& names, bool several) {
  for (const std::string& name : names) {
    const MeanFigure* figure = find(figures, name);
    row.push_back(figure == nullptr ? "" : text_of(*figure, several));
  }
  return row;
}

std::vector<std::string> header_of(std::vector<std::string> header, const std::vector<std::string>& names) {
  for (const std::string& name : names) header.push_back(heading_of(name));
  return header;
}

std::string head_name(int64_t head) { return head == 0 ? "mean" : std::to_string(head); }

// Each label's name, by falling number of queries; only the shown ones.
std::vector<int64_t> frequent_labels(const ModelFigures& model, size_t most) {
  std::map<int64_t, double> rows;
  for (const LabelRecord& record : model.labels) {
    double& count = rows[record.label];
    count = std::max(count, find_if(record.figures.begin(), record.figures.end(), [](const auto& f) {
                              return f.first == "rows";
                            })->second);
  }
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [label, count] : rows) order.emplace_back(-count, label);
  std::sort(order.begin(), order.end());
  std::vector<int64_t> labels;
  for (size_t i = 0; i < std::min(most, order.size()); ++i) labels.push_back(order[i].second);
  return labels;
}

std::string label_table(const std::vector<ModelFigures>& models, const AnalyzedText& text) {
  const auto means = means_of(models, &ModelFigures::labels);
  const std::vector<std::string> names = {"null_rate", "zeros", "rows", "pairs"};
  std::vector<std::vector<std::string>> rows = {header_of({text.by, "kind", "layer", "head"}, names)};
  const std::vector<int64_t> shown = frequent_labels(models.front(), kMostLabelsShown);
  const std::vector<LabelRecord>& records = models.front().labels;
  for (const int64_t label : shown) {
    for (size_t r = 0; r < records.size(); ++r) {
      if (records[r].label != label) continue;
      rows.push_back(row_of({text.labels[static_cast<size_t>(label)], records[r].kind, std::to_string(records[r].layer),
                             std::to_string(records[r].head)},
                            means[r], names, models.size() > 1));
    }
  }
  return aligned_table(std::move(rows));
}

std::string foot(const std::vector<std::string>& names) {
  std::string text;
  std::set<std::string_view> seen;
  for (const FigureMeaning& meaning : kFigureMeanings) {
    if (std::find(names.begin(), names.end(), meaning.name) == names.end()) continue;
    if (meaning.name.starts_with("mean_")) continue;
    text += cat(meaning.heading, ": ", meaning.denominator, "\n");
  }
  return text;
}

void add_figures(AnalyzeJson& object, const std::vector<MeanFigure>& figures, bool several) {
  for (const MeanFigure& figure : figures) {
    const bool counts = is_count(figure.name);
    if (!std::isfinite(figure.mean)) {
      object[figure.name] = nullptr;
    } else if (counts && figure.mean == std::floor(figure.mean)) {
      object[figure.name] = static_cast<int64_t>(figure.mean);
    } else {
      object[figure.name] = figure.mean;
    }
    if (several && !counts) object[figure.name + "_deviation"] = figure.deviation;
  }
}

std::string shape_of(const ModelConfig& model) {
  return cat(model.enc_depth > 0 ? cat(model.enc_depth, " + ") : "", model.dec_depth, " layers of ",
             model.transformer_heads, " heads");
}

// The mechanisms of all layers as they are computed, because options can say the same in several ways.
std::string mechanisms_of(const ModelConfig& model) {
  std::string text = model.sparsify;
  for (const Sublayer sublayer : sublayers_of(model)) {
    for (int64_t layer = 0; layer < depth_of(model, sublayer); ++layer)
      text += cat(" ", print(attention_of(model, sublayer, layer)));
  }
  return text;
}

// Returns what `other` has that `first` does not have; empty if they are of one shape.
std::string difference_of(const ComparedModel& first, const ComparedModel& other) {
  const std::string shape = shape_of(first.config), other_shape = shape_of(other.config),
                    of = cat(" '", first.name, "'");
  if (shape != other_shape) return cat(other_shape, ", but", of, " has ", shape);
  if (mechanisms_of(first.config) != mechanisms_of(other.config)) return cat("other mechanisms than", of);
  if (first.units != other.units) return cat("another vocabulary than", of);
  for (const auto& [name, value] : first.options) {
    const std::string& theirs = other.options.at(name);
    if (value != theirs) return cat("--", name, " ", theirs, ", but", of, " has ", value);
  }
  return "";
}

}  // namespace

void require_one_shape(const ComparedModel& first, const ComparedModel& other) {
  if (const std::string difference = difference_of(first, other); !difference.empty())
    throw Error(cat("--model: '", other.name, "' has ", difference,
                    "; expected models of one shape, such as seeds of one training"));
}

ModelFigures figures_of(const std::string& model, const AttentionStatistics& statistics) {
  return {model, statistics.records(), statistics.sorts(), statistics.labels()};
}

std::string analysis_table(const std::vector<ModelFigures>& models, const AnalyzedText& text) {
  const bool several = models.size() > 1;
  const auto means = means_of(models, &ModelFigures::records);
  const std::vector<AttentionRecord>& records = models.front().records;
  const std::vector<std::string> of_layers =
      present(means, {"mean_zeros", "mean_null_rate", "null_variance", "diversity"});
  const std::vector<std::string> of_heads =
      present(means, {"zeros", "underflow", "null_rate", "sink", "entropy", "kept", "distance", "on_eos",
                      "on_last_word", "no_cluster", "several_clusters", "cluster_size", "rows", "pairs"});
  std::vector<std::vector<std::string>> layers = {header_of({"kind", "layer"}, of_layers)},
                                        heads = {header_of({"kind", "layer", "head"}, of_heads)};
  for (size_t r = 0; r < records.size(); ++r) {
    const std::string layer = std::to_string(records[r].layer);
    if (records[r].head == 0) layers.push_back(row_of({records[r].kind, layer}, means[r], of_layers, several));
    heads.push_back(row_of({records[r].kind, layer, head_name(records[r].head)}, means[r], of_heads, several));
  }
  std::string out = cat(text.unit, "s of ", thousands(text.sequences), " ", text.sequence_name,
                        several ? cat(", mean and deviation over ", models.size(), " models") : "", "\n\n");
  out += aligned_table(std::move(layers)) + "\n";
  out += aligned_table(std::move(heads));
  const std::vector<SortRecord>& sorts = models.front().sorts;
  std::vector<std::string> names = of_heads;
  names.insert(names.end(), of_layers.begin(), of_layers.end());
  if (!sorts.empty()) {
    const auto of_sorts = means_of(models, &ModelFigures::sorts);
    std::vector<std::vector<std::string>> rows = {{"kind", "layer", "heads", "divergence", "deviation", "draws"}};
    for (size_t r = 0; r < sorts.size(); ++r)
      rows.push_back(row_of({sorts[r].kind, std::to_string(sorts[r].layer), sorts[r].heads}, of_sorts[r],
                            {"divergence", "divergence_deviation", "draws"}, several));
    out += "\n" + aligned_table(std::move(rows));
    names.emplace_back("divergence");
  }
  if (!text.by.empty()) out += "\n" + label_table(models, text);
  return out + "\nhead mean: the layer's attention, the mean of its heads\n" + foot(names);
}

std::string analysis_json(const std::vector<ModelFigures>& models, const AnalyzedText& text) {
  const bool several = models.size() > 1;
  AnalyzeJson object = {{"unit", text.unit}, {text.sequence_name, text.sequences}, {"models", AnalyzeJson::array()}};
  for (const ModelFigures& model : models) object["models"].push_back(model.model);
  object["records"] = AnalyzeJson::array();
  const auto means = means_of(models, &ModelFigures::records);
  for (size_t r = 0; r < means.size(); ++r) {
    const AttentionRecord& record = models.front().records[r];
    AnalyzeJson entry = {{"kind", record.kind}, {"layer", record.layer}, {"head", record.head}};
    add_figures(entry, means[r], several);
    object["records"].push_back(std::move(entry));
  }
  const auto of_sorts = means_of(models, &ModelFigures::sorts);
  if (!of_sorts.empty()) object["head_pairs"] = AnalyzeJson::array();
  for (size_t r = 0; r < of_sorts.size(); ++r) {
    const SortRecord& record = models.front().sorts[r];
    AnalyzeJson entry = {{"kind", record.kind}, {"layer", record.layer}, {"heads", record.heads}};
    add_figures(entry, of_sorts[r], several);
    object["head_pairs"].push_back(std::move(entry));
  }
  if (!text.by.empty()) {
    object["by"] = text.by;
    object["labels"] = AnalyzeJson::array();
    const auto of_labels = means_of(models, &ModelFigures::labels);
    for (size_t r = 0; r < of_labels.size(); ++r) {
      const LabelRecord& record = models.front().labels[r];
      AnalyzeJson entry = {{"kind", record.kind},
                           {"layer", record.layer},
                           {"head", record.head},
                           {"label", text.labels[static_cast<size_t>(record.label)]}};
      add_figures(entry, of_labels[r], several);
      object["labels"].push_back(std::move(entry));
    }
  }
  AnalyzeJson denominators = AnalyzeJson::object();
  for (const FigureMeaning& meaning : kFigureMeanings) denominators[std::string(meaning.name)] = meaning.denominator;
  object["denominators"] = std::move(denominators);
  return object.dump(-1, ' ', false, AnalyzeJson::error_handler_t::replace) + "\n";
}

}  // namespace fovea::inspect

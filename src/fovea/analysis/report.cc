#include "fovea/analysis/report.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/analysis/report_page.h"
#include "fovea/analysis/svg.h"
#include "fovea/base/base64.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::analysis {
namespace {

constexpr unsigned kNegativeBit = 128;

using ReportJson = nlohmann::ordered_json;

// Above this number, weights have fewer levels, to keep the page small.
constexpr int64_t kManyReportWeights = 4'000'000;

// A share or an entropy with four digits behind the point, which is more than anyone reads.
double four_digits(double value) { return std::round(value * 1e4) / 1e4; }

ReportJson figures_json(const HeadFigures& figures) {
  return {four_digits(figures.zero_share()), four_digits(figures.mean_entropy()), four_digits(figures.null_share()),
          four_digits(figures.mean_information())};
}

ReportJson texts_json(const std::vector<ReportText>& texts) {
  ReportJson out = ReportJson::array();
  for (const ReportText& text : texts) out.push_back({text.heading, text.text});
  return out;
}

// A span with a digit behind the point; null for a head without one.
ReportJson spans_json(const std::vector<std::optional<double>>& spans) {
  ReportJson out = ReportJson::array();
  for (const auto& span : spans) out.push_back(span ? ReportJson(std::round(*span * 10) / 10) : ReportJson());
  return out;
}

ReportJson sweep_json(const ReportSweep& sweep) {
  ReportJson points = ReportJson::array(), curves = ReportJson::array();
  for (const ReportSweep::Point& point : sweep.points) points.push_back({point.spec, point.loss});
  for (const PlotCurve& curve : sweep.plot.panels.front().curves)
    curves.push_back({{"name", sweep.plot.names.at(curve.name)}, {"level", curve.is_level}, {"points", curve.points}});
  return {
      {"unit", sweep.unit}, {"units", sweep.units}, {"x", sweep.plot.x_title}, {"points", points}, {"curves", curves}};
}

std::string weights_id(size_t model, size_t pass) { return cat("weights-", model, "-", pass); }

// JSON inside of a <script> element, where "</script" and "<!--" would end or change the element. These characters
// stand in strings of JSON only, which may write them as escapes.
std::string inside_script(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

// The parts of the page. `data` is JSON, `weights` the text of each pass's element, by its id.
struct ReportPage {
  std::string title, data;
  std::vector<std::pair<std::string, std::string>> weights;
};

// The template has {{NAME}} in the place of a part. Parts that were put in are not searched again.
std::string report_html(const ReportPage& page) {
  std::string weights;
  for (const auto& [id, text] : page.weights)
    weights += cat("<script type=\"text/plain\" id=\"", id, "\">", text, "</script>\n");
  std::string out;
  for (std::string_view rest = kReportTemplate; !rest.empty();) {
    const size_t begin = rest.find("{{"), end = rest.find("}}");
    out += rest.substr(0, begin);
    if (begin == std::string_view::npos) break;
    const std::string_view name = rest.substr(begin + 2, end - begin - 2);
    if (name == "TITLE") {
      out += escaped_xml(page.title);
    } else if (name == "STYLE") {
      out += kReportStyle;
    } else if (name == "DATA") {
      out += inside_script(page.data);
    } else if (name == "WEIGHTS") {
      out += weights;
    } else if (name == "SCRIPT") {
      out += kReportScript;
    } else {
      throw Error(cat("the template of reports has an unknown part '", name, "'"));
    }
    rest.remove_prefix(end + 2);
  }
  return out;
}

}  // namespace

int64_t HeadWeights::pairs() const {
  int64_t sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += row_length(r);
  return sum;
}

float weight_scale(const HeadWeights& weights, int64_t head) {
  float greatest = 1;
  const float* const begin = weights.row(head, 0);
  for (const float* w = begin; w != begin + weights.rows * weights.columns; ++w)
    greatest = std::max(greatest, std::abs(*w));
  return greatest;
}

void append_weight_codes(const HeadWeights& weights, int64_t head, float scale, std::string& codes) {
  for (int64_t r = 0; r < weights.rows; ++r) {
    const float* const row = weights.row(head, r);
    for (int64_t c = 0; c < weights.row_length(r); ++c) {
      unsigned code = 0;
      if (row[c] != 0) {
        const float level = std::round(kMostWeightLevels * std::sqrt(std::abs(row[c]) / scale));
        code = static_cast<unsigned>(std::clamp<float>(level, 1, kMostWeightLevels));
        if (row[c] < 0) code += kNegativeBit;
      }
      codes.push_back(static_cast<char>(code));
    }
  }
}

std::string with_few_levels(const std::string& codes) {
  std::string out = codes;
  for (char& c : out) {
    const auto code = static_cast<unsigned char>(c);
    const unsigned level = code % kNegativeBit;
    const unsigned fewer = (2 * level * kFewWeightLevels + kMostWeightLevels) / (2 * kMostWeightLevels);
    c = static_cast<char>(code - level + (level == 0 ? 0 : std::max(1U, fewer)));
  }
  return out;
}

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int result =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION);
  if (result != Z_OK) throw std::bad_alloc();  // the only failure with enough room for the result
  out.resize(size);
  return out;
}

void HeadFigures::add(const HeadFigures& other) {
  rows += other.rows, null_rows += other.null_rows;
  pairs += other.pairs, zeros += other.zeros;
  entropy += other.entropy, information += other.information;
}

HeadFigures figures_of(const HeadWeights& weights, int64_t head) {
  HeadFigures out;
  std::vector<double> shares(static_cast<size_t>(weights.columns));  // of each column, summed over the rows
  for (int64_t r = 0; r < weights.rows; ++r) {
    const float* const row = weights.row(head, r);
    double sum = 0, weighted_logs = 0;
    for (int64_t c = 0; c < weights.row_length(r); ++c) {
      const double w = std::abs(static_cast<double>(row[c]));
      ++out.pairs;
      if (w == 0) {
        ++out.zeros;
      } else {
        sum += w, weighted_logs += w * std::log(w);
      }
    }
    ++out.rows;
    if (sum == 0) {
      ++out.null_rows;
    } else {
      out.entropy += std::max(0.0, std::log(sum) - weighted_logs / sum);
      for (int64_t c = 0; c < weights.row_length(r); ++c)
        shares[static_cast<size_t>(c)] += std::abs(static_cast<double>(row[c])) / sum;
    }
  }
  const auto rows = static_cast<double>(out.rows - out.null_rows);
  for (const double share : shares)
    if (share > 0) out.information -= share * std::log(share / rows);
  out.information = std::max(0.0, out.information - out.entropy);
  return out;
}

Report::Report(std::string title, std::vector<ReportSentence> sentences)
    : title_(std::move(title)), sentences_(std::move(sentences)) {}

void Report::begin_model(const std::string& name, const std::vector<ReportText>& details) {
  models_.push_back({name, details, {}});
}

void Report::begin_pass(size_t sentence, const ReportTokens& tokens) {
  models_.back().passes.push_back({sentence, tokens, {}, {}, {}});
}

void Report::mark_clauses(const std::vector<int64_t>& levels) {
  std::vector<int64_t>& own = models_.back().passes.back().clauses;
  own.resize(levels.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i] > 0) own[i] = own[i] == 0 ? levels[i] : std::min(own[i], levels[i]);
  }
}

void Report::add(const ReportAttention& attention) {
  Pass& pass = models_.back().passes.back();
  const HeadWeights& weights = attention.weights;
  weights_ += weights.heads * weights.pairs();
  if (weights_ > kMostReportWeights)
    throw Error(
        cat("the report would hold more than ", thousands(kMostReportWeights),
            " attention weights, which is too much for a browser; show fewer sentences (--sentences) or shorter "
            "ones"));
  Attention kept = {attention.sublayer, attention.layer,    weights.heads,
                    weights.rows,       weights.columns,    /*scales=*/{},
                    /*figures=*/{},     attention.clusters, attention.spans};
  for (int64_t h = 0; h < weights.heads; ++h) {
    kept.scales.push_back(weight_scale(weights, h));
    kept.figures.push_back(figures_of(weights, h));
    append_weight_codes(weights, h, kept.scales.back(), pass.codes);
  }
  pass.attentions.push_back(std::move(kept));
}

struct Report::Json {
  static ReportJson attention(const Attention& attention) {
    ReportJson figures = ReportJson::array(), clusters = ReportJson::array();
    for (const HeadFigures& head : attention.figures) figures.push_back(figures_json(head));
    for (const ReportClusters& head : attention.clusters) clusters.push_back({head.head, head.members});
    return ReportJson{{"sublayer", static_cast<int>(attention.sublayer)},
                      {"layer", attention.layer},
                      {"heads", attention.heads},
                      {"rows", attention.rows},
                      {"columns", attention.columns},
                      {"scales", attention.scales},
                      {"figures", figures},
                      {"clusters", clusters}};
  }

  // Figures of all sentences together. Every pass of a model has the same attentions in the same order.
  static ReportJson statistics(const Model& model) {
    std::vector<std::vector<HeadFigures>> sums;
    for (const Pass& pass : model.passes) {
      sums.resize(pass.attentions.size());
      for (size_t a = 0; a < sums.size(); ++a) {
        sums[a].resize(pass.attentions[a].figures.size());
        for (size_t h = 0; h < sums[a].size(); ++h) sums[a][h].add(pass.attentions[a].figures[h]);
      }
    }
    ReportJson out = ReportJson::array();
    for (size_t a = 0; a < sums.size(); ++a) {
      const Attention& place = model.passes.front().attentions[a];
      ReportJson heads = ReportJson::array();
      for (const HeadFigures& head : sums[a]) heads.push_back(figures_json(head));
      const HeadFigures& first = sums[a].front();
      out.push_back({{"sublayer", static_cast<int>(place.sublayer)},
                     {"layer", place.layer},
                     {"rows", first.rows},
                     {"pairs", first.pairs},
                     {"heads", heads},
                     {"spans", spans_json(place.spans)}});
    }
    return out;
  }
};

std::string Report::data_json(int levels) const {
  ReportJson data = {{"title", title_}, {"levels", levels}};
  for (const ReportSentence& sentence : sentences_)
    data["sentences"].push_back({{"line", sentence.line}, {"texts", texts_json(sentence.texts)}});
  for (size_t m = 0; m < models_.size(); ++m) {
    ReportJson passes = ReportJson::array();
    for (size_t p = 0; p < models_[m].passes.size(); ++p) {
      const Pass& pass = models_[m].passes[p];
      ReportJson attentions = ReportJson::array();
      for (const Attention& attention : pass.attentions) attentions.push_back(Json::attention(attention));
      passes.push_back({{"sentence", pass.sentence},
                        {"source", pass.tokens.source},
                        {"inputs", pass.tokens.inputs},
                        {"outputs", pass.tokens.outputs},
                        {"clauses", pass.clauses},
                        {"weights", weights_id(m, p)},
                        {"attentions", attentions}});
    }
    data["models"].push_back({{"name", models_[m].name},
                              {"details", texts_json(models_[m].details)},
                              {"statistics", Json::statistics(models_[m])},
                              {"passes", passes}});
  }
  if (sweep_) data["sweep"] = sweep_json(*sweep_);
  return data.dump(-1, ' ', true, ReportJson::error_handler_t::replace);
}

std::string Report::html() const {
  const bool is_large = weights_ > kManyReportWeights;
  ReportPage page = {title_, data_json(is_large ? kFewWeightLevels : kMostWeightLevels), {}};
  for (size_t m = 0; m < models_.size(); ++m) {
    for (size_t p = 0; p < models_[m].passes.size(); ++p) {
      const std::string& codes = models_[m].passes[p].codes;
      page.weights.emplace_back(weights_id(m, p), base64(deflated(is_large ? with_few_levels(codes) : codes)));
    }
  }
  return report_html(page);
}

}  // namespace fovea::analysis

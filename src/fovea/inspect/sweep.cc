#include "fovea/inspect/sweep.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "fovea/base/aligned_table.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"

namespace fovea::inspect {
namespace {

using SweepJson = nlohmann::ordered_json;

// A spec's first number, and the spec with "k" in its place: "topk(8)" is 8 and "topk(k)".
struct NumberedSpec {
  std::string family;
  std::optional<double> number;
};

NumberedSpec numbered(const std::string& spec) {
  const size_t open = spec.find('(');
  const size_t begin = open == std::string::npos ? open : spec.find_first_of("0123456789", open);
  if (begin == std::string::npos) return {spec, {}};
  size_t end = spec.find_first_not_of("0123456789.", begin);
  if (end == std::string::npos) end = spec.size();
  return {spec.substr(0, begin) + "k" + spec.substr(end),
          number_in<double>(spec.substr(begin, end - begin)).value_or(0)};
}

AttentionOverride override_of(const std::string& entry) {
  AttentionOverride mechanisms;
  struct Sort {
    std::string_view prefix;
    std::string AttentionOverride::*member;
  };
  for (const Sort& sort :
       {Sort{"encoder=", &AttentionOverride::attention_encoder},
        Sort{"decoder=", &AttentionOverride::attention_decoder}, Sort{"cross=", &AttentionOverride::attention_cross}}) {
    if (!entry.starts_with(sort.prefix)) continue;
    mechanisms.*sort.member = entry.substr(sort.prefix.size());
    if ((mechanisms.*sort.member).empty())
      throw UsageError(cat("--sweep: got '", entry, "'; expected a mechanism behind '='"));
    return mechanisms;
  }
  if (entry.empty()) throw UsageError("--sweep: got ''; expected a mechanism, such as topk(8) or cross=topk(4)");
  mechanisms.attention = entry;
  return mechanisms;
}

std::string sweep_table(const Sweep& sweep) {
  const bool has_bleu = sweep.beam_size > 0,
             has_bits = !sweep.points.empty() && sweep.points.front().bits_per_byte >= 0;
  std::vector<std::string> header = {"spec", "loss", "perplexity"};
  if (has_bits) header.emplace_back("bits/byte");
  if (has_bleu) header.emplace_back("BLEU");
  std::vector<std::vector<std::string>> rows = {std::move(header)};
  for (const SweepPoint& point : sweep.points) {
    rows.push_back({point.spec, fixed(point.loss, 6), fixed(std::exp(point.loss), 4)});
    if (has_bits) rows.back().push_back(fixed(point.bits_per_byte, 4));
    if (has_bleu) rows.back().push_back(fixed(point.bleu, 2));
  }
  std::string text = aligned_table(std::move(rows)) +
                     cat("\nloss: nats per ", sweep.unit, ", mean over ", thousands(sweep.units), "\n");
  if (has_bleu) text += cat("BLEU: of the whole text, tokens of ", sweep.tokenize, ", beam ", sweep.beam_size, "\n");
  return text;
}

std::string sweep_json(const Sweep& sweep) {
  SweepJson object = {{"unit", sweep.unit}, {"units", sweep.units}};
  if (sweep.beam_size > 0) object["beam_size"] = sweep.beam_size, object["tokenize"] = sweep.tokenize;
  object["records"] = SweepJson::array();
  for (const SweepPoint& point : sweep.points) {
    SweepJson record = {{"spec", point.spec}, {"loss", point.loss}, {"perplexity", std::exp(point.loss)}};
    if (point.bits_per_byte >= 0) record["bits_per_byte"] = point.bits_per_byte;
    if (sweep.beam_size > 0) record["bleu"] = point.bleu;
    object["records"].push_back(std::move(record));
  }
  return object.dump(-1, ' ', false, SweepJson::error_handler_t::replace) + "\n";
}

}  // namespace

AttentionOverride override_by(const AttentionOverride& mechanisms, const std::string& entry) {
  const AttentionOverride given = override_of(entry);
  if (!given.attention.empty()) return given;
  AttentionOverride out = mechanisms;
  for (const auto member : {&AttentionOverride::attention_encoder, &AttentionOverride::attention_decoder,
                            &AttentionOverride::attention_cross}) {
    if (!(given.*member).empty()) out.*member = given.*member;
  }
  return out;
}

void require_decoder_entries(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    if (entry.empty()) continue;
    const AttentionOverride given = override_of(entry);
    const bool is_encoder = !given.attention_encoder.empty();
    if (is_encoder || !given.attention_cross.empty())
      throw UsageError(cat("--sweep: got '", entry, "'; a language model has no ",
                           is_encoder ? "encoder" : "cross-attention", ", only decoder=SPEC or SPEC"));
  }
}

analysis::Plot sweep_plot(const Sweep& sweep) {
  std::map<std::string, std::vector<const SweepPoint*>> families;
  for (const SweepPoint& point : sweep.points) families[numbered(point.spec).family].push_back(&point);
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const auto& [family, points] : families) {
    if (points.size() < 2 || !numbered(points.front()->spec).number) continue;
    for (const SweepPoint* point : points) {
      const double number = *numbered(point->spec).number;
      low = std::min(low, number), high = std::max(high, number);
    }
  }
  analysis::Plot plot;
  if (low < high) {
    plot.x_title = "k";
  } else {
    low = 0, high = 1;  // level lines alone
  }
  plot.panels.push_back({cat("loss per ", sweep.unit), {}});
  if (sweep.beam_size > 0) plot.panels.push_back({"BLEU", {}});
  for (const auto& [family, points] : families) {
    const bool is_curve = points.size() > 1 && numbered(points.front()->spec).number.has_value();
    for (double SweepPoint::*value : {&SweepPoint::loss, &SweepPoint::bleu}) {
      if (value == &SweepPoint::bleu && sweep.beam_size == 0) continue;
      analysis::PlotCurve curve{plot.names.size(), {}};
      if (is_curve) {
        for (const SweepPoint* point : points) curve.points.emplace_back(*numbered(point->spec).number, point->*value);
        std::sort(curve.points.begin(), curve.points.end());
      } else {
        curve.points = {{low, points.front()->*value}, {high, points.front()->*value}};
        curve.is_level = true;
      }
      plot.panels[value == &SweepPoint::loss ? 0 : 1].curves.push_back(std::move(curve));
    }
    plot.names.push_back(is_curve ? family : points.front()->spec);
  }
  return plot;
}

void write_sweep(const AnalysisOptions& options, const Sweep& sweep) {
  LineWriter output("-");
  output.write(options.json ? sweep_json(sweep) : sweep_table(sweep));
  output.close();
  if (options.output != "-") write_file(options.output, analysis::svg(sweep_plot(sweep)));
}

}  // namespace fovea::inspect

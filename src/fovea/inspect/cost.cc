#include "fovea/inspect/cost.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "fovea/analysis/cost.h"
#include "fovea/base/aligned_table.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/inspect/sweep.h"
#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/layer_override.h"

namespace fovea::inspect {
namespace {

using CostJson = nlohmann::ordered_json;

// The cost of one layer's attention under one mechanism, at one length.
struct CostRecord {
  std::string spec;  // as given; "trained" for the model's own
  Sublayer sublayer = Sublayer::kDecoder;
  int64_t layer = 0;  // from 1
  std::string mechanism;
  int64_t length = 0;
  analysis::AttentionCost cost;
  double projection_flops = 0;
};

// 1234567 -> "1.235 M".
std::string scaled(double value) {
  constexpr double kStep = 1000;
  constexpr std::array kUnits = {"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  while (value >= kStep && unit + 1 < kUnits.size()) value /= kStep, ++unit;
  return fixed(value, unit == 0 ? 0 : 3) + kUnits[unit];
}

bool is_same_row(const CostRecord& a, const CostRecord& b) {
  return a.spec == b.spec && a.sublayer == b.sublayer && a.length == b.length && a.mechanism == b.mechanism;
}

std::string speed_table(const std::vector<SpeedRecord>& speeds) {
  std::vector<std::vector<std::string>> rows = {{"spec", "tenth", "source tokens", "pairs", "training", "decoding"}};
  for (const SpeedRecord& s : speeds) {
    rows.push_back({s.spec, std::to_string(s.group), cat(s.shortest, "-", s.longest), std::to_string(s.pairs),
                    fixed(s.training, 0), fixed(s.decoding, 0)});
  }
  return aligned_table(std::move(rows)) +
         "\ntraining, decoding: target tokens a second, of a forward and backward pass in batches, and of a "
         "translation "
         "of one sentence at a time; pairs in ten equal groups by source length\n";
}

std::string speed_table(const std::vector<LengthSpeedRecord>& speeds) {
  std::vector<std::vector<std::string>> rows = {{"spec", "length", "segments", "training", "decoding"}};
  for (const LengthSpeedRecord& s : speeds) {
    rows.push_back(
        {s.spec, std::to_string(s.length), std::to_string(s.segments), fixed(s.training, 0), fixed(s.decoding, 0)});
  }
  return aligned_table(std::move(rows)) +
         "\ntraining, decoding: units a second, of a forward and backward pass over segments of that length, and of "
         "one text of that length made unit by unit\n";
}

// Operations for a token of the layer's products with its parameters: queries, keys, values and the output, which have
// the width of their heads; a gate, and b and g of ASEntmax; and the indexer of dsa(k), which reads queries and keys.
double projections_of(const LayerSpec& mechanism, const ModelConfig& model) {
  const int64_t heads = model.transformer_heads, head_dim = head_dim_of(model);
  const int64_t key_heads = model.transformer_heads_kv == 0 ? heads : model.transformer_heads_kv;
  const std::optional<OutputGate>& gate = mechanism.front().spec.gate;
  const int64_t gates = !gate ? 0 : gate->per == OutputGate::Per::kHead ? heads : heads * head_dim;
  const int64_t scales = parameters_of(mechanism).scale_by_input ? 2 * heads : 0;
  double products =
      static_cast<double>(model.dim_emb) * static_cast<double>((2 * heads + 2 * key_heads) * head_dim + gates + scales);
  if (mechanism.front().spec.indexed()) {
    const int64_t index_heads = index_heads_of(model, heads);
    products += static_cast<double>(heads * head_dim * index_heads * (model.index_width + 1) +
                                    key_heads * head_dim * model.index_width);
  }
  return 2 * products;
}

// Adds the records of a model's attentions, with as many keys as queries.
void add_records(const std::string& spec, const ModelConfig& model, const std::vector<int64_t>& lengths,
                 std::vector<CostRecord>& records) {
  const int64_t heads = model.transformer_heads, head_dim = head_dim_of(model);
  const int64_t key_heads = model.transformer_heads_kv == 0 ? heads : model.transformer_heads_kv;
  for (const int64_t length : lengths) {
    for (const Sublayer sublayer : sublayers_of(model)) {
      analysis::AttentionCost last;
      std::string last_mechanism;
      for (int64_t layer = 0; layer < depth_of(model, sublayer); ++layer) {
        const LayerSpec own = resolve(attention_of(model, sublayer, layer), heads);
        CostRecord record{spec, sublayer, layer + 1, print(own), length, {}, 0};
        if (record.mechanism != last_mechanism) {
          last = analysis::cost_of(own, {.kind = kind_of(sublayer),
                                         .queries = length,
                                         .keys = length,
                                         .head_dim = head_dim,
                                         .index_width = index_heads_of(model, heads) * model.index_width,
                                         .key_heads = key_heads});
          last_mechanism = record.mechanism;
        }
        record.cost = last;
        record.projection_flops = static_cast<double>(length) * projections_of(own, model);
        records.push_back(std::move(record));
      }
    }
  }
}

std::string cost_table(const std::vector<CostRecord>& costs, const CostSpeeds& speeds) {
  std::vector<std::vector<std::string>> rows = {{"spec", "length", "kind", "layers", "scored", "weighted", "scores",
                                                 "transform", "values", "FLOPs", "bytes", "projections"}};
  for (size_t first = 0, last = 0; first < costs.size(); first = last) {
    while (last < costs.size() && is_same_row(costs[first], costs[last])) ++last;
    const CostRecord& r = costs[first];
    const std::string layers = last - first == 1 ? std::to_string(r.layer) : cat(r.layer, "-", costs[last - 1].layer);
    rows.push_back({r.spec, std::to_string(r.length), std::string(name_of(r.sublayer)), layers, scaled(r.cost.scored),
                    scaled(r.cost.weighted), scaled(r.cost.score_flops), scaled(r.cost.transform_flops),
                    scaled(r.cost.value_flops), scaled(r.cost.flops()), scaled(r.cost.bytes),
                    scaled(r.projection_flops)});
  }
  std::string text = aligned_table(std::move(rows)) +
                     "\nof each layer, all heads, one sequence of that many queries and keys, forward. scored, "
                     "weighted: pairs whose score is computed, and that are left after the selection; scores, "
                     "transform, values and projections: operations (FLOPs are the first three); bytes: q, k, v, "
                     "output and lists of selected pairs, once each\n";
  if (!speeds.by_source.empty()) text += "\n" + speed_table(speeds.by_source);
  if (!speeds.by_length.empty()) text += "\n" + speed_table(speeds.by_length);
  return text;
}

std::string cost_json(const std::vector<CostRecord>& costs, const CostSpeeds& speeds) {
  CostJson object = {{"records", CostJson::array()}};
  for (const CostRecord& r : costs) {
    object["records"].push_back({{"spec", r.spec},
                                 {"mechanism", r.mechanism},
                                 {"kind", name_of(r.sublayer)},
                                 {"layer", r.layer},
                                 {"length", r.length},
                                 {"scored", r.cost.scored},
                                 {"weighted", r.cost.weighted},
                                 {"score_flops", r.cost.score_flops},
                                 {"transform_flops", r.cost.transform_flops},
                                 {"value_flops", r.cost.value_flops},
                                 {"flops", r.cost.flops()},
                                 {"bytes", r.cost.bytes},
                                 {"projection_flops", r.projection_flops}});
  }
  if (!speeds.by_source.empty() || !speeds.by_length.empty()) object["speeds"] = CostJson::array();
  for (const LengthSpeedRecord& s : speeds.by_length) {
    object["speeds"].push_back({{"spec", s.spec},
                                {"length", s.length},
                                {"segments", s.segments},
                                {"training", s.training},
                                {"decoding", s.decoding}});
  }
  for (const SpeedRecord& s : speeds.by_source) {
    object["speeds"].push_back({{"spec", s.spec},
                                {"group", s.group},
                                {"pairs", s.pairs},
                                {"shortest", s.shortest},
                                {"longest", s.longest},
                                {"training", s.training},
                                {"decoding", s.decoding}});
  }
  return object.dump(-1, ' ', false, CostJson::error_handler_t::replace) + "\n";
}

}  // namespace

void write_costs(const AnalysisOptions& options, const AttentionOverride& mechanisms, const ModelConfig& trained,
                 const MeasureSpeeds& measure) {
  std::vector<std::string> entries = options.sweep;
  if (entries.empty()) entries.emplace_back();
  LineWriter output(options.output);
  std::vector<CostRecord> costs;
  CostSpeeds speeds;
  for (const std::string& entry : entries) {
    const AttentionOverride own = entry.empty() ? mechanisms : override_by(mechanisms, entry);
    const std::string spec = entry.empty() ? "trained" : entry;
    // Costs follow from the configuration alone, so the model need not have the parameters of a mechanism such as
    // rela-g.
    add_records(spec, own == AttentionOverride{} ? trained : with_attention(trained, own), options.lengths, costs);
    if (!options.train_sets.empty()) measure(own, spec, speeds);
  }
  output.write(options.json ? cost_json(costs, speeds) : cost_table(costs, speeds));
  output.close();
}

}  // namespace fovea::inspect

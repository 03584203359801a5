#include "fovea/inspect/attention_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/analysis/chosen_keys.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/attention/dropout.h"
#include "fovea/models/diverged.h"

namespace fovea::inspect {
namespace {

std::string_view kind_name(AttentionKind kind) {
  if (kind == AttentionKind::kCross) return "cross";
  return kind == AttentionKind::kCausal ? "decoder" : "encoder";
}

double ratio(double part, double whole) { return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN(); }
double ratio(int64_t part, int64_t whole) { return ratio(static_cast<double>(part), static_cast<double>(whole)); }

// A sort of heads: "routed", "local", or the spec of others.
std::string sort_of(const AttentionSpec& spec) {
  if (spec.route()) return "routed";
  const bool is_local = spec.pairs().op == Pairs::Op::kLeaf && (std::holds_alternative<Local>(spec.pairs().leaf) ||
                                                                std::holds_alternative<Window>(spec.pairs().leaf) ||
                                                                std::holds_alternative<Blocks>(spec.pairs().leaf));
  AttentionSpec plain = spec;
  plain.norm = NoNorm{};
  return is_local ? "local" : print(plain);
}

}  // namespace

// One layer's attention of one kind.
struct AttentionStatistics::Place {
  // Drawn pairs of heads of two sorts.
  struct HeadPairs {
    std::string name;           // "local-routed"
    std::vector<size_t> draws;  // places in LayerMeasures::Options::head_pairs
  };
  LayerSpec spec;
  std::vector<const AttentionSpec*> heads;
  std::vector<uint64_t> streams;  // of patterns that draw
  std::vector<HeadPairs> sorts;
  std::unique_ptr<analysis::LayerMeasures> measures;
  struct Clusters {
    int64_t rows = 0, none = 0, several = 0, lists = 0, members = 0;
  };
  std::vector<Clusters> clusters;  // [H]
  bool has_clusters = false, has_end = false;
  // Buffers of each(), kept for their memory.
  std::vector<float> merged;
  std::vector<int64_t> underflow;

  void draw_pairs(const Options& options, uint64_t stream, analysis::LayerMeasures::Options& out);
  void add_clusters(const nn::SeenAttention& seen);
};

void AttentionStatistics::Place::draw_pairs(const Options& options, uint64_t stream,
                                            analysis::LayerMeasures::Options& out) {
  std::map<std::string, std::vector<int64_t>> members;
  for (size_t h = 0; h < heads.size(); ++h) members[sort_of(*heads[h])].push_back(static_cast<int64_t>(h));
  if (members.size() < 2) return;
  Rng rng(hash_combine(static_cast<uint64_t>(options.seed), stream));
  for (auto a = members.begin(); a != members.end(); ++a) {
    for (auto b = a; b != members.end(); ++b) {
      if (a == b && a->second.size() < 2) continue;
      HeadPairs pairs{cat(a->first, "-", b->first), {}};
      for (int64_t i = 0; i < options.draws; ++i) {
        const size_t first = rng.below(a->second.size());
        // If both heads are of one sort, the second is another head than the first.
        size_t second = rng.below(b->second.size() - (a == b ? 1 : 0));
        if (a == b && second >= first) ++second;
        const std::pair pair(a->second[first], b->second[second]);
        const auto found = std::find(out.head_pairs.begin(), out.head_pairs.end(), pair);
        pairs.draws.push_back(static_cast<size_t>(found - out.head_pairs.begin()));
        if (found == out.head_pairs.end()) out.head_pairs.push_back(pair);
      }
      sorts.push_back(std::move(pairs));
    }
  }
}

void AttentionStatistics::Place::add_clusters(const nn::SeenAttention& seen) {
  const auto* offsets = seen.options.q_offsets->const_data_ptr<int64_t>();
  const int64_t begin = offsets[0], end = offsets[seen.options.q_offsets->numel() - 1];
  for (const ops::RoutedRows& rows : seen.routed) {
    has_clusters = true;
    for (int64_t h = 0; h < rows.heads; ++h) {
      Clusters& sums = clusters[static_cast<size_t>(rows.first_head + h)];
      sums.rows += end - begin;
      for (int64_t token = begin; token < end; ++token) {
        const int32_t count = rows.clusters[static_cast<size_t>(token * rows.heads + h)];
        sums.none += count == 0 ? 1 : 0, sums.several += count > 1 ? 1 : 0;
      }
      sums.lists += rows.lists[static_cast<size_t>(h)], sums.members += rows.members[static_cast<size_t>(h)];
    }
  }
}

AttentionStatistics::Place& AttentionStatistics::place_of(const nn::SeenAttention& seen) {
  std::shared_ptr<Place>& place = places_[{seen.place.kind, seen.place.layer}];
  if (place) return *place;
  place = std::make_shared<Place>();
  place->spec = resolve(seen.spec, seen.place.heads);
  analysis::LayerMeasures::Options options{.rectified = {}, .taus = options_.taus};
  for (const HeadGroup& group : place->spec) {
    for (int64_t i = 0; i < group.num_heads; ++i) {
      place->streams.push_back(
          kernels::pattern_stream(static_cast<uint64_t>(seen.place.seed), seen.place.layer, std::ssize(place->heads)));
      place->heads.push_back(&group.spec);
      options.rectified.push_back(is_pointwise(group.spec.transform));
    }
  }
  place->draw_pairs(options_, static_cast<uint64_t>(seen.place.layer), options);
  place->clusters.resize(place->heads.size());
  place->measures = std::make_unique<analysis::LayerMeasures>(std::move(options));
  return *place;
}

namespace {

// Joins the queries of one sequence to units, as its blocks come in. Sums over the tokens of a key, means over those of
// a query.
class UnitRows {
 public:
  UnitRows(const SequenceUnits& units, const std::vector<const AttentionSpec*>& heads,
           const std::vector<uint64_t>& streams)
      : units_(units), heads_(heads), streams_(streams) {}

  void add(const nn::WeightBlock& block, AttentionKind kind, analysis::LayerMeasures& out) {
    const bool merges = !units_.queries.empty();
    for (int64_t i = 0; i < block.queries; ++i) {
      const int64_t query = block.first_query + i;
      const Row row{.query = kind == AttentionKind::kCross ? query : block.first_position + query,
                    .keys = block.keys,
                    .causal = kind == AttentionKind::kCausal};
      const float* weights = block.data + i * block.row_stride;
      for (int64_t h = 0; h < block.heads; ++h) check_finite({weights + h * block.head_stride, size(row.limit())});
      if (merges) {
        const int32_t unit = units_.queries[size(query)];
        if (unit != unit_) flush(out);
        unit_ = unit;
        merge(row, weights, block);
        continue;
      }
      underflow_.clear();
      for (int64_t h = 0; h < block.heads; ++h)
        underflow_.push_back(analysis::lost_keys(
            row_of_head(row, h), {weights + h * block.head_stride, size(row.limit())}, *heads_[size(h)]));
      analysis::QueryWeights one;
      one.rows = {weights, block.heads, block.head_stride, row.limit()};
      one.position = static_cast<double>(row.query);
      show(one, query, out);
    }
  }

  // The last unit, when all blocks have come.
  void flush(analysis::LayerMeasures& out) {
    if (unit_ < 0 || rows_ == 0) return;
    const auto heads = std::ssize(heads_);
    for (float& weight : sums_) weight /= static_cast<float>(rows_);
    underflow_.assign(size(heads), 0);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t j = 0; j < keys_; ++j) {
        const size_t at = size(h * stride_ + j);
        if (sums_[at] == 0 && lost_[at] != 0) ++underflow_[size(h)];
      }
    }
    analysis::QueryWeights one;
    one.rows = {sums_.data(), heads, stride_, keys_};
    one.position = static_cast<double>(units_.first_position + unit_);
    show(one, unit_, out);
    rows_ = 0, keys_ = 0;
    std::fill(sums_.begin(), sums_.end(), 0.0F);
    std::fill(lost_.begin(), lost_.end(), uint8_t{0});
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }
  static void check_finite(std::span<const float> row) {
    if (!std::all_of(row.begin(), row.end(), [](float weight) { return std::isfinite(weight); }))
      models::refuse_diverged();
  }
  Row row_of_head(Row row, int64_t head) const {
    row.stream = streams_[size(head)];
    return row;
  }

  void merge(const Row& row, const float* weights, const nn::WeightBlock& block) {
    if (sums_.empty()) {
      stride_ = units_.keys[size(block.keys - 1)] + 1;
      sums_.assign(size(block.heads * stride_), 0.0F);
      lost_.assign(sums_.size(), 0);
    }
    ++rows_;
    const int64_t limit = row.limit();
    if (limit > 0) keys_ = std::max<int64_t>(keys_, units_.keys[size(limit - 1)] + 1);
    for (int64_t h = 0; h < block.heads; ++h) {
      const std::span<const float> own(weights + h * block.head_stride, size(limit));
      float* sums = sums_.data() + h * stride_;
      for (size_t j = 0; j < own.size(); ++j) sums[units_.keys[j]] += own[j];
      mark_lost(row_of_head(row, h), own, h);
    }
  }

  // The keys that softmax's underflow took are known if nothing was selected.
  void mark_lost(const Row& row, std::span<const float> weights, int64_t head) {
    const AttentionSpec& spec = *heads_[size(head)];
    if (spec.selects() || analysis::lost_keys(row, weights, spec) == 0) return;
    for (const Span& span : spans(spec.pairs(), row)) {
      for (int64_t j = span.begin; j < span.end; ++j) {
        if (weights[size(j)] == 0) lost_[size(head * stride_ + units_.keys[size(j)])] = 1;
      }
    }
  }

  void show(analysis::QueryWeights& one, int64_t unit, analysis::LayerMeasures& out) {
    one.underflow = underflow_;
    one.end_key = units_.end_key, one.last_begin = units_.last_begin, one.last_end = units_.last_end;
    if (!units_.labels.empty()) one.label = units_.labels[size(unit)];
    out.add(one);
  }

  const SequenceUnits& units_;
  const std::vector<const AttentionSpec*>& heads_;
  const std::vector<uint64_t>& streams_;
  int64_t unit_ = -1, rows_ = 0, keys_ = 0, stride_ = 0;  // of the unit that is being joined
  std::vector<float> sums_;                               // [H, units of keys]
  std::vector<uint8_t> lost_;
  std::vector<int64_t> underflow_;  // [H]
};

}  // namespace

void AttentionStatistics::add(const nn::SeenAttention& seen, const UnitsOf& units_of) {
  Place& place = place_of(seen);
  place.add_clusters(seen);
  SequenceUnits units;
  std::unique_ptr<UnitRows> rows;
  int64_t sequence = -1;
  nn::each_weight_block(seen, [&](const nn::WeightBlock& block) {
    if (block.sequence != sequence) {
      if (rows) rows->flush(*place.measures);
      sequence = block.sequence;
      units = units_of(seen.place.kind, sequence);
      place.has_end = place.has_end || units.end_key >= 0;
      rows = std::make_unique<UnitRows>(units, place.heads, place.streams);
    }
    rows->add(block, seen.place.kind, *place.measures);
  });
  if (rows) rows->flush(*place.measures);
}

std::vector<AttentionRecord> AttentionStatistics::records() const {
  std::vector<AttentionRecord> records;
  std::map<AttentionKind, int64_t> layers;
  for (const auto& [key, place] : places_) {
    const analysis::LayerMeasures& measures = *place->measures;
    const int64_t layer = ++layers[key.first];
    for (int64_t head = 0; head <= measures.num_heads(); ++head) {
      const analysis::RowSums& sums = head == 0 ? measures.layer() : measures.head(head - 1);
      AttentionRecord record{std::string(kind_name(key.first)), layer, head, {}};
      Figures& figures = record.figures;
      const auto by_row = [&](double sum) { return ratio(sum, static_cast<double>(sums.weighted_rows())); };
      figures = {{"zeros", ratio(sums.zeros, sums.pairs)},        {"underflow", ratio(sums.underflow, sums.pairs)},
                 {"null_rate", ratio(sums.null_rows, sums.rows)}, {"entropy", by_row(sums.entropy)},
                 {"kept", ratio(sums.kept(), sums.rows)},         {"distance", by_row(sums.distance)}};
      if (place->has_end) {
        figures.emplace_back("on_eos", by_row(sums.on_end));
        figures.emplace_back("on_last_word", by_row(sums.on_last));
      }
      if (head > 0 && std::holds_alternative<Sink>(place->heads[static_cast<size_t>(head - 1)]->transform))
        figures.emplace_back("sink", 1 - ratio(sums.given, static_cast<double>(sums.rows)));
      if (head == 0) {
        double zeros = 0, nulls = 0;
        for (int64_t h = 0; h < measures.num_heads(); ++h) {
          zeros += ratio(measures.head(h).zeros, measures.head(h).pairs);
          nulls += ratio(measures.head(h).null_rows, measures.head(h).rows);
        }
        const auto heads = static_cast<double>(measures.num_heads());
        figures.emplace_back("mean_zeros", zeros / heads);
        figures.emplace_back("mean_null_rate", nulls / heads);
        figures.emplace_back("null_variance", measures.null_variance());
        for (size_t t = 0; t < options_.taus.size(); ++t)
          figures.emplace_back(t == 0 ? "diversity" : cat("diversity_tau_", options_.taus[t]), measures.diversity(t));
      }
      if (head > 0 && place->clusters[static_cast<size_t>(head - 1)].lists > 0) {
        const Place::Clusters& clusters = place->clusters[static_cast<size_t>(head - 1)];
        figures.emplace_back("no_cluster", ratio(clusters.none, clusters.rows));
        figures.emplace_back("several_clusters", ratio(clusters.several, clusters.rows));
        figures.emplace_back("cluster_size", ratio(clusters.members, clusters.lists));
      }
      figures.emplace_back("rows", static_cast<double>(sums.rows));
      figures.emplace_back("rows_with_weight", static_cast<double>(sums.weighted_rows()));
      figures.emplace_back("pairs", static_cast<double>(sums.pairs));
      records.push_back(std::move(record));
    }
  }
  return records;
}

std::vector<SortRecord> AttentionStatistics::sorts() const {
  std::vector<SortRecord> records;
  std::map<AttentionKind, int64_t> layers;
  for (const auto& [key, place] : places_) {
    const int64_t layer = ++layers[key.first];
    for (const Place::HeadPairs& sort : place->sorts) {
      double sum = 0, squares = 0;
      for (const size_t pair : sort.draws) {
        const double value = place->measures->pair_divergence(pair);
        sum += value, squares += value * value;
      }
      const auto draws = static_cast<double>(sort.draws.size());
      const double mean = sum / draws, variance = squares / draws - mean * mean;
      records.push_back(
          {std::string(kind_name(key.first)),
           layer,
           sort.name,
           {{"divergence", mean},
            {"divergence_deviation", std::isnan(variance) ? variance : std::sqrt(std::max(0.0, variance))},
            {"draws", draws}}});
    }
  }
  return records;
}

std::vector<LabelRecord> AttentionStatistics::labels() const {
  std::vector<LabelRecord> records;
  std::map<AttentionKind, int64_t> layers;
  for (const auto& [key, place] : places_) {
    const int64_t layer = ++layers[key.first];
    for (const auto& [label_and_head, sums] : place->measures->by_label()) {
      records.push_back({std::string(kind_name(key.first)),
                         layer,
                         label_and_head.second + 1,
                         label_and_head.first,
                         {{"null_rate", ratio(sums.null_rows, sums.rows)},
                          {"zeros", ratio(sums.zeros, sums.pairs)},
                          {"rows", static_cast<double>(sums.rows)},
                          {"pairs", static_cast<double>(sums.pairs)}}});
    }
  }
  return records;
}

}  // namespace fovea::inspect

#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/spec/attention_kind.h"
#include "fovea/spec/norms.h"
#include "fovea/spec/output_gate.h"
#include "fovea/spec/patterns.h"
#include "fovea/spec/query_scale.h"
#include "fovea/spec/score_cap.h"
#include "fovea/spec/selections.h"
#include "fovea/spec/transforms.h"

// An attention mechanism as a value: which pairs may attend, whether scores are capped, which of them are selected, how
// they become weights, how the output is normalised and gated, and whether queries are scaled by their numbers of
// candidates.
//     spec   = (source | stage) { "+" stage }
//     source = pairs | routed | blocktopk | dsa | clause | mix
//     pairs  = both { "|" both }                  union
//     both   = atom { "&" atom }                  intersection, binds tighter
//     atom   = name [ "(" args ")" ] | "(" pairs ")"
// A source left out is full; stages come in any order, each kind once.
// docs/attention.md lists the names; patterns.h, selections.h, transforms.h and norms.h define them, one struct each.
namespace fovea {

// A tree of patterns. A leaf holds one pattern; an inner node the union or intersection of its parts.
struct Pairs {
  enum class Op : uint8_t { kLeaf, kUnion, kIntersection };
  Op op = Op::kLeaf;
  Pattern leaf = Full{};
  std::vector<Pairs> parts;
  bool operator==(const Pairs&) const = default;
  bool is_full() const { return op == Op::kLeaf && std::holds_alternative<Full>(leaf); }
};

inline Pairs leaf(Pattern pattern) { return {Pairs::Op::kLeaf, std::move(pattern), {}}; }

// Routing attention (Roy, Saffar, Vaswani, Grangier 2021), "routed(c,w)": queries and keys are put into c clusters by
// online k-means, and attention runs within each cluster. The stages after it act within a cluster, where a token's
// position is its rank among the members.
struct Routed {
  enum class Members : uint8_t {
    kBest,    // each cluster takes the w tokens nearest to its centroid, in the whole sequence
    kCausal,  // each query and key joins its nearest cluster; a query sees the last w keys there up to itself
    kRandom,  // as kBest, but each cluster takes w tokens at random
  };
  int64_t clusters = 1, window = 1;
  Members members = Members::kBest;

  static constexpr std::string_view kName = "routed", kExample = "routed(16,256)",
                                    kHelp =
                                        "online k-means: the `window` tokens nearest to each centroid; causal: "
                                        "the last of the query's cluster; random: any";
  static constexpr std::array kNames{kName};
  static constexpr auto fields() {
    return std::tuple(PatternField<Routed>{"clusters", &Routed::clusters, 1},
                      PatternField<Routed>{"window", &Routed::window, 1},
                      WordField<Routed, Members>{&Routed::members, "causal|random"});
  }
  bool is_causal() const { return members == Members::kCausal; }
  // The clusters' centroids are part of the model.
  bool has_centroids() const { return members != Members::kRandom; }
  bool operator==(const Routed&) const = default;
};

// Attention to chosen blocks, "blocktopk(b,k)": the keys of a sequence are in blocks of b, counted from its first key.
// Each query sees its own block and the k - 1 others with the greatest scores, in causal attention earlier ones. Blocks
// that equal the last one are all seen. A block's score is the query times the mean of its keys (MoBA, Lu et al. 2025),
// or with `bounds` the least upper bound of the products with its keys that follows from their least and greatest
// numbers (Quest, Tang et al. 2024). It has no scale and no terms by offset, and no gradient flows through the choice.
struct BlockChoice {
  enum class Score : uint8_t { kMean, kBounds };
  int64_t block = 1, best = 1;
  Score score = Score::kMean;

  static constexpr std::string_view
      kName = "blocktopk",
      kExample = "blocktopk(64,16)",
      kHelp =
          "the query's own block of `block` keys and the `best` - 1 others with the greatest "
          "scores, by means or bounds";
  static constexpr std::array kNames{kName};
  static constexpr auto fields() {
    return std::tuple(PatternField<BlockChoice>{"block", &BlockChoice::block, 1},
                      PatternField<BlockChoice>{"best", &BlockChoice::best, 1},
                      WordField<BlockChoice, Score>{&BlockChoice::score, "bounds"});
  }
  bool operator==(const BlockChoice&) const = default;
};

// Attention to keys that an indexer chooses, "dsa(k)" (DeepSeek sparse attention, DeepSeek-V3.2, 2025): small heads
// score all keys, and every head of the layer sees the k best of each query, of equal scores the earlier ones. The
// indexer learns by a loss of its own (nn/indexer.h), so that it is a part of a layer, and the function of q, k and v
// refuses it.
struct IndexedKeys {
  int64_t count = 1;

  static constexpr std::string_view kName = "dsa", kExample = "dsa(64)",
                                    kHelp = "the `k` keys that a learned indexer chooses for all heads (DeepSeek-V3.2)";
  static constexpr std::array kNames{kName};
  static constexpr auto fields() { return std::tuple(PatternField<IndexedKeys>{"k", &IndexedKeys::count, 1}); }
  bool operator==(const IndexedKeys&) const = default;
};

// Clause attention: each query sees the keys of its own clause at a level, "clause(l)", or a mixture of all keys and of
// clauses at rising levels, "mix(full,clause(1),clause(2))". The stages after it act in each part of a mixture, and the
// norm on the mixture.
struct ClauseAttention {
  // The weight p of each level of a mixture, where the outputs y_0 (all keys), y_1, ... y_L give
  // (1 - p_1) y_0 + p_1 ((1 - p_2) y_1 + p_2 (... + p_L y_L)).
  enum class Weights : uint8_t {
    kAlone,     // no mixture: one level
    kLearned,   // sigmoid of a parameter per head and level
    kConstant,  // `constant`
    kByToken,   // sigmoid of a linear function of the query's layer input, per head and level
  };
  std::vector<int64_t> levels;  // rising, from 1
  Weights weights = Weights::kAlone;
  double constant = 0.5;

  static constexpr std::string_view kClause = "clause", kMix = "mix", kExample = "clause(1)",
                                    kArguments = "full,clause(1),clause(2)",
                                    kClauseHelp = "the keys of the query's clause at a level; encoder alone",
                                    kMixHelp =
                                        "all keys and clauses, mixed with learned weights; a last argument "
                                        "constant(P) or token gives others; encoder alone";
  static constexpr std::array kNames{kClause, kMix};
  static constexpr int64_t kMaxLevel = 6;
  bool is_mixture() const { return weights != Weights::kAlone; }
  bool operator==(const ClauseAttention&) const = default;
};

// The source of a query's candidates: patterns over positions, or a mechanism that stands alone and reads the data or
// the text. The latter have
//     kNames, kExample  the names that they begin with, and how one is written
//     fields()          as those of a pattern, unless parser, printer and help have an overload of their own
using Source = std::variant<Pairs, Routed, BlockChoice, IndexedKeys, ClauseAttention>;

struct AttentionSpec {
  Source source;
  Selection selection;
  std::optional<Pairs> keep;  // candidates that stay on top of those selected; only beside a selection
  Transform transform;
  Norm norm;
  std::optional<QueryScale> scale;
  std::optional<OutputGate> gate;
  std::optional<ScoreCap> cap;
  bool operator==(const AttentionSpec&) const = default;
  // The source if it is of this kind. If it is not, pairs() are full and the others null.
  const Pairs& pairs() const;
  const Routed* route() const { return std::get_if<Routed>(&source); }
  const BlockChoice* blocks() const { return std::get_if<BlockChoice>(&source); }
  const IndexedKeys* indexed() const { return std::get_if<IndexedKeys>(&source); }
  const ClauseAttention* clauses() const { return std::get_if<ClauseAttention>(&source); }
  bool selects() const { return fovea::selects(selection); }
  const TopK* top_k() const { return std::get_if<TopK>(&selection); }
};

// Whether the keys are the queries, under --routing-keys `keys`: auto, shared or own.
inline bool shares_keys(const Routed& route, AttentionKind kind, std::string_view keys) {
  if (kind == AttentionKind::kCross) return false;
  return keys == "shared" || (keys == "auto" && (kind == AttentionKind::kCausal || route.is_causal()));
}

// Whether keys that are not the queries are limited to those up to their query: their ranks within a cluster say
// nothing about positions, so such a mechanism compares positions in the sequence.
inline bool limits_own_keys(const Routed& route, AttentionKind kind, std::string_view keys) {
  if (kind == AttentionKind::kCross || shares_keys(route, kind, keys)) return false;
  return kind == AttentionKind::kCausal || route.is_causal();
}

// what() has three lines: the sentence with the column, the text, a caret under the column.
class SpecError : public UsageError {
 public:
  SpecError(const std::string& message, size_t column) : UsageError(message), column_(column) {}
  size_t column() const { return column_; }  // from 1

 private:
  size_t column_;
};

// The result is canonical.
AttentionSpec parse_attention(std::string_view text);
// Nested unions (intersections) flattened, repeated parts and what `full` makes idle left out, entmax(1) softmax,
// entmax(2) sparsemax. A spec built by hand may not be canonical; what is parsed is.
AttentionSpec canonical(AttentionSpec spec);
// Prints canonical(spec): parse_attention(print(s)) == canonical(s); defaults left out, no spaces.
std::string print(const AttentionSpec& spec);
std::string print(const Pairs& pairs);
size_t hash_value(const AttentionSpec& spec);

// The adaptive span of a spec, or null. A spec that has one has no other pattern, weighs with softmax, and may select
// with topk(k); its term by_head is the logarithm of the mask, which so takes part in the selection.
const AdaptiveSpan* adaptive_span(const AttentionSpec& spec);

// Throws an Error (without a column) if `spec` does not fit this kind: positions on cross-attention, an adaptive span
// that is not causal or that has a part which it does not take.
void validate(const AttentionSpec& spec, AttentionKind kind);

// THE definition of the pairs: row.query may attend to `key`. The causal limit is applied here (row.causal).
bool contains(const Pairs& pairs, const Row& row, int64_t key);
// Returns the keys of contains() as sorted, disjoint, non-touching half-open ranges of [0, row.keys).
std::vector<Span> spans(const Pairs& pairs, const Row& row);
// Returns the number of these keys.
int64_t candidate_count(const Pairs& pairs, const Row& row);
// A pattern of the tree draws keys at random: pairs depend on Row::stream, and so on the head, on cross-attention too.
bool uses_random(const Pairs& pairs);
bool uses_random(const AttentionSpec& spec);  // what topk keeps included

// One mechanism per head: "4*local(256);4*topk(8)"; without a count, a single spec for all heads.
struct HeadGroup {
  int64_t num_heads = 0;  // 0: all heads of the layer
  AttentionSpec spec;
  bool operator==(const HeadGroup&) const = default;
};
using LayerSpec = std::vector<HeadGroup>;
LayerSpec parse_layer_spec(std::string_view text);
std::string print(const LayerSpec& spec);
bool uses_random(const LayerSpec& spec);
// The name of a pattern of `spec` that counts positions from the first key (kFromStart), or nothing.
std::string_view counts_from_start(const LayerSpec& spec);
// Groups with their counts filled in; throws unless they add up to num_heads and fit together.
LayerSpec resolve(const LayerSpec& spec, int64_t num_heads);
// Returns the mechanism for cross-attention, whose queries and keys belong to two texts: without patterns that compare
// positions, chosen blocks, an indexer and clauses, and routed(c,w) for routed(c,w,causal). Others stay the same.
LayerSpec across_texts(LayerSpec spec);
// Throws when groups do not fit in one layer: they differ in their norm, which is over the outputs of all heads, or in
// their gate behind it; one has an indexer, whose choice is for all heads; or clauses stand beside routed heads.
void require_groups_fit(const LayerSpec& spec);
// The mechanism as a function of q, k and v, which has no gate, does not scale queries, and has all pairs in the place
// of an indexer, whose choice comes with the call.
LayerSpec without_layer_stages(LayerSpec spec);

// An argument that has to be given: a whole number in [min, max], a multiple of `step`; where that is 0, any number in
// [min, max]. `keyword`, unless empty, may stand in its place.
struct SpecArgument {
  std::string name;
  double min = 1, max = 0;
  int64_t step = 1;
  std::string keyword;
};

// For help texts, documentation and derived tests: every name with its arguments and one line of help.
struct SpecName {
  std::string name, arguments, help;  // arguments as help texts write them: "k[,keep=PAIRS]"
  std::vector<SpecArgument> fields = {};
};
std::vector<SpecName> pattern_names();
std::vector<SpecName> transform_names();
std::vector<SpecName> stage_names();  // the cap, selections, transforms, norms, the scale and the gate
std::vector<SpecName> alias_names();
std::vector<SpecName> clause_names();    // what stands in the place of all pairs of an encoder
std::vector<SpecName> choosing_names();  // what stands in the place of all pairs and reads the data

}  // namespace fovea

#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/spec/attention_kind.h"
#include "fovea/spec/clause_attention.h"
#include "fovea/spec/norms.h"
#include "fovea/spec/patterns.h"
#include "fovea/spec/routed.h"
#include "fovea/spec/transforms.h"

// An attention mechanism as a value: which pairs may attend, which of them are selected, how scores become weights,
// how the output is normalised.
//     spec   = (source | stage) { "+" stage }
//     source = pairs | routed | clause | mix
//     pairs  = both { "|" both }                  union
//     both   = atom { "&" atom }                  intersection, binds tighter
//     atom   = name [ "(" args ")" ] | "(" pairs ")"
// A source left out is full; stages come in any order, each kind once.
// docs/attention.md lists the names; patterns.h, transforms.h and norms.h define them, one struct each.
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

// The k best candidates, ties at the k-th score all kept; candidates in `keep` stay on top of the k.
struct TopK {
  int64_t k = 1;
  std::optional<Pairs> keep;
  bool operator==(const TopK&) const = default;
};

// The source of a query's candidates: patterns over positions, or a mechanism that stands alone and reads the data or
// the text. The latter have
//     kNames, kExample  the names that they begin with, and how one is written
//     fields()          as those of a pattern, unless parser, printer and help have an overload of their own
using Source = std::variant<Pairs, Routed, ClauseAttention>;

struct AttentionSpec {
  Source source;
  std::optional<TopK> select;
  Transform transform;
  Norm norm;
  bool operator==(const AttentionSpec&) const = default;
  // The source if it is of this kind. If it is not, pairs() are full and the others null.
  const Pairs& pairs() const;
  const Routed* route() const { return std::get_if<Routed>(&source); }
  const ClauseAttention* clauses() const { return std::get_if<ClauseAttention>(&source); }
};

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
// Groups with their counts filled in; throws unless they add up to num_heads, or the norms differ.
LayerSpec resolve(const LayerSpec& spec, int64_t num_heads);
// Throws when groups differ in their norm, which is over the outputs of all heads.
void require_one_norm(const LayerSpec& spec);

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
std::vector<SpecName> stage_names();  // selections, transforms and norms
std::vector<SpecName> alias_names();
std::vector<SpecName> clause_names();   // what stands in the place of all pairs of an encoder
std::vector<SpecName> routing_names();  // what stands in the place of all pairs

}  // namespace fovea

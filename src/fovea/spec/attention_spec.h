#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/spec/patterns.h"

// An attention mechanism as a value: which pairs may attend, which of them are selected, how scores become weights,
// how the output is normalised.
//     spec  = (pairs | stage) { "+" stage }      pairs left out = full, stages in any order, each kind once
//     pairs = both { "|" both }                  union
//     both  = atom { "&" atom }                  intersection, binds tighter
//     atom  = name [ "(" args ")" ] | "(" pairs ")"
// docs/attention.md lists the names; patterns.h, transforms.h and norms.h define them, one struct each.
namespace fovea {

// Which keys a query may see before any pattern: every key of the other side, of its own side, or those up to itself.
enum class AttentionKind : uint8_t { kSelf, kCausal, kCross };

// A tree of patterns. A leaf holds one pattern; an inner node the union or intersection of its parts.
struct Pairs {
  enum class Op : uint8_t { kLeaf, kUnion, kIntersection };
  Op op = Op::kLeaf;
  Pattern leaf = Full{};
  std::vector<Pairs> parts;
  bool operator==(const Pairs&) const = default;
  bool is_full() const { return op == Op::kLeaf && std::holds_alternative<Full>(leaf); }
};

// The k best candidates, ties at the k-th score all kept; candidates in `keep` stay on top of the k.
struct TopK {
  int64_t k = 1;
  std::optional<Pairs> keep;
  bool operator==(const TopK&) const = default;
};

struct Softmax {
  static constexpr std::string_view kName = "softmax", kHelp = "exp(s) over their sum";
  bool operator==(const Softmax&) const = default;
};
struct Sparsemax {
  static constexpr std::string_view kName = "sparsemax", kHelp = "projection onto the simplex (Martins, Astudillo 2016)";
  bool operator==(const Sparsemax&) const = default;
};
struct Entmax {
  double alpha = 1.5;    // > 1; 1 prints as softmax, 2 as sparsemax
  bool learned = false;  // alpha comes with the operator's input instead, one a head, in (1, 2)
  static constexpr std::string_view kName = "entmax", kHelp = "alpha-entmax (Peters, Niculae, Martins 2019)";
  bool operator==(const Entmax&) const = default;
};
struct Relu {
  static constexpr std::string_view kName = "relu", kHelp = "max(s, 0), not normalised (Zhang, Titov, Sennrich 2021)";
  bool operator==(const Relu&) const = default;
};
struct Gelu {
  static constexpr std::string_view kName = "gelu", kHelp = "s Phi(s), exact, not normalised";
  bool operator==(const Gelu&) const = default;
};
struct LeakyRelu {
  double slope = 0.01;
  static constexpr std::string_view kName = "leaky-relu", kHelp = "s above 0, slope s below, not normalised";
  bool operator==(const LeakyRelu&) const = default;
};
// The one list of transforms, the default first.
using Transform = std::variant<Softmax, Sparsemax, Entmax, Relu, Gelu, LeakyRelu>;

struct NoNorm {
  static constexpr std::string_view kName = "none", kHelp = "no norm";
  bool operator==(const NoNorm&) const = default;
};
struct RmsNorm {
  static constexpr std::string_view kName = "rmsnorm", kHelp = "g z / rms(z)";
  bool operator==(const RmsNorm&) const = default;
};
struct RmsNormXavier {
  static constexpr std::string_view kName = "rmsnorm-xavier", kHelp = "rmsnorm, g starts uniform in +-sqrt(3/d)";
  bool operator==(const RmsNormXavier&) const = default;
};
struct GatedRmsNorm {
  static constexpr std::string_view kName = "gated-rmsnorm", kHelp = "g z / rms(z) sigmoid(w z)";
  bool operator==(const GatedRmsNorm&) const = default;
};
struct LayerNorm {
  static constexpr std::string_view kName = "layernorm", kHelp = "g (z - mean) / std + b";
  bool operator==(const LayerNorm&) const = default;
};
// The one list of norms, over the concatenated heads; the default first.
using Norm = std::variant<NoNorm, RmsNorm, RmsNormXavier, GatedRmsNorm, LayerNorm>;

struct AttentionSpec {
  Pairs pairs;
  std::optional<TopK> select;
  Transform transform;
  Norm norm;
  bool operator==(const AttentionSpec&) const = default;
};

// what() has three lines: the sentence with the column, the text, a caret under the column.
class SpecError : public Error {
 public:
  SpecError(const std::string& message, size_t column) : Error(message), column_(column) {}
  size_t column() const { return column_; }  // from 1

 private:
  size_t column_;
};

AttentionSpec parse_attention(std::string_view text);
// Canonical: parse_attention(print(s)) == s; defaults left out, aliases expanded, no spaces.
std::string print(const AttentionSpec& spec);
std::string print(const Pairs& pairs);
size_t hash_value(const AttentionSpec& spec);

// Throws a SpecError-free Error whose sentence names what `spec` cannot do on this kind (positions on cross-attention).
void validate(const AttentionSpec& spec, AttentionKind kind);

// THE definition of the pairs: row.query may attend to `key`. The causal limit is applied here (row.causal).
bool contains(const Pairs& pairs, const Row& row, int64_t key);
// The same as sorted, disjoint, non-touching half-open ranges of [0, row.keys).
std::vector<Span> spans(const Pairs& pairs, const Row& row);

// One mechanism per head: "4*local(256);4*topk(8)"; without a count, a single spec for all heads.
struct HeadGroup {
  int64_t num_heads = 0;  // 0: all heads of the layer
  AttentionSpec spec;
  bool operator==(const HeadGroup&) const = default;
};
using LayerSpec = std::vector<HeadGroup>;
LayerSpec parse_layer_spec(std::string_view text);
std::string print(const LayerSpec& spec);
// Groups with their counts filled in; throws unless they add up to num_heads, or the norms differ.
LayerSpec resolve(const LayerSpec& spec, int64_t num_heads);

// For help texts, documentation and derived tests: every name with its arguments and one line of help.
struct SpecName {
  std::string name, arguments, help;
};
std::vector<SpecName> pattern_names();
std::vector<SpecName> stage_names();
std::vector<SpecName> alias_names();

}  // namespace fovea

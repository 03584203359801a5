#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "fovea/base/choices.h"
#include "fovea/base/strings.h"
#include "fovea/spec/attention_cursor.h"
#include "fovea/spec/attention_names.h"
#include "fovea/spec/attention_spec.h"

namespace fovea {
namespace {

constexpr size_t kMaxText = 10000;  // characters of a spec
constexpr int kMaxDepth = 100;      // parentheses inside one another

void check_length(std::string_view text, std::string_view what) {
  if (text.size() <= kMaxText) return;
  throw SpecError(cat("attention spec: got ", text.size(), " characters", what, "; expected at most ", kMaxText),
                  kMaxText + 1);
}

// A parsed spec is printed and parsed again: aliases may be shorter than their canonical form.
template <class Spec>
Spec checked(Spec spec) {
  check_length(print(spec), " in canonical form");
  return spec;
}

class Parser : private SpecCursor {
 public:
  explicit Parser(std::string_view text) : SpecCursor(text) { check_length(text, ""); }

  AttentionSpec single() {
    AttentionSpec out = spec();
    finish(" or the end");
    return checked(std::move(out));
  }

  LayerSpec layer() {
    LayerSpec out;
    do {
      skip_spaces();
      const size_t begin = at_;
      HeadGroup group;
      if (!done() && is_digit(peek())) {
        group.num_heads = whole_number("the number of heads", 1);
        need('*', "between the number of heads and their mechanism");
      }
      if (group.num_heads == 0 && !out.empty())
        fail(begin, "with several head groups each needs its number of heads, e.g. 4*full");
      group.spec = spec();
      if (!out.empty() && out.back().num_heads == 0)
        fail(0, "with several head groups each needs its number of heads, e.g. 4*full");
      if (!out.empty() && out.back().spec == group.spec) {
        out.back().num_heads += group.num_heads;
      } else {
        out.push_back(std::move(group));
      }
    } while (take(';'));
    finish(", ';' or the end");
    return checked(std::move(out));
  }

 private:
  // The stages of a spec that have been given so far.
  struct Seen {
    bool cap = false, selection = false, transform = false, norm = false, scale = false, gate = false;
  };

  void finish(std::string_view ends) {
    skip_spaces();
    if (!done()) {
      const char* const first =
          after_stage_ ? "patterns come before all stages; expected '+'" : "expected '|', '&', '+'";
      fail(at_, cat("unexpected ", got(), "; ", first, ends));
    }
  }

  // The argument at `place`, from 0.
  template <class T, class Choice>
  void argument(T& item, const WordField<T, Choice>& field, size_t place) {
    constexpr std::array kPlaces{"first", "second", "third"};
    if (place > 0 && !take(',')) return;
    skip_spaces();
    const size_t begin = at_;
    const std::string expected = join(split(field.words, '|'), " or ");
    const std::string_view name = word(expected);
    const std::optional<size_t> choice = place_of_choice(field.words, name);
    if (!choice)
      fail(begin,
           cat("expected ", expected, " as the ", kPlaces.at(place), " argument of ", T::kName, ", got '", name, "'"));
    item.*field.member = static_cast<Choice>(*choice + 1);
  }
  template <class T>
  void argument(T& item, const auto& field, size_t place) {
    if (place > 0) need(',', cat("before ", field.name, " of ", T::kName));
    if constexpr (requires { field.chosen; }) {
      real_number(item, field);
    } else {
      item.*field.member = whole_number(cat(field.name, " of ", T::kName), field.min);
    }
  }

  template <class T, class Choice>
  static constexpr bool may_be_left_out(const WordField<T, Choice>&) {
    return true;
  }
  template <class T>
  static constexpr bool may_be_left_out(const RealField<T>& field) {
    return field.chosen != nullptr && T{}.*field.chosen;
  }
  static constexpr bool may_be_left_out(const auto&) { return false; }

  // "(" arguments ")" by the fields of T, or nothing when T has none that must be given.
  template <class T>
  void arguments(T& item, size_t name_at, std::optional<Pairs>* keep = nullptr) {
    constexpr auto kFields = T::fields();
    constexpr bool kAllOptional =
        std::apply([](const auto&... field) { return (may_be_left_out(field) && ...); }, kFields);
    if constexpr (std::tuple_size_v < decltype(kFields) >> 0) {
      if (!take('(')) {
        if (kAllOptional) return;
        need('(', cat("after ", T::kName));
      }
      size_t place = 0;
      std::apply([&](const auto&... field) { (argument(item, field, place++), ...); }, kFields);
      if (keep != nullptr) kept(T::kName, *keep);
      need(')', cat("after the arguments of ", T::kName));
      if constexpr (requires { item.problem(); }) {
        if (!item.problem().empty()) fail(name_at, cat(T::kName, ": ", item.problem()));
      }
    }
  }

  // Whether `name` is one of the list's; reads its arguments into `out`. With `keep`, one more argument may follow.
  template <class List>
  bool item_of(std::string_view name, size_t name_at, List& out, std::optional<Pairs>* keep = nullptr) {
    bool found = false;
    for_each_type<List>([&]<class T>(T item) {
      if (found || name != T::kName) return;
      found = true;
      arguments(item, name_at, keep);
      out = item;
    });
    return found;
  }

  Pairs list(char separator, Pairs::Op op, auto&& part) {
    Pairs out{op, Full{}, {part()}};
    while (take(separator)) out.parts.push_back(part());
    return out.parts.size() == 1 ? std::move(out.parts.front()) : out;
  }
  Pairs pairs() {
    return list('|', Pairs::Op::kUnion, [&] { return list('&', Pairs::Op::kIntersection, [&] { return atom(); }); });
  }

  Pairs atom() {
    if (take('(')) {
      deeper();
      Pairs out = pairs();
      need(')', "to close the parenthesis");
      --depth_;
      return out;
    }
    skip_spaces();
    const size_t begin = at_;
    const std::string_view name = word("a pattern");
    for_each_alone([&]<class T>(const T&) {
      if (is_name<T>(name))
        fail(begin,
             cat("'", name, "' stands alone before the stages, as in ", T::kExample, "+topk(8); no pattern joins it"));
    });
    Pairs out;
    if (item_of(name, begin, out.leaf) || pairs_alias(name, out)) return out;
    for (const std::string& stage : known_stages())
      if (name == stage) fail(begin, cat("'", name, "' is a stage, not a pattern; stages follow a '+'"));
    std::vector<std::string> known = known_pairs();
    if (begin != spec_begin_) unknown(begin, name, "pattern", known);
    const std::vector<std::string> stages = known_stages();  // a spec may begin with one
    known.insert(known.end(), stages.begin(), stages.end());
    unknown(begin, name, "pattern or stage", known);
  }

  void deeper() {
    if (++depth_ > kMaxDepth) fail(at_ - 1, cat("more than ", kMaxDepth, " parentheses inside one another"));
  }

  [[noreturn]] void unknown(size_t at, std::string_view name, std::string_view what,
                            const std::vector<std::string>& known) const {
    const std::string slip = did_you_mean(name, known);
    fail(at, cat("unknown ", what, " '", name, "'", slip, slip.empty() ? "; known: " : " Known: ", join(known, ", ")));
  }

  // k of an alias, or 0 when it takes none.
  int64_t alias_argument(const Alias& alias) {
    if (alias.divisor == 0) return 0;
    need('(', cat("after ", alias.name));
    skip_spaces();
    const size_t begin = at_;
    const int64_t k = whole_number(cat("k of ", alias.name), alias.divisor);
    if (k % alias.divisor != 0)
      fail(begin, cat("k of ", alias.name, " is ", k, "; it must be a multiple of ", alias.divisor));
    need(')', cat("after the arguments of ", alias.name));
    return k;
  }

  bool pairs_alias(std::string_view name, Pairs& out) {
    for (const Alias& alias : aliases()) {
      if (alias.is_stage || name != alias.name) continue;
      deeper();  // a union, which an intersection prints in parentheses
      out = parse_attention(alias.expansion(alias_argument(alias))).pairs();
      --depth_;
      return true;
    }
    return false;
  }

  bool next_is_stage() {
    const std::string_view name = next_word();
    for (const std::string& stage : known_stages())
      if (name == stage) return true;
    return false;
  }

  template <class T>
  static bool is_name(std::string_view name) {
    return std::ranges::find(T::kNames, name) != T::kNames.end();
  }
  // Reads a source that stands alone, if one comes next.
  bool source_alone(Source& out) {
    const std::string_view name = next_word();
    for_each_alone([&]<class T>(T item) {
      if (!is_name<T>(name)) return;
      read(item);
      out = std::move(item);
    });
    if (std::holds_alternative<Pairs>(out)) return false;
    skip_spaces();
    if (!done() && (peek() == '|' || peek() == '&'))
      fail(at_, cat("'", name, "' stands alone before the stages; expected '+', ';' or the end, got ", got()));
    return true;
  }
  void read(ClauseAttention& item) { item = clauses(); }
  template <class T>
  void read(T& item) {
    const size_t begin = at_;
    word(T::kName);
    arguments(item, begin);
  }

  AttentionSpec spec() {
    AttentionSpec out;
    Seen seen;
    skip_spaces();
    spec_begin_ = at_;
    after_stage_ = false;
    if (next_is_stage()) {
      stage(out, seen);
    } else if (!source_alone(out.source)) {
      out.source = pairs();
    }
    while (take('+')) stage(out, seen);
    if (const std::string_view problem = problem_of_scale(out); !problem.empty())
      fail(scaled_at_, cat(QueryScale::kName, ": ", problem));
    if (out.cap && out.indexed())
      fail(capped_at_,
           cat(ScoreCap::kName, ": the indexer of dsa learns from scores without a cap; leave one of the two out"));
    return canonical(std::move(out));
  }

  // The reason for which these queries cannot be scaled, or an empty text.
  static std::string_view problem_of_scale(const AttentionSpec& spec) {
    if (!spec.scale) return "";
    if (spec.route()) return "the data decide how many candidates a query of routed has; leave one of the two out";
    if (spec.blocks()) return "ties decide how many candidates a query of blocktopk has; leave one of the two out";
    if (spec.indexed()) return "dsa gives every query the same number of candidates; leave one of the two out";
    if (spec.clauses()) return "the text decides how many candidates a query of clause has; leave one of the two out";
    if (adaptive_span(spec))
      return "span learns how far a query sees, not a number of candidates; leave one of the two out";
    if (is_pointwise(spec.transform))
      return "weights that are not normalised do not flatten among more keys; expected softmax, sink, sparsemax or "
             "entmax";
    return "";
  }

  void once(bool& seen, size_t at, std::string_view what) const {
    if (seen) fail(at, cat("a second ", what, "; a spec has at most one"));
    seen = true;
  }

  void stage(AttentionSpec& out, Seen& seen) {
    after_stage_ = true;
    skip_spaces();
    const size_t begin = at_;
    const std::string_view name = word("a stage");
    for (const Alias& alias : aliases()) {
      if (alias.is_stage && name == alias.name) return stage_alias(alias, begin, out, seen);
    }
    if (Selection item; name != All::kName && item_of(name, begin, item, &out.keep)) {
      out.selection = item;
      return once(seen.selection, begin, "selection");
    }
    if (item_of(name, begin, out.transform)) return once(seen.transform, begin, "transform");
    Norm norm;
    if (name != NoNorm::kName && item_of(name, begin, norm)) {
      out.norm = norm;
      return once(seen.norm, begin, "norm");
    }
    if (name == ScoreCap::kName) {
      arguments(out.cap.emplace(), begin);
      capped_at_ = begin;
      return once(seen.cap, begin, "softcap");
    }
    if (name == QueryScale::kName) {
      out.scale.emplace();
      scaled_at_ = begin;
      return once(seen.scale, begin, "scale");
    }
    if (name == OutputGate::kName) {
      arguments(out.gate.emplace(), begin);
      return once(seen.gate, begin, "gate");
    }
    for (const std::string& pattern : known_pairs())
      if (name == pattern) fail(begin, cat("patterns come first: ", name, "(...)+..., joined by '|' or '&'"));
    unknown(begin, name, "stage", known_stages());
  }

  // ",keep=PAIRS" behind the arguments of a selection.
  void kept(std::string_view name, std::optional<Pairs>& keep) {
    if (!take(',')) return;
    skip_spaces();
    const size_t begin = at_;
    if (word("keep=") != "keep")
      fail(begin, cat(name, " takes one number and keep=PAIRS, e.g. topk(8,keep=window(4))"));
    need('=', "after keep");
    deeper();
    keep = pairs();
    --depth_;
  }

  // Merges the alias's expansion into the stages that were given so far.
  void stage_alias(const Alias& alias, size_t begin, AttentionSpec& out, Seen& seen) {
    const AttentionSpec part = parse_attention(alias.expansion(alias_argument(alias)));
    if (part.selects()) {
      once(seen.selection, begin, "selection");
      out.selection = part.selection, out.keep = part.keep;
    }
    if (part.transform.index() != 0) {
      once(seen.transform, begin, "transform");
      out.transform = part.transform;
    }
    if (part.norm.index() != 0) {
      once(seen.norm, begin, "norm");
      out.norm = part.norm;
    }
  }

  size_t spec_begin_ = 0;     // of the head group being read
  size_t scaled_at_ = 0;      // the place of the stage `scaled`
  size_t capped_at_ = 0;      // the place of the stage `softcap`
  bool after_stage_ = false;  // patterns of the group are over
  int depth_ = 0;
};

}  // namespace

AttentionSpec parse_attention(std::string_view text) { return Parser(text).single(); }
LayerSpec parse_layer_spec(std::string_view text) { return Parser(text).layer(); }

}  // namespace fovea

#include "fovea/spec/attention_names.h"

#include "fovea/base/strings.h"

namespace fovea {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

SpecArgument whole_argument(std::string_view name, int64_t min, int64_t step = 1) {
  return {std::string(name), static_cast<double>(min), static_cast<double>(kMaxArgument), step, ""};
}
template <class P>
SpecArgument argument_of(const PatternField<P>& field) {
  return whole_argument(field.name, field.min);
}
template <class S>
SpecArgument argument_of(const RealField<S>& field) {
  return {std::string(field.name), field.min, field.max, 0, std::string(field.keyword)};
}

// Appends an argument that has to be given; a WordField may be left out.
void append_argument(std::vector<SpecArgument>& out, const auto& field) { out.push_back(argument_of(field)); }
template <class P, class Choice>
void append_argument(std::vector<SpecArgument>&, const WordField<P, Choice>&) {}

SpecName name_with(std::string_view name, std::string_view help, std::vector<SpecArgument> fields) {
  std::string arguments;
  for (const SpecArgument& field : fields) arguments += cat(arguments.empty() ? "" : ",", field.name);
  return {std::string(name), arguments, std::string(help), std::move(fields)};
}

template <class T>
SpecName name_of() {
  std::vector<SpecArgument> fields;
  std::string words;
  const auto add = [&](const auto& field) {
    append_argument(fields, field);
    if constexpr (requires { field.words; }) words = cat(fields.empty() ? "[" : "[,", field.words, "]");
  };
  std::apply([&](const auto&... field) { (add(field), ...); }, T::fields());
  SpecName name = name_with(T::kName, T::kHelp, std::move(fields));
  name.arguments += words;
  return name;
}

template <class List>
std::vector<SpecName> names_of() {
  std::vector<SpecName> out;
  for_each_type<List>([&]<class T>(const T&) { out.push_back(name_of<T>()); });
  return out;
}

// The names of all selections except `all`.
std::vector<SpecName> selection_names() {
  std::vector<SpecName> out = names_of<Selection>();
  std::erase_if(out, [](const SpecName& name) { return name.name == All::kName; });
  for (SpecName& name : out) {
    name.arguments += "[,keep=PAIRS]";
    name.help += "; PAIRS stay on top of them";
  }
  return out;
}

// The names of all norms except `none`.
std::vector<SpecName> norm_names() {
  std::vector<SpecName> out = names_of<Norm>();
  std::erase_if(out, [](const SpecName& name) { return name.name == NoNorm::kName; });
  return out;
}

void append_words(std::vector<std::string>& out, const std::vector<SpecName>& names) {
  for (const SpecName& name : names) out.push_back(name.name);
}

}  // namespace

const std::vector<Alias>& aliases() {
  static const std::vector<Alias> kAliases = {
      {"oow", "top-k out of a window, k keys in all", true, 2,
       [](int64_t k) { return cat("topk(", number(k / 2), ",keep=window(", number(k / 2), "))"); }},
      {"bigbird", "Big Bird, k keys in all", false, 4,
       [](int64_t k) {
         return cat("window(", number(k / 2), ")|global(", number(k / 4), ")|random(", number(k / 4), ")");
       }},
      {"rela-g", "gated ReLA (Zhang, Titov, Sennrich 2021)", true, 0,
       [](int64_t) { return std::string("relu+gated-rmsnorm"); }},
      {"rela-i", "ReLA with its initialisation instead of the gate", true, 0,
       [](int64_t) { return std::string("relu+rmsnorm-xavier"); }},
  };
  return kAliases;
}

std::vector<SpecName> pattern_names() { return names_of<Pattern>(); }

std::vector<SpecName> choosing_names() { return {name_of<Routed>(), name_of<BlockChoice>(), name_of<IndexedKeys>()}; }

std::vector<SpecName> clause_names() {
  SpecName mix = name_with(ClauseAttention::kMix, ClauseAttention::kMixHelp, {});
  mix.arguments = ClauseAttention::kArguments;
  return {name_with(ClauseAttention::kClause, ClauseAttention::kClauseHelp, {whole_argument("level", 1)}), mix};
}

std::vector<SpecName> transform_names() { return names_of<Transform>(); }

std::vector<SpecName> stage_names() {
  std::vector<SpecName> out = {name_of<ScoreCap>()};
  for (const auto& names : {selection_names(), transform_names(), norm_names()})
    out.insert(out.end(), names.begin(), names.end());
  out.push_back(name_of<QueryScale>());
  out.push_back(name_of<OutputGate>());
  return out;
}

std::vector<SpecName> alias_names() {
  std::vector<SpecName> out;
  for (const Alias& a : aliases()) {
    // Written with a k that divides well, so that the expansion shows the shares.
    const std::string help = cat(a.help, a.divisor > 0 ? "; with k = 16: " : ": ", a.expansion(16));
    std::vector<SpecArgument> fields;
    if (a.divisor > 0) fields.push_back(whole_argument("k", a.divisor, a.divisor));
    out.push_back(name_with(a.name, help, std::move(fields)));
  }
  return out;
}

std::vector<std::string> known_pairs() {
  std::vector<std::string> out;
  append_words(out, pattern_names());
  for (const Alias& a : aliases())
    if (!a.is_stage) out.emplace_back(a.name);
  append_words(out, choosing_names());
  append_words(out, clause_names());
  return out;
}

std::vector<std::string> known_stages() {
  std::vector<std::string> out;
  append_words(out, stage_names());
  for (const Alias& a : aliases())
    if (a.is_stage) out.emplace_back(a.name);
  return out;
}

}  // namespace fovea

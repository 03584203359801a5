#include "fovea/spec/attention_names.h"

#include "fovea/base/strings.h"

namespace fovea {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

template <class T>
std::string arguments_of(const T&) {
  std::string out;
  std::apply([&](const auto&... field) { ((out += cat(out.empty() ? "" : ",", field.name)), ...); }, T::fields());
  return out;
}

template <class List>
void append_names(std::vector<SpecName>& out, bool with_first) {
  bool first = true;
  for_each_type<List>([&]<class T>(const T& item) {
    if (with_first || !first) out.push_back({std::string(T::kName), arguments_of(item), std::string(T::kHelp)});
    first = false;
  });
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

const std::vector<LaterName>& later_mechanisms() {
  static const std::vector<LaterName> kLater = {
      {"routed", "Routing Transformer: clusters of queries and keys", {"clusters", "window"}},
      {"span", "adaptive span: a learned length per head", {"limit", "ramp"}},
      {"mix", "learned mixture of several patterns", {}},
      {"clause", "the keys of the query's own clause at a level", {"level"}},
  };
  return kLater;
}

std::vector<SpecName> pattern_names() {
  std::vector<SpecName> out;
  append_names<Pattern>(out, true);
  return out;
}

std::vector<SpecName> stage_names() {
  std::vector<SpecName> out = {
      {"topk", "k[,keep=PAIRS]", "the k best candidates and their ties; PAIRS stay on top of them"}};
  append_names<Transform>(out, true);
  append_names<Norm>(out, false);
  return out;
}

std::vector<SpecName> alias_names() {
  std::vector<SpecName> out;
  for (const Alias& a : aliases()) {
    // Written with a k that divides well, so that the expansion shows the shares.
    out.push_back({std::string(a.name), a.divisor > 0 ? "k" : "",
                   cat(a.help, a.divisor > 0 ? "; with k = 16: " : ": ", a.expansion(16))});
  }
  return out;
}

std::vector<SpecName> later_names() {
  std::vector<SpecName> out;
  for (const LaterName& later : later_mechanisms()) {
    std::string arguments;
    for (const std::string_view argument : later.arguments) arguments += cat(arguments.empty() ? "" : ",", argument);
    out.push_back({std::string(later.name), arguments.empty() ? "PAIRS,PAIRS..." : arguments, std::string(later.help)});
  }
  return out;
}

std::vector<std::string> known_pairs() {
  std::vector<std::string> out;
  append_words(out, pattern_names());
  for (const Alias& a : aliases())
    if (!a.is_stage) out.emplace_back(a.name);
  append_words(out, later_names());
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

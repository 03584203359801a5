#include <iostream>
#include <string>
#include <vector>

#include "fovea/analysis/candidates_picture.h"
#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/spec/draw.h"

namespace fovea::app {
namespace {

struct SpecConfig {
  std::vector<std::string> specs;
  int64_t length = 16;
  bool causal = false;
  std::string output;

  static constexpr auto fields() {
    using C = SpecConfig;
    return std::tuple(number("length", &C::length, "queries and keys to draw", 1, 4096),
                      field("causal", &C::causal, "as in a decoder: no key after its query"),
                      named("output", &C::output, "draw a picture instead, a name that ends in .svg", "o"));
  }
};

// "window(k)", "routed(clusters,window[,causal|random])", "rmsnorm-xavier[(head)]".
std::string form_of(const SpecName& item) {
  if (item.arguments.empty()) return item.name;
  const bool optional = item.fields.empty() && item.arguments.front() == '[';
  return optional ? cat(item.name, "[(", item.arguments.substr(1, item.arguments.size() - 2), ")]")
                  : cat(item.name, "(", item.arguments, ")");
}

std::string names(const std::string& heading, const std::vector<SpecName>& list) {
  std::string text = heading + "\n";
  for (const SpecName& item : list) {
    const std::string form = form_of(item);
    text += "  " + form + std::string(form.size() < 22 ? 22 - form.size() : 1, ' ') + item.help + "\n";
  }
  return text;
}

}  // namespace

int run_spec(const std::vector<std::string>& arguments) {
  SpecConfig config;
  Options options("spec",
                  "Prints a mechanism's canonical form and draws its candidates: a line a query, # a candidate.",
                  "SPEC [--length 16] [--causal] [--output FILE.svg]");
  options.positional("SPEC", config.specs, "e.g. 'window(16)|global(2)+topk(8)'", 1);
  options.add(config, "Options");
  options.epilogue("Mechanisms of groups of heads: 4*local(256);4*full. entmax(learned) learns alpha.\n" +
                   names("Patterns, joined by | (union) and & (intersection):", pattern_names()) +
                   names("In their place, alone:", choosing_names()) +
                   names("In an encoder, in their place:", clause_names()) +
                   names("Stages, joined by +:", stage_names()) + names("Aliases:", alias_names()));
  if (!options.parse(arguments)) return 0;
  if (config.specs.empty())
    throw UsageError("expected one SPEC, e.g. fovea spec 'topk(8)'; quote it, | and ( mean something to the shell");
  const LayerSpec spec = parse_layer_spec(config.specs[0]);
  const AttentionKind kind = config.causal ? AttentionKind::kCausal : AttentionKind::kSelf;
  if (config.output.empty()) {
    std::cout << draw(spec, config.length, kind);
    return 0;
  }
  if (!config.output.ends_with(".svg"))
    throw UsageError(cat("--output: got '", config.output, "'; expected a name that ends in .svg"));
  require_writable("--output", config.output);
  write_file(config.output, analysis::candidates_svg(spec, config.length, kind));
  std::cout << print(spec) << "\n";
  return 0;
}

}  // namespace fovea::app

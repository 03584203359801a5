#include "fovea/tasks/language/config.h"

#include <algorithm>
#include <string>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/adaptive_span.h"
#include "fovea/spec/layer_override.h"

namespace fovea::language {
namespace {

// Why the routed heads of layer `layer` cannot have memory, or nothing.
std::string problem_of_routes(const LayerSpec& spec, int64_t layer, const LanguageConfig& config) {
  for (const HeadGroup& group : spec) {
    const Routed* route = group.spec.route();
    if (route == nullptr) continue;
    const std::string causal = cat("routed(", route->clusters, ",", route->window, ",causal)");
    if (!route->is_causal())
      return cat("--memory-length: layer ", layer, " has '", print(group.spec), "', whose clusters choose among the ",
                 "tokens of a segment and have no memory; use ", causal, ", or --memory-length 0");
    // A token's positions in training count from its memory's first unit, and while generating from the text's.
    if (rotary_of(config, Sublayer::kDecoder, layer - 1))
      return cat(
          "--memory-length: layer ", layer, " has '", print(group.spec), "', whose clusters depend on the turn of ",
          "rotary positions, and memory moves that; use --transformer-positions shaw(R), transformer-xl or alibi, ",
          "or --memory-length 0");
    if (config.same_length)
      return cat("--same-length: layer ", layer, " has '", print(group.spec), "', which counts members of a cluster, ",
                 "not units; leave --same-length out");
  }
  return "";
}

}  // namespace

int64_t memory_of(const LanguageConfig& config) {
  if (config.memory_length >= 0) return config.memory_length;
  int64_t most = 0;
  for (int64_t layer = 0; layer < config.dec_depth; ++layer)
    most = std::max(most, longest_span(attention_of(config, Sublayer::kDecoder, layer)));
  return most;
}

void validate(const LanguageConfig& config) {
  fovea::validate(config);  // first: has_learned_positions() needs positions that parse
  Problems problems;
  problems.add_if(has_learned_positions(config) && config.segment_length > config.max_positions,
                  cat("--segment-length ", config.segment_length,
                      " needs as many learned positions; --max-positions is ", config.max_positions));
  const int64_t memory = memory_of(config);
  problems.add_if(config.same_length && memory == 0,
                  "--same-length is set without --memory-length, which says how far each unit sees; set both");
  for (int64_t layer = 0; memory > 0 && layer < config.dec_depth; ++layer) {
    const LayerSpec spec = attention_of(config, Sublayer::kDecoder, layer);
    if (const std::string problem = problem_of_routes(spec, layer + 1, config); !problem.empty()) {
      problems.add(problem);
      break;
    }
    const std::string_view name = counts_from_start(spec);
    if (name.empty()) continue;
    problems.add(cat("--memory-length: layer ", layer + 1, " has the pattern '", name,
                     "', which counts positions from the beginning of a segment, and memory moves that; use a pattern "
                     "of distances, such as local(w)"));
    break;
  }
  problems.throw_if_any();
}

void require_positions(const LanguageConfig& config, int64_t length, std::string_view option) {
  if (!has_learned_positions(config) || length <= config.max_positions) return;
  throw Error(cat(option, ": got ", thousands(length), "; the model has learned positions for ",
                  thousands(config.max_positions), " units; expected at most as many"));
}

}  // namespace fovea::language

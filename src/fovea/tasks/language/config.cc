#include "fovea/tasks/language/config.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/adaptive_span.h"

namespace fovea::language {

int64_t memory_of(const LanguageConfig& config) {
  if (config.memory_length >= 0) return config.memory_length;
  int64_t most = 0;
  for (int64_t layer = 0; layer < config.dec_depth; ++layer)
    most = std::max(most, longest_span(attention_of(config, Sublayer::kDecoder, layer)));
  return most;
}

void validate(const LanguageConfig& config) {
  validate(static_cast<const DecoderConfig&>(config));  // first: has_learned_positions() needs positions that parse
  Problems problems;
  problems.add_ranges(config);
  problems.add_if(has_learned_positions(config) && config.segment_length > config.max_positions,
                  cat("--segment-length ", config.segment_length,
                      " needs as many learned positions; --max-positions is ", config.max_positions));
  const int64_t memory = memory_of(config);
  problems.add_if(config.same_length && memory == 0,
                  "--same-length is set without --memory-length, which says how far each unit sees; set both");
  for (int64_t layer = 0; memory > 0 && layer < config.dec_depth; ++layer) {
    const LayerSpec spec = attention_of(config, Sublayer::kDecoder, layer);
    if (std::ranges::any_of(spec, [](const HeadGroup& group) { return group.spec.route.has_value(); })) {
      problems.add(cat("--memory-length: layer ", layer + 1, " has '", print(spec),
                       "', and routed heads cannot see memory; use --memory-length 0"));
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

}  // namespace fovea::language

#include "fovea/spec/description.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_parameters.h"

namespace fovea {
namespace {

std::string text_of(const std::vector<SpecArgument>& fields) {
  std::vector<std::string> parts;
  for (const SpecArgument& field : fields)
    parts.push_back(
        cat(field.name, ':', shortest(field.min), ':', shortest(field.max), ':', field.step, ':', field.keyword));
  return join(parts, ",");
}

}  // namespace

std::string canonical_layer(std::string_view spec, std::optional<int64_t> num_heads) {
  const LayerSpec layer = parse_layer_spec(spec);
  if (num_heads) resolve(layer, *num_heads);  // an Error where the groups do not have so many
  return print(layer);
}

std::vector<std::string> parameter_names(std::string_view spec) {
  const AttentionParameters reads = parameters_of(parse_layer_spec(spec));
  std::vector<std::string> names;
  if (reads.gain) names.emplace_back("gain");
  if (reads.gate) names.emplace_back("gate");
  if (reads.bias) names.emplace_back("bias");
  if (reads.alpha) names.emplace_back("alpha");
  if (reads.sinks) names.emplace_back("sinks");
  return names;
}

std::vector<std::string> property_names(std::string_view spec) {
  const LayerSpec layer = parse_layer_spec(spec);
  const Norm& norm = layer.front().spec.norm;
  const auto selects = [](const HeadGroup& group) { return group.spec.selects(); };
  const auto spans = [](const HeadGroup& group) { return adaptive_span(group.spec) != nullptr; };
  const auto has_clauses = [](const HeadGroup& group) { return group.spec.clauses() != nullptr; };
  const auto has_centroids = [](const HeadGroup& group) {
    return group.spec.route() != nullptr && group.spec.route()->has_centroids();
  };
  const auto is_by_score = [](const HeadGroup& group) { return is_pointwise(group.spec.transform); };
  std::vector<std::string> names;
  const auto add_if = [&](bool holds, const char* name) {
    if (holds) names.emplace_back(name);
  };
  add_if(compares_positions(layer), "positional");
  add_if(uses_random(layer), "seed");
  add_if(std::ranges::any_of(layer, selects), "selection");
  add_if(std::ranges::all_of(layer, is_by_score), "pointwise");
  add_if(!std::holds_alternative<NoNorm>(norm), "norm");
  const AttentionParameters needs = parameters_of(layer);
  add_if(needs.scale_by_head, "head_scale");
  add_if(needs.scale_by_input, "input_scale");
  add_if(lacks_bias(layer), "open_bias");
  add_if(std::ranges::any_of(layer, [](const HeadGroup& group) { return group.spec.cap.has_value(); }), "softcap");
  add_if(layer.front().spec.gate.has_value(), "gate");
  add_if(std::ranges::any_of(layer, spans), "span");
  add_if(std::ranges::any_of(layer, has_clauses), "clauses");
  add_if(std::ranges::any_of(layer, has_centroids), "centroids");
  add_if(layer.front().spec.indexed() != nullptr, "indexer");
  const GainStart gain_start = parts_of(norm).gain_start;
  add_if(gain_start != GainStart::kOne, "uniform_gain");
  add_if(gain_start == GainStart::kByHead, "head_gain");
  return names;
}

std::vector<std::string> spec_name_lines() {
  std::vector<std::string> lines;
  for (const auto& [part, names] :
       {std::pair("pattern", pattern_names()), std::pair("stage", stage_names()), std::pair("alias", alias_names())}) {
    for (const SpecName& name : names)
      lines.push_back(cat(name.name == AdaptiveSpan::kName ? "span" : part, '\t', name.name, '\t', name.arguments, '\t',
                          name.help, '\t', text_of(name.fields)));
  }
  return lines;
}

}  // namespace fovea

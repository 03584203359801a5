// For sacrebleu_test.py and multi_bleu_test.py. Reads one JSON object per line, {"options": [[name, value ...] ...],
// "hypotheses": [...], "references": [[...] ...], "baselines": {name: [...] ...}}, where "baselines" may be missing.
// Writes the report as one JSON string per line.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/base/fields.h"
#include "fovea/metrics/evaluate.h"

namespace {

using fovea::metrics::NamedLines;

std::string run(const nlohmann::json& request) {
  fovea::metrics::EvaluateOptions options;
  for (const auto& given : request.at("options")) {
    std::vector<std::string> values = given;
    const std::string name = values.front();
    values.erase(values.begin());
    for (const fovea::FieldView& field : fovea::field_views(options))
      if (field.name == name) fovea::assign(field, values);
  }
  const auto named = [](const std::string& name, const nlohmann::json& lines) {
    return NamedLines{.name = name, .lines = lines.get<fovea::metrics::Lines>()};
  };
  std::vector<NamedLines> references, baselines;
  for (const auto& lines : request.at("references")) references.push_back(named("", lines));
  if (request.contains("baselines"))
    for (const auto& [name, lines] : request.at("baselines").items()) baselines.push_back(named(name, lines));
  return fovea::metrics::report(options, named("", request.at("hypotheses")), references, baselines);
}

}  // namespace

int main() try {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << nlohmann::json(run(nlohmann::json::parse(line))).dump() << "\n";
  return 0;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}

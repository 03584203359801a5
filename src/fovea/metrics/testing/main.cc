// For sacrebleu_test.py: a JSON object a line in, {"options": [[name, value ...] ...], "hypotheses": [...],
// "references": [[...] ...]}; a JSON string a line out, the report.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/base/fields.h"
#include "fovea/metrics/evaluate.h"

namespace {

std::string run(const nlohmann::json& request) {
  fovea::metrics::EvaluateOptions options;
  for (const auto& given : request.at("options")) {
    std::vector<std::string> values = given;
    const std::string name = values.front();
    values.erase(values.begin());
    for (const fovea::FieldView& field : fovea::field_views(options))
      if (field.name == name) fovea::assign(field, values);
  }
  const std::vector<fovea::metrics::Lines> references = request.at("references");
  return fovea::metrics::report(options, request.at("hypotheses").get<fovea::metrics::Lines>(), references);
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

#include "fovea/spec/config_problems.h"

#include <algorithm>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_spec.h"

namespace fovea {
namespace {

// "cpu", or the number of a CUDA device.
bool is_device(std::string_view text) {
  if (text == "cpu") return true;
  return !text.empty() && text.size() < 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void Problems::add_unless_two_sides(std::string_view name, const std::vector<std::string>& files) {
  const size_t count = files.size();
  add_if(count != 2, cat("--", name, " has ", count, count == 1 ? " file" : " files",
                         "; expected two, source and target", name == "vocabs" ? " (fovea vocab makes one)" : ""));
}

void Problems::add_range(const FieldView& field) {
  try {
    assign(field, values_of(field));
  } catch (const Error& error) {
    add(error.what());
  }
}

void Problems::throw_if_any() const {
  if (sentences_.empty()) return;
  if (sentences_.size() == 1) throw UsageError(sentences_.front());
  std::vector<std::string> lines;
  for (const std::string& sentence : sentences_) lines.push_back(sentence.substr(0, sentence.find('\n')));
  throw UsageError(join(lines, "; "));
}

void add_machine_problems(const MachineOptions& options, Problems& problems) {
  problems.add_if(!is_device(options.devices),
                  cat("--devices: got '", options.devices, "'; expected cpu or the number of a CUDA device"));
}

void add_model_problems(const ModelOptions& options, Problems& problems) {
  if (!options.vocabs.empty()) problems.add_unless_two_sides("vocabs", options.vocabs);
  add_model_problems(static_cast<const TrainedModelOptions&>(options), problems);
}

void add_model_problems(const TrainedModelOptions& options, Problems& problems) {
  problems.add_if(options.model.empty(), "--model is missing; expected the folder of a run or of a checkpoint");
  add_machine_problems(options, problems);
  problems.add_if(options.precision == "int8" && options.devices != "cpu",
                  cat("--precision int8 runs on the CPU, but --devices is ", options.devices,
                      "; use --devices cpu, or --precision bfloat16"));
  AttentionOverride copy = options;
  for (const FieldView& field : field_views(copy)) {
    const std::string text = join(values_of(field), "");
    if (!text.empty()) problems.add_thrown_by(field.name, [&] { parse_layer_spec(text); });
  }
}

}  // namespace fovea

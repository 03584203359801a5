#pragma once
#include <string>

#include "fovea/base/strings.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/run_options.h"

namespace fovea::tasks {

// The end of a signature of scores, which says how they were made so that others can be compared with them: "|" and
// what differs from the usual way to run the model, then the program's version.
inline std::string signature_end(const TrainedModelOptions& options, const ModelConfig& model) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value, std::string_view usual) {
    if (value != usual) text += cat("|", name, ":", value);
  };
  add("precision", options.precision, TrainedModelOptions().precision);
  add("attention", options.attention, "");
  add("attention-encoder", options.attention_encoder, "");
  add("attention-decoder", options.attention_decoder, "");
  add("attention-cross", options.attention_cross, "");
  // A full pass of such a model knows more than generation does (models/whole_segments.h).
  add("routing", routes_whole_segments(model) ? "whole-segment" : "", "");
  return cat(text, "|version:", FOVEA_VERSION);
}

}  // namespace fovea::tasks

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/spec/beam_config.h"
#include "fovea/spec/run_options.h"

namespace fovea::captions {

// `fovea caption`.
struct CaptionCommand : TrainedModelOptions, BeamConfig, LogOptions {
  std::vector<std::string> features;
  std::string image_ids, output = "-";
  int64_t mini_batch = 64, max_length = 50;

  static constexpr auto fields() {
    using C = CaptionCommand;
    const auto model =
        TrainedModelOptions::fields(AttentionOverride::fields(), "float32|bfloat16|int8",
                                    "type of matrix products and activations; int8: of the layers' products only");
    const auto files = std::tuple(
        named("features", &C::features, "images, or their features, as in training; of the model's size", "f"),
        field("image-ids", &C::image_ids,
              "file of ids, one per line: the images of .safetensors files to write captions for, in this order"),
        named("output", &C::output, "where the captions go, one line for each image; - is standard output", "o"));
    const auto own = std::tuple(allow_unk_field("captions may have unknown words, which are shown as \u2047"),
                                number("mini-batch", &C::mini_batch, "images computed together", 1, 1e9),
                                number("max-length", &C::max_length, "tokens of a caption, at most", 1, 1e6));
    return std::tuple_cat(model, files, BeamConfig::fields(), own, LogOptions::fields());
  }

  // The files that the command reads.
  std::vector<std::vector<std::string>> inputs() const { return {features, {image_ids}}; }
};

void validate(const CaptionCommand& config);

// Writes a caption for each image, one per line, in their order. Returns how many.
int64_t run_caption(const CaptionCommand& config);

}  // namespace fovea::captions

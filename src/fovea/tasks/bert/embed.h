#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/run_options.h"

namespace fovea::bert {

// `fovea embed`.
struct EmbedOptions : MachineOptions, LogOptions {
  std::string model, input = "-", output = "-";
  int64_t layer = -1;
  bool pieces = false;

  static constexpr auto fields() {
    using C = EmbedOptions;
    return std::tuple_cat(
        std::tuple(
            named("model", &C::model, "a folder of BERT's (Hugging Face), of a run or of a checkpoint", "m"),
            named("input", &C::input, "text, one sentence per line, may be compressed; - is standard input", "i"),
            named("output", &C::output,
                  "where the vectors go: a safetensors file with one tensor [tokens, width] a line, named after "
                  "the line from 0",
                  "o"),
            number("layer", &C::layer, "the layer whose vectors are written (0: embeddings; -1: the last)", -1, 1000),
            field("pieces", &C::pieces, "write the pieces of each line as text instead of vectors")),
        MachineOptions::fields(), LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {{input}}; }
};

// Writes the vectors or the pieces of all lines. Returns the number of lines.
int64_t embed(const EmbedOptions& options);

}  // namespace fovea::bert

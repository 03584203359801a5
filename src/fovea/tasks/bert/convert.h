#pragma once
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"

namespace fovea::bert {

// `fovea convert`.
struct ConvertOptions {
  std::string from, to, output;
  std::vector<std::string> input;  // the folder to convert, without a flag

  static constexpr auto fields() {
    using C = ConvertOptions;
    return std::tuple(choice("from", &C::from, "read a model of this form: bert is a folder of Hugging Face's", "bert"),
                      choice("to", &C::to, "write a model of Fovea's in this form", "bert"),
                      named("output", &C::output, "folder to write", "o"));
  }
};

// Reads BERT's folder and writes a checkpoint, or the other way round. Throws an Error if that is not possible.
void convert(const ConvertOptions& options);

}  // namespace fovea::bert

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/tasks/decoder_options.h"

namespace fovea::image {

// `fovea generate` for image models.
struct GenerateOptions : TrainedModelOptions, LogOptions {
  std::vector<std::string> complete;
  std::string output;
  int64_t rows = 0, count = 1, top_k = 0, seed = 1, mini_batch = 16, enlarge = 0;
  double temperature = 1, top_p = 1;

  static constexpr auto fields() {
    using C = GenerateOptions;
    const auto own = std::tuple(
        named("output", &C::output,
              "a .png file for one picture, a grid if there are several images; or a folder, which ends in /, for one "
              "PNG file per image",
              "o"),
        number("count", &C::count, "images to make, or completions of each image", 1, 1e6),
        field("complete", &C::complete, "images to complete: PNG files, folders of them, or what --train-sets takes"),
        number("rows", &C::rows, "rows to keep, from the top, of the images of --complete", 0, 1 << 24),
        number(
            "enlarge", &C::enlarge,
            "show each pixel of an image as N x N pixels (0: as many as let people see a small image in a picture; 1 "
            "in a folder)",
            0, 64),
        number("temperature", &C::temperature,
               "divides the logits: below 1 more of the likely, above 1 more of the unlikely; 0 takes the most likely",
               0, 1e6),
        number("top-k", &C::top_k, "choose among the k most likely values (0: all)", 0, 256),
        number("top-p", &C::top_p, "choose among the most likely values that have this probability together", 0, 1),
        number("seed", &C::seed, "random seed; the same seed gives the same images on any number of threads", 0, 9e15),
        number("mini-batch", &C::mini_batch,
               "images computed together, at most; they do not depend on it, but the memory does", 1, 1e6));
    return std::tuple_cat(tasks::decoder_fields<C>("float32|bfloat16|int8"), own, LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {complete}; }
};
void validate(const GenerateOptions& options);

// Returns the number of images.
int64_t run_generate(const GenerateOptions& options);

}  // namespace fovea::image

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/tasks/language/model_options.h"

namespace fovea::language {

// `fovea generate` for language models.
struct GenerateOptions : LanguageModelOptions, LogOptions {
  std::vector<std::string> prompt;
  std::string input = "-", output = "-";
  int64_t max_length = 200, count = 1, top_k = 0, seed = 1, mini_batch = 64;
  double temperature = 1, top_p = 1;
  std::string cache_precision = "model";
  bool allow_unk = false;

  static constexpr auto fields() {
    using C = GenerateOptions;
    const auto own = std::tuple(
        field("prompt", &C::prompt, "texts to continue; without it, the lines of --input, or the beginning of a text"),
        named("input", &C::input, "file with one prompt per line; - is standard input, unless that is a terminal", "i"),
        named("output", &C::output, "where the texts go; - is standard output", "o"),
        number("max-length", &C::max_length, "units to add to a prompt, at most", 1, 1e12),
        number("count", &C::count, "texts to make from each prompt", 1, 1e9),
        number("temperature", &C::temperature,
               "divides the logits: below 1 more of the likely, above 1 more of the unlikely; 0 takes the most likely",
               0, 1e6),
        number("top-k", &C::top_k, "choose among the k most likely units (0: all)", 0, 1e9),
        number("top-p", &C::top_p, "choose among the most likely units that have this probability together", 0, 1),
        number("seed", &C::seed, "random seed; the same seed gives the same text on any number of threads", 0, 9e15),
        number("mini-batch", &C::mini_batch, "texts computed together, at most; they do not depend on it", 1, 1e6),
        tasks::cache_precision_field<C>(),
        field("allow-unk", &C::allow_unk, "texts may have unknown units, which are shown as \u2047"));
    return std::tuple_cat(model_fields<C>("float32|bfloat16|int8"), own, LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {{input}}; }
};
void validate(const GenerateOptions& options);

// Returns the number of texts.
int64_t run_generate(const GenerateOptions& options);

}  // namespace fovea::language

#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/spec/config_problems.h"

namespace fovea::language {

// The options that training takes for this task alone.
struct Options {
  std::vector<std::string> train_sets, valid_sets;
  std::string vocabs, encoded_text;
  int64_t mini_batch = 16;
  std::string order = "stream";
  double label_smoothing = 0;

  static auto fields() {
    using C = Options;
    return std::tuple(
        named("train-sets", &C::train_sets, "text files to learn from, in this order, may be compressed", "t"),
        field("valid-sets", &C::valid_sets, "text files for validation"),
        named(
            "vocabs", &C::vocabs,
            "what the units are: bytes, a SentencePiece model (fovea vocab), or a folder with the tokeniser of a model "
            "of Hugging Face's",
            "v"),
        field("encoded-text", &C::encoded_text,
              "folder for the encoded training text, which later trainings read; training then takes no more memory "
              "for a larger text (default: the folder of the text for more than 1 GiB of it, 256 MiB with --vocabs "
              "bytes; else memory)"),
        number("mini-batch", &C::mini_batch, "segments in a batch", 1, 1e9),
        choice("order", &C::order,
               "read the text as mini-batch streams, segment after segment, or its segments in random order",
               "stream|shuffled"),
        number("label-smoothing", &C::label_smoothing, "share of the target's mass spread over the vocabulary", 0,
               0.99));
  }

  // The files that training reads.
  std::vector<std::vector<std::string>> inputs() const {
    std::vector<std::vector<std::string>> files = {train_sets, valid_sets};
    if (vocabs != "bytes") files.push_back({vocabs});
    return files;
  }
};

inline void add_problems(const Options& options, Problems& problems) {
  problems.add_ranges(options);
  problems.add_if(options.train_sets.empty(), "--train-sets is missing; expected one or more text files");
  problems.add_if(options.vocabs.empty(), "--vocabs is missing; expected bytes or a SentencePiece model");
}

}  // namespace fovea::language

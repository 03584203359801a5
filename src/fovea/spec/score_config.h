#pragma once
#include <string>
#include <vector>

#include "fovea/base/fields.h"

namespace fovea {

// Log-probabilities of given translations under a trained model.
struct ScoreConfig {
  std::string model, output = "-", attention;
  std::vector<std::string> train_sets, vocabs;
  bool summary = false;
  int64_t mini_batch_words = 4096, mini_batch = 256, maxi_batch = 100, max_length = 1000;
  std::string precision = "float32";
  int64_t cpu_threads = 0;
  std::string devices = "cpu";
  bool quiet = false;
  std::string log, log_format = "text";

  static constexpr auto fields() {
    using C = ScoreConfig;
    return std::tuple(
        named("model", &C::model, "folder of a run or of a checkpoint", "m"),
        named("train-sets", &C::train_sets, "source and target text to score, one sentence a line, may be packed", "t"),
        named("vocabs", &C::vocabs, "SentencePiece models (default: those of the checkpoint)", "v"),
        named("output", &C::output, "where the log-probabilities go; - is standard output", "o"),
        field("summary", &C::summary, "one line for the whole text instead of one a sentence"),
        field("attention", &C::attention, "use this mechanism instead of the trained one, in every attention"),
        number("mini-batch-words", &C::mini_batch_words, "target tokens in a batch, at most", 1, 1e9, "max-tokens"),
        number("mini-batch", &C::mini_batch, "sentences in a batch, at most", 1, 1e9),
        number("maxi-batch", &C::maxi_batch, "batches' worth of lines sorted by length together", 1, 1e6),
        number("max-length", &C::max_length, "longer lines, in tokens, are cut, with a warning", 1, 1e6),
        choice("precision", &C::precision, "of matrix products and activations", "float32|bfloat16"),
        number("cpu-threads", &C::cpu_threads, "threads on the CPU (0: all)", 0, 4096),
        named("devices", &C::devices, "cpu, or the number of a CUDA device", "d"),
        field("quiet", &C::quiet, "only warnings and errors"), field("log", &C::log, "write the log here too"),
        choice("log-format", &C::log_format, "of standard error", "text|json"));
  }
};

void validate(const ScoreConfig& config);

}  // namespace fovea

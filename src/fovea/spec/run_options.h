#pragma once
#include <string>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/base/log.h"

// Fields that several commands share, as bases of their configurations.
namespace fovea {

struct MachineOptions {
  int64_t cpu_threads = 0;
  std::string devices = "cpu";

  static constexpr auto fields() {
    using C = MachineOptions;
    return std::tuple(number("cpu-threads", &C::cpu_threads, "threads on the CPU (0: all)", 0, 4096),
                      named("devices", &C::devices, "cpu, or the number of a CUDA device", "d"));
  }
};

struct LogOptions {
  bool quiet = false;
  std::string log_level = "info", log, log_format = "text";

  static constexpr auto fields() {
    using C = LogOptions;
    return std::tuple(field("quiet", &C::quiet, "only warnings and errors, like --log-level warning"),
                      choice("log-level", &C::log_level, "leave out log lines of lower levels", log::kLevelNames),
                      field("log", &C::log, "write the log here too"),
                      choice("log-format", &C::log_format, "format of standard error and of --log", "text|json"));
  }
};

// Mechanisms in place of the trained ones; where one is empty nothing changes.
struct AttentionOverride {
  std::string attention = {};  // of all three sorts; goes first
  std::string attention_encoder = {}, attention_decoder = {}, attention_cross = {};
  bool operator==(const AttentionOverride&) const = default;

  static constexpr auto fields() {
    using C = AttentionOverride;
    return std::tuple(
        field("attention", &C::attention, "use this mechanism instead of the trained one, in every attention"),
        field("attention-encoder", &C::attention_encoder, "use this mechanism in the encoder's self-attention"),
        field("attention-decoder", &C::attention_decoder, "use this mechanism in the decoder's self-attention"),
        field("attention-cross", &C::attention_cross, "use this mechanism in the cross-attention"));
  }
};

// A trained model and how it is run.
struct TrainedModelOptions : MachineOptions, AttentionOverride {
  std::string model;  // folder of a run or of a checkpoint
  std::string precision = "float32";

  // `overrides` are the fields of AttentionOverride that the model's family has.
  template <class Overrides, class... Vocabs>
  static constexpr auto fields(const Overrides& overrides, std::string_view precisions, std::string_view of,
                               const Vocabs&... vocabs) {
    using C = TrainedModelOptions;
    return std::tuple_cat(std::tuple(named("model", &C::model, "folder of a run or of a checkpoint", "m"), vocabs...),
                          overrides, std::tuple(choice("precision", &C::precision, of, precisions)),
                          MachineOptions::fields());
  }
};

// The options of a task whose vocabularies may be given beside the trained model.
struct ModelOptions : TrainedModelOptions {
  std::vector<std::string> vocabs;  // empty: those of the checkpoint

  static constexpr auto fields(std::string_view precisions = "float32|bfloat16",
                               std::string_view of = "type of matrix products and activations") {
    return TrainedModelOptions::fields(
        AttentionOverride::fields(), precisions, of,
        named("vocabs", &ModelOptions::vocabs, "SentencePiece models (default: those of the checkpoint)", "v"));
  }
};

}  // namespace fovea

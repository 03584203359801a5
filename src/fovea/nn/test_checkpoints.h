#pragma once
// Small checkpoints for tests.
#include <ATen/Functions.h>

#include <filesystem>
#include <string>

#include "fovea/nn/checkpoint.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/testing/classic_layers.h"

namespace fovea::nn {

inline Checkpoint some_checkpoint(int64_t updates) {
  EncoderDecoderConfig config;
  set_classic_layers(config);
  config.dim_emb = 12;
  config.transformer_heads = 2;
  config.dim_vocabs = {7, 9};
  config.attention = "topk(8)+relu";
  config.attention_layers = {"encoder.1=window(4)"};
  Checkpoint checkpoint;
  checkpoint.identity = identity_of("translation", config,
                                    {{"source.spm", std::string("source\0bytes", 12)}, {"target.spm", "target bytes"}});
  checkpoint.model = {{"a.weight", at::full({3, 2}, static_cast<float>(updates))}, {"b", at::arange(4, at::kFloat)}};
  checkpoint.optimizer = {{"mean/b", at::full({4}, 0.25F)}};
  checkpoint.progress = {{"updates", std::to_string(updates)}, {"note", "a: \"b\"\n"}};
  return checkpoint;
}

inline EncoderDecoderConfig config_of(const Checkpoint& checkpoint) {
  return nn::config_of<EncoderDecoderConfig>(checkpoint.identity, checkpoint.folder / "config.yml");
}

inline std::filesystem::path save(const std::filesystem::path& run, int64_t updates,
                                  const std::string& save_freq = "") {
  std::filesystem::create_directories(run / "checkpoints");
  const std::filesystem::path path = checkpoint_path(run, updates);
  Checkpoint checkpoint = some_checkpoint(updates);
  if (!save_freq.empty()) checkpoint.progress["save-freq"] = save_freq;
  save_checkpoint(path, checkpoint);
  link_checkpoint(run, "last", path);
  return path;
}

inline std::string resumed(const std::filesystem::path& run) {
  return load_checkpoint(run, Load::kAll).progress.at("updates");
}

}  // namespace fovea::nn

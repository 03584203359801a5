#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/model.h"
#include "fovea/spec/testing/classic_layers.h"
#include "fovea/tasks/translation/run.h"
#include "fovea/tasks/translation/task.h"
#include "fovea/text/vocab.h"

namespace fovea::translation {

namespace fs = std::filesystem;

// A folder with a checkpoint of a small random model and its vocabulary, made once.
class RunTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string pattern = fs::temp_directory_path() / "fovea-decode-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::string text;
    Rng rng(1);
    const std::vector<std::string> words = {"der", "Hund",  "sieht", "die",   "Katze",
                                            "und", "läuft", "weg",   "heute", "nicht"};
    for (int i = 0; i < 300; ++i) {
      for (uint64_t n = 2 + rng.below(8); n > 0; --n) text += words[rng.below(words.size())] + " ";
      text += "\n";
    }
    write_file(folder_ / "text", text);
    text::train_vocab({.inputs = {folder_ / "text"}, .output = folder_ / "v.spm", .size = 48, .type = "bpe"});
    save_model(folder_ / "model", text::Vocab::load(folder_ / "v.spm"));
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static void save_model(const fs::path& to, const text::Vocab& vocab) {
    EncoderDecoderConfig config;
    set_classic_layers(config);
    config.dim_emb = 16;
    config.enc_depth = config.dec_depth = 1;
    config.transformer_heads = 2;
    config.transformer_dim_ffn = 16;
    config.dim_vocabs = {vocab.size(), vocab.size()};
    nn::Model model(config, 4);
    nn::Checkpoint checkpoint;
    checkpoint.model = nn::parameters_of(*model);
    checkpoint.identity =
        nn::identity_of(kTask, config, {{kSourceVocabFile, vocab.bytes()}, {kTargetVocabFile, vocab.bytes()}});
    nn::save_checkpoint(to, checkpoint);
  }

  DecodeConfig config(const std::string& input) const {
    write_file(folder_ / "in", input);
    DecodeConfig result;
    result.model = folder_ / "model";
    result.input = folder_ / "in";
    result.output = folder_ / "out";
    result.cpu_threads = 1;
    return result;
  }
  std::vector<std::string> translate(const DecodeConfig& of) const {
    run_translate(of);
    return read_lines(folder_ / "out");
  }
  static std::string message(const auto& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  static inline fs::path folder_;
};

}  // namespace fovea::translation

#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/tasks/tagging/task.h"
#include "fovea/text/vocab.h"
#include "fovea/train/train.h"

namespace fovea::tagging {

// Sentences of small words in IOB1. Names are of one or two words; "to" says that a name follows.
inline std::string test_columns(int64_t sentences, uint64_t seed) {
  static constexpr const char* kWords[] = {"ama", "bebi", "coco", "dada", "efe"};
  static constexpr const char* kNames[] = {"Amax", "Bebix", "Cocoy", "Daday"};
  Rng rng(seed);
  std::string text = "-DOCSTART- -X- O\n\n";
  for (int64_t i = 0; i < sentences; ++i) {
    for (uint64_t w = 1 + rng.below(4); w > 0; --w) {
      text += cat(kWords[rng.below(5)], " W O\n");
      if (rng.below(3) > 0) continue;
      const uint64_t name = rng.below(4);
      const char* type = name < 2 ? "PER" : "LOC";
      text += cat("to T O\n", kNames[name], " N I-", type, "\n");
      if (rng.below(2) == 0) text += cat(name < 2 ? "Zed" : "City", " N I-", type, "\n");
    }
    text += "\n";
  }
  return text;
}

// A training of a tiny tagger on such sentences.
struct TestRun {
  TestFolder folder;
  TrainConfig train;
  Options data;
  TaggingConfig model;

  TestRun() {
    write_file(folder / "train", test_columns(30, 1));
    write_file(folder / "valid", test_columns(10, 2));
    write_file(folder / "words", "ama bebi coco dada efe to\nAmax Bebix Cocoy Daday Zed City\n");
    text::train_vocab({.inputs = {folder / "words"}, .output = folder / "v.spm", .type = "word"});
    train.model = folder / "run";
    train.learn_rate = 0.01;
    train.lr_warmup = 5;
    train.lr_decay = "none";
    train.cpu_threads = 1;
    train.save_freq = train.disp_freq = 1000;
    data.train_sets = {folder / "train"};
    data.vocabs = folder / "v.spm";
    data.mini_batch = 4;
    model.dim_emb = 16;
    model.enc_depth = 2;
    model.transformer_heads = 2;
    model.transformer_dim_ffn = 24;
  }
  void with_validation() {
    data.valid_sets = {folder / "valid"};
    train.valid_freq = 4;
  }
  std::unique_ptr<TaggingTask> task() const {
    return std::make_unique<TaggingTask>(train, data, model, train.optimizer_delay);
  }
};

// Trains; returns the cost of the last update in nats per word.
inline double run(const TestRun& test) {
  double cost = 0;
  const auto load = [&](const TrainConfig& config, int64_t batches_an_update) -> std::unique_ptr<train::Task> {
    return std::make_unique<TaggingTask>(config, test.data, test.model, batches_an_update);
  };
  train::run_training({.config = test.train, .load = load, .on_update = [&](const train::UpdateReport& report) {
                         cost = report.cost;
                       }});
  return cost;
}

// Every file of the run's last checkpoint, as one string.
inline std::string bytes_of(const std::string& run) {
  std::string bytes;
  for (const std::string& file : names_in(std::filesystem::path(run) / "last"))
    bytes += cat(file, "\n", read_file(std::filesystem::path(run) / "last" / file), "\n--\n");
  return bytes;
}

}  // namespace fovea::tagging

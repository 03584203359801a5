#pragma once
#include <filesystem>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/tasks/tagging/task.h"
#include "fovea/tasks/test_run.h"
#include "fovea/text/vocab.h"

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
struct TestRun : tasks::TestRunOf<TaggingTask, Options, TaggingConfig> {
  TestRun() {
    write_file(folder / "train", test_columns(30, 1));
    write_file(folder / "valid", test_columns(10, 2));
    write_file(folder / "words", "ama bebi coco dada efe to\nAmax Bebix Cocoy Daday Zed City\n");
    text::train_vocab({.inputs = {folder / "words"}, .output = folder / "v.spm", .type = "word"});
    train.lr_decay = "none";
    data.train_sets = {folder / "train"};
    data.vocabs = folder / "v.spm";
    data.mini_batch = 4;
    model.enc_depth = 2;
  }
  void with_validation() {
    data.valid_sets = {folder / "valid"};
    train.valid_freq = 4;
  }
};

using train::bytes_of;

}  // namespace fovea::tagging

#pragma once
#include <filesystem>
#include <string>
#include <utility>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/tasks/language/task.h"
#include "fovea/tasks/test_run.h"
#include "fovea/text/vocab.h"

namespace fovea::language {

// Lines of words, each word one of six, with an empty line now and then.
inline std::string test_text(int64_t lines, uint64_t seed) {
  static constexpr const char* kWords[] = {"ama", "bebi", "coco", "dada", "efe", "fifi"};
  Rng rng(seed);
  std::string text;
  for (int64_t i = 0; i < lines; ++i) {
    for (uint64_t w = 1 + rng.below(5); w > 0; --w) text += cat(kWords[rng.below(6)], w > 1 ? " " : "\n");
    if (rng.below(4) == 0) text += "\n";
  }
  return text;
}

// A training of a tiny model on a made-up text of about 500 bytes.
struct TestRun : tasks::TestRunOf<LanguageTask, Options, LanguageConfig> {
  TestRun() {
    write_file(folder / "train", test_text(35, 1));
    write_file(folder / "valid", test_text(10, 2));
    data.train_sets = {folder / "train"};
    data.vocabs = "bytes";
    data.mini_batch = 3;
    model.segment_length = 16;
    model.dec_depth = 2;
  }
  void with_pieces() {
    text::train_vocab({.inputs = {folder / "train"}, .output = folder / "v.spm", .size = 16});
    data.vocabs = folder / "v.spm";
    model.segment_length = 8;
  }
  void with_validation() {
    data.valid_sets = {folder / "valid"};
    train.valid_freq = 4;
  }
};

using train::bytes_of;

}  // namespace fovea::language

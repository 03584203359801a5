#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/tasks/test_run.h"
#include "fovea/tasks/translation/task.h"
#include "fovea/text/vocab.h"

namespace fovea::translation {

// A task that a tiny model learns in seconds: the target repeats the source's words in other letters.
struct TestTask : tasks::TestRunOf<TranslationTask, Options, EncoderDecoderConfig> {
  TestTask() {
    write("train", 120, 1);
    write("valid", 20, 2);
    write_file(folder / "both", read_file(folder / "train.s") + read_file(folder / "train.t"));
    text::train_vocab({.inputs = {folder / "both"}, .output = folder / "v.spm", .size = 30});
    data.train_sets = {folder / "train.s", folder / "train.t"};
    data.vocabs = {folder / "v.spm", folder / "v.spm"};
    train.valid_metrics = {"ce-mean-words"};
    data.mini_batch_words = 90;
    train.lr_warmup = 10;
    train.keep_last = 3;
    model.enc_depth = model.dec_depth = 1;
    model.tied_embeddings_all = true;
  }
  void with_validation() {
    data.valid_sets = {folder / "valid.s", folder / "valid.t"};
    train.valid_freq = 4;
  }

 private:
  void write(const std::string& name, int64_t lines, uint64_t seed) {
    static constexpr const char* kSource[] = {"ama", "bebi", "coco", "dada", "efe", "fifi"};
    static constexpr const char* kTarget[] = {"xux", "yoy", "zuzu", "wiwi", "vov", "kik"};
    Rng rng(seed);
    std::string source, target;
    for (int64_t i = 0; i < lines; ++i) {
      for (uint64_t w = 1 + rng.below(5); w > 0; --w) {
        const uint64_t word = rng.below(6);
        source += cat(kSource[word], w > 1 ? " " : "\n");
        target += cat(kTarget[word], w > 1 ? " " : "\n");
      }
    }
    write_file(folder / (name + ".s"), source);
    write_file(folder / (name + ".t"), target);
  }
};

struct Hooks {
  std::function<double()> translations = nullptr;  // in place of the measures bleu and chrf
  std::function<void(const train::UpdateReport&)> on_update = nullptr;
};

class HookedTask final : public TranslationTask {
 public:
  HookedTask(const TrainConfig& config, const TestTask& task, const Hooks& hooks, int64_t batches_an_update)
      : TranslationTask(config, task.data, task.model, batches_an_update), hooks_(hooks) {}
  std::vector<double> validate(const std::vector<std::string>& names) override {
    if (!hooks_.translations) return TranslationTask::validate(names);
    std::vector<double> values;
    for (const std::string& name : names) {
      const bool is_hooked = name == "bleu" || name == "chrf";
      values.push_back(is_hooked ? hooks_.translations() : TranslationTask::validate({name}).front());
    }
    return values;
  }

 private:
  Hooks hooks_;
};

inline void run(const TestTask& task, const Hooks& hooks = {}) {
  Problems problems;
  add_problems(task.data, problems);
  problems.throw_if_any();
  const auto load = [&](const TrainConfig& config, int64_t batches_an_update) -> std::unique_ptr<train::Task> {
    return std::make_unique<HookedTask>(config, task, hooks, batches_an_update);
  };
  train::run_training({.config = task.train, .load = load, .on_update = hooks.on_update});
}

using train::bytes_of;

// The names of a run's checkpoints, and where its `last` leads.
inline std::string checkpoints_of(const std::string& run) {
  std::string names;
  for (const std::filesystem::path& path : nn::list_checkpoints(run)) names += path.filename().string() + " ";
  return names + std::filesystem::read_symlink(std::filesystem::path(run) / "last").string();
}

}  // namespace fovea::translation
